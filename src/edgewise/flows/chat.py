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

from edgewise.cloud.provider import Cloud
from edgewise.decide.calibration import Calibration, Judged, Meter
from edgewise.decide.gate import (
    Gate,
    Read,
    RepetitionWatch,
    Verdict,
    far_off,
    read_typed,
    repeats_a_turn,
)
from edgewise.decide.policy import (
    Capacity,
    Misfit,
    Pace,
    Plan,
    Policy,
    drop_oldest,
    find_misfit,
    find_objective,
)
from edgewise.errors import ContextExceeded, GenerationFailed, LocalError, ModelNotFound
from edgewise.flows.route import Draft, Flow, LocalAttempt, route
from edgewise.grammar.check import CheckedText, check_answer, tell
from edgewise.local.backend import UNFINISHED, ChatBackend, TokenStream, guarded
from edgewise.types.messages import Request, Source, ToolCall, is_below
from edgewise.types.replies import (
    Attempt,
    Event,
    Finish,
    Finished,
    Place,
    Raw,
    Reply,
    TextDelta,
    Token,
    is_verified,
)

MOST_TRUNCATIONS = 4
LEAST_CHANCE = 0.01  # that a request is retold right; below it nothing is kept anyway
UNSAID = 0.1  # the chance of an answer that only says what was not found
LEAST_ROOM_TOKENS = 16  # kept free when a prompt is truncated: counts are scaled
_UNASKED = CheckedText()  # no form was asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatNeeds:
    """What the engine provides for a chat. `backend` raises ModelNotFound if there is none."""

    backend: Callable[[], ChatBackend]
    cloud: Cloud
    policy: Policy
    calibration: Callable[[ChatBackend | None], Calibration]
    patience_s: float
    clock: Callable[[], float]
    pace: Pace | None = None  # None: time is no reason to hand off
    # Told what the device had written to its end where the cloud answered; empty: it was no good.
    wrote: Callable[[Request, str], None] | None = None


@dataclass(frozen=True, slots=True)
class Retold:
    """A request as the device can read it, and the chance that it is retold right. `unsaid`: how
    the device says that what was retold does not answer the question."""

    request: Request
    chance: float
    unsaid: str


def answer(
    request: Request,
    parts: ChatNeeds,
    attempts: list[Attempt],
    *,
    live: bool,
    begun: Misfit | None = None,
    retold: Retold | None = None,
) -> Generator[Event, None, None]:
    """Yield events, the last one `Finished`. A `live` user sees text as it is decided. `begun`:
    why the conversation should go on in the cloud. `retold`: what the device gets in its place."""
    backend, misfit = _look_at_device(retold.request if retold else request, parts)
    misfit = misfit or begun
    calibration = parts.calibration(backend)
    if request.response_format is not None:
        calibration = calibration.for_typed()
    elif backend is not None:
        calibration = calibration.seen(states=backend.facts().states)
    threshold = calibration.threshold if request.threshold is None else request.threshold
    gate = Gate(calibration, threshold)
    if request.has_objective and backend is not None:
        judged: Judged = "stream" if live else "whole"
        objective = find_objective(request, calibration, judged, paced=True)
        gate = Gate(
            calibration,
            objective.threshold,
            objective.words,
            objective.usual,
            objective.whole,
            objective.longest,
        )
        misfit = misfit or objective.misfit
    unjudged = backend is not None and not (backend.facts().evidence or calibration.at_end)
    if unjudged:
        gate = replace(gate, threshold=0.0)  # nothing can be judged: policy and time decide
    if backend is not None and (gate.threshold > 0 or unjudged):
        misfit = misfit or _find_haste(request, parts, backend)
    flow = Chat(request, parts, attempts, live=live, gate=gate, backend=backend, misfit=misfit)
    if retold is not None:
        flow.retell(retold)
    yield from route(flow)
    flow.own_up()
    reply = flow.draft.reply(parts.clock())
    if parts.wrote is not None and flow.whole and reply.source == "cloud":
        parts.wrote(request, "" if flow.failed else flow.whole)
    yield Finished(reply)


def _look_at_device(request: Request, parts: ChatNeeds) -> tuple[ChatBackend | None, Misfit | None]:
    if request.policy == "cloud_only":
        return None, None  # never used, so never fetched or opened
    try:
        backend = parts.backend()
    except ModelNotFound as error:
        return None, Misfit(error.code, str(error))
    facts = backend.facts()
    read = {each.name: getattr(facts, each.name) for each in fields(Capacity)}
    return backend, find_misfit(request, Capacity(**read))


def _find_haste(request: Request, parts: ChatNeeds, backend: ChatBackend) -> Misfit | None:
    """Time as a reason. A request that cannot leave is not told that it should."""
    if parts.pace is None:
        return None
    facts, shut = backend.facts(), None
    slow = parts.pace.find_slowness(request, facts.model)
    if slow is not None or facts.wait_s:
        shut = parts.cloud.closed(request)
    if slow is not None and shut is None:
        return slow
    return parts.pace.find_queue(request, facts.model, facts.wait_s, shut)


def words_of(request: Request) -> str:
    return "\n".join(each.content for each in request.messages)


def as_told(request: Request) -> Request:
    """As the device reads it: with the schema in words. A cloud gets that in its own form."""
    wanted = request.response_format
    told = tell(wanted.device_schema) if wanted is not None else ""
    asked = [place for place, each in enumerate(request.messages) if each.role == "user"]
    if not told or not asked:
        return request
    messages, place = list(request.messages), asked[-1]
    content = f"{messages[place].content}\n\n{told}".lstrip()
    messages[place] = replace(messages[place], content=content)
    return replace(request, messages=tuple(messages))


@dataclass(slots=True, kw_only=True)
class TextDraft(Draft):
    """A reply in text. All text is shown through `show`."""

    gate: Gate
    truncated: bool = False
    decided_after: int | None = None
    kept_at: float | None = None
    first_shown: float | None = None
    finish: Finish = field(default_factory=Finish)
    tool_calls: list[ToolCall] = field(default_factory=list)
    meter: Meter = field(default_factory=Meter)
    evidence: list[Token] = field(default_factory=list)
    parsed: Any = None
    passed_on: bool = False  # pieces of the cloud's answer, as they are: nobody else can go on
    typed: list[Token] | None = None  # the tokens of a typed answer, which is read value by value
    _shown: list[tuple[Place, str]] = field(default_factory=list)
    _told: int = 0  # how much of the evidence went out with the shown text

    @property
    def text(self) -> str:
        return "".join(text for _, text in self._shown)

    def hear(self, token: Token) -> None:
        """Take in the evidence of a local token, shown or not."""
        self.meter.add(token)
        if self.typed is not None:
            self.typed.append(token)
        if self.request.evidence:
            self.evidence.append(replace(token, state=None))  # large, and no value for JSON
        if self.progress is not None and self.progress.asked:
            self.progress.judge(
                self.gate.confidence(self.reading()),
                self.gate.threshold,
                verified=is_verified(self.calibration),
            )

    def reading(self) -> Read:
        """What is known by now. Of a typed answer, only its values are evidence."""
        plain, wanted = self.meter.reading(), self.request.response_format
        if self.typed is None or wanted is None:
            return plain
        return read_typed(self.typed, wanted.schema, words_of(self.request), plain.engine)

    def show(self, text: str, place: Place, now: float, raw: Raw | None = None) -> Iterator[Event]:
        """The only way text reaches a user."""
        if not text and raw is None:
            return
        self.passed_on = self.passed_on or raw is not None
        if self.first_shown is None:
            self.first_shown = now
        self._shown.append((place, text))
        tokens = tuple(self.evidence[self._told :]) if place == "local" else ()
        self._told += len(tokens)
        yield TextDelta(text, place, tokens, raw)

    def reply(self, now: float) -> Reply:
        return Reply(**self.reply_fields(now, self.reading().features()))

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
                kept_at=self.kept_at,
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
    _checked: tuple[str, CheckedText] | None = None  # the text that was checked last

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
                elif isinstance(chunk, Raw):
                    yield from draft.show(chunk.text, "cloud", self.clock(), chunk)
                elif isinstance(chunk, ToolCall):
                    draft.tool_calls.append(chunk)
                elif isinstance(chunk, Finish):
                    draft.finish = chunk

    @override
    def may_fall_back(self) -> bool:
        return not self.draft.passed_on

    def check(self, text: str) -> CheckedText:
        """Whether a text is what the response format asks for."""
        wanted = self.request.response_format
        if wanted is None:
            return _UNASKED
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
        parts: ChatNeeds,
        attempts: list[Attempt],
        *,
        live: bool,
        gate: Gate,
        backend: ChatBackend | None,
        misfit: Misfit | None,
    ) -> None:
        super().__init__(request, parts, attempts, live=live, gate=gate, misfit=misfit)
        self.backend = backend
        # As the device sees it: chat models cannot call; it may be truncated later.
        told = as_told(request)
        self.local_request = replace(
            told, tools=(), max_tokens=request.device_tokens, original=None
        )
        if request.response_format is not None:
            self.draft.typed = []
        self.held = ""
        self.local_done = False
        self.skipped = False  # the state behind the prompt was enough
        self.repeats = ""  # what the answer repeats, in words
        self.fault = ""  # where the answer breaks its schema, in words
        self.retold: Retold | None = None
        self.unsaid = False  # it says that what was retold does not answer the question
        self.too_long = ""  # by what the answer is longer than any that was measured, in words
        self.whole = ""  # what the device wrote, when it had ended
        self.judged = backend is None or backend.facts().evidence or gate.calibration.at_end
        self.rated = backend is not None and backend.facts().rates

    def retell(self, retold: Retold) -> None:
        """Both must be right, what is retold and the answer: so the model must be surer."""
        gate = self.draft.gate
        needed = min(1.0, gate.threshold / max(retold.chance, LEAST_CHANCE))
        self.draft.gate, self.retold = replace(gate, threshold=needed), retold
        self.local_request = replace(
            self.local_request, messages=retold.request.messages, original=None
        )

    @override
    def check(self, text: str) -> CheckedText:
        """What the device wrote must also be what the request can mean."""
        checked, wanted = super().check(text), self.request.response_format
        if wanted is None or checked.fault or not text or text != self.whole:
            return checked
        fault = far_off(text, wanted.schema, words_of(self.request))
        return CheckedText(fault=fault) if fault else checked

    @override
    def adjust(self, plan: Plan) -> Plan:
        """Nor is a cloud hurried that is asked because of an agent's tools; its errors are told."""
        code = "" if self.misfit is None else self.misfit.code
        if code == "context_exceeded" and self.request.original is not None:
            return replace(plan, hurried=False, local_backup=False)
        return super().adjust(plan)

    @property
    def failed(self) -> bool:
        """Whether a whole answer is no good, however sure the model was."""
        return bool(self.repeats or self.fault or self.too_long or self.unsaid)

    @property
    def judges_whole(self) -> bool:
        """Before anything of it is shown: nobody watches, or less would break a promise."""
        gate = self.draft.gate
        return not self.live or self.retold is not None or (gate.whole and gate.threshold > 0)

    @override
    def kept_from(self, plan: Plan) -> float | None:
        kept_from = super().kept_from(plan)
        # Of a promise to measured families, strangers left however sure the device was of them.
        chosen = self.judges_whole and not self.draft.gate.longest
        return kept_from if chosen or not kept_from else None

    @override
    def own_up(self) -> None:
        super().own_up()
        words = f"the answer repeats {self.repeats}"
        if self.repeats and words not in self.draft.reason:
            self.draft.reason += f"; {words}"

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
        if self.skipped:
            draft.confidence = draft.gate.chance_before(draft.reading())
        return True

    @override
    def doubt(self) -> str:
        if self.fault:
            return f"the answer breaks its schema: {self.fault}"
        if self.repeats:
            return f"the answer repeats {self.repeats}"
        if self.too_long:
            return self.too_long
        if self.unsaid:
            return "by what the device read, the picture does not say it"
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
        for left in reversed(range(MOST_TRUNCATIONS + 1)):
            if not already:
                self._begin_anew()
            try:
                return (yield from self._speak_once(may_leave=may_leave, already=already))
            except ContextExceeded as error:
                soft = self.misfit is not None and self.misfit.soft and self.local_request.truncate
                shown = self.draft.text != already  # words of this attempt
                if not soft or shown or not left:
                    raise
                self._truncate(error)
        raise AssertionError("the last attempt returns or raises")

    def _begin_anew(self) -> None:
        """Of an earlier attempt nothing was shown: its words and its evidence do not count."""
        self.held = ""
        self.draft.meter = Meter(self.draft.gate.calibration.heads)
        self.draft.evidence.clear()
        if self.draft.typed is not None:
            self.draft.typed.clear()

    def _speak_once(self, *, may_leave: bool, already: str) -> Generator[Event, None, Verdict]:
        """Tokens through meter and gate: HOLD keeps text back, KEEP shows it, HAND_OFF stops."""
        draft, backend = self.draft, self.backend
        assert backend is not None, "a plan that starts on the device has one"
        verdict = Verdict.HOLD if may_leave else Verdict.KEEP
        judge_whole = may_leave and self.judges_whole
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
                verdict = draft.gate.judge_whole(draft.reading())
                verdict = Verdict.HAND_OFF if self.failed else verdict
            if verdict is Verdict.KEEP:
                yield from self._show_held()
            attempt.outcome = "handed_off" if verdict is Verdict.HAND_OFF else "answered"
        return verdict

    def _generate(self, backend: ChatBackend, already: str) -> TokenStream:
        """Tokens, with the hidden states that the calibration reads, if it reads any."""
        calibration, layers = self.draft.gate.calibration, dict[str, int]()
        if calibration.heads:
            layers["layer"] = calibration.layer_of("state")
            layers["prompt_layer"] = 0 if already else calibration.layer_of("before")
        with (
            guarded(backend.facts().model),
            closing(backend.generate(self.local_request, already=already, **layers)) as tokens,
        ):
            yield from tokens  # up to its Finish, where the reader leaves
        raise GenerationFailed(f"{backend.facts().model} {UNFINISHED}")

    def _look_for_failure(self) -> None:
        """However sure the model was: a whole answer may repeat a turn, or break its schema."""
        text = self.draft.text + self.held
        earlier = [each.content for each in self.request.messages if each.role == "assistant"]
        if not self.repeats and repeats_a_turn(text, earlier):
            self.repeats = "an earlier one"
        self.whole = text
        self.unsaid = self.retold is not None and self.retold.unsaid.lower() in text.lower()
        longest = self.draft.gate.longest
        if longest and self.draft.meter.reading().tokens > longest:
            self.too_long = f"the answer is longer than any that was measured ({longest} tokens)"
        self.fault = self.check(text).fault
        if self.fault:
            self.doubt_code = "schema_broken"

    def _judge(self, tokens: int) -> Verdict:
        """The verdict on a beginning; the first token brings the state behind the prompt."""
        draft = self.draft
        if draft.typed is not None:  # braces and names come first: they say nothing
            return Verdict.HOLD if draft.gate.threshold > 0 else Verdict.KEEP
        reading = draft.reading()
        if tokens == 1 and draft.gate.skips(reading):
            self.skipped, draft.decided_after = True, 0
            return Verdict.HAND_OFF
        verdict = draft.gate.judge(reading, tokens, self.held)
        draft.decided_after = tokens
        if verdict is Verdict.KEEP:
            draft.kept_at = draft.gate.confidence(reading)
        return verdict

    def _show_held(self) -> Iterator[Event]:
        text, self.held = self.held, ""
        yield from self.draft.show(text, "local", self.clock())

    def _measure(self) -> None:
        draft = self.draft
        reading = draft.reading()
        confidence = draft.gate.confidence(reading)
        rated = self.rated and reading.engine is not None
        draft.confidence = confidence if self.judged or rated else None
        draft.doubted = draft.doubted or self.failed or draft.gate.doubts(confidence)
        if self.retold is not None and draft.confidence is not None:
            draft.confidence *= UNSAID if self.unsaid else self.retold.chance

    def _truncate(self, error: ContextExceeded) -> None:
        room = min(self.local_request.device_tokens, error.context_tokens // 4) + LEAST_ROOM_TOKENS
        messages, needed = self.local_request.messages, error.prompt_tokens
        kept = drop_oldest(messages, needed, error.context_tokens - room)
        self.local_request = replace(self.local_request, messages=kept)
        self.draft.truncated = True
