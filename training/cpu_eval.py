"""Final figures, as users run the model: llama.cpp, quantised and merged, greedy, one thread.

    python -m training.cpu_eval --model merged.gguf --out DIR --calls FOLDER --bfcl PACKAGE

Answers are kept with their log-probabilities as they come: started again, it goes on. These sets
are for reporting only; settings are chosen on held-out validation (`training.evaluate`).
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from training.eval_sets import BFCL, CALL_SETS, EvalCase, bfcl_cases, call_cases, valid_cases
from training.score import confidence_table

CONTEXT_TOKENS = 8192
LONGEST_ANSWER = 320
PREFILL_BATCH = 128
SAY_EVERY = 30.0  # seconds


def load_cases(options: argparse.Namespace) -> list[EvalCase]:
    cases: list[EvalCase] = []
    if options.calls:
        for name in CALL_SETS:
            cases += call_cases(options.calls / f"{name}.json")
    if options.valid:
        cases += valid_cases(options.valid)
    if options.bfcl:
        for category in BFCL:
            cases += bfcl_cases(options.bfcl, category)
    if options.sets:
        cases = [case for case in cases if case.set in options.sets]
    if options.limit:
        taken: dict[str, int] = defaultdict(int)
        kept = []
        for case in cases:
            taken[case.set] += 1
            if taken[case.set] <= options.limit:
                kept.append(case)
        cases = kept
    return cases


def read_answers(folder: Path) -> dict[str, dict[str, Any]]:
    """Everything answered so far; a line that was cut off by a kill is answered again."""
    answers = {}
    for path in sorted(folder.glob("answers-*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            answers[row["key"]] = row
    return answers


def answer_all(model: Path, folder: Path, prompts: Sequence[tuple[str, str]], number: int) -> None:
    """One process: answer (key, prompt) pairs in order, so that equal beginnings are reused."""
    server = _load(model)
    begin = said = time.monotonic()
    with (folder / f"answers-{number}.jsonl").open("a", encoding="utf-8") as file:
        for done, (key, prompt) in enumerate(prompts, start=1):
            row = {"key": key} | answer_one(server, prompt)
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            file.flush()
            now = time.monotonic()
            if now - said > SAY_EVERY or done == len(prompts):
                said = now
                rate = done / (now - begin)
                sys.stderr.write(
                    f"process {number}: {done} of {len(prompts)}, {rate:.2f} a second, "
                    f"{(len(prompts) - done) / rate / 60:.0f} min left\n"
                )


def answer_one(server: Any, prompt: str) -> dict[str, Any]:
    begin = time.perf_counter()
    reply = server.handle_completions(
        {
            "prompt": prompt,
            "max_tokens": LONGEST_ANSWER,
            "temperature": 0,
            "samplers": ["top_k"],
            "top_k": 1,
            "logprobs": 2,
            "n_probs": 2,
            "cache_prompt": True,
        }
    )
    seconds = time.perf_counter() - begin
    if "error" in reply:
        return {"answer": "", "error": reply["error"], "logprobs": [], "ms": round(seconds * 1000)}
    choice = reply["choices"][0]
    entries = (choice.get("logprobs") or {}).get("content") or []
    timings: Mapping[str, Any] = reply.get("timings", {})
    return {
        "answer": choice["text"],
        "finish": choice.get("finish_reason"),
        "logprobs": [round(entry["logprob"], 4) for entry in entries],
        "tokens": [entry["token"] for entry in entries],
        "runners_up": [
            round(entry["top_logprobs"][-1]["logprob"], 4) if entry["top_logprobs"] else None
            for entry in entries
        ],
        "ms": round(seconds * 1000, 1),
        "timings": {name: timings.get(name) for name in _TIMINGS},
    }


_TIMINGS = ("prompt_n", "prompt_ms", "predicted_n", "predicted_ms", "cache_n")


def _load(path: Path) -> Any:
    """The server as `edgewise.local.llama_cpp` starts it."""
    xllamacpp: Any = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx = CONTEXT_TOKENS
    params.n_parallel = 1
    params.n_batch = params.n_ubatch = PREFILL_BATCH
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = params.fit_params = False
    params.cache_ram_mib = 0
    params.verbosity = -1
    params.hostnames = [str(Path(tempfile.mkdtemp(prefix="edgewise-")) / "llama.sock")]
    return xllamacpp.Server(params)


def score(cases: Iterable[EvalCase], answers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Per set: mean score, mean of groups, confidence, milliseconds."""
    sets: dict[str, list[tuple[EvalCase, Mapping[str, Any], float]]] = defaultdict(list)
    for case in cases:
        if (answer := answers.get(case.key)) is not None:
            sets[case.set].append((case, answer, case.judge(answer["answer"])))
    report: dict[str, Any] = {name: _report(rows) for name, rows in sets.items()}
    called = [row for name in sets if name.startswith("bfcl") for row in sets[name]]
    if called:
        without = [row for row in called if "irrelevance" not in row[0].set]
        report["bfcl confidence, all"] = _confidence(called)
        report["bfcl confidence, calls"] = _confidence(without)
    return report


Scored = Sequence[tuple[EvalCase, Mapping[str, Any], float]]


def _report(rows: Scored) -> dict[str, Any]:
    groups: dict[str, list[float]] = defaultdict(list)
    for case, _, value in rows:
        groups[case.group].append(value)
    times = sorted(answer["ms"] for _, answer, _ in rows)
    report: dict[str, Any] = {
        "cases": len(rows),
        "score": round(100 * statistics.fmean(value for _, _, value in rows), 2),
        "errors": sum("error" in answer for _, answer, _ in rows),
        "ms_p50": times[len(times) // 2],
        "ms_p95": times[min(len(times) - 1, int(0.95 * len(times)))],
        "confidence": _confidence(rows),
    }
    if len(groups) > 1:
        report["groups"] = {
            name: [len(values), round(100 * statistics.fmean(values), 2)]
            for name, values in sorted(groups.items())
        }
        unflagged = [value for case, _, value in rows if case.group != "flagged"]
        report["unflagged"] = [len(unflagged), round(100 * statistics.fmean(unflagged), 2)]
    return report


def _confidence(rows: Scored) -> dict[str, Any]:
    return confidence_table((answer["logprobs"], value == 1.0) for _, answer, value in rows)


def run(options: argparse.Namespace) -> dict[str, Any]:
    options.out.mkdir(parents=True, exist_ok=True)
    cases = load_cases(options)
    answers = read_answers(options.out)
    if not options.score_only:
        # Tools stand first in a prompt: sorted, neighbours share them and skip their prefill.
        open_ = sorted((case.prompt, case.key) for case in cases if case.key not in answers)
        pairs = [(key, prompt) for prompt, key in open_]
        share = -(-len(pairs) // options.processes)
        context = get_context("spawn")
        workers = [
            context.Process(
                target=answer_all,
                args=(options.model, options.out, pairs[n * share : (n + 1) * share], n),
            )
            for n in range(options.processes)
            if pairs[n * share : (n + 1) * share]
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        answers = read_answers(options.out)
    report = score(cases, answers)
    (options.out / "scores.json").write_text(json.dumps(report, indent=1))
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--calls", type=Path, help="folder of hackathon_30.json and others")
    parser.add_argument("--bfcl", type=Path, help="folder with the unpacked bfcl_eval package")
    parser.add_argument("--valid", type=Path, help="a valid-*.jsonl of the generator")
    parser.add_argument("--sets", nargs="*", help="only these, e.g. hackathon_30 bfcl_multiple")
    parser.add_argument("--limit", type=int, help="at most so many cases a set")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--score-only", action="store_true")
    options = parser.parse_args()
    for name, row in run(options).items():
        summary = {k: v for k, v in row.items() if k != "confidence"} if "score" in row else row
        sys.stdout.write(f"{name}: {json.dumps(summary)}\n")


if __name__ == "__main__":
    main()
