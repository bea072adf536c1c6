"""Decisions: typed questions about a state. Doubt is per question, and the doubtful ones leave.

The device reads one question after the other; the state is read once. Those below their threshold
go to the cloud together, in one request with the same state. The answers are merged, and each says
who gave it.
"""

from __future__ import annotations

import json
import math
import string
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from typing_extensions import override

from edgewise.cloud.provider import Cloud
from edgewise.decide.calibration import Calibration
from edgewise.decide.decisions import LearntQuestion, confidence_of
from edgewise.decide.policy import (
    Capacity,
    Misfit,
    Objective,
    Plan,
    Policy,
    estimate_tokens,
    find_lateness,
    find_misfit,
    find_objective,
    find_queue,
)
from edgewise.errors import CloudMalformed, DeadlinePassed, GenerationFailed, ModelNotFound
from edgewise.flows.route import Draft, Flow, LocalAttempt, run
from edgewise.local.backend import ChatBackend, DeviceFacts, QuestionReader, guarded
from edgewise.types.answers import Answer, Answers, LabelReading, value_of
from edgewise.types.messages import (
    Described,
    Message,
    Question,
    Request,
    Score,
    Source,
    YesNo,
    is_below,
    text_of,
)
from edgewise.types.replies import Attempt, Event, Finish, Judged, Token, doubt_of

SLACK = 0.05  # by which a provider's rounded chances may miss a sum of 1
LEARNT_FACTS = DeviceFacts(
    backend="learnt",
    model="learnt questions",
    quantisation="",
    context_tokens=1_000_000,  # a state of any length has words, and is embedded in windows
    labels=True,
)
STRANGE = "nothing like it is among the labels that the question was learnt from"
READS = 2  # of the options, forwards and backwards


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeNeeds:
    """What the engine provides for a decision.

    reader       who reads a question here; raises ModelNotFound if nobody can
    calibration  what judges one question's answer
    pause        is called between two questions: it may wait, or raise
    """

    reader: Callable[[Question], QuestionReader]
    cloud: Cloud
    policy: Policy
    calibration: Callable[[QuestionReader | None, Question], Calibration]
    patience_s: float
    clock: Callable[[], float]
    pause: Callable[[], None]


@dataclass(slots=True, kw_only=True)
class _Judged:
    """What is known of one question's answer so far."""

    chances: Mapping[str, float] | None = None
    confidence: float | None = None
    source: Source = "none"
    code: str = ""
    reason: str = ""
    doubted: bool = False
    calibration: str = ""
    guessed: bool = False


def decide(request: Request, parts: JudgeNeeds, attempts: list[Attempt]) -> Answers:
    """The answers to the request's questions about its state."""
    flow = Judging(request, parts, attempts)
    run(flow)
    return flow.finished()


class Judging(Flow):
    """The questions of one request."""

    def __init__(self, request: Request, parts: JudgeNeeds, attempts: list[Attempt]) -> None:
        self.parts, self.cloud = parts, parts.cloud
        self.policy, self.clock, self.patience_s = parts.policy, parts.clock, parts.patience_s
        self.readers: dict[str, QuestionReader] = {}
        self.unread: dict[str, Misfit] = {}  # why the device should not read a question
        if request.policy != "cloud_only":  # never used, so never opened
            self._look_at_device(request)
        self.calibrations = {
            name: parts.calibration(self.readers.get(name), question)
            for name, question in request.questions.items()
        }
        self.objectives = {
            name: find_objective(request, self.calibrations[name])
            if len(question.options) > 1
            else Objective(0.0)  # there is nothing to doubt
            for name, question in request.questions.items()
        }
        unproven = {n: each.misfit for n, each in self.objectives.items() if each.misfit}
        for reasons in (self.unread, unproven):
            if self.misfit is None and len(reasons) == len(request.questions):
                self.misfit = next(iter(reasons.values()))  # the device is not worth asking
        first = next(iter(self.objectives.values()))
        self.draft = Draft(
            request=request,
            attempts=attempts,
            started=parts.clock(),
            threshold=first.threshold,
            objective=first.words,
            calibration=next(iter(self.calibrations.values())).name,
        )
        self.judged = {name: _Judged() for name in request.questions}

    def _look_at_device(self, request: Request) -> None:
        """Who reads each question here, and why nobody should."""
        by_model: dict[str, list[str]] = {}
        for name, question in request.questions.items():
            try:
                self.readers[name] = self.parts.reader(question)
            except ModelNotFound as error:
                self.unread[name] = Misfit(error.code, str(error))
                continue
            by_model.setdefault(self.readers[name].facts().model, []).append(name)
        for names in by_model.values():
            facts = self.readers[names[0]].facts()
            if misfit := self._find_misfit(request, facts, [request.questions[n] for n in names]):
                self.unread |= dict.fromkeys(names, misfit)

    def _find_misfit(
        self, request: Request, facts: DeviceFacts, questions: Sequence[Question]
    ) -> Misfit | None:
        """Of the longest question, whether it fits; of all together, whether there is time."""
        if not facts.labels:
            reason = f"{facts.model} does not say how likely an answer is"
            return Misfit("questions_unsupported", reason)
        capacity = Capacity(
            context_tokens=facts.context_tokens,
            prompt_tokens_per_second=facts.prompt_tokens_per_second,
            output_tokens_per_second=facts.output_tokens_per_second,
            wait_s=facts.wait_s,
        )
        asked = [_asked(question) for question in questions]
        longest = Message("user", f"{request.state}\n{max(asked, key=len)}")
        misfit = find_misfit(replace(request, messages=(longest,), deadline_ms=None), capacity)
        tokens = estimate_tokens((Message("user", request.state),))
        tokens += READS * estimate_tokens([Message("user", each) for each in asked])
        misfit = misfit or find_lateness(request, capacity, tokens, READS * len(asked))
        if misfit is None and facts.wait_s:
            misfit = find_queue(request, facts.wait_s, self.cloud.closed(request))
        return misfit

    # -- the device --------------------------------------------------------------------------------

    @override
    def try_device(self, plan: Plan) -> Generator[Event, None, bool]:
        yield from ()
        self._on_device(plan)
        doubtful = any(each.doubted for each in self.judged.values())
        self.draft.doubted = doubtful
        if doubtful and plan.may_hand_off and not self._kept and self.draft.attempts:
            attempts = self.draft.attempts
            attempts[-1] = replace(attempts[-1], outcome="handed_off")
        return doubtful

    def _on_device(self, plan: Plan | None) -> None:
        """Read every question that nobody has answered, and that can be read here.

        Where the cloud may be asked, it gets those that it should.
        """
        may_leave = plan is not None and plan.may_hand_off
        by_model: dict[str, list[str]] = {}
        for name, judged in self.judged.items():
            misfit = self.unread.get(name)
            if judged.chances is not None:
                continue
            if misfit is not None and (may_leave or not misfit.soft):
                judged.doubted, judged.code, judged.reason = True, misfit.code, misfit.reason
            else:
                by_model.setdefault(self.readers[name].facts().model, []).append(name)
        for names in by_model.values():
            self._read_with(self.readers[names[0]].facts(), names, plan)
        self._weakest()

    def _read_with(self, facts: DeviceFacts, names: Sequence[str], plan: Plan | None) -> None:
        with LocalAttempt(self.request, self.draft.attempts, facts, self.clock) as attempt:
            attempt.finish = Finish()
            for number, name in enumerate(names):
                if number:
                    self.parts.pause()
                    self._check_time(plan)
                self._read(self.readers[name], name, attempt)
            attempt.outcome = "answered"

    def _weakest(self) -> None:
        """The reply is as sure as its least sure answer of the device."""
        sure = [each.confidence for each in self.judged.values() if each.confidence is not None]
        self.draft.confidence = min(sure, default=None)

    def _read(self, device: QuestionReader, name: str, attempt: LocalAttempt) -> None:
        question, calibration = self.request.questions[name], self.calibrations[name]
        read = device.read_question(replace(self.request, questions={name: question}))
        done = attempt.finish or Finish()
        attempt.count()
        attempt.finish = Finish(
            input_tokens=done.input_tokens + read.input_tokens,
            output_tokens=done.output_tokens + read.output_tokens,
            cached_tokens=done.cached_tokens + read.cached_tokens,
        )
        judged, objective = self.judged[name], self.objectives[name]
        judged.chances, judged.source = read.chances, "local"
        judged.confidence = confidence_of(question, read, calibration)
        judged.calibration = calibration.name
        # No threshold keeps a question that is promised nothing, however sure it looks.
        in_doubt = judged.confidence < objective.threshold or objective.misfit is not None
        strange = read.stranger and objective.threshold > 0
        judged.doubted = in_doubt or strange
        judged.code = "kept_in_doubt" if judged.doubted else "kept_confident"
        judged.reason = STRANGE if strange else self._why(name)

    def _why(self, name: str) -> str:
        judged, objective = self.judged[name], self.objectives[name]
        if objective.misfit is not None and judged.doubted:
            return objective.misfit.reason
        called = f"{doubt_of(judged.calibration)} confidence".lstrip()
        if judged.doubted:
            told = is_below(judged.confidence or 0.0, objective.threshold, objective.words)
            return f"{called} {told}"
        return f"{called} {judged.confidence:.2f} is high enough"

    def _check_time(self, plan: Plan | None) -> None:
        """Raises DeadlinePassed where the cloud may still be in time."""
        limit = self.request.deadline_ms
        known = self.misfit is not None and self.misfit.code == DeadlinePassed.code
        if limit is None or known or plan is None or not plan.may_hand_off:
            return
        if 1000 * (self.clock() - self.draft.started) > limit:
            raise DeadlinePassed(f"the device had not read all questions after {limit:,.0f} ms")

    @property
    def _kept(self) -> list[str]:
        """The questions whose answers of the device stand."""
        return [
            name
            for name, each in self.judged.items()
            if each.chances is not None and each.source == "local" and not each.doubted
        ]

    @override
    def kept_from(self, plan: Plan) -> float | None:
        several = {each.threshold for each in self.objectives.values()}
        return super().kept_from(plan) if len(several) == 1 else None

    @override
    def doubt(self) -> str:
        several = [name for name, each in self.judged.items() if each.doubted]
        if not several:
            return ""
        others = f", and {len(several) - 1} more" if len(several) > 1 else ""
        return f"{several[0]}: {self.judged[several[0]].reason}{others}"

    @override
    def surety(self) -> str:
        if self.draft.confidence is None:
            return "nothing had to be decided"
        return f"every answer is sure: {self.draft.confidence:.2f} or more, {self.draft.enough}"

    # -- the cloud ---------------------------------------------------------------------------------

    @override
    def signal(self, code: str, reason: str) -> None:
        super().signal(code, reason)
        for each in self.judged.values():
            if each.doubted or each.chances is None:
                each.chances, each.confidence, each.source = None, None, "none"
                each.code, each.reason = self.draft.code, each.reason or reason
                each.doubted = False

    @override
    def ask_cloud(self, patience_s: float | None) -> Iterator[Event]:
        yield from ()
        kept = self._kept
        left = {name: one for name, one in self.request.questions.items() if name not in kept}
        part = replace(self.request, questions=left)
        told: Judged | None = None
        # Hurried only where the device has an answer. Read to the end: then it is recorded.
        stream = self.cloud.stream(part, self.draft.attempts, live=False, patience_s=patience_s)
        with closing(stream) as chunks:
            for chunk in chunks:
                if isinstance(chunk, Judged):
                    told = chunk
        if told is None or not any(name in told.chances for name in left):
            raise CloudMalformed("the cloud answered none of the questions")
        for name, question in left.items():
            self._take(name, question, told)
        self.draft.doubted = any(each.doubted for each in self.judged.values())
        self._weakest()

    def _take(self, name: str, question: Question, told: Judged) -> None:
        judged, draft = self.judged[name], self.draft
        chances = told.chances.get(name)
        if chances is None:  # refused: what the device said stands, in doubt
            judged.code = "question_refused"
            judged.reason = f"the cloud did not answer it; {judged.reason}".rstrip("; ")
            draft.degraded_code = "question_refused"
            return
        judged.chances = _checked(name, question, chances)
        judged.source, judged.doubted = "cloud", False
        judged.confidence, judged.calibration = None, ""
        judged.guessed = told.guessed
        judged.code = draft.code
        judged.reason = judged.reason or draft.reason
        if told.guessed:
            judged.reason += "; a chat model named the option, so its chances are unverified"

    @override
    def fall_back(self) -> Iterator[Event]:
        yield from ()
        self.draft.reinstate()
        self._on_device(None)
        self.draft.doubted = any(each.doubted for each in self.judged.values())
        for each in self.judged.values():
            if each.doubted and each.chances is not None:
                each.code = "fallback_local"

    # -- the reply ---------------------------------------------------------------------------------

    def finished(self) -> Answers:
        answers = {
            name: self._answer(name, question) for name, question in self.request.questions.items()
        }
        places = {each.source for each in answers.values() if each.source != "none"}
        source: Source = places.pop() if len(places) == 1 else "mixed" if places else "none"
        values = {name: each.value for name, each in answers.items()}
        return Answers(
            **self.draft.common(source, self.clock()),
            text=json.dumps(values, ensure_ascii=False),
            decision=self.draft.decision(),
            answers=answers,
        )

    def _answer(self, name: str, question: Question) -> Answer:
        judged = self.judged[name]
        chances = {} if judged.chances is None else judged.chances
        return Answer(
            name=name,
            value=value_of(question, chances) if chances else None,
            probabilities={option: chances[option] for option in question.options if chances},
            confidence=judged.confidence,
            source=judged.source,
            code=judged.code,
            reason=judged.reason,
            doubted=judged.doubted,
            calibration=judged.calibration,
        )


class LearntReader:
    """Fulfils `QuestionReader` for a question that was learnt from labels.

    `embed` makes the vector of a state; a question that reads words needs none.
    """

    def __init__(self, learnt: LearntQuestion, embed: Callable[[str], Sequence[float]]) -> None:
        self.learnt, self._embed = learnt, embed

    def facts(self) -> DeviceFacts:
        return LEARNT_FACTS

    def close(self) -> None:
        """The embedder is not its own."""

    def read_question(self, request: Request) -> LabelReading:
        ((_, question),) = request.questions.items()
        learnt, state = self.learnt, request.state
        vector = self._embed(state) if learnt.reads == "vector" else ()
        told = learnt.chances(state, vector)
        chances = {name: told[name] for name in question.options}
        strange = learnt.is_stranger(state, vector)
        return LabelReading(chances=chances, one_way=(chances, chances), mass=1.0, stranger=strange)


def _asked(question: Question) -> str:
    described = [text_of(each) for each in question.described]
    return "\n".join([text_of(question.ask), *question.options, *described])


def _checked(name: str, question: Question, chances: Mapping[str, float]) -> dict[str, float]:
    """The chances of all options, summing to 1. Raises CloudMalformed for what is none."""
    found = {option: chances.get(option, 0.0) for option in question.options}
    total = math.fsum(found.values())
    good = all(math.isfinite(each) and 0 <= each <= 1 for each in found.values())
    if not good or abs(total - 1) > SLACK * max(1, len(found) / 10) or set(chances) - set(found):
        raise CloudMalformed(f"the cloud's chances for the question {name!r} are none")
    return {option: chance / total for option, chance in found.items()}


# -- a question read off a chat model --------------------------------------------------------------
#
# The state comes first, so that what was computed of it serves every question about it. Options are
# labels of one token each: letters, or Yes and No. They stand in one canonical order, which is read
# forwards and backwards: the order that the caller gave changes nothing, and a model's liking for
# the first letter evens out. More options than letters are read in groups, then the best of each
# group.


LETTERS = tuple(string.ascii_uppercase)
YES_NO = {"true": "Yes", "false": "No"}
SYSTEM = "You read a text and answer a question about it. You answer with one word or letter only."


class LabelReader:
    """Fulfils `backend.QuestionReader` with a chat model whose facts say `labels`."""

    def __init__(self, backend: ChatBackend) -> None:
        self._backend = backend

    def facts(self) -> DeviceFacts:
        return self._backend.facts()

    def close(self) -> None:
        self._backend.close()

    def read_question(self, request: Request) -> LabelReading:
        return read_question(self._backend, request)


def read_question(backend: ChatBackend, request: Request) -> LabelReading:
    """The chances of the options of the request's one question, about its state."""
    (question,) = request.questions.values()
    if len(question.options) == 1:
        sure = {question.options[0]: 1.0}
        return LabelReading(chances=sure, one_way=(sure, sure), mass=1.0)
    told = dict(zip(question.options, question.described, strict=True))
    order = list(question.options)
    if not isinstance(question, YesNo | Score):  # those have an order of their own
        order.sort()
    reads: list[_Read] = []
    one_way = [
        _chances(backend, request, question, told, way, reads) for way in (order, order[::-1])
    ]
    return LabelReading(
        chances={name: (one_way[0][name] + one_way[1][name]) / 2 for name in question.options},
        one_way=tuple(one_way),
        mass=min(each.mass for each in reads),
        input_tokens=sum(each.finish.input_tokens for each in reads),
        cached_tokens=sum(each.finish.cached_tokens for each in reads),
        output_tokens=len(reads),
    )


@dataclass(frozen=True, slots=True)
class _Read:
    mass: float
    finish: Finish


def _chances(
    backend: ChatBackend,
    request: Request,
    question: Question,
    told: Mapping[str, Described],
    order: Sequence[str],
    reads: list[_Read],
) -> dict[str, float]:
    """One way through the options: at once, or group by group and then the best of each."""
    if len(order) <= len(LETTERS):
        return _ask(backend, request, question, told, order, reads)
    groups = [_ask(backend, request, question, told, each, reads) for each in _groups(order)]
    best = [max(group, key=lambda name: group[name]) for group in groups]
    of_best = _ask(backend, request, question, told, best, reads)
    return {
        name: of_best[first] * chance
        for first, group in zip(best, groups, strict=True)
        for name, chance in group.items()
    }


def _groups(order: Sequence[str]) -> Iterator[Sequence[str]]:
    """Groups of nearly one size, none larger than the letters reach."""
    count = math.ceil(len(order) / len(LETTERS))
    for number in range(count):
        yield order[len(order) * number // count : len(order) * (number + 1) // count]


def _ask(
    backend: ChatBackend,
    request: Request,
    question: Question,
    told: Mapping[str, Described],
    order: Sequence[str],
    reads: list[_Read],
) -> dict[str, float]:
    labels = (
        tuple(YES_NO[name] for name in order)
        if isinstance(question, YesNo)
        else LETTERS[: len(order)]
    )
    asked = replace(
        request,
        messages=(
            Message("system", SYSTEM),
            Message("user", write(request.state, question, told, order, labels)),
        ),
        labels=labels,
        temperature=0.0,
    )
    token, finish = None, Finish()
    with guarded(backend.facts().model), closing(backend.generate(asked)) as items:
        for item in items:
            if isinstance(item, Finish):
                finish = item
            elif token is None:
                token = item
    chances = _softmaxed(token, labels)
    reads.append(_Read(chances.pop(""), finish))
    return dict(zip(order, chances.values(), strict=True))


def write(
    state: str,
    question: Question,
    told: Mapping[str, Described],
    order: Sequence[str],
    labels: Sequence[str],
) -> str:
    """The turn that asks: the state, the question, the options behind their labels."""
    lines = ["Text:", state, "", f"Question: {text_of(question.ask) or _usual(question)}"]
    for name, label in zip(order, labels, strict=True):
        meaning = text_of(told[name])
        if isinstance(question, YesNo):
            lines += [f"{label}: {meaning}"] * bool(meaning)
        elif isinstance(question, Score):
            lines.append(f"{label}) {meaning or name}")
        else:
            lines.append(f"{label}) {name}: {meaning}" if meaning else f"{label}) {name}")
    if isinstance(question, YesNo):
        lines.append(f"Answer {labels[0]} or {labels[1]}.")
    else:
        lines.append("Answer with the letter.")
    return "\n".join(lines)


def _usual(question: Question) -> str:
    if isinstance(question, YesNo):
        return "Which of the two is true of the text?"
    if isinstance(question, Score):
        return "Which level fits the text best?"
    return "Which option fits the text best?"


def _softmaxed(token: Token | None, labels: Sequence[str]) -> dict[str, float]:
    """The labels' shares of their own mass; that mass under the empty name."""
    found = dict(token.alternatives) if token is not None else {}
    if token is None or any(label not in found for label in labels):
        raise GenerationFailed("the model gave no chances for the labels")
    powers = {label: math.exp(found[label]) for label in labels}
    total = math.fsum(powers.values())
    if not total > 0:
        raise GenerationFailed("the model gave the labels no chance at all")
    return {label: power / total for label, power in powers.items()} | {"": min(total, 1.0)}
