"""What rules can guess of an answer: whole calls, in the model's own format."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgewise.calls.draft import LONGEST_REQUEST, draft_answer, draft_answers
from edgewise.calls.prompt import parse_answer
from edgewise.errors import InvalidRequest
from edgewise.grammar.tools import compile_grammar
from edgewise.types.messages import Tool
from tests.calls.schemas import WORDS, tools
from tests.campaigns import rounds
from tests.grammar.gbnf_walker import Grammar


def tool(name: str, description: str, required: list[str], **properties: Any) -> Tool:
    return Tool(name, description, {"properties": properties, "required": required})


TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
PHONE = [
    tool("get_weather", "Weather of a place", ["location"], location=TEXT),
    tool("set_alarm", "Set an alarm for a time of day", ["hour", "minute"], hour=WHOLE,
         minute=WHOLE),
    tool("send_message", "Send a text message", ["recipient", "message"], recipient=TEXT,
         message=TEXT),
    tool("create_reminder", "Create a reminder", ["title", "time"], title=TEXT, time=TEXT),
    tool("play_music", "Play a song", ["song"], song=TEXT),
]  # fmt: skip
TRAVEL = [
    tool("book_hotel", "Book a hotel room", ["city", "check_in", "nights"], city=TEXT,
         check_in={"type": "string", "description": "Arrival date"}, nights=WHOLE, guests=WHOLE),
    tool("convert_currency", "Convert an amount", ["amount", "from_currency", "to_currency"],
         amount={"type": "number"}, from_currency=TEXT, to_currency=TEXT),
    tool("search_flights", "Search flights", ["origin", "destination"], origin=TEXT,
         destination=TEXT, cabin={"type": "string", "enum": ["economy", "business"]}),
    tool("planet_facts", "Mass and radius of a planet", ["planet", "attribute"], planet=TEXT,
         attribute=TEXT),
    tool("ship", "Shipping rate", ["parcel"],
         parcel={"type": "object", "required": ["weight"],
                 "properties": {"weight": {"type": "number"}, "fragile": {"type": "boolean"}}}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "offered", "answer"),
    [
        ("What's the weather in New York?", PHONE, 'get_weather {"location":"New York"}'),
        ("Wake me up at 6:45 am", PHONE, 'set_alarm {"hour":6,"minute":45}'),
        ("Tell Marco I'm on my way", PHONE,
         'send_message {"recipient":"Marco","message":"I\'m on my way"}'),
        ("Remind me to take out the bins at 6 PM", PHONE,
         'create_reminder {"title":"take out the bins","time":"6 PM"}'),
        ("Put on some jazz, please", PHONE, 'play_music {"song":"jazz"}'),
        ("Play Yesterday and check the weather in Rome", PHONE,
         'play_music {"song":"Yesterday"}\nget_weather {"location":"Rome"}'),
        ("Book a hotel in Vienna from May 4 for 3 nights", TRAVEL,
         'book_hotel {"city":"Vienna","check_in":"May 4","nights":3}'),
        ("Convert 250 USD to EUR", TRAVEL,
         'convert_currency {"amount":250,"from_currency":"USD","to_currency":"EUR"}'),
        ("Search business flights from Boston to Denver", TRAVEL,
         'search_flights {"origin":"Boston","destination":"Denver","cabin":"business"}'),
        ("What is the mass of Mars, Venus and Jupiter?", TRAVEL,
         'planet_facts {"planet":"Mars","attribute":"mass"}\n'
         'planet_facts {"planet":"Venus","attribute":"mass"}\n'
         'planet_facts {"planet":"Jupiter","attribute":"mass"}'),
        ("shipping rate for a parcel with weight of 3.5", TRAVEL, 'ship {"parcel":{"weight":3.5}}'),
    ],
)  # fmt: skip
def test_a_plain_request_is_drafted_whole(said: str, offered: list[Tool], answer: str) -> None:
    assert draft_answer(said, offered) == answer


def test_a_request_that_no_tool_fits_is_drafted_as_none() -> None:
    assert draft_answer("Who wrote Hamlet?", PHONE) == "none"


def test_a_clause_that_names_a_value_is_no_call_of_its_own() -> None:
    policy = tool("get_policy", "Look up a policy", ["policy_id"], policy_id=TEXT, region=TEXT)
    said = "Look up a policy with policy id: A7731, and region of Wales"
    assert draft_answer(said, [policy]) == 'get_policy {"policy_id":"A7731","region":"Wales"}'


def test_a_value_that_is_not_said_is_the_schemas() -> None:
    level = tool("dim", "Dim the lamp", ["level"], level={"type": "integer", "default": 40})
    speed = tool("fan", "Start the fan", ["speed"], speed={"enum": ["slow", "fast"]})
    assert draft_answer("Dim the lamp", [level]) == 'dim {"level":40}'
    assert draft_answer("Start the fan", [speed]) == 'fan {"speed":"slow"}'


def test_a_value_that_the_schema_forbids_ends_the_draft() -> None:
    low = tool("dim", "Dim the lamp", ["level"], level={"type": "integer", "minimum": 20})
    assert draft_answer("Dim the lamp", [low]) == ""
    said = "Play Yesterday and dim the lamp"
    assert draft_answer(said, [*PHONE, low]) == 'play_music {"song":"Yesterday"}'


def test_nothing_to_go_by_is_an_empty_draft() -> None:
    assert draft_answer("Play Yesterday", []) == ""
    assert draft_answer(" ", PHONE) == ""
    assert draft_answer("Play it. " * LONGEST_REQUEST, PHONE) == ""


STRANGE: list[Any] = [
    None, [], {"properties": []}, {"properties": {"a": None}}, {"properties": {"a": {"type": {}}}},
    {"properties": {"song": {"enum": [[], {}]}}, "required": ["song"]},
    {"properties": {"song": {"description": 7, "default": {}, "items": 3}}, "required": "song"},
    {"properties": {3: {"type": "string"}}, "required": [3]},
]  # fmt: skip


@pytest.mark.parametrize("parameters", STRANGE)
def test_a_strange_schema_ends_the_draft_and_raises_nothing(parameters: Any) -> None:
    draft = draft_answer("Play the song Yesterday", [Tool("play", "Play a song", parameters)])
    assert draft in ("", "none", "play {}") or parse_answer(draft)


SAID = st.sampled_from(
    ["5", "seven", "2.0", "12345678901234567890", "London", "to", "from", "in", "tomorrow", "7pm",
     "Tom", "and", ",", "saying", "$30", '"quoted"', "of", "name", "play", "please", "I'm", "a b"]
)  # fmt: skip
REQUESTS = st.lists(WORDS | SAID, max_size=12).map(" ".join)


@settings(max_examples=rounds(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(tools(), REQUESTS)
def test_a_draft_is_an_answer_that_the_grammar_allows(offered: list[Tool], said: str) -> None:
    draft = draft_answer(f"{said} {offered[0].name}", offered)
    if not draft:
        return
    parse_answer(draft)
    try:
        grammar = compile_grammar(offered)
    except InvalidRequest:
        return
    assert Grammar(grammar).accepts(draft), draft


@pytest.mark.parametrize("limits", [{}, {"minimum": 0}, {"minimum": 0, "maximum": 1e300}])
@pytest.mark.parametrize("said", ["12345678901234567890", "12345678901234567890.0", "0.0000001"])
@pytest.mark.parametrize("kind", ["number", "integer"])
def test_a_number_that_is_written_with_an_exponent_ends_the_draft(
    kind: str, said: str, limits: dict[str, Any]
) -> None:
    offered = [tool("set_amount", "Set the amount", ["amount"], amount={"type": kind, **limits})]
    grammar = Grammar(compile_grammar(offered))
    draft = draft_answer(f"set the amount to {said}", offered)
    assert not draft or grammar.accepts(draft), draft
    whole = draft_answer("set the amount to 30", offered)
    assert whole == 'set_amount {"amount":30}' and grammar.accepts(whole)


def test_another_tool_may_be_meant_so_each_has_a_draft() -> None:
    likeliest, *others = draft_answers("Play Yesterday", PHONE)
    assert likeliest == draft_answer("Play Yesterday", PHONE)
    named = [draft.partition(" ")[0] for draft in (likeliest, *others)]
    assert sorted(named) == sorted(tool.name for tool in PHONE)
    assert draft_answers(" ", PHONE) == []
    assert draft_answers("Play it. " * LONGEST_REQUEST, PHONE) == []
