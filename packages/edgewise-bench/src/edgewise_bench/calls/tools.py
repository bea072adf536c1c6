"""`edgewise bench tools`: cases from files, put to four systems that are measured from outside."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from edgewise.calibrate.rows import AnyOf
from edgewise.cloud.provider import Cloud
from edgewise.engine import Engine
from edgewise.errors import SettingsError
from edgewise.local.backend import CallBackend
from edgewise.parts import open_door, open_function_model, open_ledger, provider_configs
from edgewise.settings import Settings
from edgewise.types.messages import Context
from edgewise_bench.calls.cases import CallCase, irrelevant_cases, read_cases
from edgewise_bench.calls.function_model import REQUESTS, TOOLS
from edgewise_bench.calls.scores import Results, confidence, per_file, quality
from edgewise_bench.calls.stand_in_cloud import STAND_IN, TYPICAL_MS, StandInCloud
from edgewise_bench.calls.systems import (
    Answered,
    EngineSystem,
    RawSystem,
    RegexSystem,
    System,
    WatchedCloud,
    WatchedFunctionModel,
)
from edgewise_bench.processes import without_limits

COLUMNS = ("regex", "raw", "local", "hybrid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to run. `policy` says whose figures get no prefix: the device's, or the hybrid's."""

    files: Sequence[Path]
    policy: str = "local_only"
    columns: Sequence[str] = COLUMNS
    limit: int | None = None
    irrelevant: int = 50
    real_cloud: bool = False
    cloud_ms: float = TYPICAL_MS
    context: Context | None = None
    part: str = ""
    messages: bool = False

    @property
    def headline(self) -> str:
        return "local" if self.policy == "local_only" else "hybrid"

    @property
    def hybrid_policy(self) -> str:
        return "prefer_local" if self.policy == "local_only" else self.policy

    @property
    def systems(self) -> tuple[str, ...]:
        """The columns in their order; the headline is always among them."""
        return tuple(name for name in COLUMNS if name in self.columns or name == self.headline)


@dataclass(frozen=True, slots=True)
class Outcome:
    """All answers by system, what the hybrid's cloud was, and how each system is called."""

    results: Mapping[str, Results]
    cloud: str
    titles: Mapping[str, str]
    headline: str

    def metrics(self) -> dict[str, float]:
        """Flat. The headline has no prefix; files, where there are several, put theirs first."""
        found: dict[str, float] = {}
        for name in (self.headline, *(key for key in self.results if key != self.headline)):
            results, prefix = self.results[name], "" if name == self.headline else f"{name}_"
            figures = self.figures(name, results)
            found |= {f"{prefix}{key}": value for key, value in figures.items()}
            for stem, each in self.by_file(name).items():
                found |= {f"{stem}_{prefix}{key}": value for key, value in each.items()}
        return found

    def versions(self) -> dict[str, str]:
        """What stands beside the versions of the scorecard: which cloud the hybrid had."""
        return {"cloud": self.cloud} if "hybrid" in self.results else {}

    def by_file(self, name: str) -> dict[str, dict[str, float]]:
        return per_file(self.results[name], lambda part: self.figures(name, part))

    @staticmethod
    def figures(name: str, results: Results) -> dict[str, float]:
        return quality(results) | (confidence(results) if name == "local" else {})


def load_sets(plan: Plan) -> tuple[list[CallCase], list[CallCase]]:
    """All cases, and the requests that no tool on offer serves."""
    cases: list[CallCase] = []
    irrelevant: list[CallCase] = []
    for path in plan.files:
        found = read_cases(
            path, plan.limit, context=plan.context, part=plan.part, messages=plan.messages
        )
        cases += found
        most = plan.irrelevant if plan.limit is None else min(plan.limit, plan.irrelevant)
        irrelevant += irrelevant_cases(found, most)
    return cases, irrelevant


def measure_tools(
    settings: Settings,
    plan: Plan,
    cases: Sequence[CallCase],
    irrelevant: Sequence[CallCase],
    progress: Callable[[], None] = lambda: None,
    *,
    function_model: CallBackend | None = None,
    answers: Path | None = None,
) -> Outcome:
    """Put every case to every system. `settings.data_dir` gets a ledger: one to throw away.

    System after system, each over all cases in their order: none finds a prompt in the cache that
    another one has put there.
    """
    results = {name: Results() for name in plan.systems}
    with ExitStack() as opened:
        if answers is not None:
            answers.unlink(missing_ok=True)
        for name, system in _open_systems(settings, plan, function_model, opened):
            found = results[name]
            for group, rows in ((cases, found.rows), (irrelevant, found.irrelevant)):
                for case in group:
                    answered = system.answer(case)
                    rows.append((case, answered))
                    if answers is not None:
                        _write(answers, name, case, answered)
                    progress()
    cloud = cloud_name(settings, plan)
    cloud += "" if plan.real_cloud else f", {plan.cloud_ms:g} ms an answer"
    titles = {
        "regex": "regex only",
        "raw": "raw local model",
        "local": "full local pipeline (local_only)",
        "hybrid": f"hybrid ({plan.hybrid_policy}), {cloud}",
    }
    return Outcome(results, cloud, titles, plan.headline)


def _open_systems(
    settings: Settings, plan: Plan, function_model: CallBackend | None, opened: ExitStack
) -> Iterator[tuple[str, System]]:
    """Each system when its turn comes, and warm."""
    if "regex" in plan.systems:
        yield "regex", RegexSystem()
    if function_model is None:
        function_model = open_function_model(settings)
        opened.callback(function_model.close)
    watched = WatchedFunctionModel(function_model)
    raw = RawSystem(watched)
    raw.answer(CallCase("", "", REQUESTS[0], TOOLS, ()))  # loads the weights
    if "raw" in plan.systems:
        yield "raw", raw
    if "local" in plan.systems:
        engine = opened.enter_context(Engine(settings, function_model=watched))
        yield "local", _warm(EngineSystem(engine, "local_only", watched, None), engine)
    if "hybrid" in plan.systems:
        cloud = WatchedCloud(_open_cloud(settings, plan, opened))
        engine = opened.enter_context(
            Engine(without_limits(settings), function_model=watched, cloud=cloud)
        )
        yield "hybrid", _warm(EngineSystem(engine, plan.hybrid_policy, watched, cloud), engine)


def _warm(system: EngineSystem, engine: Engine) -> EngineSystem:
    """The first request loads code; nothing may leave for it."""
    engine.call(REQUESTS[0], TOOLS, policy="local_only")
    return system


def _open_cloud(settings: Settings, plan: Plan, opened: ExitStack) -> Cloud:
    if not plan.real_cloud:
        return StandInCloud(plan.cloud_ms)
    ledger = open_ledger(settings)
    opened.callback(ledger.close)
    door = open_door(settings, ledger)
    opened.callback(door.close)
    return door


def cloud_name(settings: Settings, plan: Plan) -> str:
    """What the tables call the hybrid's cloud. Raises SettingsError where there is none."""
    if not plan.real_cloud:
        return STAND_IN
    config = next(provider_configs(settings), None)
    if config is None:
        raise SettingsError("--real-cloud: no provider has a key (edgewise auth set PROVIDER)")
    return f"{config.name} {config.model}"


def _write(path: Path, system: str, case: CallCase, answered: Answered) -> None:
    row = {
        "system": system,
        "key": case.key,
        "query": case.query,
        "expected": [[name, dict(given)] for name, given in case.expected],
        **answered.to_dict(),
    }
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, ensure_ascii=False, default=_plain) + "\n")


def _plain(value: object) -> object:
    return list(value.values) if isinstance(value, AnyOf) else str(value)


def tool_tables(outcome: Outcome) -> Iterable[Table]:
    """All cases together, then each file where there are several."""
    figures = {name: outcome.figures(name, each) for name, each in outcome.results.items()}
    files = {name: outcome.by_file(name) for name in outcome.results}
    note = f"hybrid: {outcome.titles['hybrid']}" if "hybrid" in outcome.results else ""
    yield comparison("all cases", figures, outcome.titles, note)
    for stem in files[outcome.headline]:
        yield comparison(stem, {name: files[name][stem] for name in files}, outcome.titles, note)


def comparison(
    title: str,
    columns: Mapping[str, Mapping[str, float]],
    titles: Mapping[str, str],
    note: str = "",
) -> Table:
    """Figures that no column has are left out; a column without one has a gap."""
    table = Table("", *(titles[name] for name in columns), title=title, caption=note or None)
    table.columns[0].no_wrap = True
    for column in table.columns[1:]:
        column.justify = "right"
    names = dict.fromkeys(key for figures in columns.values() for key in figures)
    for name in names:
        table.add_row(name, *(_shown(figures.get(name)) for figures in columns.values()))
    return table


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:,.4g}"
