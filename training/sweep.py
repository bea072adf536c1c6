"""The list of runs to make, and the results so far: two JSON files that may change meanwhile."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from training.run_settings import RunSettings

Row = dict[str, Any]
ATTEMPTS = 2
_OF_THE_WORKER = {"like", "after_rounds", "note", "base", "eval_cases"}
_SETTINGS = {field.name for field in fields(RunSettings)}


def read_json(path: Path, default: Any) -> Any:
    """The file's content; the default while it is missing or half-written."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return default


def write_json(path: Path, value: Any) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(json.dumps(value, indent=1, ensure_ascii=False))
    os.replace(temporary, path)


def bases_of(plan: Mapping[str, Any]) -> dict[str, int]:
    """The bases of the plan by their file names, and how many rounds of data each is given."""
    return dict(plan.get("bases") or {plan["base"]: len(plan["data"]["rounds"])})


def base_of(row: Mapping[str, Any], plan: Mapping[str, Any]) -> str:
    """A run's base: its own, for a mean that of the first run in it, else the plan's."""
    if "base" in row or not row.get("mean"):
        return str(row.get("base", plan.get("base", "")))
    runs = {run["name"]: run for run in plan.get("runs", ())}
    return base_of(runs.get(row["mean"][0], {}), plan)


def open_runs(
    plan: Mapping[str, Any], results: Sequence[Row], attempts: Mapping[str, int]
) -> list[Row]:
    """The planned rows without a result, in order; a mean waits for the runs it is made of."""
    done = {row["name"] for row in results}
    done |= {name for name, count in attempts.items() if count >= ATTEMPTS}
    left = [dict(row) for row in plan.get("runs", ()) if row["name"] not in done]
    missing = {row["name"] for row in left}
    return [row for row in left if not missing & set(row.get("mean", ()))]


def settings_of(row: Row, plan: Mapping[str, Any], results: Sequence[Row]) -> RunSettings:
    """A row's settings: the plan's defaults, then those of the run it is `like`, then its own.

    `"like": "best"` means the run of the same base with the most exact validation answers so far.
    """
    merged = dict(plan.get("defaults", {}))
    if like := row.get("like"):
        known = {result["name"]: result for result in results}
        base = base_of(row, plan)
        rivals = [result for result in results if result.get("base", base) == base]
        model = best_run(rivals) if like == "best" else known.get(like)
        if model is None:
            raise ValueError(f"{row['name']} is like {like!r}, which has no result")
        merged |= model["settings"]
    merged |= {key: value for key, value in row.items() if key in _SETTINGS}
    unknown = set(row) - _SETTINGS - _OF_THE_WORKER
    if unknown:
        raise ValueError(f"{row['name']}: unknown keys {sorted(unknown)}")
    return RunSettings.of(merged)


def best_run(results: Sequence[Row]) -> Row | None:
    scored = [row for row in results if row.get("status") == "finished" and row.get("valid")]
    return max(scored, key=lambda row: float(row["valid"]["exact"]), default=None)


def table(results: Sequence[Row]) -> str:
    """One line per run, best first."""
    lines = [f"{'run':24} {'status':9} {'Mtok':>6} {'s':>5} {'loss':>7} {'exact':>6} {'f1':>6}"]
    lines[0] += f" {'auroc':>6} {'cov95':>6} {'MB':>5} {'other':>6} {'second':>6} {'famil.':>6}"
    lines[0] += f" {'Q4_0':>13}"
    ordered = sorted(results, key=lambda row: -float((row.get("valid") or {}).get("exact", -1)))
    for row in ordered:
        valid = row.get("valid") or {}
        confidence = valid.get("confidence", {}).get("sum", {})
        losses = [loss for _, loss in row.get("losses", [])[-5:]]
        lines.append(
            f"{row['name']:24} {row.get('status', ''):9} {row.get('tokens', 0) / 1e6:6.1f} "
            f"{row.get('seconds', 0):5.0f} {sum(losses) / max(1, len(losses)):7.4f} "
            f"{valid.get('exact', 0):6.4f} {valid.get('f1', 0):6.4f} "
            f"{confidence.get('auroc', 0):6.4f} {confidence.get('coverage_95', 0):6.4f} "
            f"{row.get('adapter_bytes', 0) / 1e6:5.1f} {_exact(row, 'other')} "
            f"{_exact(row, 'second')} {_exact(row, 'families')} "
            f"{_exact(row, 'valid_Q4_0')} {_exact(row, 'other_Q4_0')}"
        )
    return "\n".join(lines)


def _exact(row: Row, key: str) -> str:
    return f"{(row.get(key) or {}).get('exact', 0):6.4f}"
