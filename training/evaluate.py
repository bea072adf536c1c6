"""Answer held-out validation cases in batches and score them.

    python -m training.evaluate --base base.gguf --adapter a.gguf --cases valid.jsonl --out p.jsonl

Settings are chosen on these cases alone. The public test sets are never read here.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from training.adapter import Base
from training.base_tokenizer import build_tokenizer, end_of_turn
from training.base_weights import GgufFile, ModelShape, read_shape, read_weights
from training.decode import decode
from training.model import Weights
from training.rows import read_examples
from training.save_run import served_weights
from training.score import confidence_table, exact, f1, read_calls

Case = dict[str, Any]
LONGEST_PROMPT = 3000


def read_cases(paths: Sequence[Path], limit: int | None = None) -> list[Case]:
    """The first `limit` cases; shards are already shuffled."""
    cases = [case for path in paths for case in read_examples(path)]
    return cases[:limit]


def predict(
    weights: Weights, shape: ModelShape, tokenizer: Any, cases: Sequence[Case], batch: int
) -> list[Case]:
    """Each case's answer, its log-probabilities, and whether it is right."""
    prompts = [
        encoding.ids[-LONGEST_PROMPT:]
        for encoding in tokenizer.encode_batch([case["prompt"] for case in cases])
    ]
    end = end_of_turn(tokenizer)
    answers = decode(weights, shape, prompts, end, batch=batch)
    predictions = []
    for case, answer in zip(cases, answers, strict=True):
        text = tokenizer.decode(answer.tokens, skip_special_tokens=False)
        calls, expected = read_calls(text), read_calls(case["answer"]) or []
        predictions.append(
            {
                "kind": case.get("kind", ""),
                "source": case.get("source", ""),
                "expected": case["answer"],
                "answer": text,
                "logprobs": answer.logprobs,
                "well_formed": calls is not None,
                "exact": exact(calls, expected),
                "f1": round(f1(calls, expected), 4),
            }
        )
    return predictions


def summarise(predictions: Sequence[Case]) -> dict[str, Any]:
    """Means over all and by kind, and how well confidence tells right from wrong."""
    groups: dict[str, list[Case]] = defaultdict(list)
    for prediction in predictions:
        groups[str(prediction["kind"])].append(prediction)
    summary = _means(predictions)
    summary["well_formed"] = round(_mean(predictions, "well_formed"), 4)
    summary["confidence"] = confidence_table(
        (prediction["logprobs"], prediction["exact"]) for prediction in predictions
    )
    summary["kinds"] = {kind: _means(members) for kind, members in sorted(groups.items())}
    return summary


def _means(predictions: Sequence[Case]) -> dict[str, Any]:
    return {
        "cases": len(predictions),
        "exact": round(_mean(predictions, "exact"), 4),
        "f1": round(_mean(predictions, "f1"), 4),
    }


def _mean(predictions: Sequence[Case], key: str) -> float:
    return sum(float(case[key]) for case in predictions) / max(1, len(predictions))


def write_lines(path: Path, rows: Sequence[Case]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--adapter", type=Path)
    parser.add_argument("--cases", type=Path, nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--served", default="Q8_0", help="Q8_0, Q4_0 or none")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    file = GgufFile(options.base)
    shape, device = read_shape(file), torch.device(options.device)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    weights = served_weights(
        Base(read_weights(file), shape, device), options.adapter, options.served, dtype
    )
    cases = read_cases(options.cases, options.limit)
    predictions = predict(weights, shape, build_tokenizer(file.metadata), cases, options.batch)
    write_lines(options.out, predictions)
    sys.stdout.write(json.dumps(summarise(predictions), indent=1) + "\n")


if __name__ == "__main__":
    main()
