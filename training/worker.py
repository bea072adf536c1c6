"""Train, evaluate and export the plan's runs, one after another, until the time is up."""

from __future__ import annotations

import argparse
import gc
import gzip
import hashlib
import json
import logging
import shutil
import time
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch._dynamo

from training.driver import set_up_log
from training.evaluate import Case, predict, read_cases, summarise
from training.feed import arrived, ready_rounds
from training.loaded_base import LoadedBase
from training.model import Weights
from training.pack import MIB, split
from training.rows import fewer_rows
from training.run_settings import RunSettings
from training.save_run import save_run, served_weights
from training.soup import soup
from training.sweep import Row, base_of, open_runs, read_json, settings_of, table, write_json
from training.train import Outcome, train

log = logging.getLogger("training")

PIECE_BYTES = 15 * MIB
# Kept free at the end for evaluating and exporting the last run, unless the plan says otherwise.
LAST_SECONDS = 60.0
# Carried along if wanted: cases with tools of another manner than our own, and those that the
# generation before was chosen by.
CARRIED_CASES = {"other": "other_valid.jsonl", "second": "second_valid.jsonl"}
FAMILIES = "families"
LEAST_SECONDS = 20.0  # no run is started for less training than this


class Worker:
    """State of one worker process. All that must survive it lies in files."""

    def __init__(self, keep: Path, until: float) -> None:
        self.keep, self.until = keep, until
        self.results_path, self.attempts_path = keep / "results.json", keep / "attempts.json"
        self.results: list[Row] = read_json(self.results_path, [])
        self.attempts: dict[str, int] = read_json(self.attempts_path, {})
        self.base: LoadedBase | None = None
        self.cases: dict[str, list[Case]] = {}
        self.prepared = False

    def plan(self) -> dict[str, Any]:
        found: dict[str, Any] = read_json(self.keep / "plan.json", {})
        return found

    def left(self) -> float:
        """Seconds left for training."""
        last = float(self.plan().get("last_seconds", LAST_SECONDS))
        return self.until - last - time.monotonic()

    def loop(self) -> None:
        """Until the time is up; an exhausted plan is looked at again, since it may grow."""
        while self.left() > LEAST_SECONDS:
            plan = self.plan()
            rows = open_runs(plan, self.results, self.attempts)
            rows = [row for row in rows if arrived(self.keep, base_of(row, plan))]
            row = next((row for row in rows if self._ready(row, plan)), None)
            if row is None:
                self._prepare(rows, plan)
                time.sleep(1)
                continue
            self.attempts[row["name"]] = self.attempts.get(row["name"], 0) + 1
            write_json(self.attempts_path, self.attempts)
            self._guarded(row, plan)

    def _ready(self, row: Row, plan: Mapping[str, Any]) -> bool:
        return ready_rounds(self.keep, base_of(row, plan)) >= int(row.get("after_rounds", 1))

    def _prepare(self, rows: Sequence[Row], plan: Mapping[str, Any]) -> None:
        """Load the first base that is here while data is being made."""
        if self.base is None and rows and not self.prepared:
            self.prepared = True
            try:
                self._use(rows[0], plan)
            except Exception:  # the run itself will say so too, and others may work
                log.exception("%s: could not be prepared", rows[0]["name"])

    def _use(self, row: Row, plan: Mapping[str, Any]) -> LoadedBase:
        """The base of a run, in place of another one."""
        name = base_of(row, plan)
        if self.base is None or self.base.name != name:
            self.base = None
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
                log.info("%.1f GB still on the device", torch.cuda.memory_allocated() / 1e9)
            rows = int(row.get("rows", plan.get("defaults", {}).get("rows", 64)))
            self.base = LoadedBase(self.keep, name, plan, rows)
        return self.base

    def _guarded(self, row: Row, plan: Mapping[str, Any]) -> None:
        try:
            self._add(self.run(row, plan))
        except torch.cuda.OutOfMemoryError:
            log.exception("%s: out of memory", row["name"])
            torch.cuda.empty_cache()
            self._again_smaller(row)
        except Exception:  # one bad run must not end the sweep
            log.exception("%s: failed", row["name"])
            error = traceback.format_exc()[-3000:]
            self._add({"name": row["name"], "status": "failed", "settings": row, "error": error})
            if torch.cuda.is_available():
                torch.cuda.synchronize()  # raises if the device is lost: the driver starts anew

    def _again_smaller(self, row: Row) -> None:
        plan = self.plan()
        rows = int(row.get("rows", plan.get("defaults", {}).get("rows", 64)))
        smaller = dict(row) | {"rows": max(1, rows // 2)}
        plan["runs"] = [smaller if r["name"] == row["name"] else r for r in plan.get("runs", ())]
        write_json(self.keep / "plan.json", plan)

    def _add(self, result: Row) -> None:
        self.results.append(result)
        write_json(self.results_path, self.results)
        log.info("results so far\n%s", table(self.results))

    def run(self, row: Row, plan: Mapping[str, Any]) -> Row:
        base = self._use(row, plan)
        if "mean" in row:
            return self.average(row, plan, base)
        if "serve" in row:
            return self.serve(row, plan, base)
        settings = settings_of(row, plan, self.results)
        start = str(self.keep / settings.start) if settings.start else ""
        settings = replace(settings, seconds=min(settings.seconds, self.left()), start=start)
        pool = fewer_rows(base.rows(), settings.pool_tokens)
        log.info("%s: begins; pool of %.1f M tokens", settings.name, pool.filled / 1e6)
        outcome = train(base.machine, pool, settings)
        result: Row = {
            "name": settings.name,
            "base": base.name,
            "status": outcome.status,
            "settings": settings.notes(),
            "steps": outcome.steps,
            "tokens": outcome.tokens,
            "seconds": outcome.seconds,
            "pool_tokens": pool.filled,
            "losses": outcome.losses,
        }
        if torch.cuda.is_available():
            result["peak_gb"] = round(torch.cuda.max_memory_allocated() / 1e9, 1)
        if outcome.status == "finished":
            self._export(outcome, settings, result)
            self._evaluate(settings, base, _limit(row, plan), result)
            if settings.method == "full":  # how much of it does the low-rank form lose?
                with torch.inference_mode():
                    weights = outcome.trainable.weights(base.machine.dtype)
                cases = self.cases["valid"][: _limit(row, plan)]
                result["valid_unexported"] = summarise(_predict(base, weights, cases))
        return result

    def average(self, row: Row, plan: Mapping[str, Any], base: LoadedBase) -> Row:
        """The mean of the earlier runs that succeeded as one adapter, evaluated like a run."""
        name, folder = str(row["name"]), self.keep / "adapters"
        rank, kind = int(row.get("rank", 64)), str(row.get("export_kind", "Q4_0"))
        path, begin = folder / f"{name}.gguf", time.monotonic()
        runs = [run for run in row["mean"] if (folder / f"{run}.gguf").exists()]
        size, kept = soup([folder / f"{run}.gguf" for run in runs], path, rank, kind)
        also = tuple(row.get("also_served", ()))
        settings = RunSettings(name=name, rank=rank, export_kind=kind, also_served=also)
        result: Row = {"name": name, "base": base.name, "status": "finished", "mean": runs}
        result |= {"settings": settings.notes(), "seconds": _since(begin)}
        result |= {"kept": kept, "adapter_bytes": size}
        self._send(path, result)
        self._evaluate(settings, base, _limit(row, plan), result)
        return result

    def serve(self, row: Row, plan: Mapping[str, Any], base: LoadedBase) -> Row:
        """An adapter that is there already, evaluated like a run: what later ones must reach."""
        name = str(row["name"])
        served, *also = row["served"]
        settings = RunSettings(name=name, served=served, also_served=tuple(also))
        shutil.copyfile(self.keep / row["serve"], self.keep / "adapters" / f"{name}.gguf")
        result: Row = {"name": name, "base": base.name, "status": "finished"}
        result["settings"] = settings.notes()
        self._evaluate(settings, base, _limit(row, plan), result)
        return result

    def _export(self, outcome: Outcome, settings: RunSettings, result: Row) -> None:
        begin = time.monotonic()
        path = self.keep / "adapters" / f"{settings.name}.gguf"
        result["adapter_bytes"] = save_run(path, outcome.trainable)
        self._send(path, result)
        result["export_seconds"] = round(_since(begin), 1)

    def _send(self, path: Path, result: Row) -> None:
        result["adapter_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
        for piece in split(path, self.keep / "out", PIECE_BYTES):
            result.setdefault("pieces", []).append(piece.name)

    def _evaluate(self, settings: RunSettings, base: LoadedBase, limit: int, result: Row) -> None:
        begin, machine = time.monotonic(), base.machine
        self.cases = self.cases or self._read_cases()
        for served in (settings.served, *settings.also_served):
            adapter = self.keep / "adapters" / f"{settings.name}.gguf"
            with torch.inference_mode():
                weights = served_weights(machine.base, adapter, served, machine.dtype)
            suffix = "" if served == settings.served else f"_{served}"
            for key, cases in self.cases.items():
                chosen = cases[:limit] if key != FAMILIES else _of_each(cases, limit)
                predictions = _predict(base, weights, chosen)
                result[key + suffix] = summarise(predictions)
                if key == FAMILIES:
                    result[key + suffix]["of"] = _by_family(chosen, predictions)
                # Only letters, digits, dots and dashes come through on the way home.
                rounding = served.replace(",", "-").replace("=", "-")
                self._publish(f"{settings.name}.{rounding}.{key}.jsonl", predictions)
        result["evaluate_seconds"] = round(_since(begin), 1)

    def _read_cases(self) -> dict[str, list[Case]]:
        """The validation sets: made with the first round of data, and carried along."""
        folder = self.keep / "data" / min((self.keep / "data").glob("round-*.done")).stem
        sets = {"valid": read_cases(sorted(folder.glob("valid*.jsonl")))}
        for key, name in CARRIED_CASES.items():
            path = self.keep / "carry" / name
            sets[key] = read_cases([path]) if path.exists() else []
        families = [read_cases([path]) for path in sorted(folder.glob("family-*.jsonl"))]
        sets[FAMILIES] = [case for cases in families for case in cases]
        return {key: cases for key, cases in sets.items() if cases}

    def _publish(self, name: str, predictions: list[Case]) -> None:
        path = self.keep / "out" / f"{name}.gz"
        with gzip.open(path.with_name(f".{path.name}"), "wt", encoding="utf-8") as file:
            for prediction in predictions:
                file.write(json.dumps(prediction, ensure_ascii=False) + "\n")
        shutil.move(path.with_name(f".{path.name}"), path)


def _of_each(cases: Sequence[Case], limit: int) -> list[Case]:
    """The first cases of each family."""
    seen: Counter[str] = Counter()
    chosen = []
    for case in cases:
        seen[case["family"]] += 1
        if seen[case["family"]] <= limit:
            chosen.append(case)
    return chosen


def _by_family(cases: Sequence[Case], predictions: Sequence[Case]) -> dict[str, Any]:
    groups: dict[str, list[Case]] = {}
    for case, prediction in zip(cases, predictions, strict=True):
        groups.setdefault(case["family"], []).append(prediction)
    return {family: summarise(members) for family, members in groups.items()}


def _limit(row: Row, plan: Mapping[str, Any]) -> int:
    """How many cases of each validation set a run answers."""
    return int(row.get("eval_cases", plan.get("eval_cases", 2000)))


def _predict(base: LoadedBase, weights: Weights, cases: list[Case]) -> list[Case]:
    if base.machine.device.type == "cuda":
        torch.cuda.empty_cache()
    return predict(weights, base.machine.shape, base.tokenizer, cases, batch=512)


def _since(begin: float) -> float:
    return time.monotonic() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args()
    set_up_log(options.keep)
    until = time.monotonic() + options.seconds
    torch._dynamo.config.recompile_limit = 64  # past it, everything would run uncompiled
    torch._logging.set_logs(recompiles=True)  # into the worker's log: each one costs seconds
    Worker(options.keep, until).loop()


if __name__ == "__main__":
    main()
