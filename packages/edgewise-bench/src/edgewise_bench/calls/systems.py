"""The systems that function-calling benches compare, each timed and watched from outside."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

from edgewise.calibrate.rows import Call
from edgewise.calls.prompt import MalformedAnswer, parse_answer, render_prompt
from edgewise.cloud.provider import Chunk, Cloud, Stop
from edgewise.engine import Engine
from edgewise.errors import CloudClosed, EdgewiseError
from edgewise.local.backend import CallBackend, CallToWrite, DeviceFacts, TokenStream
from edgewise.types.messages import Request
from edgewise.types.replies import Attempt, CallReply, Token
from edgewise_bench.calls.cases import CallCase
from edgewise_bench.calls.regex import regex_calls

LONGEST_ANSWER = 400  # tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a system made of a case. Milliseconds and sources are the harness's own finding.

    `confidences` has one per call; an answer without calls has one, that of "no call".
    `own_ms` is what was left of the time without the model; None where a cloud was waited for.
    `impossible` counts calls whose stated source did not run.
    """

    calls: tuple[Call, ...] = ()
    sources: tuple[str, ...] = ()
    confidences: tuple[float, ...] = ()
    confidence: float | None = None
    ms: float = 0.0
    own_ms: float | None = None
    steps_ms: Mapping[str, float] = field(default_factory=dict)
    intents: int = 1
    cloud_asked: bool = False
    impossible: int = 0
    error: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"calls": [[name, dict(given)] for name, given in self.calls]}

    @classmethod
    def from_dict(cls, row: dict[str, Any]) -> Answered:
        known = {name: row[name] for name in cls.__slots__}
        known["calls"] = tuple((name, given) for name, given in row["calls"])
        for name in ("sources", "confidences"):
            known[name] = tuple(row[name])
        return cls(**known)


class System(Protocol):
    """Anything that turns a request and tools into calls."""

    def answer(self, case: CallCase) -> Answered: ...


class RegexSystem:
    """Patterns only, no model."""

    def answer(self, case: CallCase) -> Answered:
        started = time.perf_counter()
        calls = tuple(regex_calls(case.query, case.tools))
        ms = 1000 * (time.perf_counter() - started)
        return Answered(calls=calls, sources=("local",) * len(calls), ms=ms)


class RawSystem:
    """The model alone: prompt, greedy answer, parse. No grammar, no repair, no checks."""

    def __init__(self, function_model: CallBackend) -> None:
        self._function_model = function_model

    def answer(self, case: CallCase) -> Answered:
        started = time.perf_counter()
        prompt = render_prompt(case.tools, case.query)
        try:
            stream = self._function_model.write_call(CallToWrite(prompt, max_tokens=LONGEST_ANSWER))
            text = "".join(item.text for item in stream if isinstance(item, Token))
            calls = tuple((call.name, call.arguments) for call in parse_answer(text))
        except MalformedAnswer:
            return Answered(ms=_since(started), error="malformed")
        except EdgewiseError as error:
            return Answered(ms=_since(started), error=error.code)
        return Answered(calls=calls, sources=("local",) * len(calls), ms=_since(started))


class EngineSystem:
    """`Engine.call` under a policy, with the model and the cloud watched."""

    def __init__(
        self,
        engine: Engine,
        policy: str,
        function_model: WatchedFunctionModel,
        cloud: WatchedCloud | None,
    ) -> None:
        self._engine, self._policy, self._function_model, self._cloud = (
            engine,
            policy,
            function_model,
            cloud,
        )

    def answer(self, case: CallCase) -> Answered:
        if self._cloud is not None:
            self._cloud.turn_to(case)
        written, model_ms = self._function_model.asked, self._function_model.ms
        sent = self._cloud.asked if self._cloud else 0
        started = time.perf_counter()
        try:
            reply = self._engine.call(
                case.messages or case.query,
                case.tools,
                policy=self._policy,
                context=case.context,
            )
        except EdgewiseError as error:
            asked = self._cloud is not None and self._cloud.asked > sent
            return Answered(ms=_since(started), cloud_asked=asked, error=error.code)
        ms = _since(started)
        device = self._function_model.asked > written
        cloud = self._cloud is not None and self._cloud.asked > sent
        answered = read_reply(reply, ms, device=device, cloud=cloud)
        own_ms = None if cloud else ms - (self._function_model.ms - model_ms)
        return replace(answered, own_ms=own_ms)


def read_reply(reply: CallReply, ms: float, *, device: bool, cloud: bool) -> Answered:
    """`device` and `cloud`: who was seen at work while the engine answered."""
    told = [call.source for call in reply.tool_calls]
    whole = reply.confidence
    each = [whole if call.confidence is None else call.confidence for call in reply.tool_calls]
    return Answered(
        calls=tuple((call.name, call.arguments) for call in reply.tool_calls),
        sources=tuple(seen_source(source, device=device, cloud=cloud) for source in told),
        confidences=tuple(value or 0.0 for value in (each or [whole])),
        confidence=whole,
        ms=ms,
        steps_ms=dict(reply.steps_ms),
        intents=len(reply.intents),
        cloud_asked=cloud,
        impossible=sum(
            (source == "local" and cloud and not device) or (source != "local" and not cloud)
            for source in told
        ),
    )


def seen_source(told: str, *, device: bool, cloud: bool) -> str:
    """Where a call came from. What the reply says counts only where both sides were at work."""
    if not cloud:
        return "local"
    return told if device else "cloud"


class WatchedFunctionModel:
    """Fulfils `CallBackend` with another one, and counts how often and how long it is asked."""

    def __init__(self, inner: CallBackend) -> None:
        self._inner = inner
        self.asked = 0
        self.ms = 0.0

    def facts(self) -> DeviceFacts:
        return self._inner.facts()

    def write_call(self, call: CallToWrite) -> TokenStream:
        self.asked += 1
        return self._timed(self._inner.write_call(call))

    def _timed(self, stream: TokenStream) -> TokenStream:
        with closing(stream):
            while True:
                started = time.perf_counter()
                item = next(stream, None)
                self.ms += _since(started)
                if item is None:
                    return
                yield item

    def close(self) -> None:
        """Engines come and go; whoever opened the model closes it."""


class WatchedCloud:
    """Fulfils `Cloud` with another one, and counts how often it is asked."""

    def __init__(self, inner: Cloud) -> None:
        self._inner = inner
        self.asked = 0

    def turn_to(self, case: CallCase) -> None:
        turn_to = getattr(self._inner, "turn_to", None)  # only the stand-in wants to know
        if turn_to is not None:
            turn_to(case)

    def closed(self, request: Request) -> CloudClosed | None:
        return self._inner.closed(request)

    def stream(
        self,
        request: Request,
        journal: list[Attempt],
        *,
        live: bool,
        patience_s: float | None,
        stop: Stop | None = None,
    ) -> Generator[Chunk, None, None]:
        self.asked += 1
        return self._inner.stream(request, journal, live=live, patience_s=patience_s, stop=stop)


def _since(started: float) -> float:
    return 1000 * (time.perf_counter() - started)
