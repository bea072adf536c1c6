"""`edgewise bench engines`: every engine that runs here, beside llama.cpp in process.

Each engine works in a process of its own, so that its memory is its own, and does what it is told
over a pipe, one engine at a time. The rounds take turns, so that a slow minute of the machine is
slow for all of them.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Protocol, Self

from edgewise.calibrate.rows import Question
from edgewise.calibrations import find_document, model_key
from edgewise.children import python_child
from edgewise.engine import Engine
from edgewise.errors import EdgewiseError
from edgewise.local.backend import CallBackend, ChatBackend, DeviceFacts, TokenStream
from edgewise.parts import open_backend, open_function_model
from edgewise.settings import Settings
from edgewise.types.messages import Message, Request, Tool
from edgewise.types.replies import Finish, Token, is_borrowed
from edgewise_bench.calls.cases import CallCase
from edgewise_bench.chat.isolate import processor_s
from edgewise_bench.chat.overhead import LONG_PROMPTS, PLACES, SHORT_PROMPTS
from edgewise_bench.processes import bare_server, highest_mb

BASE, SERVED = "llama_cpp", "llama_server"
ENGINES = (BASE, SERVED, "onnx", "openvino", "executorch")
TARGETS: dict[str, tuple[str, float]] = {
    "engines_run": (">=", 4),
    "same_gate": (">=", 0.9),
    "calls_equal": (">=", 0.9),
}
KINDS = ("empty", "long", "prefill")
LONGEST_ANSWER = 64  # tokens of an answer to a question
_SENTENCES = [phrasing.format(place) for place in PLACES for phrasing in SHORT_PROMPTS]
_LOST = 10.0  # seconds that a process may take to end


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """How often each thing is measured; medians are taken over the rounds."""

    rounds: int = 5
    tokens: int = 64

    def steps(self, questions: int, cases: int) -> int:
        """How often `progress` is called."""
        return self.rounds + questions + cases


class Measured(Protocol):
    """One engine. All that goes in and out is JSON."""

    def speed(self, kind: str, number: int, tokens: int) -> dict[str, float]:
        """Tokens and the processor time for them: `empty`, `long` or `prefill`."""
        ...

    def first_token_s(self, number: int) -> float: ...

    def decide(self, prompt: str, system: str) -> dict[str, Any]:
        """The whole answer's `text`, and whether it is `kept` at the default gate.

        `plain` and `confidence` are those without hidden states, which not every engine has.
        """
        ...

    def call(self, query: str, tools: list[dict[str, Any]]) -> list[Any]: ...

    def peak_mb(self) -> float: ...

    def calibration(self) -> str:
        """Whose evidence its confidence comes from."""
        ...


class Stateless:
    """A model that keeps its hidden states to itself, as the other engines do."""

    def __init__(self, backend: ChatBackend) -> None:
        self._backend = backend

    def facts(self) -> DeviceFacts:
        return replace(self._backend.facts(), states=False, layers=0)

    def generate(
        self, request: Request, *, already: str = "", layer: int = 0, prompt_layer: int = 0
    ) -> TokenStream:
        return self._backend.generate(request, already=already)

    def close(self) -> None:
        self._backend.close()


class Worker:
    """An engine of this process. `server` is another process that does the work."""

    def __init__(
        self,
        settings: Settings,
        backend: ChatBackend,
        function_model: Callable[[], CallBackend],
        *,
        home: Path | None = None,
        server: int | None = None,
    ) -> None:
        """`home` is the calibration to use where there is none for this engine."""
        self._backend, self._server = backend, server
        self._open_function_model = function_model
        self._calls: Engine | None = None
        self._settings = settings
        self._engine = self._plain = Engine(settings, backend=backend)
        if backend.facts().states:
            self._plain = Engine(settings, backend=Stateless(backend))
        self._calibration = self._named()
        if home is not None and self._calibration.startswith("unverified"):
            lent = settings.with_changes(calibration=str(home))
            self._engine = self._plain = Engine(lent, backend=backend)
            self._calibration = f"lent: {self._named()}"

    def _named(self) -> str:
        decision = self._engine.complete("Hello.", policy="local_only", max_tokens=2).decision
        known = decision.calibration or "none"
        return known if decision.verified or is_borrowed(known) else f"unverified: {known}"

    def calibration(self) -> str:
        return self._calibration

    def speed(self, kind: str, number: int, tokens: int) -> dict[str, float]:
        prompt = LONG_PROMPTS[number % len(LONG_PROMPTS)]
        if kind != "empty":  # about 560 tokens, no two alike from the first sentence on
            start = (5 * number + (kind == "long")) % len(_SENTENCES)
            prompt = " ".join([*_SENTENCES[start:], *_SENTENCES[:start], prompt])
        if kind == "prefill":
            return self._timed(prompt, 1, fresh=True)
        self._timed(prompt, 1)  # the prompt is read: only the answer counts
        return self._timed(prompt, tokens)

    def _timed(self, prompt: str, tokens: int, *, fresh: bool = False) -> dict[str, float]:
        request = Request(messages=(Message("user", prompt),), max_tokens=tokens)
        began = processor_s(self._server)
        *_, finish = self._backend.generate(request)
        spent = max(processor_s(self._server) - began, 1e-9)
        assert isinstance(finish, Finish)
        read = finish.input_tokens - finish.cached_tokens
        return {"tokens": read if fresh else finish.output_tokens, "cpu_s": spent}

    def first_token_s(self, number: int) -> float:
        """Of a short question that was not asked before."""
        prompt = _SENTENCES[(7 * number) % len(_SENTENCES)]
        request = Request(messages=(Message("user", prompt),), max_tokens=4)
        began = time.perf_counter()
        with closing(self._backend.generate(request)) as items:
            first = next(items)
            took = time.perf_counter() - began
        assert isinstance(first, Token)
        return took

    def decide(self, prompt: str, system: str) -> dict[str, Any]:
        messages = [Message("system", system)] if system else []
        messages.append(Message("user", prompt))
        whole = self._plain.complete(messages, policy="local_only", max_tokens=LONGEST_ANSWER)
        kept = plain = self._keeps(self._engine, messages)
        if self._plain is not self._engine:
            plain = self._keeps(self._plain, messages)
        return {"text": whole.text, "confidence": whole.confidence, "kept": kept, "plain": plain}

    @staticmethod
    def _keeps(engine: Engine, messages: list[Message]) -> bool:
        reply = engine.complete(messages, handoff="signal", max_tokens=LONGEST_ANSWER)
        return not reply.cloud_handoff

    def call(self, query: str, tools: list[dict[str, Any]]) -> list[Any]:
        if self._calls is None:
            self._calls = Engine(self._settings, function_model=self._open_function_model())
        reply = self._calls.call(query, tools, policy="local_only")
        return [[call.name, dict(call.arguments)] for call in reply.calls]

    def peak_mb(self) -> float:
        return highest_mb(self._server or os.getpid())

    def close(self) -> None:
        self._engine.close()
        if self._calls is not None:
            self._calls.close()


# -- in a process of its own -----------------------------------------------------------------------


class Gone(EdgewiseError):
    code = "engine_gone"


class Child:
    """An engine in a process of its own. Raises Gone where it cannot be opened or breaks off."""

    def __init__(self, engine: str, settings: Settings, home: Path | None) -> None:
        told = {
            "engine": engine,
            "model": settings.model,
            "function_model": settings.function_model,
            "threads": settings.threads,
            "cache_dir": str(settings.cache_dir),
            "data_dir": str(settings.data_dir),
            "home": str(home) if home else "",
        }
        self._process = subprocess.Popen(
            python_child("-m", __name__, json.dumps(told)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            self._hear()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with suppress(OSError):
            self._pipe(self._process.stdin).close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_LOST)
        self._process.kill()
        self._process.wait()
        self._pipe(self._process.stdout).close()

    def speed(self, kind: str, number: int, tokens: int) -> dict[str, float]:
        found: dict[str, float] = self._ask("speed", kind, number, tokens)
        return found

    def first_token_s(self, number: int) -> float:
        return float(self._ask("first_token_s", number))

    def decide(self, prompt: str, system: str) -> dict[str, Any]:
        found: dict[str, Any] = self._ask("decide", prompt, system)
        return found

    def call(self, query: str, tools: list[dict[str, Any]]) -> list[Any]:
        found: list[Any] = self._ask("call", query, tools)
        return found

    def peak_mb(self) -> float:
        return float(self._ask("peak_mb"))

    def calibration(self) -> str:
        return str(self._ask("calibration"))

    def _ask(self, what: str, *given: Any) -> Any:
        pipe = self._pipe(self._process.stdin)
        try:
            pipe.write(json.dumps([what, *given]) + "\n")
            pipe.flush()
        except OSError as error:
            raise Gone("its process ended") from error
        return self._hear()

    def _hear(self) -> Any:
        line = self._pipe(self._process.stdout).readline()
        if not line:
            raise Gone("its process ended")
        heard = json.loads(line)
        if "error" in heard:
            raise Gone(heard["error"])
        return heard["answer"]

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe


def obey(worker: Measured, orders: IO[str], answers: IO[str]) -> None:
    """Do what is asked, a line each, until there are no more lines."""
    for line in orders:
        what, *given = json.loads(line)
        try:
            said = {"answer": getattr(worker, what)(*given)}
        except EdgewiseError as error:
            said = {"error": str(error)}
        answers.write(json.dumps(said) + "\n")
        answers.flush()


def open_worker(told: Mapping[str, Any], opened: ExitStack) -> Worker:
    """A model and a function model on one engine, by the names that users give them."""
    engine, names = told["engine"], ("model", "function_model", "threads", "cache_dir", "data_dir")
    # Time is no reason to hand off here: it would be that of the machine, and not the engine's.
    settings = Settings.load(**{name: told[name] for name in names}, slow_after_s=0.0)
    model, function_model, server = settings.model, settings.function_model, None
    if engine == SERVED:
        process = opened.enter_context(bare_server(settings, 1))
        model, server = process.url, process.pid
    else:  # named also for llama.cpp: `edgewise tune` may have chosen another one
        model, function_model = f"{model}@{engine}", f"{function_model}@{engine}"

    def open_calls() -> CallBackend:
        name = function_model
        if engine == SERVED:
            served = settings.with_changes(model=name)
            name = opened.enter_context(bare_server(served, 1)).url
        return open_function_model(settings.with_changes(function_model=name))

    chosen = settings.with_changes(model=model)
    home = Path(told["home"]) if told["home"] else None
    worker = Worker(chosen, open_backend(chosen), open_calls, home=home, server=server)
    opened.callback(worker.close)
    return worker


def main() -> None:
    # What a runtime prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with ExitStack() as opened:
        try:
            worker = open_worker(json.loads(sys.argv[1]), opened)
        except EdgewiseError as error:
            answers.write(json.dumps({"error": str(error)}) + "\n")
            answers.flush()
            return
        answers.write(json.dumps({"answer": "ready"}) + "\n")
        answers.flush()
        obey(worker, sys.stdin, answers)


# -- the measurement -------------------------------------------------------------------------------


@dataclass(slots=True)
class Outcome:
    """What each engine did, and why others did not run."""

    speeds: dict[str, dict[str, list[float]]] = field(default_factory=dict)  # per processor second
    first_s: dict[str, list[float]] = field(default_factory=dict)
    decided: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    calls: dict[str, list[Any]] = field(default_factory=dict)
    peak_mb: dict[str, float] = field(default_factory=dict)
    calibrations: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def metrics(self) -> dict[str, float]:
        """Flat: an engine's name comes first. `same_gate` and `calls_equal` are the lowest."""
        own = self.speeds[BASE]
        found = {
            "engines_run": float(len(self.peak_mb)),
            "questions": float(len(self.decided[BASE])),
            "cases": float(len(self.calls[BASE])),
        }
        for engine in self.peak_mb:
            figures = {
                "tokens_per_cpu_second": statistics.median(self.speeds[engine]["empty"]),
                "first_token_ms": 1000 * statistics.median(self.first_s[engine]),
                "memory_mb": self.peak_mb[engine],
                "kept": _share(each["kept"] for each in self.decided[engine]),
            }
            if engine != BASE:
                names = ("tokens_per_second_ratio", "long_ratio", "prefill_ratio")
                for name, kind in zip(names, KINDS, strict=True):
                    pairs = zip(self.speeds[engine][kind], own[kind], strict=True)
                    figures[name] = statistics.median(one / other for one, other in pairs)
                figures |= self._agreement(engine)
            found |= {f"{engine}_{name}": value for name, value in figures.items()}
        for name in ("same_gate", "calls_equal"):
            values = [value for key, value in found.items() if key.endswith(f"_{name}")]
            found[name] = min(values, default=1.0)
        return found

    def _agreement(self, engine: str) -> dict[str, float]:
        pairs = list(zip(self.decided[engine], self.decided[BASE], strict=True))
        changes = [
            abs(one["confidence"] - other["confidence"])
            for one, other in pairs
            if None not in (one["confidence"], other["confidence"])
        ]
        calls = zip(self.calls[engine], self.calls[BASE], strict=True)
        ours, theirs = (_share(each["plain"] for each in side) for side in zip(*pairs, strict=True))
        return {
            # What two judges reach that keep so many, and know nothing of each other.
            "same_gate_by_chance": ours * theirs + (1 - ours) * (1 - theirs),
            "plain_kept": ours,
            "same_at_median": _same_at_median(pairs),
            "same_gate": _share(one["plain"] == other["plain"] for one, other in pairs),
            "same_as_default": _share(one["kept"] == other["kept"] for one, other in pairs),
            "same_text": _share(one["text"] == other["text"] for one, other in pairs),
            "confidence_change": statistics.mean(changes or [0.0]),
            "calls_equal": _share(one == other for one, other in calls),
        }

    def versions(self) -> dict[str, str]:
        """What stands beside the versions of the scorecard: calibrations, and what is missing."""
        said = {f"{name}_calibration": each for name, each in self.calibrations.items()}
        return said | {f"{name}_missing": reason for name, reason in self.missing.items()}


def _same_at_median(pairs: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> float:
    """Equal decisions on whole answers, at the threshold at which llama.cpp keeps half of them."""
    known = [(one["confidence"] or 0.0, other["confidence"] or 0.0) for one, other in pairs]
    threshold = statistics.median(other for _, other in known)
    return _share((one >= threshold) == (other >= threshold) for one, other in known)


def _share(values: Any) -> float:
    known = [bool(value) for value in values]
    return sum(known) / len(known) if known else 1.0


def measure_engines(
    opened: Mapping[str, Measured],
    questions: Sequence[Question],
    cases: Sequence[CallCase],
    rounds: Rounds,
    progress: Callable[[], None] = lambda: None,
) -> Outcome:
    """All figures of the opened engines. An engine that breaks off is left out from then on."""
    outcome = Outcome()
    field = _Field(opened, outcome)
    outcome.calibrations = dict(field.each("calibration"))
    for number in range(rounds.rounds):
        for kind in KINDS:
            for name, run in field.each("speed", kind, number, rounds.tokens):
                speed = run["tokens"] / run["cpu_s"]
                outcome.speeds[name].setdefault(kind, []).append(speed)
        for name, seconds in field.each("first_token_s", number):
            outcome.first_s[name].append(seconds)
        progress()
    for question in questions:
        for name, decided in field.each("decide", question.prompt, question.system):
            outcome.decided[name].append(decided)
        progress()
    peaks = dict(field.each("peak_mb"))  # before the function model is loaded too
    for case in cases:
        for name, calls in field.each("call", case.query, [_plain(tool) for tool in case.tools]):
            outcome.calls[name].append(calls)
        progress()
    outcome.peak_mb = {name: peaks[name] for name in field.running}
    return outcome


def _plain(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }


class _Field:
    """The engines that still run. They take turns, and another one begins each time."""

    def __init__(self, opened: Mapping[str, Measured], outcome: Outcome) -> None:
        self.running, self._missing, self._turn = dict(opened), outcome.missing, 0
        for name in opened:
            outcome.speeds[name] = {}
            outcome.first_s[name], outcome.decided[name], outcome.calls[name] = [], [], []

    def each(self, what: str, *given: Any) -> Iterator[tuple[str, Any]]:
        """What every engine answers, by its name."""
        names = list(self.running)
        self._turn += 1
        first = self._turn % len(names)
        for name in names[first:] + names[:first]:
            try:
                answer = getattr(self.running[name], what)(*given)
            except Gone as error:
                if name == BASE:
                    raise
                self._missing[name] = str(error)
                del self.running[name]
            else:
                yield name, answer


def open_engines(
    names: Sequence[str], settings: Settings, opened: ExitStack
) -> tuple[dict[str, Child], dict[str, str]]:
    """The engines that run here, and why the others do not."""
    found: dict[str, Child] = {}
    missing: dict[str, str] = {}
    home = _home(settings)
    for name in dict.fromkeys((BASE, *names)):
        try:
            found[name] = opened.enter_context(Child(name, settings, home))
        except Gone as error:
            if name == BASE:
                raise
            missing[name] = str(error)
    return found, missing


def _home(settings: Settings) -> Path | None:
    """The calibration of llama.cpp in process, as a file."""
    with closing(open_backend(settings)) as backend:
        document = find_document(settings, model_key(backend.facts()), "chat")
    if document is None:
        return None
    path = Path(settings.data_dir) / "home.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), "utf-8")
    return path


if __name__ == "__main__":
    main()
