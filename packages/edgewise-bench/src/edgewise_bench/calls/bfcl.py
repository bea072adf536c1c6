"""`edgewise bench bfcl`: the Berkeley leaderboard's single-turn categories, by its own checker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from edgewise import __version__
from edgewise.calibrate.metrics import auroc, share
from edgewise.engine import Engine
from edgewise.errors import SettingsError
from edgewise.local.backend import CallBackend
from edgewise.parts import open_door, open_function_model, open_ledger, provider_configs
from edgewise.settings import Settings
from edgewise_bench.calls.bfcl_package import (
    CATEGORIES,
    BfclCase,
    find_package,
    package_version,
    read_category,
)
from edgewise_bench.calls.cases import CallCase
from edgewise_bench.calls.function_model import REQUESTS, TOOLS
from edgewise_bench.calls.scores import percentile
from edgewise_bench.calls.systems import (
    Answered,
    EngineSystem,
    RawSystem,
    System,
    WatchedCloud,
    WatchedFunctionModel,
)
from edgewise_bench.processes import without_limits
from edgewise_bench.risk import aurc, coverage_at

COLUMNS = ("raw", "local")
# From the model card of FunctionGemma-270M: zero-shot, percent, its own harness and prompts.
PUBLISHED_TITLE = "FunctionGemma-270M (published, other harness)"
PUBLISHED = {
    "simple_python": 61.6,
    "multiple": 63.5,
    "parallel": 39.0,
    "parallel_multiple": 29.5,
    "irrelevance": 73.7,
    "live_simple": 36.2,
    "live_multiple": 25.7,
}
Judged = tuple[BfclCase, Answered, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to run. The column `local` runs the pipeline under `policy`."""

    package: Path | None = None
    categories: Sequence[str] = CATEGORIES
    columns: Sequence[str] = ("local",)
    policy: str = "local_only"
    limit: int | None = None

    @property
    def systems(self) -> tuple[str, ...]:
        return tuple(name for name in COLUMNS if name in self.columns)


@dataclass(slots=True)
class AnswerFile:
    """Answers as they come, one JSON line each; a run that was cut goes on where it stopped.

    The first line says what made them: other weights or another policy must not mix with these.
    Files of several runs may be joined into one.
    """

    path: Path
    made_by: Mapping[str, str]
    answers: dict[str, Answered] = field(default_factory=dict)

    def open(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        rows = list(_read_rows(self.path)) if self.path.exists() else []
        if not rows:
            self._append({"made_by": dict(self.made_by)})
            return
        for row in rows:
            if "key" in row:
                self.answers[row["key"]] = Answered.from_dict(row)
            elif row.get("made_by") != dict(self.made_by):
                raise SettingsError(
                    f"{self.path} was made by {row.get('made_by')}, this run is {self.made_by}: "
                    "give another file to --resume"
                )
        whole = "".join(_line(row) for row in rows)
        if self.path.read_text("utf-8") != whole:  # a kill cut its last line
            spare = self.path.with_suffix(".new")
            spare.write_text(whole, "utf-8")
            spare.replace(self.path)

    def add(self, key: str, answered: Answered) -> None:
        self.answers[key] = answered
        self._append({"key": key, **answered.to_dict()})

    def _append(self, row: Mapping[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_line(row))


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def _read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Up to a line that a kill cut off: that one is answered again."""
    for line in path.read_text("utf-8").split("\n"):
        try:
            yield json.loads(line)
        except ValueError:
            return


def load_cases(plan: Plan) -> list[BfclCase]:
    folder = find_package(plan.package)
    return [
        case for category in plan.categories for case in read_category(folder, category, plan.limit)
    ]


def find_version(plan: Plan) -> str:
    return package_version(find_package(plan.package)) or "unknown"


def new_answer_file(settings: Settings) -> Path:
    """In the cache, named by the moment."""
    moment = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    return settings.cache_dir / "bench" / f"bfcl-{moment}.jsonl"


def measure_bfcl(
    settings: Settings,
    plan: Plan,
    cases: Sequence[BfclCase],
    answers: Path,
    progress: Callable[[], None] = lambda: None,
    *,
    function_model: CallBackend | None = None,
) -> Outcome:
    """Every case to every system. `settings.data_dir` gets a ledger: give it one to throw away."""
    check_cloud(settings, plan)
    with ExitStack() as opened:
        if function_model is None:
            function_model = open_function_model(settings)
            opened.callback(function_model.close)
        facts = function_model.facts()
        made_by = {
            "model": f"{facts.model}-{facts.quantisation}",
            "policy": plan.policy,
            "edgewise": __version__,
        }
        file = AnswerFile(answers, made_by)
        file.open()
        for name, system in _open_systems(settings, plan, function_model, opened):
            _answer_all(name, system, cases, file, progress)
    return Outcome({name: judge(name, cases, file.answers) for name in plan.systems})


def _open_systems(
    settings: Settings, plan: Plan, function_model: CallBackend, opened: ExitStack
) -> Iterator[tuple[str, System]]:
    watched = WatchedFunctionModel(function_model)
    if "raw" in plan.systems:
        raw = RawSystem(watched)
        raw.answer(CallCase("", "", REQUESTS[0], TOOLS, ()))  # loads the weights
        yield "raw", raw
    if "local" in plan.systems:
        cloud = _open_cloud(settings, opened) if plan.policy != "local_only" else None
        engine = opened.enter_context(
            Engine(without_limits(settings), function_model=watched, cloud=cloud)
        )
        engine.call(REQUESTS[0], TOOLS, policy="local_only")  # nothing may leave to get warm
        yield "local", EngineSystem(engine, plan.policy, watched, cloud)


def _open_cloud(settings: Settings, opened: ExitStack) -> WatchedCloud:
    ledger = open_ledger(settings)
    opened.callback(ledger.close)
    door = open_door(settings, ledger)
    opened.callback(door.close)
    return WatchedCloud(door)


def _answer_all(
    name: str,
    system: System,
    cases: Sequence[BfclCase],
    file: AnswerFile,
    progress: Callable[[], None],
) -> None:
    for case in cases:
        if (key := _key(name, case)) not in file.answers:
            asked = CallCase(f"bfcl_{case.category}", case.id, case.query, case.tools, ())
            file.add(key, system.answer(asked))
        progress()


def _key(name: str, case: BfclCase) -> str:
    return f"{name}/{case.category}/{case.id}"


def judge(name: str, cases: Sequence[BfclCase], answers: Mapping[str, Answered]) -> list[Judged]:
    """Every case with its answer and whether that is right."""
    rows = [(case, answers[_key(name, case)]) for case in cases]
    return [(case, answered, case.is_right(answered.calls)) for case, answered in rows]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Judged answers by system."""

    rows: Mapping[str, Sequence[Judged]]

    def metrics(self) -> dict[str, float]:
        """The pipeline's figures under their own names, the raw model's under `raw_…`."""
        found = figures(self.rows["local"], sure=True) if "local" in self.rows else {}
        raw = figures(self.rows["raw"], sure=False) if "raw" in self.rows else {}
        return found | {f"raw_{key}": value for key, value in raw.items()}

    def with_published(self) -> dict[str, Mapping[str, float]]:
        """Columns of the table."""
        mine = {name: figures(rows, sure=name == "local") for name, rows in self.rows.items()}
        return {**mine, "published": PUBLISHED}

    def units(self, name: str) -> tuple[list[float], list[bool]]:
        """The confidence of every answer, and whether it is right."""
        rows = self.rows[name]
        scores = [answered.confidence or 0.0 for _, answered, _ in rows]
        return scores, [right for _, _, right in rows]


def figures(rows: Sequence[Judged], *, sure: bool) -> dict[str, float]:
    """Percent right by category, then time, and what the confidence is worth over all cases."""
    categories = dict.fromkeys(case.category for case, _, _ in rows)
    found = {
        category: 100 * share([right for case, _, right in rows if case.category == category])
        for category in categories
    }
    times = [answered.ms for _, answered, _ in rows]
    found["latency_ms_p50"] = percentile(times, 0.50)
    found["latency_ms_p95"] = percentile(times, 0.95)
    if sure:
        scores, right = Outcome({"": rows}).units("")
        found["auroc"] = auroc(scores, right)
        found["aurc"] = aurc(scores, right)
        found["coverage_95"] = coverage_at(scores, right, 0.95)
        found["local_share"] = share([not answered.cloud_asked for _, answered, _ in rows])
    found["cases"] = float(len(rows))
    found["errors"] = float(sum(bool(answered.error) for _, answered, _ in rows))
    return found


def check_cloud(settings: Settings, plan: Plan) -> None:
    """A policy that may ask the cloud needs one: here only a real one will do."""
    if plan.policy != "local_only" and next(provider_configs(settings), None) is None:
        raise SettingsError(
            f"--policy {plan.policy}: no provider has a key (edgewise auth set PROVIDER)"
        )


def titles(plan: Plan) -> dict[str, str]:
    return {
        "raw": "raw local model",
        "local": f"full pipeline ({plan.policy})",
        "published": PUBLISHED_TITLE,
    }
