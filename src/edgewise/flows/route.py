"""A reply in the making: what was heard, what was shown, and what has been decided so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from edgewise.decide.fit import estimate_tokens
from edgewise.decide.gate import Gate
from edgewise.decide.meter import Meter
from edgewise.errors import LocalError
from edgewise.local.backend import DeviceFacts
from edgewise.types.messages import Request, Source, ToolCall
from edgewise.types.replies import Attempt, Decision, Event, Place, Reply, TextDelta, Usage
from edgewise.types.tokens import Finish, Token


@dataclass(slots=True)
class Draft:
    """Mutable while a flow runs; `reply()` freezes it. The reply's text is what was shown."""

    request: Request
    gate: Gate
    attempts: list[Attempt]
    started: float
    code: str = ""
    reason: str = ""
    degraded_code: str = ""
    confidence: float | None = None
    doubted: bool = False
    signalled: bool = False
    truncated: bool = False
    decided_after: int | None = None
    first_shown: float | None = None
    finish: Finish = field(default_factory=Finish)
    tool_calls: list[ToolCall] = field(default_factory=list)
    meter: Meter = field(default_factory=Meter)
    evidence: list[Token] = field(default_factory=list)
    _shown: list[tuple[Place, str]] = field(default_factory=list)
    _told: int = 0  # how much of the evidence went out with shown text

    @property
    def text(self) -> str:
        return "".join(text for _, text in self._shown)

    def hear(self, token: Token) -> None:
        """Take in a local token's evidence, shown or not."""
        self.meter.add(token)
        if self.request.evidence:
            self.evidence.append(token)

    def show(self, text: str, place: Place, now: float) -> Iterator[Event]:
        """The only way text reaches a caller."""
        if not text:
            return
        if self.first_shown is None:
            self.first_shown = now
        self._shown.append((place, text))
        tokens = tuple(self.evidence[self._told :]) if place == "local" else ()
        self._told += len(tokens)
        yield TextDelta(text, place, tokens)

    def conclude(self, code: str, reason: str) -> None:
        self.code, self.reason = code, reason

    def reinstate(self) -> None:
        """The local answer that was handed off is the answer after all."""
        for index in reversed(range(len(self.attempts))):
            if self.attempts[index].place == "local":
                self.attempts[index] = replace(self.attempts[index], outcome="answered")
                return

    def reply(self, now: float) -> Reply:
        attempts = self._with_shares()
        source = self._source()
        if self.gate.usual is not None and source == "local":
            self._own_up(self.gate.usual)
        return Reply(
            id=self.request.id,
            text=self.text,
            source=source,
            confidence=self.confidence,
            needs_cloud_handoff=self.doubted,
            cloud_handoff=self.signalled or source in ("cloud", "mixed"),
            degraded=bool(self.degraded_code),
            decision=self._decision(),
            finish_reason=self.finish.reason,
            tool_calls=tuple(self.tool_calls),
            attempts=attempts,
            usage=Usage(
                sum(attempt.input_tokens for attempt in attempts),
                sum(attempt.output_tokens for attempt in attempts),
                sum(attempt.cost_microdollars for attempt in attempts),
            ),
            total_ms=1000 * (now - self.started),
            first_token_ms=(
                None if self.first_shown is None else 1000 * (self.first_shown - self.started)
            ),
        )

    def _own_up(self, usual: float) -> None:
        """Say so where an answer was kept only to make a budget last."""
        sure = self.confidence
        if self.code != "kept_confident" or sure is None or sure >= usual:
            return
        self.doubted, self.degraded_code = True, "budget_paced"
        kept = f"kept all the same from {self.gate.threshold:.2f} on, {self.gate.objective}"
        self.conclude("kept_in_doubt", f"confidence {sure:.2f} is below {usual:.2f}; {kept}")

    def _decision(self) -> Decision:
        request = self.request
        return Decision(
            policy=request.policy,
            handoff=request.handoff,
            code=self.code,
            reason=self.reason,
            threshold=self.gate.threshold,
            objective=self.gate.objective,
            confidence=self.confidence,
            calibration=self.gate.calibration.name,
            decided_after_tokens=self.decided_after,
            degraded_code=self.degraded_code,
            truncated=self.truncated,
            features=self.meter.reading().features(),
            evidence=tuple(self.evidence),
        )

    def _source(self) -> Source:
        """From what was shown; an answer without text is its last successful attempt's."""
        places: set[Place] = {place for place, _ in self._shown}
        if len(places) > 1:
            return "mixed"
        if places:
            return places.pop()
        answered = [attempt for attempt in self.attempts if attempt.outcome == "answered"]
        return "none" if self.signalled or not answered else answered[-1].place

    def _with_shares(self) -> tuple[Attempt, ...]:
        """Each place's shown characters belong to its last attempt that produced any text."""
        attempts = list(self.attempts)
        for place in ("local", "cloud"):
            characters = sum(len(text) for shown_by, text in self._shown if shown_by == place)
            for index in reversed(range(len(attempts))):
                if attempts[index].place == place and characters:
                    attempts[index] = replace(attempts[index], shown_chars=characters)
                    break
        return tuple(attempts)


@dataclass(slots=True)
class LocalAttempt:
    """Times one generation on the device and writes it down, however it ends."""

    request: Request
    attempts: list[Attempt]
    facts: DeviceFacts
    clock: Callable[[], float]
    started: float = 0.0
    first: float | None = None
    tokens: int = 0
    outcome: str = "cancelled"  # unless somebody says otherwise: the caller left
    finish: Finish | None = None

    def __enter__(self) -> LocalAttempt:
        self.started = self.clock()
        return self

    def count(self) -> None:
        if self.first is None:
            self.first = self.clock()
        self.tokens += 1

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        finish = self.finish or Finish(
            input_tokens=estimate_tokens(self.request.messages),
            output_tokens=self.tokens,
            estimated=True,
        )
        failed = isinstance(error, LocalError)
        self.attempts.append(
            Attempt(
                place="local",
                backend=self.facts.backend,
                model=self.facts.model,
                outcome=error.code if isinstance(error, LocalError) else self.outcome,
                error=str(error) if failed else "",
                first_token_ms=None if self.first is None else 1000 * (self.first - self.started),
                total_ms=1000 * (self.clock() - self.started),
                input_tokens=finish.input_tokens,
                output_tokens=finish.output_tokens,
                cached_tokens=finish.cached_tokens,
                estimated=finish.estimated,
            )
        )
