"""Seeing: a device skill answers what it can about pictures, the cloud what it cannot.

Read from the top: `answer` reads the question and plans; `_from_device` looks and judges;
`_from_cloud` hands off; `_tell` is what the device says of pictures when the question is beyond it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

from edgewise.cloud.provider import Cloud
from edgewise.decide.calibration import Calibration, Score
from edgewise.decide.fit import Misfit
from edgewise.decide.gate import Gate
from edgewise.decide.objective import (
    Objective,
    find_objective,
)
from edgewise.decide.policy import Plan, Policy, asked
from edgewise.errors import CloudClosed, CloudError, DoesNotFit, EdgewiseError, LocalError
from edgewise.flows.route import (
    Draft,
    LocalAttempt,
)
from edgewise.local.backend import VisionBackend
from edgewise.types.messages import Request, ToolCall
from edgewise.types.objectives import (
    high_enough,
    needed,
)
from edgewise.types.pictures import (
    SeenReply,
    Sight,
)
from edgewise.types.replies import Attempt, Event, Finished, Reply, Switched
from edgewise.types.tokens import Finish
from edgewise.vision.answers import SeenAnswer, answer_from, describe
from edgewise.vision.confidence import SightCalibration
from edgewise.vision.pictures import measure_quality
from edgewise.vision.question import (
    Skill,
    Wanted,
    read_question,
)

if TYPE_CHECKING:
    from edgewise.local.backend import PictureArray

BOTH: tuple[Skill, ...] = ("reads text", "names objects")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the engine lends. `skill` raises a LocalError where a skill cannot be had."""

    skill: Callable[[Skill], VisionBackend]
    cloud: Cloud
    policy: Policy
    calibration: Callable[[VisionBackend], SightCalibration]
    patience_s: float
    clock: Callable[[], float]


@dataclass(slots=True)
class _Walk:
    """One request on its way through this file."""

    draft: Draft
    parts: Parts
    pictures: Sequence[PictureArray]
    live: bool
    wanted: Wanted | None
    misfit: Misfit | None
    skill: str = ""
    sights: list[Sight] = field(default_factory=list)
    answer: SeenAnswer | None = None


def answer(
    request: Request,
    pictures: Sequence[PictureArray],
    notes: Sequence[str],
    parts: Parts,
    attempts: list[Attempt],
    *,
    live: bool,
) -> Generator[Event, None, None]:
    """Yield events, the last one `Finished` with a `SeenReply`."""
    started = parts.clock()
    wanted = read_question(_question(request))
    misfit, calibration = _look_at_device(request, wanted, parts)
    objective = Objective(calibration.threshold)
    if misfit is None and request.policy != "cloud_only":
        objective = find_objective(request, calibration, paced=True)
    gate = Gate(_as_gate(calibration), objective.threshold, objective.words, objective.usual)
    draft = Draft(request, gate, attempts, started)
    walk = _Walk(draft, parts, pictures, live, wanted, misfit or objective.misfit)
    yield from _follow(walk, _plan(walk))
    yield Finished(_reply(walk, notes, parts.clock()))


def _question(request: Request) -> str:
    return next((m.content for m in reversed(request.messages) if m.role == "user"), "")


def _look_at_device(
    request: Request, wanted: Wanted | None, parts: Parts
) -> tuple[Misfit | None, SightCalibration]:
    nobody = SightCalibration(name="")
    if request.policy == "cloud_only":
        return None, nobody
    if request.response_format is not None:
        return Misfit("schema_unsupported", "device skills do not write JSON"), nobody
    if wanted is None:
        reason = "no device skill answers this question about a picture"
        return Misfit("no_device_skill", reason, soft=True), nobody
    try:
        return None, parts.calibration(parts.skill(wanted.skill))
    except LocalError as error:
        return Misfit(error.code, str(error)), nobody


def _as_gate(calibration: SightCalibration) -> Calibration:
    """The name and threshold as a gate and the record know them; the chances are ours."""
    plain = Score({}, 0.0)
    return Calibration(
        name=calibration.name, early=plain, final=plain, threshold=calibration.threshold
    )


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
    return DoesNotFit(plan.reason)


def _from_device(walk: _Walk, plan: Plan) -> Iterator[Event]:
    draft = walk.draft
    if walk.wanted is None:
        yield from _tell(walk)
        return
    try:
        found = _judge(walk, walk.wanted)
    except LocalError as error:
        if not plan.may_hand_off or draft.request.handoff == "signal":
            raise
        draft.conclude("handoff_local_failed", str(error))
        yield from _from_cloud(walk, replace(plan, local_backup=False))
        return
    draft.confidence = found.confidence
    draft.doubted = draft.gate.doubts(found.confidence)
    if draft.doubted and plan.may_hand_off:
        draft.attempts[-1] = replace(draft.attempts[-1], outcome="handed_off")
        if draft.request.handoff == "signal":
            _signal(draft, "low_confidence", _doubt(walk))
            return
        draft.conclude("handoff_low_confidence", _doubt(walk))
        yield from _from_cloud(walk, replace(plan, local_backup=True, hurried=True))
        return
    _conclude_kept(walk, plan)
    yield from draft.show(found.text, "local", walk.parts.clock())


def _judge(walk: _Walk, wanted: Wanted) -> SeenAnswer:
    """Look at every picture with the skill, and make an answer of it."""
    vision_skill = _look(walk, wanted.skill)
    walk.skill = wanted.skill
    walk.answer = answer_from(wanted, walk.sights, walk.parts.calibration(vision_skill))
    return walk.answer


def _look(walk: _Walk, skill: Skill) -> VisionBackend:
    parts, draft = walk.parts, walk.draft
    vision_skill = parts.skill(skill)
    with LocalAttempt(draft.request, draft.attempts, vision_skill.facts(), parts.clock) as attempt:
        attempt.finish = Finish("stop")  # no tokens: nothing is generated
        sights = [vision_skill.look(pixels) for pixels in walk.pictures]
        attempt.outcome = "answered"
    if not walk.sights:
        walk.sights = [
            replace(sight, quality=measure_quality(pixels))
            for sight, pixels in zip(sights, walk.pictures, strict=True)
        ]
        return vision_skill
    walk.sights = [
        replace(old, lines=old.lines or new.lines, things=old.things or new.things)
        for old, new in zip(walk.sights, sights, strict=True)
    ]
    return vision_skill


def _tell(walk: _Walk) -> Iterator[Event]:
    """The question is beyond the device: it says so, and what it can see."""
    draft, finder = walk.draft, None
    told = []
    for skill in BOTH:
        try:
            vision_skill = _look(walk, skill)
        except LocalError as error:
            told.append(str(error))
            continue
        walk.skill = ", ".join(filter(None, (walk.skill, skill)))
        finder = walk.parts.calibration(vision_skill) if skill == "names objects" else finder
    if not walk.sights:
        raise DoesNotFit(f"{draft.reason}; and the device sees nothing: {'; '.join(told)}")
    draft.confidence, draft.doubted = 0.0, True  # it is no answer to the question
    draft.degraded_code = draft.degraded_code or "no_device_skill"
    if walk.misfit is not None and draft.code == "policy_local_only":
        draft.conclude(walk.misfit.code, walk.misfit.reason)
    words = describe(walk.sights, finder)
    yield from draft.show(words, "local", walk.parts.clock())


def _from_cloud(walk: _Walk, plan: Plan) -> Iterator[Event]:
    draft, parts = walk.draft, walk.parts
    if draft.code.startswith("handoff_"):
        yield Switched("cloud", draft.code, draft.reason, draft.confidence)
    # Hurried only where the device has an answer: what it can tell instead is second best.
    patience = parts.patience_s if plan.hurried and walk.answer is not None else None
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
        if not plan.local_backup or draft.text:
            raise
        yield from _fall_back(walk, error)


def _fall_back(walk: _Walk, error: CloudError) -> Iterator[Event]:
    """The cloud did not deliver: the device says what it can, and the reply says so."""
    draft = walk.draft
    draft.degraded_code = error.code
    draft.tool_calls.clear()
    draft.conclude("fallback_local", f"{draft.reason}; but the cloud did not answer: {error}")
    yield Switched("local", error.code, str(error), draft.confidence)
    if walk.wanted is None:
        yield from _tell(walk)
        return
    found = walk.answer or _judge(walk, walk.wanted)
    draft.confidence = found.confidence
    draft.doubted = draft.gate.doubts(found.confidence)
    draft.reinstate()
    yield from draft.show(found.text, "local", walk.parts.clock())


def _conclude_kept(walk: _Walk, plan: Plan) -> None:
    draft = walk.draft
    if plan.code != "started_local":
        return  # another policy's words stand
    if not draft.doubted:
        enough = high_enough(draft.gate.objective)
        sure = f"{walk.skill}: confidence {draft.confidence:.2f} is {enough}"
        draft.conclude("kept_confident", sure)
        return
    draft.conclude("kept_in_doubt", _doubt(walk))
    shut = walk.parts.cloud.closed(draft.request)
    if shut is not None and not plan.may_hand_off:
        draft.degraded_code = shut.code
        draft.reason += f"; the cloud is closed: {shut}"


def _doubt(walk: _Walk) -> str:
    draft = walk.draft
    below = needed(draft.gate.threshold, draft.gate.objective)
    return f"{walk.skill}: confidence {draft.confidence:.2f} is below {below}"


def _signal(draft: Draft, code: str, reason: str) -> None:
    draft.signalled = True
    draft.conclude(f"signalled_{code}", reason)


def _reply(walk: _Walk, notes: Sequence[str], now: float) -> SeenReply:
    reply = walk.draft.reply(now)
    features = dict(walk.answer.features) if walk.answer else {}
    given = {each.name: getattr(reply, each.name) for each in fields(Reply)}
    given["decision"] = replace(reply.decision, features=features)
    return SeenReply(
        **given,
        skill=walk.skill if reply.source == "local" else "",
        sights=tuple(walk.sights),
        notes=tuple(notes),
    )
