"""Calls of words that were heard: no call is surer than the words that it was made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise import CallReply, Conversation, Engine, InvalidRequest, Transcript
from edgewise.calls.hearing import hint_of, least_heard, with_choices
from edgewise.testing import ScriptedFunctionModel, ScriptedTranscriber, heard
from edgewise.types.messages import Tool, ToolCall, Word
from edgewise.types.transcripts import Heard
from tests.flows.calling import MESSAGE, TIMER, TOOLS, function_model, tool
from tests.flows.hearing_clouds import HearingCloud
from tests.speech.made_voice import silence, voice, wav

SENT = 'send_message {"recipient":"MariaSating","message":"I am late"}'
RIGHT = 'send_message {"recipient":"Maria Santos","message":"I am late"}'
WORDS = "send a message to MariaSating saying I am late"
SOUND = wav(voice(3.0), silence(0.5))
LAMP = tool(
    "switch_lamp",
    "Switch the lamp of a room",
    room={"type": "string", "enum": ["kitchen", "living_room"]},
    on={"type": "boolean"},
)


def stretch(words: str, **unsure: float) -> Heard:
    """All words are certain but those that are named."""
    found = heard(words, 0.3, 2.8, chance=0.99)
    return replace(
        found,
        words=tuple(
            replace(one, probability=unsure.get(one.text, one.probability)) for one in found.words
        ),
    )


def engine(*answers: str, words: Sequence[Heard] = (), cloud: HearingCloud | None = None) -> Engine:
    return Engine(
        function_model=function_model(*(answers or (SENT,))),
        transcriber=ScriptedTranscriber([words or [stretch(WORDS, MariaSating=0.13)]]),
        cloud=cloud or HearingCloud(otherwise="send a message to Maria Santos saying I am late"),
    )


def ask(own: Engine, transcript: Transcript, ran: list[str], **options: object) -> CallReply:
    def send_message(recipient: str, message: str) -> str:
        """Send a message to a contact."""
        ran.append(recipient)
        return "sent"

    return own.call(transcript, [send_message], execute=True, **options)  # type: ignore[arg-type]


def test_a_name_that_was_heard_at_0_13_is_not_written_to() -> None:
    ran: list[str] = []
    with engine() as own:
        words = own.transcribe(SOUND, policy="local_only")
        reply = ask(own, words, ran, policy="local_only")
        (call,) = reply.calls
        assert not ran and "'MariaSating' was heard at 0.13" in call.doubt
        assert reply.results[0].error.startswith("not run: in doubt")
        assert reply.needs_cloud_handoff and reply.confidence == call.confidence
        assert call.confidence is not None and call.confidence < 0.13
        assert "'MariaSating' was heard at 0.13" in reply.decision.reason
        assert reply.decision.features["heard"] == 0.13
        sure = ask(own, replace(words, segments=()), ran, policy="local_only")  # nobody knows
        assert ran == ["MariaSating"] and not sure.needs_cloud_handoff


def test_a_word_that_no_argument_hangs_on_may_be_unsure() -> None:
    ran: list[str] = []
    with engine(words=[stretch(WORDS, saying=0.2)]) as own:
        reply = ask(own, own.transcribe(SOUND, policy="local_only"), ran, policy="local_only")
    assert ran == ["MariaSating"] and not reply.calls[0].doubt


def test_the_cloud_hears_what_a_call_hangs_on() -> None:
    ran: list[str] = []
    cloud = HearingCloud(otherwise="send a message to Maria Santos saying I am late")
    with engine(SENT, RIGHT, cloud=cloud) as own:
        words = own.transcribe(SOUND)
        assert not cloud.asked  # the segment as a whole was sure enough
        reply = ask(own, words, ran, sound=SOUND)
    (asked,) = cloud.asked
    assert asked.task == "transcribe" and 2.5 < asked.audio[0].seconds < 3.6
    assert ran == ["Maria Santos"] and not reply.needs_cloud_handoff


@pytest.mark.parametrize("kept", [{"policy": "local_only"}, {"private": True}])
def test_what_must_stay_is_not_heard_by_the_cloud(kept: dict[str, object]) -> None:
    ran: list[str] = []
    cloud = HearingCloud()
    with engine(cloud=cloud) as own:
        words = own.transcribe(SOUND, **kept)  # type: ignore[arg-type]
        reply = ask(own, words, ran, sound=SOUND, **kept)
    assert not cloud.asked and not ran and reply.calls[0].doubt


def test_words_that_make_a_request_private_keep_its_sound_here() -> None:
    cloud = HearingCloud()
    said = stretch("send a message to MariaSating saying mail me@example.org", MariaSating=0.13)
    mail = 'send_message {"recipient":"MariaSating","message":"mail me@example.org"}'
    with engine(mail, words=[said], cloud=cloud) as own:
        words = own.transcribe(SOUND, policy="local_only")
        reply = own.call(words, [MESSAGE], sound=SOUND, private_kinds=["EMAIL"])
    assert not cloud.asked and "was heard at 0.13" in reply.calls[0].doubt


def test_an_application_that_routes_itself_gets_no_call() -> None:
    cloud = HearingCloud()
    with engine(cloud=cloud) as own:
        words = own.transcribe(SOUND, policy="local_only")
        reply = own.call(words, [MESSAGE], handoff="signal", sound=SOUND)
    assert reply.signalled and not reply.calls and not cloud.asked
    assert reply.decision.code == "signalled_low_confidence"


def test_sound_without_its_transcript_is_refused() -> None:
    with engine() as own, pytest.raises(InvalidRequest, match="its transcript"):
        own.call("set a timer", TOOLS, sound=SOUND)


def test_a_conversation_knows_how_surely_it_was_heard(tmp_path: Path) -> None:
    ran: list[str] = []

    def send_message(recipient: str, message: str) -> str:
        """Send a message to a contact."""
        ran.append(recipient)
        return "sent"

    with engine() as own:
        talk = Conversation(own, tools=[send_message], policy="local_only", max_steps=2)
        talk.ask(own.transcribe(SOUND, policy="local_only"))
    assert not ran
    (result,) = [one for one in talk.messages if one.role == "tool"]
    assert "'MariaSating' was heard at 0.13" in result.content


def words_of(text: str) -> list[Word]:
    """`ten:0.4` was heard at 0.4; the others are certain."""
    found = []
    for one in text.split():
        word, _, chance = one.partition(":")
        found.append(Word(word, 0.0, 0.1, float(chance or 0.999)))
    return found


@pytest.mark.parametrize(
    ("said", "call", "of", "word"),
    [
        ("set a timer for ten:0.4 minutes please:0.1", ToolCall("", {"minutes": 10}), TIMER, "ten"),
        ("Set:0.3 a timer for 10:0.4 minutes.", ToolCall("", {"minutes": 10}), TIMER, "10"),
        ("turn off:0.4 the:0.2 kitchen light", ToolCall("", {"on": False}), LAMP, "off"),
        ("the light in the living:0.4 room:0.6", ToolCall("", {"room": "living_room"}), LAMP,
         "living"),
    ],
)  # fmt: skip
def test_a_word_is_an_arguments_if_the_argument_needs_it(
    said: str, call: ToolCall, of: Tool, word: str
) -> None:
    doubt = least_heard(call, of, words_of(said))
    assert doubt is not None and (doubt.word.text, doubt.chance) == (word, 0.4)


def test_what_the_cloud_heard_is_certain() -> None:
    words = [replace(one, probability=None) for one in words_of("a timer for ten:0.4 minutes")]
    assert least_heard(ToolCall("", {"minutes": 10}), TIMER, words) is None


def test_tools_say_what_to_listen_for() -> None:
    assert hint_of([LAMP, TIMER]) == "kitchen, living room"
    assert hint_of([TIMER]) == ""
    many = tool(
        "pick", "Pick one", one={"type": "string", "enum": [f"choice {n}" for n in range(999)]}
    )
    assert len(hint_of([many])) <= 400


def test_a_scripted_model_that_is_in_doubt_stays_in_doubt_of_its_own() -> None:
    own = Engine(function_model=ScriptedFunctionModel.doubtful(SENT), cloud=HearingCloud())
    words = engine().transcribe(SOUND, policy="local_only")
    with own:
        (call,) = own.call(words, [MESSAGE], policy="local_only").calls
    assert call.doubt.count(";") >= 1 and call.doubt.endswith("was heard at 0.13")


# -- choices that were said ------------------------------------------------------------------------


DRINK = Tool(
    "order",
    "Order a drink",
    {
        "type": "object",
        "properties": {
            "drink": {"type": "string", "enum": ["coffee", "iced coffee", "mocha", "americano"]},
            "size": {"type": "string", "enum": ["small", "medium", "twelve ounce"]},
            "roast": {"type": "string", "enum": ["light roast", "medium roast"]},
            "name": {"type": "string"},
        },
        "required": ["drink"],
    },
)


@pytest.mark.parametrize(
    ("said", "written", "made"),
    [
        ("a light rose americana", {"drink": "coffee"},
         {"drink": "americano", "roast": "light roast"}),
        ("a medium-most ice coffee", {"drink": "coffee", "size": "medium"},
         {"drink": "iced coffee", "roast": "medium roast"}),
        ("a 12 oz mocha", {"drink": "mocha", "size": "small"},
         {"drink": "mocha", "size": "twelve ounce"}),
        ("a mocha or a coffee", {"drink": "coffee"}, {"drink": "coffee"}),
        ("something tiny and black", {"drink": "coffee", "size": "small"},
         {"drink": "coffee", "size": "small"}),
        ("a mocha for Medium Mike", {"drink": "mocha", "name": "Medium Mike"},
         {"drink": "mocha", "name": "Medium Mike"}),
    ],
)  # fmt: skip
def test_choices_are_taken_as_they_sound(
    said: str, written: dict[str, str], made: dict[str, str]
) -> None:
    call = with_choices(ToolCall("order", written), DRINK, said)
    assert dict(call.arguments) == made
    changed = {name for name in {*written, *made} if written.get(name) != made.get(name)}
    assert {*call.repairs} == {f"heard:{name}" for name in changed}


def test_only_what_was_heard_is_read_by_its_sound() -> None:
    model = function_model('order {"drink":"coffee"}', doubt=())
    with Engine(function_model=model, transcriber=ScriptedTranscriber([[stretch("a light rose")]]),
                cloud=HearingCloud()) as own:  # fmt: skip
        heard_one = own.transcribe(SOUND, policy="local_only")
        (call,) = own.call(heard_one, [DRINK], policy="local_only").calls
        assert dict(call.arguments) == {"drink": "coffee", "roast": "light roast"}
        (call,) = own.call("a light rose", [DRINK], policy="local_only").calls
        assert "roast" not in call.arguments


@pytest.mark.parametrize(
    ("said", "written", "made"),
    [
        ("a medium roast mocha", "none", {"drink": "mocha", "roast": "medium roast"}),
        ("a mocha please", "none", None),  # one choice alone may be anything
        ("medium roast please", "none", None),  # the drink is missing
    ],
)
def test_choices_that_were_heard_are_not_lost_where_the_model_is_unsure(
    said: str, written: str, made: dict[str, str] | None
) -> None:
    for doubt, found in ((written, made), ("", None)):
        model = function_model(written, doubt=(doubt,))
        with Engine(function_model=model, transcriber=ScriptedTranscriber([[stretch(said)]]),
                    cloud=HearingCloud()) as own:  # fmt: skip
            words = own.transcribe(SOUND, policy="local_only")
            reply = own.call(words, [DRINK], policy="local_only")
        assert [dict(call.arguments) for call in reply.calls] == ([] if found is None else [found])
        assert all(call.doubt for call in reply.calls)
