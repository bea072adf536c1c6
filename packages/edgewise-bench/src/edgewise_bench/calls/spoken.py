"""`edgewise bench spoken`: requests as people say them to a phone or a home, on the device alone.

The requests and their tools were written for this bench. Half of the tool sets were looked at while
settings were chosen (`first`); the other half is only measured (`second`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgewise.calibrate.metrics import share
from edgewise.calibrate.rows import Call, exact
from edgewise.calls.values.words import word_set
from edgewise.engine import Engine
from edgewise.errors import EdgewiseError, SettingsError
from edgewise.local.backend import CallBackend, CallToWrite, DeviceFacts, TokenStream
from edgewise.parts import open_function_model
from edgewise.settings import Settings
from edgewise.types.messages import Context, Tool
from edgewise.types.replies import Finish, Token
from edgewise_bench.calls.cases import as_labelled, read_tool, reading

SHIPPED = Path(__file__).with_name("spoken_requests.jsonl")
HALVES = ("first", "second")
TARGETS: dict[str, tuple[str, float]] = {
    "exact": (">=", 0.75),
    "kept": (">=", 0.45),
    "kept_right": (">=", 0.95),
    "punctuation_changes": ("<=", 0.0),
    "deadline_changes_answers": ("<=", 0.0),
}
# Tokens per second, read and written, of five machines: the first has time for every try.
LOADS = ((2000.0, 200.0), (200.0, 40.0), (60.0, 20.0), (25.0, 8.0), (5.0, 1.0))
LOADED = 100  # requests that are asked at every load
_ASKING = word_set(
    "what what's who how where where's why when is am are should would could can do does"
)


@dataclass(frozen=True, slots=True)
class SpokenCase:
    """`asks`: one of these is to be asked for. `dated`: only the context tells which day it is."""

    set: str
    half: str
    kind: str
    say: str
    tools: tuple[Tool, ...]
    context: Context
    expected: tuple[Call, ...]
    asks: frozenset[str] = frozenset()
    dated: bool = False

    @property
    def written(self) -> str:
        """The words as a transcriber writes them."""
        mark = "?" if self.say.split()[0] in _ASKING else "."
        return f"{self.say[0].upper()}{self.say[1:]}{mark}"


@dataclass(frozen=True, slots=True)
class Heard:
    """What was made of a request. `kept`: none of it is in doubt."""

    calls: tuple[Call, ...] = ()
    needs: frozenset[str] = frozenset()
    kept: bool = False
    confidence: float = 0.0
    error: str = ""

    def same_as(self, other: Heard) -> bool:
        return exact(self.calls, other.calls) and self.needs == other.needs

    def is_right(self, case: SpokenCase) -> bool:
        asked = bool(self.needs & case.asks) if case.asks else not self.needs
        return not self.error and asked and exact(self.calls, case.expected)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request in all its forms; those of the context and the loads where they were asked."""

    case: SpokenCase
    plain: Heard
    written: Heard
    known: Heard  # written, and with the context
    loaded: tuple[Heard, ...] = ()


def read_spoken(path: Path = SHIPPED) -> list[SpokenCase]:
    """A line with a set's tools and context, then its requests, a line each."""
    cases: list[SpokenCase] = []
    head: Mapping[str, Any] = {}
    tools: dict[str, Tool] = {}
    with reading(path):
        for line in path.read_text("utf-8").splitlines():
            row = json.loads(line)
            if "tools" in row:
                head, tools = row, {tool.name: tool for tool in map(read_tool, row["tools"])}
            else:
                cases.append(_case(head, tools, row))
    if not cases:
        raise SettingsError(f"{path} holds no request")
    return cases


def _case(head: Mapping[str, Any], tools: Mapping[str, Tool], row: Mapping[str, Any]) -> SpokenCase:
    return SpokenCase(
        head["name"],
        head["half"],
        row["kind"],
        row["say"],
        tuple(tools.values()),
        head["context"],
        tuple((name, as_labelled(given, tools[name])) for name, given in row["calls"]),
        frozenset(row.get("asks", ())),
        row.get("dated", False),
    )


class Remembered:
    """Fulfils `CallBackend` with another one, which is asked once for each thing; at any speed."""

    def __init__(self, inner: CallBackend) -> None:
        self._inner = inner
        self._known: dict[tuple[str, str, int], tuple[Token | Finish, ...]] = {}
        self.load = LOADS[0]

    def facts(self) -> DeviceFacts:
        read, written = self.load
        facts = self._inner.facts()
        return replace(facts, prompt_tokens_per_second=read, output_tokens_per_second=written)

    def write_call(self, call: CallToWrite) -> TokenStream:
        asked = (call.prompt, call.grammar, call.max_tokens)
        if asked not in self._known:
            with closing(self._inner.write_call(call)) as items:
                self._known[asked] = tuple(items)
        yield from self._known[asked]

    def close(self) -> None:
        """Whoever opened the model closes it."""


def measure_spoken(
    settings: Settings,
    cases: Sequence[SpokenCase],
    progress: Callable[[], None] = lambda: None,
    *,
    function_model: CallBackend | None = None,
    answers: Path | None = None,
) -> list[Asked]:
    """Every request in its forms, and the first of them under five loads."""
    found: list[Asked] = []
    with ExitStack() as opened:
        if function_model is None:
            function_model = open_function_model(settings)
            opened.callback(function_model.close)
        model = Remembered(function_model)
        engine = opened.enter_context(Engine(settings, function_model=model))
        file = opened.enter_context(answers.open("w", encoding="utf-8")) if answers else None
        for place, case in enumerate(cases):
            model.load = LOADS[0]
            facts: Context = {"date": case.context["date"]} if case.dated else {}
            plain, written, known = (
                _ask(engine, case, said, context)
                for said, context in (
                    (case.say, facts),
                    (case.written, facts),
                    (case.written, case.context),
                )
            )
            loaded = []
            for load in LOADS[1:] if place < LOADED else ():
                model.load = load
                loaded.append(_ask(engine, case, case.say, facts))
            found.append(Asked(case, plain, written, known, tuple(loaded)))
            if file is not None:
                file.write(json.dumps(_row(found[-1]), ensure_ascii=False, default=str) + "\n")
            progress()
    return found


def _ask(engine: Engine, case: SpokenCase, said: str, context: Context) -> Heard:
    try:
        reply = engine.call(said, case.tools, context=context, policy="local_only")
    except EdgewiseError as error:
        return Heard(error=error.code)
    return Heard(
        tuple((call.name, call.arguments) for call in reply.tool_calls),
        frozenset(reply.needs),
        not reply.needs_cloud_handoff,
        reply.confidence or 0.0,
    )


def _row(asked: Asked) -> dict[str, Any]:
    case = asked.case
    told: dict[str, Any] = {"half": case.half, "set": case.set, "kind": case.kind, "say": case.say}
    for name in ("plain", "written", "known"):
        heard: Heard = getattr(asked, name)
        told[name] = {
            "calls": heard.calls,
            "needs": sorted(heard.needs),
            "kept": heard.kept,
            "confidence": heard.confidence,
            "right": heard.is_right(case),
        }
    return told


def figures(asked: Sequence[Asked]) -> dict[str, float]:
    """All metrics: those of the held-out half have no prefix, the others are `first_…`."""
    found: dict[str, float] = {}
    for half, prefix in (("second", ""), ("first", "first_")):
        rows = [one for one in asked if one.case.half == half]
        if rows:
            found |= {f"{prefix}{name}": value for name, value in _of_half(rows).items()}
    found["punctuation_changes"] = float(sum(not one.plain.same_as(one.written) for one in asked))
    loaded = [(one.plain, other) for one in asked for other in one.loaded]
    found["deadline_changes_answers"] = float(sum(_is_another(*pair) for pair in loaded))
    found["requests"] = float(len(asked))
    found["loaded_requests"] = float(sum(bool(one.loaded) for one in asked))
    return found


def _is_another(quiet: Heard, busy: Heard) -> bool:
    """Whether a busy machine is sure of an answer that a quiet one does not give."""
    return busy.kept and not busy.same_as(quiet)


def _of_half(rows: Sequence[Asked]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, prefix in (("plain", ""), ("written", "written_"), ("known", "context_")):
        heard = [(one.case, getattr(one, name)) for one in rows]
        kept = [heard.is_right(case) for case, heard in heard if heard.kept]
        found[f"{prefix}exact"] = share([heard.is_right(case) for case, heard in heard])
        found[f"{prefix}kept"] = len(kept) / len(heard)
        if kept:
            found[f"{prefix}kept_right"] = share(kept)
    for kind in dict.fromkeys(one.case.kind for one in rows):
        right = [one.plain.is_right(one.case) for one in rows if one.case.kind == kind]
        found[f"{kind}_exact"] = share(right)
    return found
