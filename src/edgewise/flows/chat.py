"""Chat: the device answers, the gate watches, the cloud takes over if it must.

Read from the top: `answer` looks at the device and routes. `Chat` says how to try the device, and
how to finish an answer that the cloud began. `TextFlow` is what all tasks with text share.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

from typing_extensions import override

from edgewise.calls.response_check import Checked, check_answer
from edgewise.cloud.provider import Cloud
from edgewise.decide.calibration import Calibration
from edgewise.decide.fit import Capacity, Misfit, drop_oldest, find_misfit
from edgewise.decide.gate import Gate, Verdict
from edgewise.decide.meter import Meter
from edgewise.decide.objective import find_objective
from edgewise.decide.pace import Pace
from edgewise.decide.policy import Plan, Policy
from edgewise.decide.repetition import RepetitionWatch, repeats_a_turn
from edgewise.errors import ContextExceeded, LocalError, ModelNotFound
from edgewise.flows.route import Draft, Flow, LocalAttempt, route
from edgewise.local.backend import ChatBackend, TokenStream
from edgewise.types.measured import Judged, is_verified
from edgewise.types.messages import Request, Source, ToolCall
from edgewise.types.objectives import is_below
from edgewise.types.replies import Attempt, Event, Finished, Place, Reply, TextDelta
from edgewise.types.tokens import Finish, Token

MOST_TRUNCATIONS = 4
LEAST_ROOM_TOKENS = 16  # kept free when a prompt is truncated: counts are scaled


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the engine provides for a chat. `backend` raises ModelNotFound if there is none."""

    backend: Callable[[], ChatBackend]
    cloud: Cloud
    policy: Policy
    calibration: Callable[[ChatBackend | None], Calibration]
    patience_s: float
    clock: Callable[[], float]
    pace: Pace | None = None  # None: time is no reason to hand off


def answer(
    request: Request, parts: Parts, attempts: list[Attempt], *, live: bool
) -> Generator[Event, None, None]:
    """Yield events, the last one `Finished`. A `live` user sees text as it is decided."""
    backend, misfit = _look_at_device(request, parts)
    calibration = parts.calibration(backend)
    if backend is not None:
        calibration = calibration.seen(states=backend.facts().states)
    threshold = calibration.threshold if request.threshold is None else request.threshold
    gate = Gate(calibration, threshold)
    if request.has_objective and backend is not None:
        judged: Judged = "stream" if live else "whole"
        objective = find_objective(request, calibration, judged, paced=True)
        gate = Gate(calibration, objective.threshold, objective.words, objective.usual)
        misfit = misfit or objective.misfit
    unjudged = backend is not None and not (backend.facts().evidence or calibration.at_end)
    if unjudged:
        gate = replace(gate, threshold=0.0)  # nothing can be judged: policy and time decide
    if backend is not None and (gate.threshold > 0 or unjudged):
        misfit = misfit or _find_slowness(request, parts, backend)
    flow = Chat(request, parts, attempts, live=live, gate=gate, backend=backend, misfit=misfit)
    yield from route(flow)
    flow.own_up()
    yield Finished(flow.draft.reply(parts.clock()))


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


def _find_slowness(request: Request, parts: Parts, backend: ChatBackend) -> Misfit | None:
    """Time as a reason. A request that cannot leave is not told that it should."""
    pace = parts.pace
    slow = None if pace is None else pace.find_slowness(request, backend.facts().model)
    return slow if slow is not None and parts.cloud.closed(request) is None else None


@dataclass(slots=True, kw_only=True)
class TextDraft(Draft):
    """A reply in text. All text is shown through `show`."""

    gate: Gate
    truncated: bool = False
    decided_after: int | None = None
    first_shown: float | None = None
    finish: Finish = field(default_factory=Finish)
    tool_calls: list[ToolCall] = field(default_factory=list)
    meter: Meter = field(default_factory=Meter)
    evidence: list[Token] = field(default_factory=list)
    parsed: Any = None
    _shown: list[tuple[Place, str]] = field(default_factory=list)
    _told: int = 0  # how much of the evidence went out with the shown text

    @property
    def text(self) -> str:
        return "".join(text for _, text in self._shown)

    def hear(self, token: Token) -> None:
        """Take in the evidence of a local token, shown or not."""
        self.meter.add(token)
        if self.request.evidence:
            self.evidence.append(replace(token, state=None))  # large, and no value for JSON
        if self.progress is not None and self.progress.asked:
            self.progress.judge(
                self.gate.early_confidence(self.meter.reading()),
                self.gate.threshold,
                verified=is_verified(self.calibration),
            )

    def show(self, text: str, place: Place, now: float) -> Iterator[Event]:
        """The only way text reaches a user."""
        if not text:
            return
        if self.first_shown is None:
            self.first_shown = now
        self._shown.append((place, text))
        tokens = tuple(self.evidence[self._told :]) if place == "local" else ()
        self._told += len(tokens)
        yield TextDelta(text, place, tokens)

    def reply(self, now: float) -> Reply:
        return Reply(**self.reply_fields(now, self.meter.reading().features()))

    def reply_fields(self, now: float, features: dict[str, float]) -> dict[str, Any]:
        source = self._source()
        if self.gate.usual is not None and source == "local":
            self._own_up(self.gate.usual)
        return {
            **self.common(source, now, self._with_shares()),
            "text": self.text,
            "parsed": self.parsed,
            "decision": self.decision(
                decided_after_tokens=self.decided_after,
                truncated=self.truncated,
                features=features,
                evidence=tuple(self.evidence),
            ),
            "finish_reason": self.finish.reason,
            "tool_calls": tuple(self.tool_calls),
            "first_token_ms": (
                None if self.first_shown is None else 1000 * (self.first_shown - self.started)
            ),
        }

    def _own_up(self, usual: float) -> None:
        """Say so if an answer was kept only to make a budget last."""
        sure = self.confidence
        if self.code != "kept_confident" or sure is None or sure >= usual:
            return
        self.doubted, self.degraded_code = True, "budget_paced"
        kept = f"kept anyway from {self.gate.threshold:.2f} on, {self.gate.objective}"
        self.conclude("kept_in_doubt", f"{self.sureness} {is_below(sure, usual)}; {kept}")

    def _source(self) -> Source:
        """From what was shown; without text, from the last successful attempt."""
        places: set[Place] = {place for place, _ in self._shown}
        if len(places) > 1:
            return "mixed"
        if places:
            return places.pop()
        answered = [attempt for attempt in self.attempts if attempt.outcome == "answered"]
        return "none" if self.signalled or not answered else answered[-1].place

    def _with_shares(self) -> tuple[Attempt, ...]:
        """The shown characters of each place belong to its last attempt that produced text."""
        attempts = list(self.attempts)
        for place in ("local", "cloud"):
            characters = sum(len(text) for shown_by, text in self._shown if shown_by == place)
            for index in reversed(range(len(attempts))):
                if attempts[index].place == place and characters:
                    attempts[index] = replace(attempts[index], shown_chars=characters)
                    break
        return tuple(attempts)


class Lent(Protocol):
    """What the engine provides for every task that shows text."""

    @property
    def cloud(self) -> Cloud: ...
    @property
    def policy(self) -> Policy: ...
    @property
    def patience_s(self) -> float: ...
    @property
    def clock(self) -> Callable[[], float]: ...


class TextFlow(Flow):
    """A request whose answer is text. The cloud's text is shown as it arrives."""

    draft: TextDraft
    _checked: tuple[str, Checked] | None = None  # the text that was checked last

    def __init__(
        self,
        request: Request,
        parts: Lent,
        attempts: list[Attempt],
        *,
        live: bool,
        gate: Gate,
        misfit: Misfit | None,
    ) -> None:
        self.draft = TextDraft(
            request=request,
            attempts=attempts,
            started=parts.clock(),
            gate=gate,
            threshold=gate.threshold,
            objective=gate.objective,
            calibration=gate.calibration.name,
            meter=Meter(gate.calibration.heads),
        )
        self.cloud, self.policy, self.clock = parts.cloud, parts.policy, parts.clock
        self.patience_s, self.misfit, self.live = parts.patience_s, misfit, live

    @override
    def ask_cloud(self, patience_s: float | None) -> Iterator[Event]:
        draft = self.draft
        chunks = self.cloud.stream(
            self.request, draft.attempts, live=self.live, patience_s=patience_s
        )
        with closing(chunks):
            for chunk in chunks:
                if isinstance(chunk, str):
                    yield from draft.show(chunk, "cloud", self.clock())
                elif isinstance(chunk, ToolCall):
                    draft.tool_calls.append(chunk)
                elif isinstance(chunk, Finish):
                    draft.finish = chunk

    def check(self, text: str) -> Checked:
        """Whether a text is what the response format asks for."""
        wanted = self.request.response_format
        if wanted is None:
            return Checked()
        if self._checked is None or self._checked[0] != text:
            checked = check_answer(text, wanted.schema)
            if wanted.parse is not None:
                checked = checked.parsed(text, wanted.parse)
            self._checked = (text, checked)
        return self._checked[1]

    def own_up(self) -> None:
        """What the answer says. Say so if it breaks its schema, whoever wrote it."""
        draft = self.draft
        if draft.signalled or draft.tool_calls:
            return
        checked = self.check(draft.text)
        draft.parsed = checked.value
        if checked.fault:
            draft.degraded_code = draft.degraded_code or "schema_broken"
        for words in (
            f"the answer breaks its schema: {checked.fault}" if checked.fault else "",
            f"not checked against its schema: {checked.unchecked}" if checked.unchecked else "",
        ):
            if words and words not in draft.reason:
                draft.reason += f"; {words}"

    @override
    def doubt(self) -> str:
        return self.draft.too_low(self.draft.confidence)

    @override
    def surety(self) -> str:
        return f"{self.draft.sureness} {self.draft.confidence:.2f} is {self.draft.enough}"


class Chat(TextFlow):
    """One chat request. `held` is local text that was generated but not shown."""

    def __init__(
        self,
        request: Request,
        parts: Parts,
        attempts: list[Attempt],
        *,
        live: bool,
        gate: Gate,
        backend: ChatBackend | None,
        misfit: Misfit | None,
    ) -> None:
        super().__init__(request, parts, attempts, live=live, gate=gate, misfit=misfit)
        self.backend = backend
        self.local_request = request  # the same request, or its truncated form
        self.held = ""
        self.local_done = False
        self.skipped = False  # the state behind the prompt was enough
        self.repeats = ""  # what the answer repeats, in words
        self.fault = ""  # where the answer breaks its schema, in words
        self.judged = backend is None or backend.facts().evidence or gate.calibration.at_end
        self.rated = backend is not None and backend.facts().rates

    @override
    def adjust(self, plan: Plan) -> Plan:
        """A cloud that is waited for because the device is slower is not hurried."""
        slow = self.misfit is not None and self.misfit.code == "slow_device"
        return replace(plan, hurried=False) if slow else plan

    @override
    def may_start_over(self) -> bool:
        return not self.draft.text

    @override
    def try_device(self, plan: Plan) -> Generator[Event, None, bool]:
        draft = self.draft
        verdict = yield from self._speak(may_leave=plan.may_hand_off)
        self._measure()
        if verdict is not Verdict.HAND_OFF:
            return False
        draft.doubted = True
        reading = draft.meter.reading()
        if self.skipped:
            draft.confidence = draft.gate.chance_before(reading)
        elif not self.local_done:  # stopped early: the early score decided
            draft.confidence = draft.gate.early_confidence(reading)
        return True

    @override
    def doubt(self) -> str:
        if self.fault:
            return f"the answer breaks its schema: {self.fault}"
        if self.repeats:
            return f"the answer repeats {self.repeats}"
        if not self.skipped:
            return super().doubt()
        chance = f"{self.draft.confidence or 0.0:.2f}"
        return f"the chance before the first token, {chance}, is far below {self.draft.needed}"

    @override
    def conclude_kept(self, plan: Plan) -> None:
        if self.judged or self.draft.doubted:
            super().conclude_kept(plan)
            return
        why = "the runtime sends no log-probabilities"
        if self.rated:
            why = "nobody has calibrated the runtime's own confidence"
        self.draft.conclude("kept_unjudged", f"{why}: the answer was not judged")

    @override
    def fall_back(self) -> Iterator[Event]:
        draft = self.draft
        draft.tool_calls.clear()
        if draft.text or (self.request.response_format and not self.local_done):
            # Shown text stays, and the device continues it. With a grammar it must start again.
            self.held = ""
            # What stands behind the prompt now is a part of the answer.
            heads = draft.gate.calibration.heads
            draft.meter = Meter({name: head for name, head in heads.items() if name != "before"})
            try:
                yield from self._speak(may_leave=False, already=draft.text)
            except LocalError as failure:
                if not draft.text:
                    raise
                draft.reason += f"; and the device could not continue it: {failure}"
                draft.finish = Finish("length")
                return
        elif self.local_done:
            yield from self._show_held()
            draft.reinstate()
        else:
            already = self.held
            yield from self._show_held()
            yield from self._speak(may_leave=False, already=already)
        self._measure()

    def _speak(self, *, may_leave: bool, already: str = "") -> Generator[Event, None, Verdict]:
        """Generate on the device. If truncation is allowed, truncate until the prompt fits."""
        for _ in range(MOST_TRUNCATIONS):
            try:
                return (yield from self._speak_once(may_leave=may_leave, already=already))
            except ContextExceeded as error:
                if self.misfit is None or not self.misfit.soft or not self.local_request.truncate:
                    raise
                self._truncate(error)
        return (yield from self._speak_once(may_leave=may_leave, already=already))

    def _speak_once(self, *, may_leave: bool, already: str) -> Generator[Event, None, Verdict]:
        """Tokens through meter and gate: HOLD keeps text back, KEEP shows it, HAND_OFF stops."""
        draft, backend = self.draft, self.backend
        assert backend is not None, "a plan that starts on the device has one"
        verdict = Verdict.HOLD if may_leave else Verdict.KEEP
        judge_whole = may_leave and not self.live  # nobody watches: judge before showing
        watch = RepetitionWatch()
        with (
            LocalAttempt(draft.request, draft.attempts, backend.facts(), self.clock) as attempt,
            closing(self._generate(backend, already)) as tokens,
        ):
            for item in tokens:
                if isinstance(item, Finish):
                    draft.finish = attempt.finish = item
                    draft.meter.finish(item)
                    self.local_done = True
                    break
                attempt.count()
                draft.hear(item)
                self.held += item.text
                if verdict is Verdict.HOLD:
                    verdict = self._judge(attempt.tokens)
                if verdict is Verdict.HAND_OFF:
                    break
                if watch.add(item.text):  # it would go on like this to the end of its tokens
                    self.repeats, draft.finish, self.local_done = "itself", Finish("length"), True
                    break
                if verdict is Verdict.KEEP and not judge_whole:
                    yield from self._show_held()
            if self.local_done:
                self._look_for_failure()
            if verdict is Verdict.HOLD or (judge_whole and verdict is Verdict.KEEP):
                verdict = draft.gate.judge_whole(draft.meter.reading())
                verdict = Verdict.HAND_OFF if self.repeats or self.fault else verdict
            if verdict is Verdict.KEEP:
                yield from self._show_held()
            attempt.outcome = "handed_off" if verdict is Verdict.HAND_OFF else "answered"
        return verdict

    def _generate(self, backend: ChatBackend, already: str) -> TokenStream:
        """Tokens, with the hidden states that the calibration reads, if it reads any."""
        calibration = self.draft.gate.calibration
        if not calibration.heads:
            return backend.generate(self.local_request, already=already)
        return backend.generate(
            self.local_request,
            already=already,
            layer=calibration.layer_of("state"),
            prompt_layer=0 if already else calibration.layer_of("before"),
        )

    def _look_for_failure(self) -> None:
        """However sure the model was: a whole answer may repeat a turn, or break its schema."""
        text = self.draft.text + self.held
        earlier = [each.content for each in self.request.messages if each.role == "assistant"]
        if not self.repeats and repeats_a_turn(text, earlier):
            self.repeats = "an earlier one"
        self.fault = self.check(text).fault
        if self.fault:
            self.doubt_code = "schema_broken"

    def _judge(self, tokens: int) -> Verdict:
        """The verdict on a beginning; the first token brings the state behind the prompt."""
        draft = self.draft
        reading = draft.meter.reading()
        if tokens == 1 and draft.gate.skips(reading):
            self.skipped, draft.decided_after = True, 0
            return Verdict.HAND_OFF
        draft.decided_after = tokens
        return draft.gate.judge(reading, tokens)

    def _show_held(self) -> Iterator[Event]:
        text, self.held = self.held, ""
        yield from self.draft.show(text, "local", self.clock())

    def _measure(self) -> None:
        draft = self.draft
        confidence = draft.gate.confidence(draft.meter.reading())
        rated = self.rated and draft.meter.reading().engine is not None
        draft.confidence = confidence if self.judged or rated else None
        failed = bool(self.repeats or self.fault)
        draft.doubted = draft.doubted or failed or draft.gate.doubts(confidence)

    def _truncate(self, error: ContextExceeded) -> None:
        room = min(self.local_request.max_tokens, error.context_tokens // 4) + LEAST_ROOM_TOKENS
        messages, needed = self.local_request.messages, error.prompt_tokens
        kept = drop_oldest(messages, needed, error.context_tokens - room)
        self.local_request = replace(self.local_request, messages=kept)
        self.draft.truncated = True
