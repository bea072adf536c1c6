"""Pictures: a vision skill of the device answers what it can, the cloud the rest.

Read from the top: `answer` reads the question and routes. `Seeing` says how the device looks and
judges, and what it says about pictures if it cannot answer the question.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Protocol

from typing_extensions import override

from edgewise.cloud.provider import Cloud
from edgewise.decide.calibration import Calibration
from edgewise.decide.gate import Gate
from edgewise.decide.policy import Misfit, Objective, Plan, Policy, find_objective
from edgewise.errors import DeadlinePassed, DoesNotFit, LocalError
from edgewise.flows import chat
from edgewise.flows.chat import ChatNeeds, Retold, TextFlow
from edgewise.flows.route import LocalAttempt, route
from edgewise.local.backend import VisionBackend, guarded
from edgewise.types.messages import Request
from edgewise.types.replies import Attempt, Event, Finish, Finished, Reply, SeenReply, Sight
from edgewise.vision.answers import (
    SeenAnswer,
    answer_from,
    chance_of_rows,
    describe,
    describe_all,
    is_about,
    tell_words,
)
from edgewise.vision.pictures import measure_quality
from edgewise.vision.question import Skill, SkillQuestion, read_question

if TYPE_CHECKING:
    from edgewise.local.backend import PictureArray

NOT_THERE = "It does not say"
QUESTION = (
    "This is the text of a picture, row by row:\n\n{told}\n\n"
    "Question: {question}\n"
    "Answer in a few words, with what stands there. If it is not there, answer: {unsaid}."
)
BOTH: tuple[Skill, ...] = ("reads text", "names objects")


class Pictures(Protocol):
    """Those the question is about, as often as they are asked for; one at a time is in memory."""

    notes: tuple[str, ...]

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[PictureArray]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SeeNeeds:
    """What the engine provides. `skill` raises a LocalError if a skill is not available."""

    skill: Callable[[Skill], VisionBackend]
    cloud: Cloud
    policy: Policy
    calibration: Callable[[VisionBackend], Calibration]
    patience_s: float
    clock: Callable[[], float]
    chat: ChatNeeds | None = None  # answers what no skill does, from what the skills read


def answer(
    request: Request,
    pictures: Pictures,
    parts: SeeNeeds,
    attempts: list[Attempt],
    *,
    live: bool,
) -> Generator[Event, None, None]:
    """Yield events, the last one `Finished` with a `SeenReply`."""
    asked = [message.content for message in request.messages if message.role == "user"]
    wanted = read_question(asked[-1] if asked else "")
    misfit, calibration = _look_at_device(request, wanted, parts)
    objective = Objective(calibration.threshold)
    if misfit is None and request.policy != "cloud_only":
        objective = find_objective(request, calibration, paced=True)
    gate = Gate(calibration, objective.threshold, objective.words, objective.usual)
    flow = Seeing(request, parts, attempts, live=live, gate=gate, misfit=misfit or objective.misfit)
    flow.lent, flow.pictures, flow.wanted = parts, pictures, wanted
    if wanted is None and misfit is not None and misfit.soft and _may_retell(request, parts):
        retold = flow.retell(asked[-1] if asked else "")
        if retold is not None:
            yield from _answer_from_words(request, retold, parts, flow, live=live)
            return
    yield from route(flow)
    flow.own_up()
    yield Finished(flow.reply())


def _by_cloud(attempts: Sequence[Attempt]) -> bool:
    return any(each.place == "cloud" and each.outcome == "answered" for each in attempts)


def _may_retell(request: Request, parts: SeeNeeds) -> bool:
    """Not where the cloud comes first anyway, nor where a share of right answers is promised: that
    was measured on questions, not on what is read in pictures."""
    first = request.policy not in ("prefer_cloud", "cloud_only")
    return parts.chat is not None and first and not request.has_objective


def _answer_from_words(
    request: Request, retold: Retold, parts: SeeNeeds, flow: Seeing, *, live: bool
) -> Generator[Event, None, None]:
    """The chat model answers from what was read; the cloud is asked with the pictures."""
    assert parts.chat is not None, "the question was retold for it"
    flow.skill = "reads text"
    told = chat.answer(request, parts.chat, flow.draft.attempts, live=live, retold=retold)
    for event in told:
        if isinstance(event, Finished):
            given = {each.name: getattr(event.reply, each.name) for each in fields(Reply)}
            decision = event.reply.decision
            if flow.late and event.reply.source == "local":
                code = decision.degraded_code or DeadlinePassed.code
                given |= {"degraded": True, "decision": replace(decision, degraded_code=code)}
            skill = flow.skill if event.reply.source in ("local", "mixed") else ""
            sights = tuple(flow.sights)
            event = Finished(SeenReply(**given, skill=skill, sights=sights, notes=flow.notes))
        yield event


def _look_at_device(
    request: Request, wanted: SkillQuestion | None, parts: SeeNeeds
) -> tuple[Misfit | None, Calibration]:
    nobody = Calibration(name="")
    if request.policy == "cloud_only":
        return None, nobody
    if request.response_format is not None:
        return Misfit("schema_unsupported", "device skills do not write JSON"), nobody
    if wanted is None:
        reason = "no device skill answers this question about a picture"
        return Misfit("no_device_skill", reason, soft=True), nobody
    missing: LocalError | None = None
    for skill in BOTH if wanted.asked == "describe" else (wanted.skill,):
        try:
            return None, parts.calibration(parts.skill(skill))
        except LocalError as error:
            missing = missing or error
    assert missing is not None, "there is a skill to try"
    return Misfit(missing.code, str(missing)), nobody


class Seeing(TextFlow):
    """One question about pictures."""

    lent: SeeNeeds
    pictures: Pictures
    wanted: SkillQuestion | None  # what the question asks for, if a device skill can answer it
    skill: str = ""
    sights: Sequence[Sight] = ()
    looked: tuple[Skill, ...] = ()  # the skills that have seen the pictures
    is_late = False  # the time was up before all pictures were looked at
    answer: SeenAnswer | None = None

    @override
    def try_device(self, plan: Plan) -> Generator[Event, None, bool]:
        draft = self.draft
        if self.wanted is None:
            yield from self._tell()
            return False
        found = self._judge(self.wanted)
        if draft.doubted and plan.may_hand_off:
            draft.attempts[-1] = replace(draft.attempts[-1], outcome="handed_off")
            return True
        yield from draft.show(found.text, "local", self.clock())
        return False

    @override
    def ask_cloud(self, patience_s: float | None) -> Iterator[Event]:
        # Hurried only if the device has an answer; a description is second best.
        yield from super().ask_cloud(patience_s if self.answer is not None else None)

    @override
    def may_fall_back(self) -> bool:
        return not self.draft.text

    @override
    def fall_back(self) -> Iterator[Event]:
        draft = self.draft
        draft.tool_calls.clear()
        if self.wanted is None:
            yield from self._tell()
            return
        found = self.answer or self._judge(self.wanted)
        draft.reinstate()
        yield from draft.show(found.text, "local", self.clock())

    @override
    def doubt(self) -> str:
        return f"{self.skill}: {self.late or super().doubt()}"

    @override
    def surety(self) -> str:
        return f"{self.skill}: {super().surety()}"

    def reply(self) -> SeenReply:
        draft = self.draft
        if self.late and not draft.signalled and not _by_cloud(draft.attempts):
            draft.degraded_code = draft.degraded_code or DeadlinePassed.code
            draft.reason += "" if self.late in draft.reason else f"; {self.late}"
        features = dict(self.answer.features) if self.answer else {}
        given = draft.reply_fields(self.clock(), features)
        skill = self.skill if given["source"] == "local" else ""
        return SeenReply(**given, skill=skill, sights=tuple(self.sights), notes=self.notes)

    @property
    def late(self) -> str:
        """What was not looked at, because the time was up; empty if all was."""
        if not self.is_late:
            return ""
        looked = f"{len(self.sights)} of {len(self.pictures)} images were looked at"
        return f"{looked}: the time was up ({self.request.deadline_ms or 0:g} ms)"

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self.pictures.notes, *filter(None, (self.late,)))

    def retell(self, question: str) -> Retold | None:
        """The question with the text of the pictures in their place; None if it is not about it."""
        assert self.lent.chat is not None, "it is asked for what the chat model may answer"
        try:
            self.lent.chat.backend()
            read = self.lent.calibration(self._look("reads text"))
        except LocalError:
            return None
        if not is_about(question, self.sights):
            return None
        words = QUESTION.format(
            told=tell_words(self.sights), question=question.strip(), unsaid=NOT_THERE
        )
        messages = [replace(message, images=()) for message in self.request.messages]
        last = max(place for place, each in enumerate(messages) if each.role == "user")
        messages[last] = replace(messages[last], content=words)
        chance = math.prod(chance_of_rows(sight, read) for sight in self.sights if sight.lines)
        chance = 0.0 if self.late else chance  # it may stand in what was not read
        return Retold(replace(self.request, messages=tuple(messages)), chance, NOT_THERE)

    def _judge(self, wanted: SkillQuestion) -> SeenAnswer:
        """Look at every picture with the skill, and make an answer."""
        if wanted.asked == "describe":
            self.answer = self._describe()
        else:
            vision_skill = self._look(wanted.skill)
            self.skill = wanted.skill
            self.answer = answer_from(wanted, self.sights, self.lent.calibration(vision_skill))
        # What it is asked about may be in a picture that nobody looked at.
        self.draft.confidence = 0.0 if self.late else self.answer.confidence
        self.draft.doubted = bool(self.late) or self.draft.gate.doubts(self.answer.confidence)
        return self.answer

    def _look(self, skill: Skill) -> VisionBackend:
        draft, vision_skill = self.draft, self.lent.skill(skill)
        if skill in self.looked:
            return vision_skill
        with LocalAttempt(draft.request, draft.attempts, vision_skill.facts(), self.clock) as tried:
            tried.finish = Finish("stop")  # no tokens: nothing is generated
            sights = self._sights(vision_skill)
            tried.outcome = "answered"
        self.looked = (*self.looked, skill)
        if not self.sights:
            self.sights = sights
            return vision_skill
        # One that was late has seen fewer: of the others nobody knows all.
        self.sights = [
            replace(old, lines=old.lines or new.lines, things=old.things or new.things)
            for old, new in zip(self.sights, sights, strict=False)
        ]
        return vision_skill

    def _sights(self, vision_skill: VisionBackend) -> list[Sight]:
        """Of each picture: of as many as there is time for, and of the first one at least."""
        within_ms = self.request.deadline_ms or math.inf
        sights: list[Sight] = []
        for pixels in self.pictures:
            sights.append(self._sight(vision_skill, pixels))
            if 1000 * (self.clock() - self.draft.started) > within_ms:
                break
        self.is_late = len(sights) < len(self.pictures)
        return sights

    def _sight(self, vision_skill: VisionBackend, pixels: PictureArray) -> Sight:
        with guarded(vision_skill.facts().model):
            sight = vision_skill.look(pixels)
        return sight if self.sights else replace(sight, quality=measure_quality(pixels))

    def _describe(self) -> SeenAnswer:
        """With both skills, or with the one that is there. Raises a LocalError if none is."""
        found, failed = self._look_with_both()
        if not found:
            raise failed[0]
        return describe_all(self.sights, found.get("names objects"), found.get("reads text"))

    def _look_with_both(self) -> tuple[dict[Skill, Calibration], list[LocalError]]:
        """The calibrations of the skills that looked, and why others could not."""
        found, failed = dict[Skill, Calibration](), []
        for skill in BOTH:
            try:
                found[skill] = self.lent.calibration(self._look(skill))
            except LocalError as error:
                failed.append(error)
        self.skill = ", ".join(found)
        return found, failed

    def _tell(self) -> Iterator[Event]:
        """The device cannot answer the question: it says so, and describes what it sees."""
        draft = self.draft
        found, failed = self._look_with_both()
        if not found:
            words = "; ".join(map(str, failed))
            raise DoesNotFit(f"{draft.reason}; and the device sees nothing: {words}")
        finder = found.get("names objects")
        draft.confidence, draft.doubted = 0.0, True  # it does not answer the question
        draft.degraded_code = draft.degraded_code or "no_device_skill"
        if self.misfit is not None and draft.code == "policy_local_only":
            draft.conclude(self.misfit.code, self.misfit.reason)
        yield from draft.show(describe(self.sights, finder), "local", self.clock())
