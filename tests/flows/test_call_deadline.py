"""A call is drafted before it is written, and written again only while there is time."""

from __future__ import annotations

import datetime
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from edgewise import Settings, plugins
from edgewise.assembly.calls import find_call_calibration
from edgewise.cloud.provider import Chunk
from edgewise.errors import CloudClosed
from edgewise.flows.call import (
    MOST_RETRIES,
    RETRY_DEADLINE_MS,
    Calling,
    CallRules,
    Parts,
    answer,
)
from edgewise.local.backend import DeviceFacts, TokenStream
from edgewise.testing import ScriptedFunctionModel
from edgewise.testing.scripted import SCRIPTED_FUNCTION_MODEL_FACTS
from edgewise.types.messages import Message, Request, Tool
from edgewise.types.replies import CallReply
from tests.flows.calling import BOTH, TOOLS, TWO

ONE = "Set a timer for 50 or 5 minutes"
FIFTY, FIVE = 'set_timer {"minutes":50}', 'set_timer {"minutes":5}'


class SlowFunctionModel(ScriptedFunctionModel):
    """Every answer takes `seconds` on a clock that runs only meanwhile."""

    def __init__(
        self,
        *answers: str,
        seconds: float,
        each: Sequence[float] = (-0.5, -0.01),
        facts: DeviceFacts = SCRIPTED_FUNCTION_MODEL_FACTS,
    ) -> None:
        logprobs = [[each[min(place, len(each) - 1)]] for place in range(len(answers))]
        super().__init__(answers, logprobs=logprobs, facts=facts)
        self.seconds, self.now = seconds, 0.0

    @override
    def write_call(self, prompt: str, **options: Any) -> TokenStream:
        self.now += self.seconds
        yield from super().write_call(prompt, **options)


class NoCloud:
    def closed(self, request: Request) -> CloudClosed | None:
        return CloudClosed("there is none")

    def stream(self, *_: object, **__: object) -> Generator[Chunk, None, None]:
        raise CloudClosed("there is none")


class NoRecord:
    def shares(self, tools: Sequence[Tool]) -> Mapping[str, float]:
        return {}

    def note(self, outcomes: object) -> None:
        """Nothing is counted."""


def parts(device: SlowFunctionModel, **rules: Any) -> Parts:
    return Parts(
        function_model=lambda: device,
        cloud=NoCloud(),
        policy=plugins.load("policies", "local_only"),
        calibration=lambda model: find_call_calibration(Settings.load({}), model),
        rules=CallRules(**rules),
        patience_s=1.0,
        clock=lambda: device.now,
        today=lambda: datetime.date(2026, 1, 15),
        record=NoRecord(),
    )


def asked(text: str, tools: Sequence[Tool] = TOOLS, **options: Any) -> Request:
    return Request(messages=(Message("user", text),), tools=tuple(tools), policy="local_only",
                   **options)  # fmt: skip


def ask(device: SlowFunctionModel, text: str = ONE, **options: Any) -> CallReply:
    rules: Mapping[str, Any] = options.pop("rules", {})
    return answer(asked(text, **options), parts(device, **rules), [])


def minutes(reply: CallReply) -> list[object]:
    return [call.arguments.get("minutes") for call in reply.calls]


def test_an_unlikely_answer_is_written_again_while_there_is_time() -> None:
    device = SlowFunctionModel(FIFTY, FIVE, seconds=RETRY_DEADLINE_MS / 2000)
    reply = ask(device)
    assert (len(device.asked), minutes(reply)) == (2, [5])
    assert "not_retried" not in reply.steps_ms


def test_no_retry_is_begun_that_would_end_after_the_deadline() -> None:
    device = SlowFunctionModel(FIFTY, FIVE, seconds=RETRY_DEADLINE_MS / 2000 + 0.01)
    reply = ask(device)
    assert (len(device.asked), minutes(reply)) == (1, [50])  # the first answer stands
    assert reply.steps_ms["not_retried"] == pytest.approx(1260)


@pytest.mark.parametrize(("deadline_ms", "runs"), [(3_000, 1), (4_000, 2)])
def test_a_request_brings_its_own_deadline(deadline_ms: float, runs: int) -> None:
    device = SlowFunctionModel(FIFTY, FIVE, seconds=2.0)
    ask(device, deadline_ms=deadline_ms)
    assert len(device.asked) == runs


def test_the_deadline_of_other_requests_is_a_rule() -> None:
    device = SlowFunctionModel(FIFTY, FIVE, seconds=2.0)
    ask(device, rules={"retry_deadline_ms": 4_000})
    assert len(device.asked) == 2


@pytest.mark.parametrize(("seconds", "runs"), [(0.6, 4), (0.7, 2)])
def test_intents_are_asked_alone_only_if_there_is_time_for_all_of_them(
    seconds: float, runs: int
) -> None:
    """After the whole, and the whole with the two called tools alone."""
    answers = (BOTH, BOTH, FIVE, 'get_weather {"location":"London"}')
    device = SlowFunctionModel(*answers, seconds=seconds, each=(-0.5, -0.5, -0.01))
    ask(device, TWO)
    assert len(device.asked) == runs


@pytest.mark.parametrize(("speed", "runs"), [(1_000.0, 2), (5.0, 1)])
def test_a_models_measured_speed_tells_how_long_a_retry_takes(speed: float, runs: int) -> None:
    facts = replace(
        SCRIPTED_FUNCTION_MODEL_FACTS,
        prompt_tokens_per_second=speed,
        output_tokens_per_second=speed,
    )
    device = SlowFunctionModel(FIFTY, FIVE, seconds=0.1, facts=facts)
    ask(device)
    assert len(device.asked) == runs


def test_the_reason_for_a_doubt_says_that_there_was_no_time() -> None:
    device = SlowFunctionModel(FIFTY, FIVE, seconds=2.0)
    flow = Calling(asked(ONE), parts(device), [])
    flow.misfit = flow.open_device()
    flow.draft.threshold = 0.999
    flow._write_and_judge(MOST_RETRIES)
    assert flow.doubt().endswith("another try of about 2,000 ms would end after 2,500 ms")


def test_each_text_is_drafted_before_it_is_written() -> None:
    mixed = BOTH.replace("5", "50")
    device = SlowFunctionModel(
        mixed, mixed, FIVE, 'get_weather {"location":"London"}', seconds=0.1, each=(-0.5,)
    )
    reply = ask(device, TWO)
    london = 'get_weather {"location":"London"}'
    assert [one.drafts[0] for one in device.asked] == [BOTH, BOTH, FIVE, london]
    assert "draft" in reply.steps_ms
