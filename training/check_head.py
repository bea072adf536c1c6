"""Check on this machine that a head fitted elsewhere holds: answer some rows through llama.cpp.

    python -m training.check_head --model MODEL.gguf --rows MODEL.rows.jsonl.gz --traces FOLDER \
        --head MODEL.head.json --count 60

Prints how many answers are those of the traces, the cosine of their states, and how well the head
ranks right answers on these rows. It was fitted on them too; what `--save` keeps can be judged by
heads that were not: `training.head_calibration --check`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from edgewise.calibrate.rows import is_right
from edgewise.decide.calibration import Meter, read_head
from edgewise.local.llama_api import load_api
from edgewise.types.replies import Finish, Token
from training.fit_head import auroc, question_of
from training.trace_files import EARLY, STEPS, read_rows

CONTEXT_TOKENS = 4096
LONGEST_ANSWER = 64  # as in the traces


class Loop:
    """A model in llama.cpp, asked by the tokens of whole prompts."""

    def __init__(self, path: Path) -> None:
        from edgewise.local.decoder import Decoder, Weights  # noqa: PLC0415

        weights = Weights(load_api(), path)
        self._decoder = Decoder(weights, threads=1, context_tokens=CONTEXT_TOKENS, slots=1)

    def answer(self, prompt: Sequence[int], prompt_layer: int, layer: int) -> list[Token | Finish]:
        from edgewise.local.backend import Channel  # noqa: PLC0415
        from edgewise.local.decoder import Job  # noqa: PLC0415

        job = Job(
            prompt=list(prompt),
            answer=Channel(),
            max_tokens=LONGEST_ANSWER,
            prompt_layer=prompt_layer,
            layer=layer,
        )
        self._decoder.submit(job)
        items: list[Token | Finish] = []
        while not (items and isinstance(items[-1], Finish)):
            item: Any = job.answer.queue.get()
            if isinstance(item, BaseException):
                raise item
            items.append(item)
        return items

    def close(self) -> None:
        self._decoder.close()


def packed_state(folder: Path, name: str, row: int) -> Any:
    """A state of the traces, unpacked; None if it was not kept."""
    path = folder / f"{name}.npz"
    if not path.exists():
        return None
    with np.load(path) as file:
        return file["z"][row].astype(np.float32) / STEPS * file["spread"] + file["centre"]


def cosine(one: Any, other: Any) -> float:
    return float(one @ other / np.sqrt((one @ one) * (other @ other)))


def check(
    model: Path, rows_path: Path, traces: Path, heads: dict[str, Any], count: int, seed: int
) -> list[dict[str, Any]]:
    """What came of each row."""
    rows = read_rows(rows_path)
    with np.load(traces / "answers.npz") as file:
        texts = json.loads(str(file["texts"]))
    read = {"state": read_head(heads["answer"]), "before": read_head(heads["before"])}
    layers = {name: heads[name]["layer"] for name in heads}
    loop = Loop(model)
    found = []
    for place in Random(seed).sample(range(len(rows)), count):
        items = loop.answer(rows[place]["tokens"], layers["before"], layers["answer"])
        tokens = [item for item in items if isinstance(item, Token) and item.has_evidence]
        if not tokens:
            continue
        text = "".join(item.text for item in items if isinstance(item, Token))
        states = [token.state for token in tokens[1:]]
        states += [item.state for item in items if isinstance(item, Finish)]
        states = [state for state in states if state is not None]
        meter, seen, means = Meter(read), dict[str, Any](), dict[str, Any]()
        for number, token in enumerate(tokens, start=1):
            meter.add(token)
            if number - 1 in EARLY:  # the state of the last token comes with the next
                seen[str(number - 1)] = meter.reading().features()
                means[str(number - 1)] = np.mean(states[: number - 1], axis=0)
        meter.end(items[-1].state if isinstance(items[-1], Finish) else None)
        seen["end"] = meter.reading().features()
        if states:
            means["end"] = np.mean(states, axis=0)
        result = {
            "row": place,
            "kind": rows[place]["kind"],
            "right": bool(is_right(question_of(rows[place]), text)),
            "same": text == texts[place],
            "seen": seen,
            "means": {count: mean.tolist() for count, mean in means.items()},
        }
        before = packed_state(traces, f"before-{layers['before']}", place)
        if before is not None:
            result["cosine_before"] = cosine(before, tokens[0].state)
        mean = packed_state(traces, f"mean-{layers['answer']}", place)
        if mean is not None and result["same"] and states:
            result["cosine_mean"] = cosine(mean, means["end"])
        found.append(result)
        if len(found) % 50 == 0:
            sys.stderr.write(f"{len(found)}/{count}\n")
    loop.close()
    return found


def figures(found: Sequence[dict[str, Any]], heads: dict[str, Any]) -> dict[str, Any]:
    right = np.array([row["right"] for row in found], np.float64)
    told: dict[str, Any] = {
        "rows": len(found),
        "right": round(float(right.mean()), 4),
        "same_text": round(float(np.mean([row["same"] for row in found])), 4),
    }
    for name in ("cosine_before", "cosine_mean"):
        values = [row[name] for row in found if name in row]
        if values:
            told[name] = {"least": round(min(values), 5), "median": round(np.median(values), 5)}
    if 0 < right.mean() < 1:
        logits = [_logit(row["seen"]["end"], heads["answer"]) for row in found]
        told["auroc"] = round(auroc(np.array(logits), right), 4)
        before = [row["seen"]["end"]["before"] for row in found]
        told["auroc_before"] = round(auroc(np.array(before), right), 4)
    return told


def _logit(features: dict[str, float], head: dict[str, Any]) -> float:
    total = features.get("state", 0.0)
    for name, each in head["features"].items():
        distance = (features[name] - each["centre"]) / each["spread"]
        total += each["weight"] * max(-head["clip"], min(head["clip"], distance))
    return float(total)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    for name in ("model", "rows", "traces", "head"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path)
    options = parser.parse_args(arguments)
    heads = json.loads(options.head.read_text())["heads"]
    found = check(options.model, options.rows, options.traces, heads, options.count, options.seed)
    if options.save:
        options.save.write_text(json.dumps(found))
    sys.stdout.write(json.dumps(figures(found, heads), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
