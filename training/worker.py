"""Train, evaluate and export the plan's runs, one after another, until the time is up."""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import logging
import shutil
import time
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch._dynamo

from training.base_tokenizer import build_tokenizer
from training.base_weights import GgufFile
from training.driver import set_up_log
from training.evaluate import Case, predict, read_cases, summarise
from training.feed import ready_rounds, wait_for_base
from training.model import Weights
from training.pack import MIB, split
from training.rows import Rows, concatenate, load_rows
from training.run_settings import RunSettings
from training.save_run import save_run, served_weights
from training.soup import soup
from training.sweep import Row, next_run, read_json, settings_of, table, write_json
from training.train import Machine, Outcome, train

log = logging.getLogger("training")

PIECE_BYTES = 15 * MIB
LAST_SECONDS = 60.0  # kept free at the end for evaluating and exporting the last run
OTHER_CASES = "other_valid.jsonl"  # tools of another manner than our own; optional
LEAST_SECONDS = 20.0  # no run is started for less training than this


class Worker:
    """State of one worker process. All that must survive it lies in files."""

    def __init__(self, keep: Path, base_name: str, until: float) -> None:
        self.keep, self.base_name, self.until = keep, base_name, until
        self.results_path, self.attempts_path = keep / "results.json", keep / "attempts.json"
        self.results: list[Row] = read_json(self.results_path, [])
        self.attempts: dict[str, int] = read_json(self.attempts_path, {})
        self.machine: Machine | None = None
        self.tokenizer: Any = None
        self.pool: Rows | None = None
        self.loaded: set[str] = set()
        self.cases: list[Case] = []
        self.other: list[Case] = []

    def plan(self) -> dict[str, Any]:
        found: dict[str, Any] = read_json(self.keep / "plan.json", {})
        return found

    def left(self) -> float:
        return self.until - time.monotonic()

    def loop(self) -> None:
        """Until the time is up; an exhausted plan is looked at again, since it may grow."""
        while self.left() > LAST_SECONDS + LEAST_SECONDS:
            plan = self.plan()
            row = next_run(plan, self.results, self.attempts)
            if not row or not self._ready(row):
                time.sleep(1)
                continue
            self.attempts[row["name"]] = self.attempts.get(row["name"], 0) + 1
            write_json(self.attempts_path, self.attempts)
            self._guarded(row, plan)

    def _ready(self, row: Mapping[str, Any]) -> bool:
        """Enough data. The worker's own preparation goes on while data is being made."""
        if self.machine is None:
            self._prepare(self.plan())
        return ready_rounds(self.keep) >= int(row.get("after_rounds", 1))

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
        smaller = dict(row) | {"rows": max(1, int(row.get("rows", 64)) // 2)}
        plan = self.plan()
        plan["runs"] = [smaller if r["name"] == row["name"] else r for r in plan.get("runs", ())]
        write_json(self.keep / "plan.json", plan)

    def _add(self, result: Row) -> None:
        self.results.append(result)
        write_json(self.results_path, self.results)
        log.info("results so far\n%s", table(self.results))

    def _prepare(self, plan: Mapping[str, Any]) -> None:
        base = wait_for_base(self.keep, self.base_name, self.until)
        device = str(plan.get("device", "cuda" if torch.cuda.is_available() else "cpu"))
        rows = int(plan.get("defaults", {}).get("rows", 64))
        length = int(plan["data"].get("length", 2048))
        begin = time.monotonic()
        self.machine = Machine(base, device, rows, length, compiled=bool(plan.get("compile", True)))
        self.tokenizer = build_tokenizer(GgufFile(base).metadata)
        log.info("torch %s on %s: ready after %.0f s", torch.__version__, device, _since(begin))

    def _load(self) -> Rows:
        paths = sorted((self.keep / "rows").glob("round-*.npz"))
        fresh = [path for path in paths if path.name not in self.loaded and self._finished(path)]
        if fresh:
            parts = [load_rows(path) for path in fresh]
            self.pool = concatenate([self.pool, *parts] if self.pool else parts)
            self.loaded |= {path.name for path in fresh}
        if self.pool is None:
            raise ValueError("no training rows")
        return self.pool

    def _finished(self, path: Path) -> bool:
        number = path.name.split("-")[1]
        return (self.keep / "rows" / f"round-{number}.done").exists()

    def run(self, row: Row, plan: Mapping[str, Any]) -> Row:
        assert self.machine is not None
        if "mean" in row:
            return self.average(row, plan)
        settings = settings_of(row, plan, self.results)
        seconds = min(settings.seconds, self.left() - LAST_SECONDS)
        settings = replace(settings, seconds=seconds)
        pool = self._load()
        log.info("%s: begins; pool of %.1f M tokens", settings.name, pool.filled / 1e6)
        outcome = train(self.machine, pool, settings)
        result: Row = {
            "name": settings.name,
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
            self._evaluate(settings, plan, result)
            if settings.method == "full":  # how much of it does the low-rank form lose?
                with torch.inference_mode():
                    weights = outcome.trainable.weights(self.machine.dtype)
                result["valid_unexported"] = summarise(self._predict(weights, self.cases))
        return result

    def average(self, row: Row, plan: Mapping[str, Any]) -> Row:
        """The mean of earlier runs as one adapter, evaluated like a run."""
        name, folder = str(row["name"]), self.keep / "adapters"
        rank, kind = int(row.get("rank", 64)), str(row.get("export_kind", "Q4_0"))
        path, begin = folder / f"{name}.gguf", time.monotonic()
        size, kept = soup([folder / f"{run}.gguf" for run in row["mean"]], path, rank, kind)
        also = tuple(row.get("also_served", ()))
        settings = RunSettings(name=name, rank=rank, export_kind=kind, also_served=also)
        result: Row = {"name": name, "status": "finished", "mean": row["mean"], "kept": kept}
        result |= {"settings": settings.notes(), "seconds": _since(begin), "adapter_bytes": size}
        self._send(path, result)
        self._evaluate(settings, plan, result)
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

    def _evaluate(self, settings: RunSettings, plan: Mapping[str, Any], result: Row) -> None:
        assert self.machine is not None
        begin, machine = time.monotonic(), self.machine
        if not self.cases:
            folder = min((self.keep / "rows").glob("round-*.done")).stem
            shards = sorted((self.keep / "data" / folder).glob("valid*.jsonl"))
            self.cases = read_cases(shards, int(plan.get("eval_cases", 2000)))
            other = self.keep / "carry" / OTHER_CASES
            self.other = read_cases([other]) if other.exists() else []
        for served in (settings.served, *settings.also_served):
            adapter = self.keep / "adapters" / f"{settings.name}.gguf"
            with torch.inference_mode():
                weights = served_weights(machine.base, adapter, served, machine.dtype)
            suffix = "" if served == settings.served else f"_{served}"
            for key, cases in (("valid", self.cases), ("other", self.other)):
                predictions = self._predict(weights, cases)
                result[key + suffix] = summarise(predictions)
                self._publish(f"{settings.name}.{served}.{key}.jsonl", predictions)
        result["evaluate_seconds"] = round(_since(begin), 1)

    def _predict(self, weights: Weights, cases: list[Case]) -> list[Case]:
        assert self.machine is not None
        if self.machine.device.type == "cuda":
            torch.cuda.empty_cache()
        return predict(weights, self.machine.shape, self.tokenizer, cases, batch=512)

    def _publish(self, name: str, predictions: list[Case]) -> None:
        path = self.keep / "out" / f"{name}.gz"
        with gzip.open(path.with_name(f".{path.name}"), "wt", encoding="utf-8") as file:
            for prediction in predictions:
                file.write(json.dumps(prediction, ensure_ascii=False) + "\n")
        shutil.move(path.with_name(f".{path.name}"), path)


def _since(begin: float) -> float:
    return time.monotonic() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, required=True)
    parser.add_argument("--base", required=True, help="the base's file name")
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args()
    set_up_log(options.keep)
    until = time.monotonic() + options.seconds
    torch._dynamo.config.recompile_limit = 64  # past it, everything would run uncompiled
    torch._logging.set_logs(recompiles=True)  # into the worker's log: each one costs seconds
    Worker(options.keep, options.base, until).loop()


if __name__ == "__main__":
    main()
