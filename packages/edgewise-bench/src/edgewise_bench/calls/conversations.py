"""`edgewise bench conversations`: requests that lean on turns, facts and results around them.

The cases ship with this bench, made by `training.conversation_cases` with tools (in homes: devices
and wordings) that no training saw. Each says which calls are right, and what must be asked for
because nobody said it.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from edgewise.calibrate.metrics import share
from edgewise.calibrate.rows import Call, exact
from edgewise.calls.prompt import Question
from edgewise.engine import Engine
from edgewise.errors import EdgewiseError, SettingsError
from edgewise.local.backend import CallBackend
from edgewise.parts import open_function_model
from edgewise.settings import Settings
from edgewise.types.messages import Context, Message, Tool
from edgewise_bench.calls.cases import read_message, read_tool, reading
from edgewise_bench.calls.function_model import REQUESTS, TOOLS
from edgewise_bench.calls.scores import f1_of, percentile

SHIPPED = Path(__file__).with_name("conversations.jsonl.gz")
SETS = ("dialogue", "missing", "home", "rounds", "taken_away", "nested", "facts")
TARGETS: dict[str, tuple[str, float]] = {
    "dialogue_exact": (">=", 0.70),
    "asked_back": (">=", 0.85),
    "home_f1": (">=", 0.80),
    "taken_away_false_calls": ("<=", 0.08),
}
_EXACT = ("dialogue", "rounds", "home", "nested", "facts")  # sets that are right or wrong


@dataclass(frozen=True, slots=True)
class ConversationCase:
    """The last message is the user's, or a tool's result. `asks` is what nobody has said."""

    set: str
    id: str
    kind: str
    messages: tuple[Message, ...]
    context: Context
    tools: tuple[Tool, ...]
    expected: tuple[Call, ...]
    asks: tuple[Question, ...]

    @property
    def needs(self) -> frozenset[str]:
        return frozenset(name for question in self.asks for name in question.needs)


@dataclass(frozen=True, slots=True)
class Replied:
    """What the engine made of a case; `error` if it raised."""

    calls: tuple[Call, ...] = ()
    needs: frozenset[str] = frozenset()
    seconds: float = 0.0
    error: str = ""


Row = tuple[ConversationCase, Replied]


def read_conversations(path: Path = SHIPPED) -> list[ConversationCase]:
    """The cases of a file of JSON lines, also gzipped, in its order."""
    with reading(path):
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
        rows = [json.loads(line) for line in text.split("\n") if line.strip()]
        cases = [_case(number, row) for number, row in enumerate(rows)]
    if not cases:
        raise SettingsError(f"{path} holds no case")
    return cases


def _case(number: int, row: Mapping[str, Any]) -> ConversationCase:
    return ConversationCase(
        row["set"],
        str(number),
        row.get("kind", row["set"]),
        tuple(map(read_message, row["messages"])),
        row.get("context", {}),
        tuple(map(read_tool, row["tools"])),
        tuple((call["name"], call["arguments"]) for call in row.get("calls", ())),
        tuple(Question(one["tool"], tuple(one["needs"])) for one in row.get("asks", ())),
    )


def choose(
    cases: Sequence[ConversationCase], sets: Sequence[str], limit: int | None, seed: int
) -> list[ConversationCase]:
    """The cases of some sets, in their order; with a limit so many of each, drawn by the seed."""
    chosen: list[ConversationCase] = []
    for name in sets:
        members = [case for case in cases if case.set == name]
        if limit is not None and limit < len(members):
            drawn = set(Random(f"{seed} {name}").sample(range(len(members)), limit))
            members = [case for place, case in enumerate(members) if place in drawn]
        chosen += members
    return chosen


def measure_conversations(
    settings: Settings,
    cases: Sequence[ConversationCase],
    progress: Callable[[], None] = lambda: None,
    *,
    function_model: CallBackend | None = None,
    answers: Path | None = None,
) -> list[Row]:
    """Every case on the device. `settings.data_dir` gets a ledger: give it one to throw away."""
    rows: list[Row] = []
    with ExitStack() as opened:
        if answers is not None:
            answers.unlink(missing_ok=True)
        if function_model is None:
            function_model = open_function_model(settings)
            opened.callback(function_model.close)
        engine = opened.enter_context(Engine(settings, function_model=function_model))
        engine.call(REQUESTS[0], TOOLS, policy="local_only")  # loads the weights
        for case in cases:
            rows.append((case, replied := _ask(engine, case)))
            if answers is not None:
                _write(answers, case, replied)
            progress()
    return rows


def _ask(engine: Engine, case: ConversationCase) -> Replied:
    started = time.perf_counter()
    try:
        reply = engine.call(case.messages, case.tools, context=case.context, policy="local_only")
    except EdgewiseError as error:
        return Replied(seconds=time.perf_counter() - started, error=error.code)
    calls = tuple((call.name, call.arguments) for call in reply.tool_calls)
    return Replied(calls, frozenset(reply.needs), time.perf_counter() - started)


def _write(path: Path, case: ConversationCase, replied: Replied) -> None:
    row = {
        "set": case.set,
        "id": case.id,
        "kind": case.kind,
        "query": next(one.content for one in reversed(case.messages) if one.role == "user"),
        "expected": case.expected,
        "expected_needs": sorted(case.needs),
        "calls": [(name, dict(arguments)) for name, arguments in replied.calls],
        "needs": sorted(replied.needs),
        "right": is_right(case, replied),
        "seconds": replied.seconds,
        "error": replied.error,
    }
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")


def is_right(case: ConversationCase, replied: Replied) -> bool:
    """The expected calls and no others, and a question for what is missing and nothing else."""
    return replied.needs == case.needs and exact(replied.calls, case.expected)


def asked_back(case: ConversationCase, replied: Replied) -> bool:
    """All that is missing was asked for, and the tool that lacks it was not called."""
    return case.needs <= replied.needs and asked_for_some(case, replied)


def asked_for_some(case: ConversationCase, replied: Replied) -> bool:
    """At least one missing value was asked for; the rest may follow in the next turn."""
    lacking = {question.tool for question in case.asks}
    called = {name for name, _ in replied.calls}
    return bool(case.needs & replied.needs) and lacking.isdisjoint(called)


def equal_calls(predicted: Sequence[Call], expected: Sequence[Call]) -> int:
    """How many predicted calls are expected ones: the name and all arguments, one to one."""
    left = list(expected)
    for call in predicted:
        place = next((at for at, other in enumerate(left) if exact([call], [other])), None)
        if place is not None:
            del left[place]
    return len(expected) - len(left)


def figures(rows: Sequence[Row]) -> dict[str, float]:
    """All metrics; those of a set that was not asked are left out."""
    by_set = {name: [row for row in rows if row[0].set == name] for name in SETS}
    found = {f"{name}_exact": _right(by_set[name]) for name in _EXACT if by_set[name]}
    if missing := by_set["missing"]:
        found["asked_back"] = share([asked_back(*row) for row in missing])
        found["asked_exactly"] = _right(missing)
        found["asked_for_some"] = share([asked_for_some(*row) for row in missing])
    if called := [row for row in rows if row[0].expected and not row[0].asks]:
        found["false_questions"] = share([bool(replied.needs) for _, replied in called])
    if home := by_set["home"]:
        found["home_f1"] = f1_of(
            sum(equal_calls(replied.calls, case.expected) for case, replied in home),
            sum(len(replied.calls) for _, replied in home),
            sum(len(case.expected) for case, _ in home),
        )
    if taken := by_set["taken_away"]:
        found["taken_away_false_calls"] = share([bool(replied.calls) for _, replied in taken])
        found["taken_away_questions"] = share([bool(replied.needs) for _, replied in taken])
    times = [replied.seconds for _, replied in rows]
    found["seconds_p50"], found["seconds_p95"] = percentile(times, 0.5), percentile(times, 0.95)
    found |= {f"{name}_cases": float(len(each)) for name, each in by_set.items() if each}
    found["errors"] = float(sum(bool(replied.error) for _, replied in rows))
    return found


def _right(rows: Sequence[Row]) -> float:
    return share([is_right(*row) for row in rows])
