"""A request split into what it asks for, and its pronouns."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.intents import (
    _ENUMERATOR,
    _PHRASES,
    BOUNDARIES_LIMIT,
    REQUEST_LIMIT,
    SEQUENCE,
    WEAK_WORDS,
    expected_calls,
    resolve,
    split,
)
from edgewise.types.messages import Tool


def is_connecting(text: str) -> bool:
    """Whether a text between two intents is nothing but connecting words and punctuation."""
    known = WEAK_WORDS | SEQUENCE | {word for phrase in _PHRASES for word in phrase}
    return all(
        _bare(token) in known or not _bare(token) or _ENUMERATOR.fullmatch(token)
        for token in text.split()
    )


def _bare(token: str) -> str:
    return token.strip(".,;:!?()[]\"'“”\u2018\u2019").lower()


FERRY = Tool(
    "ferry_times",
    "Departures of a ferry line",
    {"type": "object", "properties": {"line": {"type": "string"}, "day": {"type": "string"}}},
)
KILN = Tool(
    "kiln.heat",
    "Heat the kiln to a temperature",
    {"type": "object", "properties": {"degrees": {"type": "integer"}, "hold": {"type": "integer"}}},
)
LETTER = Tool(
    "send_letter",
    "Send a letter to a person",
    {"type": "object", "properties": {"to": {"type": "string"}, "words": {"type": "string"}}},
)
SHELVES = Tool(
    "search_shelves",
    "Search the shelves for a book",
    {"type": "object", "properties": {"author": {"type": "string"}, "sort": {"type": "string"}}},
)
TOOLS = (FERRY, KILN, LETTER, SHELVES)


def texts(request: str, tools: tuple[Tool, ...] = ()) -> list[str]:
    return [intent.text for intent in split(request, tools)]


@pytest.mark.parametrize(
    ("request_text", "parts"),
    [
        ("open the gate and water the roses", ["open the gate", "water the roses"]),
        ("Lock the shed, then dim the porch light", ["Lock the shed", "dim the porch light"]),
        ("Open the roof; close the blinds", ["Open the roof", "close the blinds"]),
        ("Feed the cat. Start the mower.", ["Feed the cat", "Start the mower."]),
        ("Who won the cup? Also, show me the table", ["Who won the cup?", "show me the table"]),
        ("start the oven\nfind a pie recipe", ["start the oven", "find a pie recipe"]),
        (
            "charge my bike, pause the pump, and after that can you warm the car",
            ["charge my bike", "pause the pump", "can you warm the car"],
        ),
        (
            "print the map, email the crew and lock the boat",
            ["print the map", "email the crew", "lock the boat"],
        ),
        ("set an alarm for 6 AM and play some jazz", ["set an alarm for 6 AM", "play some jazz"]),
        ("pack the tent please and could you fill the flask", None),
    ],
)
def test_a_joint_splits_where_both_sides_are_requests(
    request_text: str, parts: list[str] | None
) -> None:
    expected = ["pack the tent please", "could you fill the flask"] if parts is None else parts
    assert texts(request_text) == expected


@pytest.mark.parametrize(
    "request_text",
    [
        "play Rhythm and Blues",
        "play Search and Destroy",
        "remind me to buy milk and bread",
        "remind me to buy milk and call the vet",
        "text Ana that I'm late and hungry",
        "tell Sven the boat is ready and set sail",
        "pick a number between 5 and 10",
        "weather in Oslo and Rome",
        'write "wash the car and feed the dog" on the board',
        "write 'open the door, then run' on the board",
        "add eggs, flour, sugar and salt to the list",
        "order two pizzas and a salad",
        "find a room for one hundred and twenty people",
        "go ahead and open the gate",
        "find and book a table",
        "show flights to Trinidad and Tobago, where the price is below 90",
        "set the lamp to blue, no wait, make it green",
        "call Dr. Check about the results",
        "",
        "   ",
        "and then",
        "sunny",
    ],
)
def test_what_joins_values_does_not_split(request_text: str) -> None:
    assert len(split(request_text)) <= 1


@pytest.mark.parametrize(
    ("request_text", "count"),
    [
        ("heat the kiln to 900 and send a letter to Ivo saying it is hot", 2),
        ("send a letter to Ivo saying it is hot and heat the kiln to 900", 2),
        ("send a letter to Ivo saying it is hot and dance all night", 1),
        ("search the shelves for Woolf and sort by year", 1),
        ("search the shelves for Woolf, call it autumn reading", 1),
        ("heat the kiln to 900 and heat the kiln to 400", 2),
        ("ferry times on Sunday. After that, a book by Woolf from the shelves", 2),
        ("I have a parcel for the island. When does the ferry leave?", 1),
        ("heat the kiln to 900. It is cold today", 1),
        ("The ferry line is blue. Please show its departures", 1),
        ("1) heat the kiln\n2) ferry departures of the blue line", 2),
    ],
)
def test_the_tools_say_what_can_stand_alone(request_text: str, count: int) -> None:
    assert len(split(request_text, TOOLS)) == count


@pytest.mark.parametrize(
    ("request_text", "resolved"),
    [
        ("find Tom and text him", "text Tom"),
        ("look up tom in my contacts and text him that it is late", "text tom that it is late"),
        ("find Ana and call her", "call Ana"),
        ("find Ana Lund and call her mother", "call Ana Lund's mother"),
        ("Find the report from Monday and email it to Ana", "email the report to Ana"),
        ("check the tide in Faro and book a room there", "book a room in Faro"),
        ("find hotels in Faro and show trains from there", "show trains from Faro"),
        ("find Bo and Eva's recipes and tell them I said it", "tell Bo I said it"),
        ("set an alarm for 7 and another for 8", "set an alarm for 8"),
        ("start a timer for 5 minutes and one for ten minutes", "start a timer for ten minutes"),
        ("open the gate and check if it is raining", "check if it is raining"),
        ("show the map and is there a storm", "is there a storm"),
        ('find Tom and send a letter saying "wait for him"', 'send a letter saying "wait for him"'),
    ],
)
def test_pronouns_and_ellipses_are_put_back(request_text: str, resolved: str) -> None:
    assert split(request_text)[-1].resolved == resolved


def test_the_first_intent_is_left_as_it_is() -> None:
    assert split("text him and open the gate")[0].resolved == "text him"


@pytest.mark.parametrize(
    ("request_text", "calls"),
    [
        ("", 0),
        ("heat the kiln", 1),
        ("heat the kiln and play some music", 2),
        ("ferry times on Sunday, and the same for Monday", 2),
        ("ferry times on Sunday. What about Monday?", 2),
        ("heat the kiln to the same temperature", 1),
    ],
)
def test_the_least_number_of_calls_is_counted(request_text: str, calls: int) -> None:
    assert expected_calls(request_text, TOOLS) == calls


PIECES = (
    "and then also plus , ; . ? after that play open the gate find Tom him it there another for 7 "
    "PM what is I need to send saying hi 1) & — \u2019s"
)
WORDS = st.sampled_from([*PIECES.split(), '"a b"', "\n"])
REQUESTS = st.lists(WORDS, max_size=25).map(" ".join) | st.text(max_size=80)


@given(REQUESTS, st.booleans())
def test_splitting_loses_no_word(request_text: str, with_tools: bool) -> None:
    intents = split(request_text, TOOLS if with_tools else ())
    place = 0
    for number, intent in enumerate(intents):
        assert intent.text == request_text[intent.start : intent.end] != ""
        between = request_text[place : intent.start]
        assert is_connecting(between) if number else not between.strip()
        place = intent.end
    assert not re.search(r"\w", request_text[place:])
    assert bool(intents) == bool(request_text.strip())


@given(REQUESTS)
def test_an_intent_alone_is_never_lost_in_its_resolved_form(request_text: str) -> None:
    for intent in split(request_text):
        assert intent.resolved.strip()


@pytest.mark.parametrize(
    "piece", ["and ", "open it, ", "'a ", "(", "a.", "\n", "open the gate and then ", "1) "]
)
def test_a_very_long_text_is_one_intent_and_takes_no_time(piece: str) -> None:
    assert len(split(piece * (REQUEST_LIMIT // len(piece)), TOOLS)) <= BOUNDARIES_LIMIT
    assert len(split("x " + piece * REQUEST_LIMIT, TOOLS)) == 1


@pytest.mark.parametrize(
    ("before", "text", "resolved"),
    [
        ("find Tom", "text him", "text Tom"),
        ("Find Tom Ek in my contacts", "ring him at 5 PM", "ring Tom Ek at 5 PM"),
        ("look up the plumber", "call him", "call the plumber"),
        ("find my keys", "send them to Bo", "send my keys to Bo"),
        ("find Ana", "send her a card", "send Ana a card"),
        ("find Ana", "book her flight", "book Ana's flight"),
        ("open 'Autumn'", "play it loud", "play 'Autumn' loud"),
        ("I pay 20 EUR in March for Mia", "write down 3 for them", "write down 3 for Mia"),
        ("tide in the old harbour", "go there at noon", "go to the old harbour at noon"),
        ("Madagascar rain in 1987", "who lived there", "who lived in Madagascar"),
        ("open the gate", "what time is it", "what time is it"),
        ("weather in Faro", "are there storms", "are there storms"),
        ("open the gate", "tell Bo that I saw him", "tell Bo that I saw him"),
        ("sunny", "turn it off", "turn it off"),
    ],
)
def test_a_pronoun_is_put_back_only_where_it_is_clear(
    before: str, text: str, resolved: str
) -> None:
    assert resolve([before, text]) == [before, resolved]


def test_it_goes_on_through_several_intents() -> None:
    assert resolve(["find Tom", "text him", "then call him"])[2] == "then call Tom"


@given(st.lists(st.text(max_size=40), max_size=4))
def test_any_texts_give_as_many_and_the_first_stays(texts: list[str]) -> None:
    resolved = resolve(texts)
    assert len(resolved) == len(texts) and resolved[:1] == texts[:1]
