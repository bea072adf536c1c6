"""Function calls in a conversation: follow-ups, known facts, questions back, several rounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from edgewise import Conversation, Engine, Message
from edgewise.errors import InvalidRequest
from edgewise.local.backend import CallToWrite, TokenStream
from edgewise.testing import LoopbackCloud, ScriptedBackend, ScriptedFunctionModel
from edgewise.testing.scripted import SCRIPTED_FUNCTION_MODEL_FACTS
from edgewise.types.messages import ToolCall
from edgewise.types.replies import CallReply, TextDelta, Token
from tests.flows.calling import TOOLS, calls, settings_for, tool
from tests.grammar.gbnf_walker import Grammar

READS_TURNS = replace(SCRIPTED_FUNCTION_MODEL_FACTS, call_format="conversation")
BOOK = tool(
    "book_table",
    "Book a table at a restaurant.",
    restaurant={"type": "string"},
    people={"type": "integer"},
    date={"type": "string"},
)
ASKS = "ask book_table: people, date"
EARLIER = (
    Message("user", "Set a timer for 5 minutes"),
    Message("assistant", "", tool_calls=(ToolCall("set_timer", {"minutes": 5}, id="a"),)),
    Message("tool", "done", tool_call_id="a"),
)


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as server:
        server.always("Said by the cloud.")
        yield server


def reader(*answers: str, **options: Any) -> ScriptedFunctionModel:
    options.setdefault("logprobs", [[-0.001]] * len(answers))
    return ScriptedFunctionModel(answers, facts=READS_TURNS, **options)


def ask(cloud: LoopbackCloud, device: Any, prompt: Any, tools: Any, **options: Any) -> CallReply:
    with Engine(settings_for(cloud), function_model=device) as engine:
        return engine.call(prompt, tools, **options)


def test_a_follow_up_reads_what_was_called_before(cloud: LoopbackCloud) -> None:
    device = reader('set_timer {"minutes":10}')
    reply = ask(cloud, device, [*EARLIER, Message("user", "make it ten")], TOOLS)
    assert [dict(call.arguments) for call in reply.calls] == [{"minutes": 10}]
    told = device.asked[0].prompt
    assert '<|im_start|>assistant\nset_timer {"minutes":5}<|im_end|>\n' in told
    assert told.endswith("<|im_start|>user\nMake it ten.<|im_end|>\n<|im_start|>assistant\n")
    assert told.startswith(device.asked[0].prefix), "the tools come first, so they stay cached"
    assert "five" not in device.asked[0].prefix


@pytest.mark.parametrize(("count", "offered"), [(12, 12), (13, 6)])
def test_a_home_with_few_tools_is_offered_all_of_them(
    cloud: LoopbackCloud, count: int, offered: int
) -> None:
    words = [letter * 4 for letter in "abcdefghijklm"]
    tools = [tool(f"{word}_it", f"Work the {word}", device={"type": "string"}) for word in words]
    device = reader("none")
    lamp = {"name": "Desk Lamp", "domain": "light", "area": "Study"}
    request, facts = "work the bbbb", {"entities": [lamp]}
    ask(cloud, device, request, tools[:count], context=facts, policy="local_only")
    told = device.asked[0].prompt
    assert sum(f"{word}_it - " in told for word in words) == offered


def test_the_model_reads_the_number_that_was_put_right(cloud: LoopbackCloud) -> None:
    device = reader('set_timer {"minutes":8}')
    words = "set a timer for 5 minutes, no wait, make that 8"
    reply = ask(cloud, device, words, TOOLS, policy="local_only")
    assert "user\nSet a timer for 8 minutes.<" in device.asked[0].prompt
    assert [(dict(call.arguments), call.doubt) for call in reply.calls] == [({"minutes": 8}, "")]
    ask(cloud, device, words, TOOLS, policy="cloud_only")
    assert words in str(cloud.requests[-1].body), "the cloud gets the words as they were said"


def test_a_model_that_reads_one_message_gets_one(cloud: LoopbackCloud) -> None:
    device = ScriptedFunctionModel(['set_timer {"minutes":10}'])
    ask(cloud, device, [*EARLIER, Message("user", "make it ten")], TOOLS)
    assert 'minutes":5' not in device.asked[0].prompt


def test_a_value_from_an_earlier_turn_is_not_made_up(cloud: LoopbackCloud) -> None:
    turns = [Message("user", "Will it rain in Tromsø?"), Message("assistant", "Yes.")]
    again = Message("user", "And the weather there tomorrow?")
    call = 'get_weather {"location":"Tromsø"}'
    kept = ask(cloud, reader(call), [*turns, again], TOOLS, policy="local_only")
    assert kept.calls[0].complaints == ()
    alone = ask(cloud, reader(call), [again], TOOLS, policy="local_only")
    assert (alone.calls, alone.needs) == ((), ("location",))


def test_known_facts_are_told_to_every_model(cloud: LoopbackCloud) -> None:
    facts = {"date": "2026-11-16", "place": "Narvik", "entities": [{"name": "Desk Lamp"}]}
    device = reader('get_weather {"location":"Narvik"}')
    reply = ask(cloud, device, "What is the weather here?", TOOLS, context=facts)
    assert reply.calls[0].complaints == ()
    assert "place: Narvik\n" in device.asked[0].prompt
    assert "date: Mon 2026-11-16; Tue 11-17" in device.asked[0].prompt
    assert "  Desk Lamp" in device.asked[0].prompt
    ask(cloud, None, "What is the weather here?", TOOLS, context=facts, policy="cloud_only")
    told: Any = cloud.requests[-1].body["messages"]
    assert told[0]["role"] == "system" and "place: Narvik" in told[0]["content"]


HEAT = tool("set_heat", "Heat a room", degrees={"type": "number", "description": "Degrees Celsius"})
ALARM = tool("set_alarm", "Set an alarm", time={"type": "string", "description": "HH:MM"})


@pytest.mark.parametrize(
    ("facts", "number"),
    [({"time": "11:40"}, 11), ({"time": "16:05"}, 16), ({"outside_temperature": 4}, 4)],
)
def test_nobody_asks_for_as_many_degrees_as_the_clock_shows(
    cloud: LoopbackCloud, facts: dict[str, Any], number: int
) -> None:
    device = reader(f'set_heat {{"degrees":{number}}}', "none", "none")
    reply = ask(cloud, device, "turn the heat up", [HEAT], context=facts, policy="local_only")
    assert (reply.calls, reply.needs) == ((), ("degrees",))
    assert reply.needs_of == {"set_heat": ("degrees",)}


def test_the_clock_still_says_what_time_is_meant(cloud: LoopbackCloud) -> None:
    device = reader('set_alarm {"time":"11:40"}')
    facts = {"time": "11:40"}
    words = "set an alarm for this time tomorrow"
    reply = ask(cloud, device, words, [ALARM], context=facts, policy="local_only")
    assert [dict(call.arguments) for call in reply.calls] == [{"time": "11:40"}]


def test_a_known_amount_serves_the_parameter_of_its_name(cloud: LoopbackCloud) -> None:
    cancel = tool("cancel_order", "Cancel an order", number={"type": "integer", "description": ""})
    device = reader('cancel_order {"number":5510}')
    words, facts = "cancel that", {"number": 5510}
    reply = ask(cloud, device, words, [cancel], context=facts, policy="local_only")
    assert [dict(call.arguments) for call in reply.calls] == [{"number": 5510}]


def test_a_question_for_what_was_made_up_is_not_certain(cloud: LoopbackCloud) -> None:
    """The call is surely wrong, which does not say that anything is missing."""
    device = reader('set_heat {"degrees":30}', "none", "none", logprobs=[[-9.0]] * 3)
    reply = ask(cloud, device, "turn the heat up", [HEAT], policy="local_only")
    assert reply.needs == ("degrees",)
    assert reply.needs_cloud_handoff and (reply.confidence or 0.0) < 0.5
    assert "it is in doubt" in reply.decision.reason


@pytest.mark.parametrize(
    "said", ["turn off the lamp", "Turn off the lamp.", "um turn off the lamp", "Turn off the lamp"]
)
def test_the_model_reads_one_form_of_a_request_however_it_was_transcribed(
    cloud: LoopbackCloud, said: str
) -> None:
    device = reader("none")
    ask(cloud, device, said, TOOLS, policy="local_only")
    assert "user\nTurn off the lamp.<|im_end|>" in device.asked[0].prompt


def test_names_come_out_as_the_list_spells_them(cloud: LoopbackCloud) -> None:
    turn_off = tool("turn_off", "Turn something off", area={"type": "string"})
    facts = {"entities": [{"name": "Hob", "area": "Kitchen"}]}
    device = reader('turn_off {"area":"kitchen"}')
    reply = ask(cloud, device, "everything off in the kitchen", [turn_off], context=facts)
    (call,) = reply.calls
    assert (dict(call.arguments), call.complaints) == ({"area": "Kitchen"}, ())
    assert "listed:area" in call.repairs


def test_what_is_no_mapping_is_refused(cloud: LoopbackCloud) -> None:
    wrong: Any = ["Narvik"]
    with pytest.raises(InvalidRequest, match="context must be a mapping"):
        ask(cloud, reader("none"), "Here?", TOOLS, context=wrong)


def test_a_missing_value_is_asked_for_and_the_answer_completes_the_call(
    cloud: LoopbackCloud,
) -> None:
    complete = 'book_table {"restaurant":"Maaemo","people":4,"date":"2026-11-20"}'
    device = reader(ASKS, complete, "none")
    booked: list[dict[str, Any]] = []

    def book_table(restaurant: str, people: int, date: str) -> str:
        """Book a table at a restaurant."""
        booked.append({"restaurant": restaurant, "people": people, "date": date})
        return "booked"

    chat = ScriptedBackend.confident("Your table is booked.")
    with Engine(settings_for(cloud), backend=chat, function_model=device) as engine:
        talk = Conversation(engine, tools=[book_table], context={"date": "2026-11-16"})
        first = talk.ask("Book a table at Maaemo")
        assert isinstance(first, CallReply)
        assert (first.needs, first.tool_calls) == (("people", "date"), ())
        assert first.text == "How many people, and what is the date?"
        assert (first.source, first.finish_reason) == ("local", "stop")
        assert [one.code for one in first.complaints] == ["question"]
        assert not booked
        last = talk.ask("For four, on the 20th of November 2026")
    assert booked == [{"restaurant": "Maaemo", "people": 4, "date": "2026-11-20"}]
    assert last.text == "Your table is booked."
    assert "How many people, and what is the date?" in device.asked[1].prompt
    assert cloud.requests == []


def test_nothing_is_asked_for_what_the_words_hold_back(cloud: LoopbackCloud) -> None:
    asks = "ask set_timer: minutes"
    asked = ask(cloud, reader(asks), "Set a timer", TOOLS, policy="local_only")
    assert (asked.needs, [one.code for one in asked.complaints]) == (("minutes",), ["question"])
    reply = ask(cloud, reader(asks), "Don't set a timer", TOOLS, policy="local_only")
    assert (reply.needs, reply.text, reply.needs_cloud_handoff) == ((), "", True)
    assert [one.code for one in reply.complaints] == ["held_back"]


def test_a_required_value_that_was_made_up_is_asked_for(cloud: LoopbackCloud) -> None:
    invents = 'book_table {"restaurant":"Maaemo","people":2,"date":"2031-05-05"}'
    device = reader(invents, logprobs=[[-0.4]])
    reply = ask(cloud, device, "Book a table for two at Maaemo", [BOOK], policy="local_only")
    assert (reply.calls, reply.needs) == ((), ("date",))
    assert reply.text == "What is the date?"
    older = ScriptedFunctionModel([invents], logprobs=[[-0.4]])
    reply = ask(cloud, older, "Book a table for two at Maaemo", [BOOK], policy="local_only")
    assert reply.needs == (), "a model that does not ask is not made to"


@pytest.mark.parametrize(("deposit", "needs"), [(0, ()), (250, ("deposit",))])
def test_a_zero_goes_without_saying(
    cloud: LoopbackCloud, deposit: int, needs: tuple[str, ...]
) -> None:
    rent = tool("rent", "Rent a boat", boat={"type": "string"}, deposit={"type": "integer"})
    device = reader(f'rent {{"boat":"Havhest","deposit":{deposit}}}', logprobs=[[-0.4]])
    reply = ask(cloud, device, "Rent the Havhest", [rent], policy="local_only")
    assert (bool(reply.calls), reply.needs) == (not needs, needs)


@pytest.mark.parametrize(("surety", "asked"), [(-1.2, False), (-0.001, True)])
def test_numbers_that_were_said_are_not_asked_for_in_doubt(
    cloud: LoopbackCloud, surety: float, asked: bool
) -> None:
    number = {"type": "integer"}
    roots = tool("roots", "Roots of a quadratic equation", a=number, b=number, c=number)
    answers = ["ask roots: b, c", 'roots {"a":5,"b":20,"c":-25}']
    device = reader(*answers, logprobs=[[surety], [-1.0]])
    request = "Find the roots for the coefficients 5, 20 and -25"
    reply = ask(cloud, device, request, [roots], policy="local_only")
    assert reply.needs == (("b", "c") if asked else ())
    assert [call.arguments for call in reply.calls] == (
        [] if asked else [{"a": 5, "b": 20, "c": -25}]
    )


class Hesitant(ScriptedFunctionModel):
    """Says with its first token that it might have asked instead."""

    @override
    def write_call(self, call: CallToWrite) -> TokenStream:
        first = True
        for item in super().write_call(call):
            if first and isinstance(item, Token):
                item = replace(item, alternatives=(("ask", -1.5),))
            first = False
            yield item


@pytest.mark.parametrize(
    ("words", "needs"),
    [
        ("Set a timer for 5 minutes", ()),
        ("In 5 minutes, a timer please", ()),
        ("Set a timer for 5 eggs", ("minutes",)),
    ],
)
def test_no_question_takes_the_place_of_a_length_of_time_that_was_said(
    cloud: LoopbackCloud, words: str, needs: tuple[str, ...]
) -> None:
    answers = ['set_timer {"minutes":5}', 'set_timer {"minutes":5}', "ask set_timer: minutes"]
    device = Hesitant(answers, logprobs=[[-0.5], [-0.5], [-0.001]], facts=READS_TURNS)
    reply = ask(cloud, device, words, TOOLS, policy="local_only")
    assert (reply.needs, bool(reply.calls)) == (needs, not needs)


@pytest.mark.parametrize(("surety", "asked"), [(-0.5, True), (-0.001, False)])
def test_a_likely_question_is_written_where_the_call_is_in_doubt(
    cloud: LoopbackCloud, surety: float, asked: bool
) -> None:
    answers = ['set_timer {"minutes":5}', 'set_timer {"minutes":5}', "ask set_timer: minutes"]
    logprobs = [[surety], [surety], [-0.001]]
    device = Hesitant(answers, logprobs=logprobs, facts=READS_TURNS)
    reply = ask(cloud, device, "Set a timer, I have 5 eggs", TOOLS, policy="local_only")
    assert reply.needs == (("minutes",) if asked else ())
    assert bool(reply.calls) != asked
    if asked:
        last = Grammar(device.asked[-1].grammar)
        assert last.accepts("ask set_timer: minutes")
        assert not last.accepts('set_timer {"minutes":5}') and not last.accepts("none")


def test_one_value_does_not_serve_two_parameters(cloud: LoopbackCloud) -> None:
    rename = tool(
        "rename_file", "Rename a file", path={"type": "string"}, new_name={"type": "string"}
    )
    same = 'rename_file {"path":"scan.pdf","new_name":"scan.pdf"}'
    reply = ask(cloud, reader(same), "rename scan.pdf", [rename], policy="local_only")
    assert (reply.calls, reply.needs) == ((), ("new_name",))
    twice = ask(cloud, reader(same), "rename scan.pdf to scan.pdf", [rename], policy="local_only")
    assert [call.name for call in twice.calls] == ["rename_file"]


def test_a_question_streams_as_the_devices_own_words(cloud: LoopbackCloud) -> None:
    with Engine(settings_for(cloud), function_model=reader(ASKS)) as engine:
        events = list(engine.stream("Book a table at Maaemo", tools=[BOOK]))
    (delta,) = [event for event in events if isinstance(event, TextDelta)]
    assert (delta.text, delta.source) == ("How many people, and what is the date?", "local")


def test_a_question_the_device_is_unsure_of_goes_to_the_cloud(cloud: LoopbackCloud) -> None:
    cloud.always(
        calls(ToolCall("book_table", {"restaurant": "Maaemo", "people": 2, "date": "today"}))
    )
    reply = ask(cloud, reader(ASKS, logprobs=[[-3.0]]), "Book a table at Maaemo for two", [BOOK])
    assert (reply.source, reply.needs) == ("cloud", ())
    assert [call.name for call in reply.calls] == ["book_table"]


def test_one_part_is_called_while_the_other_is_asked_about(cloud: LoopbackCloud) -> None:
    device = reader(f'set_timer {{"minutes":5}}\n{ASKS}')
    words = "Set a timer for 5 minutes and book a table at Maaemo"
    reply = ask(cloud, device, words, [*TOOLS, BOOK], policy="local_only")
    assert [call.name for call in reply.calls] == ["set_timer"]
    assert reply.needs == ("people", "date")
    assert reply.to_dict()["needs"] == ["people", "date"]


def test_what_was_found_leads_to_the_next_call(cloud: LoopbackCloud) -> None:
    def find_number(name: str) -> str:
        """Find a person's phone number."""
        return "555 0134"

    dialled = []

    def dial(number: str) -> None:
        """Dial a phone number."""
        dialled.append(number)

    first, then = 'find_number {"name":"Ada"}', 'dial {"number":"555 0134"}'
    device = reader(first, "ask dial: number", then, "none")
    chat = ScriptedBackend.confident("I am calling Ada.")
    with Engine(settings_for(cloud), backend=chat, function_model=device) as engine:
        reply = Conversation(engine, tools=[find_number, dial]).ask("Find Ada's number and dial it")
    assert dialled == ["555 0134"]
    assert reply.text == "I am calling Ada."
    assert "<|im_start|>tool\n555 0134<|im_end|>\n<|im_start|>assistant\n" in device.asked[2].prompt


def test_a_call_that_was_made_is_not_made_again_after_its_result(cloud: LoopbackCloud) -> None:
    reply = ask(cloud, reader('set_timer {"minutes":5}', logprobs=[[-3.0]]), EARLIER, TOOLS)
    assert (reply.calls, reply.source, reply.needs_cloud_handoff) == ((), "local", False)
    assert cloud.requests == []


FIND = tool("find_person", "Find somebody's email address", person={"type": "string"})
SHARE = tool(
    "share_folder",
    "Share a folder with somebody",
    folder={"type": "string"},
    email={"type": "string", "description": "Their email address"},
)
FIND_AND_SHARE = "Find the email of Ada and share Recipes with that address"


def test_a_call_that_needs_what_another_one_finds_waits_for_its_result(
    cloud: LoopbackCloud,
) -> None:
    both = 'find_person {"person":"Ada"}\nshare_folder {"folder":"Recipes","email":"Ada"}'
    reply = ask(cloud, reader(both), FIND_AND_SHARE, [FIND, SHARE])
    assert [(call.name, dict(call.arguments)) for call in reply.calls] == [
        ("find_person", {"person": "Ada"})
    ]
    assert (reply.needs, reply.needs_cloud_handoff, cloud.requests) == ((), False, [])
    (complaint,) = reply.complaints
    assert (complaint.code, complaint.message) == (
        "withheld",
        "share_folder waits for what find_person finds",
    )
    named = FIND_AND_SHARE.replace("that address", "ada@example.org")
    both = both.replace('"email":"Ada"', '"email":"ada@example.org"')
    assert len(ask(cloud, reader(both), named, [FIND, SHARE]).calls) == 2


def test_a_list_of_objects_that_was_split_is_one_call_again(cloud: LoopbackCloud) -> None:
    cards = {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"title": {"type": "string"}, "owner": {"type": "string"}},
            "required": ["title"],
        },
    }
    make = tool("make_cards", "Make cards on a board", board={"type": "string"}, cards=cards)
    split = (
        'make_cards {"board":"Kitchen","cards":[{"title":"paint","owner":"Ada"}]}\n'
        'make_cards {"board":"Kitchen","cards":[{"title":"tiles","owner":"Ada"}]}'
    )
    said = 'on Kitchen make the cards "paint" and "tiles" (Ada)'
    (call,) = ask(cloud, reader(split), said, [make]).calls
    assert call.arguments == {
        "board": "Kitchen",
        "cards": [{"title": "paint"}, {"title": "tiles", "owner": "Ada"}],
    }


def test_a_likely_next_call_is_made_in_doubt_after_a_result(cloud: LoopbackCloud) -> None:
    turns = [
        Message("user", FIND_AND_SHARE),
        Message("assistant", "", tool_calls=(ToolCall("find_person", {"person": "Ada"}, id="a"),)),
        Message("tool", '{"email":"ada@example.org"}', tool_call_id="a"),
    ]
    written = 'share_folder {"folder":"Recipes","email":"ada@example.org"}'
    doubtful = reader(written, logprobs=[[-0.02]])
    reply = ask(cloud, doubtful, turns, [FIND, SHARE], policy="local_only")
    (call,) = reply.calls
    assert call.arguments["email"] == "ada@example.org"
    assert call.doubt and reply.needs_cloud_handoff


def test_done_and_dropped_look_different_after_a_result(cloud: LoopbackCloud) -> None:
    turns = [Message("user", "Set a timer for five minutes, then say how it is in Oslo")]
    turns += EARLIER[1:]
    done = ask(cloud, reader("none"), turns, TOOLS, policy="local_only")
    assert (done.calls, done.complaints, done.needs_cloud_handoff) == ((), (), False)
    doubtful = reader('get_weather {"location":"Oslo"}', logprobs=[[-3.0]])
    dropped = ask(cloud, doubtful, turns, TOOLS, policy="local_only")
    (complaint,) = dropped.complaints
    assert (dropped.calls, complaint.code) == ((), "withheld")
    assert "get_weather would be the next call" in complaint.message
    assert dropped.needs_cloud_handoff and (dropped.confidence or 1.0) < 0.5


def test_a_request_for_calls_whose_next_call_is_in_doubt_goes_on_in_the_cloud(
    cloud: LoopbackCloud,
) -> None:
    cloud.always(calls(ToolCall("get_weather", {"location": "Oslo"})))
    doubtful = reader('get_weather {"location":"Atlantis"}', logprobs=[[-3.0]])
    reply = ask(cloud, doubtful, EARLIER, TOOLS)
    assert (reply.source, reply.decision.code) == ("cloud", "handoff_low_confidence")


def test_who_reads_no_results_is_not_asked_after_them(cloud: LoopbackCloud) -> None:
    device = ScriptedFunctionModel(['set_timer {"minutes":6}'])
    chat = ScriptedBackend.confident("The timer runs.")
    with Engine(settings_for(cloud), backend=chat, function_model=device) as engine:
        assert engine.complete(EARLIER, tools=TOOLS).text == "The timer runs."
    assert device.asked == []


def test_calls_need_the_words_of_somebody(cloud: LoopbackCloud) -> None:
    for turns in ([Message("assistant", "Hello")], [*EARLIER, Message("assistant", "Done.")]):
        with pytest.raises(InvalidRequest, match="last message"):
            ask(cloud, reader("none"), turns, TOOLS)
