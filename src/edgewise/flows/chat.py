"""Chat: the device answers, the gate watches, the cloud takes over where it must.

Read from the top: `answer` plans and starts; `_from_device` and `_from_cloud` are the two ways an
answer can come about; `_fall_back` is what happens when the cloud does not deliver.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, fields, replace

from edgewise.cloud.provider import Cloud
from edgewise.decide.calibration import Calibration
from edgewise.decide.fit import (
    Capacity,
    Misfit,
    drop_oldest,
    find_misfit,
)
from edgewise.decide.gate import Gate, Verdict
from edgewise.decide.meter import Meter
from edgewise.decide.objective import find_objective
from edgewise.decide.policy import Plan, Policy, asked
from edgewise.errors import (
    CloudClosed,
    CloudError,
    ContextExceeded,
    DoesNotFit,
    EdgewiseError,
    GenerationFailed,
    LocalError,
    ModelNotFound,
    SchemaUnsupported,
)
from edgewise.flows.route import (
    Draft,
    LocalAttempt,
)
from edgewise.local.backend import ChatBackend
from edgewise.types.measured import Judged
from edgewise.types.messages import Request, ToolCall
from edgewise.types.objectives import (
    high_enough,
    needed,
)
from edgewise.types.replies import Attempt, Event, Finished, Switched
from edgewise.types.tokens import Finish

MOST_TRUNCATIONS = 4
LEAST_ROOM_TOKENS = 16  # kept free beside the answer when a prompt is truncated: counts are scaled


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the engine lends to a chat. `backend` raises ModelNotFound where there is none."""

    backend: Callable[[], ChatBackend]
    cloud: Cloud
    policy: Policy
    calibration: Callable[[ChatBackend | None], Calibration]
    patience_s: float
    clock: Callable[[], float]


@dataclass(slots=True)
class _Walk:
    """One request on its way through this file."""

    draft: Draft
    parts: Parts
    backend: ChatBackend | None
    live: bool
    local_request: Request  # the same request, or what truncation left of it
    misfit: Misfit | None = None
    held: str = ""  # local text that was generated but not shown
    local_done: bool = False


def answer(
    request: Request, parts: Parts, attempts: list[Attempt], *, live: bool
) -> Generator[Event, None, None]:
    """Yield events, the last one `Finished`. `live` callers see text as it is decided."""
    backend, misfit = _look_at_device(request, parts)
    calibration = parts.calibration(backend)
    threshold = calibration.threshold if request.threshold is None else request.threshold
    gate = Gate(calibration, threshold)
    if request.has_objective and backend is not None:
        judged: Judged = "stream" if live else "whole"
        objective = find_objective(request, calibration, judged, paced=True)
        gate = Gate(calibration, objective.threshold, objective.words, objective.usual)
        misfit = misfit or objective.misfit
    draft = Draft(request, gate, attempts, parts.clock())
    walk = _Walk(draft, parts, backend, live, request, misfit)
    try:
        yield from _follow(walk, _plan(walk))
    except (ContextExceeded, SchemaUnsupported) as error:
        if walk.misfit is not None:
            raise
        # The runtime looked closer, before it computed anything: plan again.
        shorter = request.truncate and isinstance(error, ContextExceeded)
        walk.misfit = Misfit(error.code, str(error), soft=shorter)
        yield from _follow(walk, _plan(walk))
    yield Finished(draft.reply(parts.clock()))


def _look_at_device(request: Request, parts: Parts) -> tuple[ChatBackend | None, Misfit | None]:
    if request.policy == "cloud_only":
        return None, None  # never used, so never fetched or opened
    try:
        backend = parts.backend()
    except ModelNotFound as error:
        return None, Misfit(error.code, str(error))
    facts = backend.facts()
    read = {each.name: getattr(facts, each.name) for each in fields(Capacity)}
    return backend, find_misfit(request, Capacity(**read))


def _plan(walk: _Walk) -> Plan:
    request = walk.draft.request
    return walk.parts.policy(asked(request, walk.misfit, walk.parts.cloud.closed(request)))


def _follow(walk: _Walk, plan: Plan) -> Iterator[Event]:
    draft = walk.draft
    draft.conclude(plan.code, plan.reason)
    draft.degraded_code = plan.degraded_code
    if plan.first is None:
        raise _refusal(draft.request, plan)
    if plan.first == "local":
        yield from _from_device(walk, plan)
    elif draft.request.handoff == "signal":
        _signal(draft, plan.code.removeprefix("handoff_"), plan.reason)
    else:
        yield from _from_cloud(walk, plan)


def _refusal(request: Request, plan: Plan) -> EdgewiseError:
    if request.policy == "cloud_only":
        return CloudClosed(plan.reason, code=plan.code)
    if plan.code == ModelNotFound.code:
        return ModelNotFound(plan.reason)
    return DoesNotFit(plan.reason)


def _from_device(walk: _Walk, plan: Plan) -> Iterator[Event]:
    """The device first; what the gate doubts goes to the cloud before any of it was shown."""
    draft = walk.draft
    try:
        verdict = yield from _speak(walk, may_leave=plan.may_hand_off)
    except GenerationFailed as error:
        if draft.text or not plan.may_hand_off or draft.request.handoff == "signal":
            raise
        draft.conclude("handoff_local_failed", str(error))
        yield from _from_cloud(walk, plan)
        return
    _measure(draft)
    if verdict is not Verdict.HAND_OFF:
        _conclude_kept(walk, plan)
        return
    draft.doubted = True
    if not walk.local_done:  # stopped half way: the early score is the one that decided
        draft.confidence = draft.gate.early_confidence(draft.meter.reading())
    if draft.request.handoff == "signal":
        _signal(draft, "low_confidence", _doubt(draft))
        return
    draft.conclude("handoff_low_confidence", _doubt(draft))
    yield from _from_cloud(walk, replace(plan, local_backup=True, hurried=True))


def _from_cloud(walk: _Walk, plan: Plan) -> Iterator[Event]:
    """The cloud's answer, shown as it comes; the device's where the plan has that as a backup."""
    draft, parts = walk.draft, walk.parts
    if draft.code.startswith("handoff_"):
        yield Switched("cloud", draft.code, draft.reason, draft.confidence)
    patience = parts.patience_s if plan.hurried else None
    chunks = parts.cloud.stream(draft.request, draft.attempts, live=walk.live, patience_s=patience)
    try:
        with closing(chunks):
            for chunk in chunks:
                if isinstance(chunk, str):
                    yield from draft.show(chunk, "cloud", parts.clock())
                elif isinstance(chunk, ToolCall):
                    draft.tool_calls.append(chunk)
                elif isinstance(chunk, Finish):
                    draft.finish = chunk
    except CloudError as error:
        if plan.local_backup:
            yield from _fall_back(walk, error)
            return
        if draft.request.policy == "cloud_only" or walk.misfit is None:
            raise
        raise DoesNotFit(f"{walk.misfit.reason}; and the cloud failed: {error}") from error


def _fall_back(walk: _Walk, error: CloudError) -> Iterator[Event]:
    """The cloud did not deliver: the device answers, and the reply says so."""
    draft = walk.draft
    draft.degraded_code = error.code
    draft.tool_calls.clear()
    draft.conclude("fallback_local", f"{draft.reason}; but the cloud did not answer: {error}")
    yield Switched("local", error.code, str(error), draft.confidence)
    if draft.text or (draft.request.response_format and not walk.local_done):
        # What was shown stays, and the device continues it. A grammar has to start afresh.
        walk.held, draft.meter = "", Meter()
        try:
            yield from _speak(walk, may_leave=False, already=draft.text)
        except LocalError as failure:
            if not draft.text:
                raise
            draft.reason += f"; and the device could not continue it: {failure}"
            draft.finish = Finish("length")
            return
    elif walk.local_done:
        yield from _show_held(walk)
        draft.reinstate()
    else:
        already = walk.held
        yield from _show_held(walk)
        yield from _speak(walk, may_leave=False, already=already)
    _measure(draft)


def _speak(walk: _Walk, *, may_leave: bool, already: str = "") -> Generator[Event, None, Verdict]:
    """Generate on the device; a prompt that may be truncated is, until the runtime takes it."""
    for _ in range(MOST_TRUNCATIONS):
        try:
            return (yield from _speak_once(walk, may_leave=may_leave, already=already))
        except ContextExceeded as error:
            if walk.misfit is None or not walk.misfit.soft or not walk.local_request.truncate:
                raise
            _truncate(walk, error)
    return (yield from _speak_once(walk, may_leave=may_leave, already=already))


def _speak_once(walk: _Walk, *, may_leave: bool, already: str) -> Generator[Event, None, Verdict]:
    """Tokens through meter and gate: HOLD keeps text back, KEEP shows it, HAND_OFF stops."""
    draft, backend = walk.draft, walk.backend
    assert backend is not None, "a plan that starts on the device has one"
    verdict = Verdict.HOLD if may_leave else Verdict.KEEP
    judge_whole = may_leave and not walk.live  # nobody watches: judge it before it is shown
    with (
        LocalAttempt(draft.request, draft.attempts, backend.facts(), walk.parts.clock) as attempt,
        closing(backend.generate(walk.local_request, already=already)) as tokens,
    ):
        for item in tokens:
            if isinstance(item, Finish):
                draft.finish = attempt.finish = item
                walk.local_done = True
                break
            attempt.count()
            draft.hear(item)
            walk.held += item.text
            if verdict is Verdict.HOLD:
                verdict = draft.gate.judge(draft.meter.reading(), attempt.tokens)
                draft.decided_after = attempt.tokens
            if verdict is Verdict.HAND_OFF:
                break
            if verdict is Verdict.KEEP and not judge_whole:
                yield from _show_held(walk)
        if verdict is Verdict.HOLD or (judge_whole and verdict is Verdict.KEEP):
            verdict = draft.gate.judge_whole(draft.meter.reading())
        if verdict is Verdict.KEEP:
            yield from _show_held(walk)
        attempt.outcome = "handed_off" if verdict is Verdict.HAND_OFF else "answered"
    return verdict


def _show_held(walk: _Walk) -> Iterator[Event]:
    text, walk.held = walk.held, ""
    yield from walk.draft.show(text, "local", walk.parts.clock())


def _measure(draft: Draft) -> None:
    draft.confidence = draft.gate.confidence(draft.meter.reading())
    draft.doubted = draft.doubted or draft.gate.doubts(draft.confidence)


def _conclude_kept(walk: _Walk, plan: Plan) -> None:
    draft = walk.draft
    if plan.code != "started_local":
        return  # another policy's words stand
    if not draft.doubted:
        sure = high_enough(draft.gate.objective)
        draft.conclude("kept_confident", f"confidence {draft.confidence:.2f} is {sure}")
        return
    draft.conclude("kept_in_doubt", _doubt(draft))
    shut = walk.parts.cloud.closed(draft.request)
    if shut is not None and not plan.may_hand_off:
        draft.degraded_code = shut.code
        draft.reason += f"; the cloud is closed: {shut}"


def _doubt(draft: Draft) -> str:
    gate = draft.gate
    return f"confidence {draft.confidence:.2f} is below {needed(gate.threshold, gate.objective)}"


def _signal(draft: Draft, code: str, reason: str) -> None:
    draft.signalled = True
    draft.conclude(f"signalled_{code}", reason)


def _truncate(walk: _Walk, error: ContextExceeded) -> None:
    room = min(walk.local_request.max_tokens, error.context_tokens // 4) + LEAST_ROOM_TOKENS
    messages, needed = walk.local_request.messages, error.prompt_tokens
    kept = drop_oldest(messages, needed, error.context_tokens - room)
    walk.local_request = replace(walk.local_request, messages=kept)
    walk.draft.truncated = True
