"""Every structured answer is compared with its schema, the device's as well as the cloud's."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypedDict, assert_type

import pytest
from pydantic import BaseModel, field_validator

from edgewise import Conversation, Engine, Settings
from edgewise.errors import CloudUnreachable, DoesNotFit
from edgewise.grammar.check import CheckedText, check_answer
from edgewise.local.store import InstalledModel
from edgewise.testing import LoopbackCloud, ScriptedBackend
from edgewise.testing.scripted import SCRIPTED_FACTS
from edgewise.types.messages import ResponseFormat, ToolCall
from edgewise.types.replies import Finished, Reply, Switched
from tests.flows.calling import settings_for
from tests.flows.clouds import PlayedCloud
from tests.flows.test_chat import NO_KEY, run

HOLDS = replace(SCRIPTED_FACTS, schemas=True)
# A schema, an answer that follows it, one that was seen and does not, and why.
BROKEN: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "number": (
        {"type": "number", "minimum": 5, "maximum": 6},
        "5.5",
        "-1.10",
        "$: -1.1 is less than 5",
    ),
    "pattern": (
        {"type": "string", "pattern": r"^\d{5}$"},
        '"10115"',
        '"abcde"',
        "$: 'abcde' does not match '^\\\\d{5}$'",
    ),
    "unique": (
        {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
        "[1, 2]",
        "[1, 1]",
        "$: two of its items are the same",
    ),
}
EACH = pytest.mark.parametrize("name", BROKEN)


def device(text: str) -> ScriptedBackend:
    return ScriptedBackend.confident(text, facts=HOLDS)


def ask(backend: ScriptedBackend, cloud: PlayedCloud, name: str, **options: Any) -> Reply:
    wanted = ResponseFormat(BROKEN[name][0])
    return run(backend, cloud, response_format=wanted, live=False, **options)[1]


def test_an_answer_that_is_kept_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []

    def note(text: str, schema: Any) -> CheckedText:
        checked.append(text)
        return check_answer(text, schema)

    monkeypatch.setattr("edgewise.flows.chat.check_answer", note)
    _, right, wrong, _ = BROKEN["number"]
    assert ask(device(right), PlayedCloud([]), "number").source == "local"
    assert checked == [right]
    assert ask(device(wrong), PlayedCloud([right]), "number").source == "cloud"
    assert checked == [right, wrong, right]


@EACH
def test_a_sure_answer_of_the_device_that_breaks_its_schema_is_handed_off(name: str) -> None:
    _, right, wrong, why = BROKEN[name]
    reply = ask(device(wrong), PlayedCloud([right]), name)
    assert (reply.text, reply.source) == (right, "cloud")
    assert (reply.decision.code, reply.degraded) == ("handoff_schema_broken", False)
    assert reply.decision.reason == f"the answer breaks its schema: {why}"
    assert [each.outcome for each in reply.attempts] == ["handed_off", "answered"]
    kept = ask(device(right), PlayedCloud(["?"]), name)
    assert (kept.text, kept.decision.code, kept.degraded) == (right, "kept_confident", False)


@EACH
def test_on_the_device_alone_it_stands_and_says_so(name: str) -> None:
    _, _, wrong, why = BROKEN[name]
    reply = ask(device(wrong), PlayedCloud(), name, policy="local_only")
    assert (reply.text, reply.decision.code) == (wrong, "policy_local_only")
    assert reply.degraded and reply.decision.degraded_code == "schema_broken"
    assert reply.decision.reason.endswith(f"; the answer breaks its schema: {why}")
    assert reply.needs_cloud_handoff
    reply = ask(device(wrong), PlayedCloud(shut=NO_KEY), name)
    assert (reply.decision.code, reply.decision.degraded_code) == ("kept_in_doubt", "no_key")
    assert reply.decision.reason.count(why) == 1


@EACH
def test_a_cloud_that_breaks_the_schema_is_not_believed_in_silence(name: str) -> None:
    _, right, wrong, why = BROKEN[name]
    cloud = PlayedCloud([wrong])
    reply = ask(device("no JSON"), cloud, name, policy="prefer_cloud")
    assert (reply.text, reply.source, len(cloud.asked)) == (wrong, "cloud", 1), "nobody asks again"
    assert reply.degraded and reply.decision.degraded_code == "schema_broken"
    assert reply.decision.reason.endswith(f"; the answer breaks its schema: {why}")
    assert not ask(device("?"), PlayedCloud([right]), name, policy="prefer_cloud").degraded


def test_an_application_that_routes_is_told() -> None:
    reply = ask(device("-1"), PlayedCloud(), "number", handoff="signal")
    assert (reply.signalled, reply.decision.code) == (True, "signalled_schema_broken")
    assert not reply.degraded


def test_if_the_cloud_fails_the_broken_answer_stands_with_both_reasons() -> None:
    reply = ask(device("-1"), PlayedCloud(error=CloudUnreachable("x")), "number")
    assert (reply.text, reply.decision.code) == ("-1", "fallback_local")
    assert reply.decision.degraded_code == "cloud_unreachable"
    assert "-1 is less than 5" in reply.decision.reason


def test_an_answer_that_was_cut_is_a_failed_one() -> None:
    wanted = ResponseFormat({"type": "object"})
    long = device('{"a": "' + " ".join(map(str, range(40))) + '"}')
    _, reply = run(long, PlayedCloud(["{}"]), live=False, response_format=wanted, max_tokens=8)
    assert (reply.text, reply.decision.code) == ("{}", "handoff_schema_broken")
    assert reply.decision.reason == "the answer breaks its schema: it is not JSON"


def test_text_that_was_shown_stays_and_the_end_of_the_stream_says_so() -> None:
    wanted = ResponseFormat(BROKEN["unique"][0])
    items = "[" + ", ".join(map(str, [*range(60), 0])) + "]"
    cloud = PlayedCloud(["[]"])
    _, held = run(device(items), cloud, live=True, response_format=wanted)
    assert (held.text, held.decision.code) == ("[]", "handoff_schema_broken"), "it was held back"
    shown = device(items)  # at a threshold of 0 nothing is held back
    events, reply = run(shown, cloud, live=True, response_format=wanted, threshold=0.0)
    assert reply.text == items and not any(isinstance(each, Switched) for each in events)
    assert isinstance(events[-1], Finished)
    assert (reply.decision.code, reply.decision.degraded_code) == ("kept_in_doubt", "schema_broken")
    assert reply.decision.reason == "the answer breaks its schema: $: two of its items are the same"


def test_calls_in_place_of_an_answer_are_not_compared_with_its_schema() -> None:
    cloud = PlayedCloud([ToolCall("set_timer", {"minutes": 5})])
    assert not ask(device("?"), cloud, "number", policy="prefer_cloud").degraded


def test_what_could_not_be_checked_is_told_and_is_no_fault() -> None:
    wanted = ResponseFormat({"type": "string", "pattern": "^(?=a)"})
    options: dict[str, Any] = {"response_format": wanted, "policy": "prefer_cloud"}
    _, reply = run(None, PlayedCloud(['"b"']), **options)
    assert not reply.degraded
    assert "not checked against its schema: $: the pattern '^(?=a)'" in reply.decision.reason


# -- the real model -------------------------------------------------------------------------------


@pytest.fixture
def engine(default_model: InstalledModel) -> Iterator[Engine]:
    with LoopbackCloud() as cloud, Engine(settings_for(cloud, model=default_model.name)) as engine:
        yield engine


@pytest.mark.real_model
@pytest.mark.parametrize("name", ["number", "pattern"])
def test_the_real_device_holds_numbers_and_patterns(engine: Engine, name: str) -> None:
    wanted = ResponseFormat(BROKEN[name][0])
    for question in ("Give me a number.", "Say something else.", "Which letters do you like?"):
        reply = engine.complete(
            question, policy="local_only", response_format=wanted, max_tokens=24
        )
        assert not reply.degraded and reply.source == "local"
        value = json.loads(reply.text)
        if name == "number":
            assert 5 <= value <= 6
        else:
            assert len(value) == 5 and value.isdigit()


@pytest.mark.real_model
def test_the_real_device_names_what_it_cannot_hold_and_the_cloud_is_checked(
    default_model: InstalledModel,
) -> None:
    wanted = ResponseFormat(BROKEN["unique"][0])
    with LoopbackCloud() as cloud, Engine(settings_for(cloud, model=default_model.name)) as engine:
        cloud.script("[1, 1]")
        reply = engine.complete("Three numbers.", response_format=wanted)
        assert (reply.source, reply.decision.code) == ("cloud", "handoff_schema_unsupported")
        assert reply.decision.degraded_code == "schema_broken"
        with pytest.raises(DoesNotFit, match="uniqueItems"):
            engine.complete("Three numbers.", response_format=wanted, policy="local_only")


@pytest.mark.real_model
def test_a_real_answer_that_is_cut_says_so(engine: Engine) -> None:
    wanted = ResponseFormat({"type": "string", "minLength": 200})
    reply = engine.complete(
        "Tell me a story.", policy="local_only", response_format=wanted, max_tokens=8
    )
    assert (reply.finish_reason, reply.decision.degraded_code) == ("length", "schema_broken")


# -- typed answers --------------------------------------------------------------------------------


class City(BaseModel):
    name: str
    people: int

    @field_validator("people")
    @classmethod
    def not_negative(cls, people: int) -> int:
        if people < 0:
            raise ValueError("nobody lives there")
        return people


@dataclass
class Place:
    name: str
    people: int = 0


class Told(TypedDict):
    name: str


BERLIN, EMPTY = '{"name":"Berlin","people":3700000}', '{"name":"Berlin","people":-1}'


def typed_engine(said: str, cloud: PlayedCloud) -> Engine:
    return Engine(Settings.load(dict(os.environ)), backend=device(said), cloud=cloud)


def test_an_answer_of_the_device_is_parsed() -> None:
    with typed_engine(BERLIN, PlayedCloud()) as engine:
        reply = engine.complete("Where?", response_format=City)
    assert_type(reply.parsed, City | None)
    assert reply.parsed == City(name="Berlin", people=3_700_000)
    assert (reply.source, reply.text) == ("local", BERLIN)
    assert reply.to_dict()["parsed"] == {"name": "Berlin", "people": 3_700_000}


def test_dataclasses_and_typed_dicts_are_parsed_too() -> None:
    with typed_engine('{"name":"Berlin"}', PlayedCloud()) as engine:
        place = engine.complete("Where?", response_format=Place)
        told = engine.complete("Where?", response_format=Told)
    assert_type(place.parsed, Place | None)
    assert_type(told.parsed, Told | None)
    assert (place.parsed, told.parsed) == (Place("Berlin"), {"name": "Berlin"})


def test_a_schema_gives_plain_values_and_a_plain_answer_none() -> None:
    with typed_engine(BERLIN, PlayedCloud()) as engine:
        assert engine.complete("Where?", response_format=City.model_json_schema()).parsed == {
            "name": "Berlin",
            "people": 3_700_000,
        }
        plain = engine.complete("Where?")
    assert plain.parsed is None and "parsed" not in plain.to_dict()


def test_what_a_validator_refuses_is_a_failed_answer_and_handed_off() -> None:
    cloud = PlayedCloud([BERLIN])
    with typed_engine(EMPTY, cloud) as engine:
        reply = engine.complete("Where?", response_format=City)
    assert reply.parsed == City(name="Berlin", people=3_700_000)
    assert (reply.source, reply.decision.code) == ("cloud", "handoff_schema_broken")
    assert reply.decision.reason.endswith("$.people: Value error, nobody lives there")
    (asked,) = cloud.asked
    assert asked.response_format is not None and asked.response_format.name == "City"


@pytest.mark.parametrize("policy", ["local_only", "cloud_only"])
def test_if_nobody_gives_a_right_answer_nothing_is_parsed_and_nothing_raised(policy: str) -> None:
    with typed_engine(EMPTY, PlayedCloud([EMPTY])) as engine:
        reply = engine.complete("Where?", response_format=City, policy=policy)
    assert reply.parsed is None and reply.text == EMPTY
    assert reply.degraded and reply.decision.degraded_code == "schema_broken"
    assert "nobody lives there" in reply.decision.reason


def test_a_class_that_raises_something_odd_does_not_take_the_request_down() -> None:
    class Odd(BaseModel):
        name: str

        @field_validator("name")
        @classmethod
        def divide(cls, name: str) -> str:
            raise ZeroDivisionError(f"{name}\nand more")

    with typed_engine('{"name":"Berlin"}', PlayedCloud()) as engine:
        reply = engine.complete("Where?", response_format=Odd, policy="local_only")
    assert reply.parsed is None
    assert reply.decision.reason.endswith("the answer breaks its schema: Berlin")


def test_a_stream_ends_with_what_was_parsed() -> None:
    with typed_engine(BERLIN, PlayedCloud()) as engine:
        *_, end = engine.stream("Where?", response_format=City)
        talk = Conversation(engine)
        asked = talk.ask("Where?", response_format=City)
    assert isinstance(end, Finished) and end.reply.parsed == City(name="Berlin", people=3_700_000)
    assert_type(asked.parsed, City | None)
    assert asked.parsed == end.reply.parsed


@pytest.mark.real_model
def test_the_real_device_fills_a_class(engine: Engine) -> None:
    reply = engine.complete(
        "Name a big city and how many people live there.",
        response_format=City,
        policy="local_only",
        max_tokens=40,
    )
    assert reply.source == "local" and isinstance(reply.parsed, City) and reply.parsed.name
