"""Writes the cases of `edgewise bench conversations`, with tools that no training saw.

    python -m training.conversation_cases --holdout hashes.npz

The tools are those of our own frames that are held out from training. The tools of homes are all
trained: there, devices and wordings are held out. Other cases with these tools chose among the
trained adapters, so the seed is another one here. Nothing comes from public sources.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from edgewise.types.messages import Message, ToolCall
from edgewise_bench.calls.conversations import SHIPPED
from edgewise_bench.calls.hard_schemas import is_nested
from training.decontaminate import Filter
from training.example import Example
from training.generate import Plan, build_world, examples
from training.world import World

SEED = 2026  # the default of `training.generate` chose the weights
COUNTS = {
    "dialogue": 340,
    "missing": 170,
    "home": 170,
    "rounds": 120,
    "taken_away": 170,
    "nested": 120,
    "facts": 120,
}


def conversation_cases(
    world: World, keep: Filter | None, seed: int, counts: Mapping[str, int]
) -> Iterator[dict[str, Any]]:
    """So many cases of each set; no two of a set ask the same."""
    for name, count in counts.items():
        world.forget()
        rng, asked, made = Random(f"{seed} conversations {name}"), set[str](), 0
        while made < count:
            [example] = examples(world, keep, rng, 1, name)
            case = as_case(name, example)
            written = json.dumps([case["messages"], case.get("context")])
            if written in asked or not _belongs(name, example):
                continue
            asked.add(written)
            made += 1
            yield case


def _belongs(name: str, example: Example) -> bool:
    """Not a question without a turn before it to `dialogue`, nor flat arguments to `nested`."""
    if name != "nested":
        return name != "dialogue" or example.kind != "missing"
    called = {call.name for call in example.calls}
    return any(is_nested(one.tool.parameters) for one in example.tools if one.tool.name in called)


def as_case(name: str, example: Example) -> dict[str, Any]:
    """A case as the bench reads it. What is empty is left out."""
    turns = (*example.turns, Message("user", example.query), *example.since)
    case: dict[str, Any] = {
        "set": name,
        "kind": example.kind,
        "messages": [_turn(turn) for turn in turns],
        "context": dict(example.facts),
        "tools": [
            {
                "name": each.tool.name,
                "description": each.tool.description,
                "parameters": each.tool.parameters,
            }
            for each in example.tools
        ],
        "calls": [_call(call) for call in example.calls],
        "asks": [{"tool": one.tool, "needs": list(one.needs)} for one in example.questions],
    }
    return {key: value for key, value in case.items() if value}


def _turn(message: Message) -> dict[str, Any]:
    turn: dict[str, Any] = {"role": message.role, "content": message.content}
    return turn | (
        {"tool_calls": [_call(call) for call in message.tool_calls]} if message.tool_calls else {}
    )


def _call(call: ToolCall) -> dict[str, Any]:
    return {"name": call.name, "arguments": dict(call.arguments)}


def write_cases(path: Path, cases: Iterator[Mapping[str, Any]]) -> int:
    """The same cases make the same bytes. Returns how many there are."""
    lines = [json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases]
    data = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data, mtime=0))
    return len(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--frames", type=Path, default=Path(__file__).parent / "frames")
    parser.add_argument("--holdout", type=Path, help="hashes.npz of the evaluation sets")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--count", type=int, help="cases of each set, to try it out")
    parser.add_argument("--out", type=Path, default=SHIPPED)
    options = parser.parse_args(arguments)
    world, keep = build_world(Plan(options.frames, None, options.holdout, options.seed, "valid"))
    counts = {name: options.count or count for name, count in COUNTS.items()}
    count = write_cases(options.out, conversation_cases(world, keep, options.seed, counts))
    sys.stdout.write(f"{count} cases, {options.out.stat().st_size:,} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
