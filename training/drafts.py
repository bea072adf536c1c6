"""How much of the function model's answers `calls/draft.py` guesses, and what retries win.

    python -m training.drafts --cases toolcalls_valid.jsonl.gz --limit 400 --out answers.jsonl
    python -m training.drafts --out answers.jsonl

The first line answers the cases (a fixed shuffle of them) as the engine does and keeps everything
that the model wrote; it goes on where it stopped. Both print the figures of what is kept. The times
of retries are those of a clock that runs at the given speeds, so a busy machine does not count.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from edgewise.calibrations import calibration_of
from edgewise.calls.check import CALLS
from edgewise.calls.draft import draft_answer
from edgewise.calls.intents import split
from edgewise.calls.values.text import read_request
from edgewise.decide.calibration import Calibration
from edgewise.errors import EdgewiseError, GenerationFailed
from edgewise.flows.call import CallRules
from edgewise.local.backend import CallBackend, CallToWrite, DeviceFacts, TokenStream
from edgewise.parts import open_function_model
from edgewise.settings import Settings
from edgewise.types.messages import Tool
from edgewise.types.replies import Finish, Token
from training.call_flow import FACTS, answer, kept_row, kept_tokens
from training.call_samples import Asked
from training.score import exact

Row = dict[str, Any]
READ_PER_SECOND, WRITTEN_PER_SECOND = 206.0, 59.0  # Q8_0 on the slower of two machines, one thread
DEADLINES_MS = (1e9, 5000.0, 2500.0, 1500.0, 1.0)


@dataclass(slots=True)
class KeepingAll:
    """The real function model; every answer is kept, with its grammar."""

    function_model: CallBackend
    rows: list[Row] = field(default_factory=list)

    def facts(self) -> DeviceFacts:
        return self.function_model.facts()

    def write_call(self, call: CallToWrite) -> TokenStream:
        written: list[Token] = []
        for item in self.function_model.write_call(call):
            if isinstance(item, Token):
                written.append(item)
            else:
                told = {"g": zlib.crc32(call.grammar.encode()), "in": item.input_tokens}
                self.rows.append({**kept_row(call.prompt, written), **told})
            yield item

    def close(self) -> None:
        self.function_model.close()


@dataclass(slots=True)
class KeptAll:
    """Writes what was kept, at fixed speeds on a clock of its own."""

    rows: Sequence[Row]
    now: float = 0.0
    runs: int = 0
    _before: str = ""

    def facts(self) -> DeviceFacts:
        return replace(
            FACTS,
            prompt_tokens_per_second=READ_PER_SECOND,
            output_tokens_per_second=WRITTEN_PER_SECOND,
        )

    def write_call(self, call: CallToWrite) -> TokenStream:
        prompt, mark = call.prompt, zlib.crc32(call.grammar.encode())
        row = next((r for r in self.rows if (r["prompt"], r["g"]) == (prompt, mark)), None)
        if row is None:
            raise GenerationFailed("this answer was not kept")
        fresh = 1 - _shared(self._before, prompt) / len(prompt)
        self.now += fresh * row["in"] / READ_PER_SECOND + len(row["tokens"]) / WRITTEN_PER_SECOND
        self.runs, self._before = self.runs + 1, prompt
        yield from kept_tokens(row)
        yield Finish("stop", row["in"], len(row["tokens"]))

    def close(self) -> None:
        """Nothing is open."""


def read_cases(path: Path) -> list[Mapping[str, Any]]:
    """Rows with `tools`, `query` and `calls`, or a set of `shared/data/function_calls`."""
    if path.suffix == ".json":
        cases = json.loads(path.read_text())["cases"]
        return [{**case, "calls": case["expected_calls"]} for case in cases]
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    cases = [json.loads(line) for line in text.splitlines()]
    random.Random(7).shuffle(cases)
    return cases


def offered(case: Mapping[str, Any]) -> list[Tool]:
    return [
        Tool(tool["name"], tool.get("description", ""), tool.get("parameters") or {})
        for tool in case["tools"]
    ]


def record(cases: Sequence[Mapping[str, Any]], out: Path) -> None:
    settings = Settings.load()
    model = KeepingAll(open_function_model(settings))
    calibration = calibration_of(settings, model.facts(), CALLS)
    done = sum(1 for _ in out.open()) if out.exists() else 0
    with out.open("a") as file:
        for case in cases[done:]:
            model.rows = []
            try:
                answer(Asked.of(case["query"], offered(case)), model, calibration)
            except EdgewiseError as error:
                sys.stderr.write(f"{error}\n")
            file.write(json.dumps({"case": case, "rows": model.rows}, ensure_ascii=False) + "\n")
            file.flush()
    model.close()


def _shared(one: str, other: str) -> int:
    """How many characters two texts begin with, both."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def draft_figures(kept: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Drafts against first answers: how many are equal, and how far the others are right."""
    whole = tool = right = length = right_tokens = tokens = 0
    took = []
    for row in kept:
        query, tools = row["case"]["query"], offered(row["case"])
        draft_answer(query, tools)  # what is worked out about the tools once
        for intent in split(query, tools):
            read_request(intent.resolved)  # the flow has done this before it drafts
        begin = time.process_time()
        draft = draft_answer(query, tools)
        took.append(1000 * (time.process_time() - begin))
        written = "".join(row["rows"][0]["tokens"])
        same = _shared(draft, written)
        whole += draft == written
        tool += draft.partition(" {")[0] == written.partition(" {")[0]
        right += same
        length += len(written)
        for text in _ends(row["rows"][0]["tokens"]):
            right_tokens += text <= same
            tokens += 1
    took.sort()
    return {
        "cases": len(kept),
        "whole": whole / len(kept),
        "tool": tool / len(kept),
        "characters": right / length,
        "tokens": right_tokens / tokens,
        "draft_ms_p50": took[len(took) // 2],
        "draft_ms_p95": took[int(0.95 * len(took))],
    }


def _ends(tokens: Sequence[str]) -> Iterator[int]:
    end = 0
    for text in tokens:
        if text:
            end += len(text)
            yield end


def retry_figures(
    kept: Sequence[Mapping[str, Any]], calibration: Calibration, deadline_ms: float
) -> dict[str, float]:
    """The flow over kept answers, with no retry that would end after the deadline."""
    right, runs, times = 0, 0, []
    for row in kept:
        model = KeptAll(row["rows"])
        rules = CallRules(deadline_ms=deadline_ms)
        reply = answer(
            Asked.of(row["case"]["query"], offered(row["case"])), model, calibration,
            rules=rules, clock=lambda model=model: model.now,  # type: ignore[misc]
        )  # fmt: skip
        expected = [(call["name"], call["arguments"]) for call in row["case"]["calls"]]
        right += exact([(call.name, dict(call.arguments)) for call in reply.calls], expected)
        runs += model.runs
        times.append(1000 * model.now)
    times.sort()
    return {
        "deadline_ms": deadline_ms,
        "exact": right,
        "runs": runs / len(kept),
        "ms_p50": times[len(times) // 2],
        "ms_p95": times[int(0.95 * len(times))],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cases", type=Path)
    parser.add_argument("--limit", type=int, default=None)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    if options.cases is not None:
        record(read_cases(options.cases)[: options.limit], options.out)
    lines = options.out.read_text().splitlines()
    kept = [row for line in lines if (row := json.loads(line))["rows"]]
    calibration = calibration_of(Settings.load(), KeptAll(()).facts(), CALLS)
    figures = [draft_figures(kept)]
    figures += [retry_figures(kept, calibration, deadline) for deadline in DEADLINES_MS]
    for one in figures:
        sys.stdout.write(json.dumps({key: round(value, 3) for key, value in one.items()}) + "\n")


if __name__ == "__main__":
    main()
