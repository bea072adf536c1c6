"""Chat as stories: who answered, what was shown, and what the reply says."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from edgewise.cli.render import summary
from edgewise.cloud.provider import Chunk
from edgewise.decide import policy as policies
from edgewise.decide.calibration import CHAT, Boundaries, Calibration, Head, RiskRow, Score
from edgewise.decide.gate import HELD_TOKENS
from edgewise.decide.policy import Pace
from edgewise.errors import (
    CloudClosed,
    CloudCut,
    CloudError,
    CloudUnreachable,
    ContextExceeded,
    DoesNotFit,
    GenerationFailed,
    ModelNotFound,
    SchemaUnsupported,
)
from edgewise.flows.chat import ChatNeeds, answer
from edgewise.local.backend import ChatBackend, DeviceFacts, TokenStream
from edgewise.testing import ScriptedBackend, word_tokens
from edgewise.testing.scripted import SCRIPTED_FACTS
from edgewise.types.messages import Image, Message, Request, ResponseFormat, Tool, ToolCall
from edgewise.types.replies import Attempt, Event, Finished, Reply, Switched, TextDelta, Token
from tests.flows.clouds import PlayedCloud

NO_KEY = CloudClosed("no provider has a key", code="no_key")
DOWN = CloudUnreachable("connection refused", code="cloud_refused")
LONG = (
    "I am really not sure about this but it may be somewhere near the sea I think perhaps on an "
    "old map that hung in my uncle's house when we were small and nobody ever told us which of "
    "those many little towns along that coast he had come from"
)  # longer than what is held back


def parts(
    backend: ChatBackend | None,
    cloud: PlayedCloud,
    policy: str = "prefer_local",
    calibration: Calibration = CHAT.uncalibrated,
    pace: Pace | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> ChatNeeds:
    def get() -> ChatBackend:
        if backend is None:
            raise ModelNotFound("edgewise pull something")
        return backend

    return ChatNeeds(
        backend=get,
        cloud=cloud,
        policy=getattr(policies, policy),
        calibration=lambda _: calibration,
        patience_s=2.0,
        clock=clock,
        pace=pace,
    )


def run(
    backend: ChatBackend | None,
    cloud: PlayedCloud,
    *,
    live: bool = True,
    message: Message | None = None,
    calibration: Calibration = CHAT.uncalibrated,
    **options: Any,
) -> tuple[list[Event], Reply]:
    request = Request(messages=(message or Message("user", "Where is it?"),), **options)
    attempts: list[Attempt] = []
    lent = parts(backend, cloud, request.policy, calibration)
    events = list(answer(request, lent, attempts, live=live))
    assert isinstance(events[-1], Finished)
    reply = events[-1].reply
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == reply.text
    assert len(reply.attempts) == len(attempts)
    return events, reply


def test_a_confident_answer_stays_on_the_device() -> None:
    cloud = PlayedCloud()
    _, reply = run(ScriptedBackend.confident("In Paris."), cloud)
    assert (reply.text, reply.source, reply.decision.code) == (
        "In Paris.",
        "local",
        "kept_confident",
    )
    assert not reply.needs_cloud_handoff and not reply.cloud_handoff and not reply.degraded
    assert reply.confidence is not None and reply.confidence > 0.8
    assert cloud.asked == []


def test_a_doubtful_answer_is_stopped_and_the_cloud_answers_instead() -> None:
    backend, cloud = ScriptedBackend.doubtful(LONG), PlayedCloud()
    events, reply = run(backend, cloud)
    assert (reply.text, reply.source) == ("The cloud knows.", "cloud")
    assert reply.needs_cloud_handoff and reply.cloud_handoff and not reply.degraded
    assert reply.decision.code == "handoff_low_confidence"
    assert backend.closed_early == 1, "the local model was stopped at once"
    assert backend.generated < len(LONG.split())
    assert [attempt.outcome for attempt in reply.attempts] == ["handed_off", "answered"]
    assert reply.attempts[0].output_tokens == backend.generated, "the rejected tokens count"
    assert isinstance(events[0], Switched) and events[0].to == "cloud"


def test_the_switch_is_told_before_any_of_the_clouds_text() -> None:
    events, _ = run(ScriptedBackend.doubtful(LONG), PlayedCloud())
    assert [type(event).__name__ for event in events] == [
        "Switched",
        "TextDelta",
        "TextDelta",
        "Finished",
    ]


def test_a_collapse_after_text_was_shown_is_reported_not_taken_back() -> None:
    good = word_tokens(LONG, logprob=-0.01)
    bad = word_tokens(" and so on who knows where and why and when at all", logprob=-6.0)
    _, reply = run(ScriptedBackend([good + bad + bad[1:] + good]), cloud := PlayedCloud())
    assert reply.text.startswith(f"{LONG} and so on")
    assert reply.decision.decided_after_tokens == HELD_TOKENS
    assert reply.decision.kept_at is not None and reply.confidence is not None
    assert reply.decision.kept_at > 0.8 > 0.5 > reply.confidence, "both are told"
    assert (reply.source, reply.decision.code) == ("local", "kept_in_doubt")
    assert reply.needs_cloud_handoff and not reply.cloud_handoff
    assert cloud.asked == []


def test_a_collapse_that_nobody_has_seen_yet_is_handed_off() -> None:
    good = word_tokens("It is by the river", logprob=-0.01)
    bad = word_tokens(" banks of who knows where and why and when at all", logprob=-6.0)
    backend = ScriptedBackend([good + bad])
    _, reply = run(backend, PlayedCloud(), live=False)
    assert (reply.source, reply.decision.code) == ("cloud", "handoff_low_confidence")
    _, reply = run(backend, PlayedCloud(), live=False, handoff="signal")
    assert reply.signalled


def test_without_a_key_the_device_answers_and_says_it_is_degraded() -> None:
    cloud = PlayedCloud(shut=NO_KEY)
    events, reply = run(ScriptedBackend.doubtful(LONG), cloud)
    assert (reply.text, reply.source, reply.degraded) == (LONG, "local", True)
    assert reply.decision.degraded_code == "no_key"
    assert isinstance(events[0], TextDelta), "nothing is held back where nothing can be handed off"


def test_without_a_key_a_confident_answer_is_not_degraded() -> None:
    _, reply = run(ScriptedBackend.confident("In Paris."), PlayedCloud(shut=NO_KEY))
    assert not reply.degraded


@pytest.mark.parametrize("live", [True, False])
def test_when_the_cloud_fails_the_device_finishes_its_own_answer(live: bool) -> None:
    backend = ScriptedBackend.doubtful(LONG)
    _, reply = run(backend, PlayedCloud((), error=DOWN), live=live)
    assert (reply.text, reply.source, reply.degraded) == (LONG, "local", True)
    assert reply.decision.degraded_code == "cloud_refused"
    assert reply.decision.code == "fallback_local"
    assert [a.outcome for a in reply.attempts] == ["handed_off", "cloud_refused", "answered"]
    assert reply.needs_cloud_handoff and not reply.cloud_handoff


def test_an_answer_that_was_whole_when_it_was_doubted_is_not_generated_again() -> None:
    backend = ScriptedBackend([word_tokens("Lyon.", logprob=-1.0)])
    _, reply = run(backend, PlayedCloud((), error=DOWN))
    assert reply.text == "Lyon."
    assert backend.started == 1
    assert [a.outcome for a in reply.attempts] == ["answered", "cloud_refused"]


def test_a_live_stream_cut_half_way_is_continued_by_the_device() -> None:
    backend = ScriptedBackend.doubtful("no idea whatsoever about that I fear", "and the device too")
    cloud = PlayedCloud(("The cloud knew",), error=CloudCut("cut"))
    events, reply = run(backend, cloud, live=True)
    assert reply.text.startswith("The cloud knew")
    assert len(reply.text) > len("The cloud knew")
    assert (reply.source, reply.degraded) == ("mixed", True)
    assert reply.decision.degraded_code == "cloud_cut"
    switches = [event.to for event in events if isinstance(event, Switched)]
    assert switches == ["cloud", "local"]


def test_a_cut_that_nobody_saw_leaves_no_trace_in_the_text() -> None:
    cloud = PlayedCloud(("The cloud knew",), error=CloudCut("cut"))
    _, reply = run(ScriptedBackend.doubtful(LONG), cloud, live=False)
    assert (reply.text, reply.source) == (LONG, "local")


def test_signal_returns_the_original_signal_and_asks_nobody() -> None:
    cloud = PlayedCloud(shut=NO_KEY)
    _, reply = run(ScriptedBackend.doubtful(LONG), cloud, handoff="signal")
    assert reply.signalled
    signal = reply.to_dict()
    assert (signal["success"], signal["cloud_handoff"], signal["response"]) == (True, True, None)
    assert 0 <= signal["confidence"] < 0.5
    assert cloud.asked == []


def test_signal_keeps_a_confident_answer() -> None:
    _, reply = run(ScriptedBackend.confident("In Paris."), PlayedCloud(), handoff="signal")
    assert reply.to_dict()["response"] == "In Paris."


def test_a_private_request_is_not_even_signalled() -> None:
    _, reply = run(ScriptedBackend.doubtful(LONG), PlayedCloud(), handoff="signal", private=True)
    assert (reply.text, reply.source) == (LONG, "local")
    assert reply.needs_cloud_handoff and not reply.cloud_handoff


@pytest.mark.parametrize("policy", ["prefer_local", "prefer_cloud", "local_only"])
def test_private_stays_whatever_the_policy(policy: str) -> None:
    cloud = PlayedCloud()
    _, reply = run(ScriptedBackend.doubtful(LONG), cloud, policy=policy, private=True)
    assert (reply.source, cloud.asked) == ("local", [])
    assert reply.decision.degraded_code == ("" if policy == "local_only" else "private")


def test_private_and_cloud_only_exclude_each_other_with_a_clear_error() -> None:
    with pytest.raises(CloudClosed, match="private") as caught:
        run(ScriptedBackend.confident("x"), PlayedCloud(), policy="cloud_only", private=True)
    assert caught.value.code == "private"


def test_local_only_never_asks_and_is_not_degraded_by_doubt() -> None:
    cloud = PlayedCloud()
    _, reply = run(ScriptedBackend.doubtful(LONG), cloud, policy="local_only")
    assert (reply.source, reply.degraded, cloud.asked) == ("local", False, [])
    assert reply.needs_cloud_handoff


def test_prefer_cloud_asks_the_cloud_and_lets_the_device_rest() -> None:
    backend = ScriptedBackend.confident("In Paris.")
    _, reply = run(backend, PlayedCloud(), policy="prefer_cloud")
    assert (reply.source, backend.started) == ("cloud", 0)
    assert reply.confidence is None


def test_prefer_cloud_falls_back_to_the_device() -> None:
    _, reply = run(
        ScriptedBackend.confident("In Paris."), PlayedCloud((), error=DOWN), policy="prefer_cloud"
    )
    assert (reply.text, reply.source, reply.degraded) == ("In Paris.", "local", True)


def test_cloud_only_raises_rather_than_answer_on_the_device() -> None:
    backend = ScriptedBackend.confident("In Paris.")
    with pytest.raises(CloudError) as caught:
        run(backend, PlayedCloud((), error=DOWN), policy="cloud_only")
    assert caught.value is DOWN
    assert backend.started == 0


def test_cloud_only_does_not_even_look_for_a_local_model() -> None:
    request = Request(messages=(Message("user", "?"),), policy="cloud_only")
    without = replace(
        parts(None, PlayedCloud(), "cloud_only"), backend=lambda: pytest.fail("opened")
    )
    *_, finished = answer(request, without, [], live=False)
    assert isinstance(finished, Finished) and finished.reply.source == "cloud"


@pytest.mark.parametrize(
    ("message", "options", "code"),
    [
        (Message("user", "What is this?", images=(Image(b"x"),)), {}, "images_unsupported"),
        (
            Message("user", "Wake me"),
            {"tools": (Tool("alarm"),), "tool_choice": "required"},
            "tools_unsupported",
        ),
        (Message("user", "word " * 9000), {}, "context_exceeded"),
    ],
)
def test_what_does_not_fit_goes_to_the_cloud_at_once(
    message: Message, options: dict[str, Any], code: str
) -> None:
    backend, cloud = ScriptedBackend.confident("never said"), PlayedCloud()
    _, reply = run(backend, cloud, message=message, **options)
    assert (reply.source, reply.decision.code) == ("cloud", f"handoff_{code}")
    assert backend.started == 0, "no local time is wasted"
    with pytest.raises(DoesNotFit):
        run(backend, cloud, message=message, policy="local_only", **options)
    with pytest.raises(DoesNotFit, match="no provider has a key"):
        run(backend, PlayedCloud(shut=NO_KEY), message=message, **options)


def test_the_runtimes_exact_count_decides_near_the_edge() -> None:
    backend, cloud = ScriptedBackend.confident("x", context_tokens=10), PlayedCloud()
    long = Message("user", "a b c d e f g h i j k l")
    _, reply = run(backend, cloud, message=long)
    assert (reply.source, reply.decision.code) == ("cloud", "handoff_context_exceeded")
    with pytest.raises(DoesNotFit):
        run(backend, cloud, message=long, policy="local_only")


def test_truncation_happens_only_where_the_cloud_cannot_help() -> None:
    backend = ScriptedBackend.confident("Understood.", context_tokens=60)
    long = Message("user", "word " * 90)
    _, reply = run(backend, PlayedCloud(), message=long, truncate=True)
    assert reply.source == "cloud" and not reply.decision.truncated
    _, reply = run(backend, PlayedCloud(shut=NO_KEY), message=long, truncate=True)
    assert (reply.text, reply.decision.truncated) == ("Understood.", True)
    _, reply = run(backend, cloud := PlayedCloud((), error=DOWN), message=long, truncate=True)
    assert (reply.source, reply.decision.truncated) == ("local", True)
    assert len(cloud.asked[0].messages[0].content) == len(long.content), "the cloud gets all of it"


def test_a_deadline_the_device_cannot_meet_sends_it_to_the_cloud() -> None:
    slow = DeviceFacts(
        backend="scripted",
        model="slow",
        quantisation="none",
        context_tokens=2048,
        prompt_tokens_per_second=10.0,
        output_tokens_per_second=1.0,
    )
    backend = ScriptedBackend.confident("late", facts=slow)
    _, reply = run(backend, PlayedCloud(), deadline_ms=500)
    assert (reply.source, reply.decision.code) == ("cloud", "handoff_deadline")
    _, reply = run(backend, PlayedCloud(shut=NO_KEY), deadline_ms=500)
    assert (reply.source, reply.decision.degraded_code) == ("local", "no_key")


def test_a_device_without_a_model_uses_the_cloud_or_says_how_to_get_one() -> None:
    _, reply = run(None, PlayedCloud())
    assert (reply.source, reply.decision.code) == ("cloud", "handoff_no_local_model")
    with pytest.raises(ModelNotFound, match="edgewise pull"):
        run(None, PlayedCloud(shut=NO_KEY))


class Pickier(ScriptedBackend):
    """Finds a keyword in the schema that it does not know."""

    @override
    def generate(
        self, request: Request, *, already: str = "", layer: int = 0, prompt_layer: int = 0
    ) -> TokenStream:
        if request.response_format is not None:
            raise SchemaUnsupported("$: 'uniqueItems' is not understood")
        return super().generate(request, already=already)


def test_a_schema_that_the_device_does_not_understand_goes_to_the_cloud_or_is_named() -> None:
    backend = Pickier.confident("[1]", facts=replace(SCRIPTED_FACTS, schemas=True))
    wanted = ResponseFormat({"type": "array", "uniqueItems": True})
    _, reply = run(backend, PlayedCloud(), response_format=wanted)
    assert (reply.source, reply.decision.code) == ("cloud", "handoff_schema_unsupported")
    assert "uniqueItems" in reply.decision.reason
    with pytest.raises(DoesNotFit, match="uniqueItems"):
        run(backend, PlayedCloud(shut=NO_KEY), response_format=wanted)
    with pytest.raises(DoesNotFit, match="uniqueItems"):
        run(backend, PlayedCloud(), policy="local_only", response_format=wanted)


def test_a_runtime_that_breaks_before_anything_was_shown_is_rescued_by_the_cloud() -> None:
    backend = ScriptedBackend([word_tokens("one two three", logprob=-0.5)], fail_after=2)
    _, reply = run(backend, PlayedCloud())
    assert (reply.source, reply.decision.code) == ("cloud", "handoff_local_failed")
    with pytest.raises(GenerationFailed):
        run(backend, PlayedCloud(shut=NO_KEY))


def test_a_continuation_that_no_longer_fits_ends_honestly() -> None:
    backend = ScriptedBackend([word_tokens(LONG, logprob=-3.0)], context_tokens=12)
    cloud = PlayedCloud(("The cloud said " + "very " * 20,), error=CloudCut("cut"))
    _, reply = run(backend, cloud)
    assert (reply.source, reply.finish_reason, reply.degraded) == ("cloud", "length", True)
    assert ContextExceeded(1, 1).code in {a.outcome for a in reply.attempts}


def test_tool_calls_of_the_cloud_reach_the_reply() -> None:
    call = ToolCall("alarm", {"at": "07:00"}, "c1")
    _, reply = run(
        ScriptedBackend.confident("x"),
        PlayedCloud((call,)),
        message=Message("user", "Wake me at seven"),
        tools=(Tool("alarm"),),
        tool_choice="required",
    )
    assert reply.tool_calls == (call,)
    assert (reply.source, reply.text) == ("cloud", "")


@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_closing_the_stream_stops_both_sides(after: int) -> None:
    backend, cloud = ScriptedBackend.doubtful(LONG), PlayedCloud(("a", "b", "c", "d"))
    request = Request(messages=(Message("user", "?"),))
    attempts: list[Attempt] = []
    stream = answer(request, parts(backend, cloud), attempts, live=True)
    for _ in range(after + 1):
        next(stream)
    stream.close()
    assert backend.closed_early == 1
    assert cloud.left_early == (1 if after else 0)
    assert attempts[-1].outcome == ("cancelled" if after else "handed_off")


def test_closing_a_kept_stream_stops_the_device() -> None:
    backend = ScriptedBackend.confident(LONG)
    attempts: list[Attempt] = []
    stream = answer(
        Request(messages=(Message("user", "?"),)),
        parts(backend, PlayedCloud()),
        attempts,
        live=True,
    )
    next(stream)
    stream.close()
    assert backend.closed_early == 1
    assert [attempt.outcome for attempt in attempts] == ["cancelled"]


def test_evidence_is_there_when_asked_for() -> None:
    _, reply = run(ScriptedBackend.confident("In Paris."), PlayedCloud(), evidence=True)
    assert [token.text for token in reply.decision.evidence] == ["In", " Paris."]
    _, reply = run(ScriptedBackend.confident("In Paris."), PlayedCloud())
    assert reply.decision.evidence == ()
    assert reply.decision.features["tokens"] == 2


def test_the_threshold_of_the_request_counts() -> None:
    middling = [word_tokens("It could be there", logprob=-0.5)]
    _, kept = run(ScriptedBackend(middling), PlayedCloud(), threshold=0.3)
    _, left = run(ScriptedBackend(middling), PlayedCloud(), threshold=0.99)
    assert (kept.source, left.source) == ("local", "cloud")


def test_only_a_handoff_the_device_could_serve_is_hurried() -> None:
    hurried, patient = PlayedCloud(), PlayedCloud()
    run(ScriptedBackend.doubtful(LONG), hurried)
    run(ScriptedBackend.doubtful(LONG), patient, policy="prefer_cloud")
    assert (hurried.patience, patient.patience) == ([2.0], [None])


# The state itself is the chance, as a logit. Below 0.1, the device need not begin.
PLAIN_HEAD = Head(4, "AAAAAA==", "AACAPw==", "AACAPw==", clip=8.0)
BY_STATE = replace(
    CHAT.uncalibrated,
    name="m",
    with_state=replace(
        CHAT.uncalibrated.with_scores(
            early=Score({"state": 1.0}, 0.0),
            final=Score({"state": 1.0}, 0.0),
            before=Score({"before": 1.0}, 0.0),
        ).with_numbers(hold_tokens=4),
        name="m:state",
        boundaries=Boundaries((0.5,), ({0: (0.1, 1.0)},)),
        heads={"state": PLAIN_HEAD, "before": replace(PLAIN_HEAD, layer=5)},
    ),
)


def with_states(text: str, *states: float) -> tuple[Token, ...]:
    """Words said with great confidence, each with its state; the last state repeats."""
    words = word_tokens(text, logprob=-0.01)
    rest = [states[-1]] * (len(words) - len(states))
    return tuple(
        replace(word, state=np.array([state], np.float32))
        for word, state in zip(words, (*states, *rest), strict=True)
    )


def seeing(*answers: tuple[Token, ...]) -> ScriptedBackend:
    return ScriptedBackend(answers, facts=replace(SCRIPTED_FACTS, states=True))


def test_the_hidden_state_hands_off_what_the_words_would_keep() -> None:
    spoken = with_states("It is in Paris", 0.0, -2.0)
    _, reply = run(seeing(spoken), PlayedCloud(), calibration=BY_STATE, live=False)
    assert (reply.source, reply.decision.code) == ("cloud", "handoff_low_confidence")
    assert reply.decision.calibration == "m:state"
    assert reply.decision.features["state"] == -2.0

    blind = ScriptedBackend([spoken])  # a runtime that promises no states
    _, reply = run(blind, PlayedCloud(), calibration=BY_STATE, live=False)
    assert (reply.source, reply.decision.calibration) == ("local", "m")
    assert "state" not in reply.decision.features


def test_what_the_device_will_not_know_is_not_begun() -> None:
    backend, cloud = seeing(with_states(LONG, -4.0, 4.0)), PlayedCloud()
    _, reply = run(backend, cloud, calibration=BY_STATE, evidence=True)
    assert (reply.source, reply.text) == ("cloud", "The cloud knows.")
    assert backend.generated == 1, "its state came with the first token"
    assert reply.decision.decided_after_tokens == 0
    assert reply.decision.reason.startswith("the chance before the first token, 0.02, is far below")
    assert reply.confidence == pytest.approx(0.018, abs=0.001)
    assert reply.to_dict()["decision"]["evidence"][0]["state"] is None


def test_without_a_cloud_the_device_begins_whatever_its_state() -> None:
    backend = seeing(with_states("In Paris.", -4.0, 4.0))
    _, reply = run(backend, PlayedCloud(shut=NO_KEY), calibration=BY_STATE)
    assert (reply.text, reply.decision.code) == ("In Paris.", "kept_confident")


@pytest.mark.parametrize("live", [True, False])
def test_a_skipped_answer_is_given_after_all_if_the_cloud_fails(live: bool) -> None:
    backend = seeing(with_states(LONG, -4.0, 4.0))
    _, reply = run(backend, PlayedCloud((), error=DOWN), calibration=BY_STATE, live=live)
    assert (reply.text, reply.source, reply.degraded) == (LONG, "local", True)
    assert reply.decision.features["state"] == 4.0


LOOP = "Once upon a time " + "the fox ran home and slept. " * 40


@pytest.mark.parametrize("live", [True, False])
def test_an_answer_that_goes_round_in_circles_is_stopped_and_doubted(live: bool) -> None:
    backend, cloud = ScriptedBackend.confident(LOOP), PlayedCloud()
    _, reply = run(backend, cloud, live=live)
    assert backend.generated < 60, "the model was stopped"
    assert reply.needs_cloud_handoff
    assert "repeats itself" in reply.decision.reason
    if live:  # shown text stays, and ends where the circles were noticed
        assert (reply.source, reply.finish_reason) == ("local", "length")
        assert reply.decision.code == "kept_in_doubt"
    else:
        assert (reply.source, reply.text) == ("cloud", "The cloud knows.")


def test_a_loop_that_may_not_leave_is_stopped_too() -> None:
    backend = ScriptedBackend.confident(LOOP)
    _, reply = run(backend, PlayedCloud(shut=NO_KEY))
    assert backend.generated < 60
    assert reply.decision.code == "kept_in_doubt" and reply.degraded
    assert "repeats itself" in reply.decision.reason


def test_a_loop_is_told_whatever_the_policy_says() -> None:
    _, reply = run(ScriptedBackend.confident(LOOP), PlayedCloud(), policy="local_only")
    assert (reply.decision.code, reply.finish_reason) == ("policy_local_only", "length")
    assert reply.decision.reason.endswith("; the answer repeats itself")
    assert "repeated itself" in summary(reply).plain


def test_the_same_answer_as_to_an_earlier_question_is_doubted() -> None:
    said = "The harbour is in the north of the town."
    asked = (
        Message("user", "Where is the harbour?"),
        Message("assistant", said),
        Message("user", "And the station?"),
    )
    attempts: list[Attempt] = []
    lent = parts(ScriptedBackend.confident(said), PlayedCloud())
    *_, last = answer(Request(messages=asked), lent, attempts, live=False)
    assert isinstance(last, Finished)
    assert last.reply.source == "cloud"
    assert "repeats an earlier one" in last.reply.decision.reason


class Days:
    """A clock that runs only while somebody works: the device 1 s a token, the cloud 2 s in all."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pace = Pace(10.0, self)

    def __call__(self) -> float:
        return self.now

    def ask(self, cloud: PlayedCloud, **options: Any) -> Reply:
        backend = Slow(self, LONG, certain=options.pop("certain", True))
        request = Request(messages=(Message("user", "Where is it?"),), **options)
        lent = parts(backend, cloud, request.policy, pace=self.pace, clock=self)
        attempts: list[Attempt] = []
        *_, last = answer(request, lent, attempts, live=True)
        assert isinstance(last, Finished)
        self.pace.watch(request, last.reply)
        return last.reply


class Slow(ScriptedBackend):
    def __init__(self, clock: Days, text: str, *, certain: bool) -> None:
        super().__init__([word_tokens(text, logprob=-0.01 if certain else -5.0)])
        self.clock = clock

    @override
    def generate(self, request: Request, **options: Any) -> TokenStream:
        for item in super().generate(request, **options):
            self.clock.now += 1.0
            yield item


class Quick(PlayedCloud):
    def __init__(self, clock: Days, **options: Any) -> None:
        super().__init__(**options)
        self.clock = clock

    @override
    def stream(
        self, request: Request, journal: list[Attempt], **options: Any
    ) -> Generator[Chunk, None, None]:
        yield from super().stream(request, journal, **options)
        self.clock.now += 2.0
        journal[-1] = replace(journal[-1], total_ms=2000.0)


def test_a_device_that_is_slower_than_the_cloud_hands_off_when_both_are_known() -> None:
    days = Days()
    cloud = Quick(days)
    for _ in range(3):
        assert days.ask(cloud).source == "local"
    for _ in range(3):
        doubted = days.ask(cloud, certain=False)
        assert doubted.decision.code == "handoff_low_confidence"
    cloud.patience.clear()
    slow = days.ask(cloud)
    assert (slow.source, slow.decision.code) == ("cloud", "handoff_slow_device")
    assert slow.decision.reason.startswith("the device would need about ")
    assert slow.decision.reason.endswith(" s, the cloud usually takes 2.0 s")
    assert [attempt.place for attempt in slow.attempts] == ["cloud"], "the device did not begin"
    assert cloud.patience == [None], "a quicker cloud is not hurried"


def known() -> Days:
    days = Days()
    for certain in (True, False):
        for _ in range(3):
            days.ask(Quick(days), certain=certain)
    return days


def test_what_may_not_leave_or_wants_to_stay_is_answered_slowly_and_is_not_degraded() -> None:
    days = known()
    for options in ({"private": True}, {"policy": "local_only"}, {"threshold": 0.0}):
        reply = days.ask(Quick(days), **options)
        assert (reply.source, reply.degraded) == ("local", False), options
    shut = days.ask(Quick(days, shut=NO_KEY))
    assert (shut.source, shut.decision.code, shut.degraded) == ("local", "kept_confident", False)


def test_if_the_quicker_cloud_fails_the_slow_device_answers() -> None:
    days = known()
    reply = days.ask(PlayedCloud((), error=DOWN))
    assert (reply.source, reply.decision.code) == ("local", "fallback_local")
    assert reply.decision.degraded_code == "cloud_refused"


# -- typed answers ---------------------------------------------------------------------------------

TOWN = ResponseFormat(
    {
        "type": "object",
        "properties": {"town": {"type": "string"}, "day": {"type": "string", "format": "date"}},
    }
)
TYPED = replace(
    CHAT.uncalibrated.with_scores(typed=Score({"min_logprob": 2.0}, 2.0)),
    name="m",
    measured=replace(
        CHAT.uncalibrated.measured,
        risk=dict.fromkeys(("whole", "stream"), (RiskRow(0.5, 999, 0),)),
        risk_rows=999,
    ),
)


def holding(answers: list[tuple[Token, ...]]) -> ScriptedBackend:
    """A device that can hold an answer to a schema."""
    return ScriptedBackend(answers, facts=replace(SCRIPTED_FACTS, schemas=True))


def typed(value: str, logprob: float = -0.01) -> tuple[Token, ...]:
    """A town of which the model is so sure, in a form that it would not have chosen."""
    return (
        *word_tokens('{"town": "', logprob=-9.0),
        *word_tokens(value, logprob=logprob),
        *word_tokens('"}', logprob=logprob),
    )


def test_what_the_grammar_asks_for_is_no_evidence() -> None:
    _, sure = run(holding([typed("Oslo")]), PlayedCloud(), response_format=TOWN)
    assert (sure.source, sure.parsed) == ("local", {"town": "Oslo"})
    assert sure.confidence is not None and sure.confidence > 0.8
    _, unsure = run(holding([typed("Oslo", -4.0)]), PlayedCloud(), response_format=TOWN)
    assert (unsure.source, unsure.decision.code) == ("cloud", "handoff_low_confidence")


def test_the_device_is_told_the_schema_and_the_cloud_gets_what_was_asked() -> None:
    backend, cloud = holding([typed("Oslo", -4.0)]), PlayedCloud()
    run(backend, cloud, response_format=TOWN)
    assert backend.requests[0].messages[-1].content == (
        "Where is it?\n\nAnswer in JSON of exactly this form, and with nothing else:\n"
        '{\n  "town": string,  // may be left out\n  "day": "YYYY-MM-DD"  // may be left out\n}'
    )
    assert [each.content for each in cloud.asked[0].messages] == ["Where is it?"]


def test_a_typed_stream_is_judged_whole_too() -> None:
    events, reply = run(holding([typed(LONG)]), PlayedCloud(), response_format=TOWN)
    assert [type(event) for event in events] == [TextDelta, Finished]
    assert reply.decision.kept_at is None


def test_a_confidence_that_was_not_measured_on_typed_answers_is_unverified() -> None:
    plain = replace(CHAT.uncalibrated, name="m")
    for calibration, name, verified in ((plain, "m:untyped", False), (TYPED, "m:typed", True)):
        _, reply = run(
            holding([typed("Oslo")]),
            PlayedCloud(),
            calibration=calibration,
            response_format=TOWN,
        )
        assert (reply.decision.calibration, reply.decision.verified) == (name, verified)
        assert reply.decision.reason.startswith("unverified ") is not verified


def test_no_risk_is_promised_for_typed_answers() -> None:
    backend = holding([typed("Oslo")])
    asked: dict[str, Any] = {"calibration": TYPED, "response_format": TOWN, "max_error": 0.1}
    _, sent = run(backend, PlayedCloud(), **asked)
    assert (sent.source, sent.decision.code) == ("cloud", "handoff_risk_unreachable")
    _, stays = run(backend, PlayedCloud(shut=NO_KEY), **asked)
    assert (stays.source, stays.decision.code) == ("local", "risk_unreachable")
    _, words = run(
        ScriptedBackend.confident("Oslo."), PlayedCloud(), calibration=TYPED, max_error=0.1
    )
    assert words.source == "local", "in words it is"


@pytest.mark.parametrize("shut", [None, NO_KEY])
def test_a_year_that_nobody_said_is_refused(shut: CloudClosed | None) -> None:
    written = word_tokens('{"day": "5262-12-05"}', logprob=-0.01)
    message = Message("user", "It is on 5 December 2026. When is it?")
    _, reply = run(
        holding([written]), PlayedCloud(shut=shut), message=message, response_format=TOWN
    )
    why = "the answer breaks its schema: $.day: the request says nothing of the year 5262"
    assert why in reply.decision.reason
    if shut is None:
        assert (reply.source, reply.decision.code) == ("cloud", "handoff_schema_broken")
    else:
        assert (reply.source, reply.parsed, reply.degraded) == ("local", None, True)
        assert reply.needs_cloud_handoff


def test_an_answer_that_was_cut_is_judged_as_it_stands() -> None:
    sure, cloud = ScriptedBackend.confident(LONG), PlayedCloud()
    _, reply = run(sure, cloud, max_tokens=5)
    assert (reply.text, reply.finish_reason) == ("I am really not sure", "length")
    assert (reply.source, reply.decision.code) == ("local", "kept_confident")
    _, reply = run(ScriptedBackend.doubtful(LONG), cloud, max_tokens=5)
    assert reply.source == "cloud"
