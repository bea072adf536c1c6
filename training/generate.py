"""Writes training examples: `python -m training.generate --count 800000 --out DIR …`.

Every line of a shard is {"prompt", "answer", "kind", "source"}. The same seed gives the same
examples whatever the number of workers. `--show 40` prints some to read.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from random import Random

from edgewise.calls.prompt import prompt_around
from training.compose import FAMILIES, compose
from training.decontaminate import Filter
from training.example import Example
from training.frame_types import Frame
from training.frames_parser import parse_directory
from training.generic import add_generic_templates
from training.public_sources import public_frames, read_seeds, small_talk
from training.splits import share_of
from training.world import World

log = logging.getLogger("training")

CHUNK = 2_000
BROKEN_DRAW = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
MOST_BROKEN = 20  # in one chunk; more are no accident
# Held out: these whole public intents, and by hash a share of domains and of tools.
HELD_OUT_NAMES = frozenset(
    [
        "find_screenings",
        "order_takeaway",
        "audiobook.play",
        "call_taxi",
        "find_events",
        "define_word",
        # Some of every family that the third generation learnt.
        "ReserveCourt",
        "FindShowing",
        "meter.swap",
        "label.print",
        "stays.reserve",
        "sensors.configure",
        "fx.alert_rule",
        "staff_search",
        "find_booking",
        "find_file",
        "address_of",
        "paper_search",
        "directory.lookup",
    ]
)
HELD_OUT_DOMAINS = 0.08
HELD_OUT_TOOLS = 0.04


@dataclass(frozen=True, slots=True)
class Plan:
    """Where the material is and what to make of it."""

    frames: Path
    seeds: Path | None
    holdout: Path | None
    seed: int
    split: str


def held_out(frame: Frame) -> bool:
    """Whether a tool is only for validation."""
    if frame.name in HELD_OUT_NAMES:
        return True
    if frame.source == "frames" and share_of(f"domain {frame.domain}") < HELD_OUT_DOMAINS:
        return True
    return frame.source != "nlu" and share_of(f"tool {frame.name}") < HELD_OUT_TOOLS


def build_world(plan: Plan) -> tuple[World, Filter | None]:
    """The tools and talk of one split, without what resembles evaluation material."""
    frames = list(parse_directory(plan.frames).frames)
    for frame in frames:
        add_generic_templates(frame, 3)
    talk: list[str] = []
    if plan.seeds:
        seeds = read_seeds(plan.seeds)
        frames += public_frames(seeds)
        talk = small_talk(seeds)
    wanted = plan.split == "valid"
    keep = Filter.load(plan.holdout) if plan.holdout else None
    frames = [frame for frame in frames if held_out(frame) == wanted]
    talk = [text for text in talk if (share_of(text) < HELD_OUT_TOOLS) == wanted]
    if keep:
        frames = [frame for frame in frames if not keep.bad_tool(frame.name, frame.description)]
    return World(frames, talk, wanted), keep


def examples(
    world: World, keep: Filter | None, rng: Random, count: int, kind: str | None = None
) -> Iterator[Example]:
    """`count` examples that resemble no evaluation request, neither whole nor in a part."""
    made = broken = 0
    while made < count:
        try:
            example = compose(world, rng, kind)
        except BROKEN_DRAW:  # one odd draw of a million must not cost a round of data
            log.exception("a draw that broke")
            broken += 1
            if broken > MOST_BROKEN:
                raise
            continue
        if example is None or not example.query:
            continue
        if keep and any(keep.bad_query(text) for text in (example.query, *example.clauses)):
            continue
        made += 1
        yield example


def as_line(example: Example, family: str = "") -> str:
    tools = "".join(tool.rendered for tool in example.tools)
    record = {
        "prompt": prompt_around(tools, example.query, example.before, example.after),
        "answer": example.answer,
        "kind": example.kind,
        "source": example.source,
    }
    if family:
        record["family"] = family
    return json.dumps(record, ensure_ascii=False)


_STATE: dict[str, tuple[World, Filter | None]] = {}
_PLANS: list[Plan] = []


def _chunk(job: tuple[int, int]) -> tuple[str, Counter[str]]:
    number, count = job
    plan = _PLANS[0]
    world, keep = _STATE["world"]
    world.forget()
    rng = Random(f"{plan.seed} {plan.split} {number}")
    kinds: Counter[str] = Counter()
    lines = []
    for example in examples(world, keep, rng, count):
        kinds[example.kind] += 1
        lines.append(as_line(example))
    return "\n".join(lines) + "\n", kinds


def generate(plan: Plan, count: int, workers: int, directory: Path, per_shard: int) -> Counter[str]:
    """Write the split's shards; returns how many examples of each kind there are."""
    jobs = [(start // CHUNK, min(CHUNK, count - start)) for start in range(0, count, CHUNK)]
    kinds: Counter[str] = Counter()
    directory.mkdir(parents=True, exist_ok=True)
    # Built once, before the workers are forked: they share it.
    _PLANS[:] = [plan]
    _STATE["world"] = build_world(plan)
    with get_context("fork").Pool(min(workers, len(jobs))) as pool:
        shard, written = 0, 0
        file = _shard(directory, plan.split, shard).open("w", encoding="utf-8")
        for (_, size), (text, found) in zip(jobs, pool.imap(_chunk, jobs), strict=True):
            if written and written + size > per_shard:
                file.close()
                shard, written = shard + 1, 0
                file = _shard(directory, plan.split, shard).open("w", encoding="utf-8")
            file.write(text)
            written += size
            kinds += found
        file.close()
    return kinds


def write_families(plan: Plan, count: int, workers: int, directory: Path) -> None:
    """A validation set for each family of requests: `family-home.jsonl` and so on."""
    if [plan] != _PLANS:
        _PLANS[:] = [plan]
        _STATE["world"] = build_world(plan)
    with get_context("fork").Pool(min(workers, len(FAMILIES))) as pool:
        jobs = [(family, count) for family in FAMILIES]
        for (family, _), text in zip(jobs, pool.imap(_family, jobs), strict=True):
            (directory / f"family-{family}.jsonl").write_text(text, encoding="utf-8")


def _family(job: tuple[str, int]) -> str:
    family, count = job
    world, keep = _STATE["world"]
    world.forget()
    rng = Random(f"{_PLANS[0].seed} family {family}")
    made = examples(world, keep, rng, count, family)
    return "".join(f"{as_line(example, family)}\n" for example in made)


def _shard(directory: Path, split: str, number: int) -> Path:
    return directory / f"{split}-{number:05}.jsonl"


def show(plan: Plan, count: int, kind: str | None) -> None:
    world, keep = build_world(plan)
    for example in examples(world, keep, Random(plan.seed), count, kind):
        tools = "".join(tool.rendered for tool in example.tools)
        around = (example.before, f"> {example.query}\n", example.after)
        told = "".join(around).replace("<|im_start|>", "# ").replace("<|im_end|>", "")
        sys.stdout.write(f"--- {example.kind} ({example.source})\n{tools}{told}{example.answer}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    here = Path(__file__).parent
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--count", type=int, default=800_000, help="training examples")
    parser.add_argument("--valid", type=int, default=2_000, help="validation examples")
    parser.add_argument("--families", type=int, default=0, help="validation cases of each family")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=15)
    parser.add_argument("--shard", type=int, default=50_000, help="examples a file")
    parser.add_argument("--out", type=Path, default=Path("data"))
    parser.add_argument("--frames", type=Path, default=here / "frames")
    parser.add_argument("--seeds", type=Path, help="seeds.json.gz of the public sources")
    parser.add_argument("--holdout", type=Path, help="hashes.npz of the evaluation sets")
    parser.add_argument("--split", choices=("train", "valid"), default="train", help="for --show")
    parser.add_argument("--kind", help="for --show")
    parser.add_argument("--show", type=int, help="print this many instead of writing")
    options = parser.parse_args(arguments)
    train = Plan(options.frames, options.seeds, options.holdout, options.seed, options.split)
    if options.show:
        show(train, options.show, options.kind)
        return 0
    for split, count in (("train", options.count), ("valid", options.valid)):
        if not count:
            continue
        plan = Plan(options.frames, options.seeds, options.holdout, options.seed, split)
        started = time.monotonic()
        kinds = generate(plan, count, options.workers, options.out, options.shard)
        seconds = time.monotonic() - started
        listed = ", ".join(f"{kind} {number}" for kind, number in kinds.most_common())
        sys.stdout.write(f"{split}: {count} in {seconds:.1f} s ({listed})\n")
    if options.families:
        plan = Plan(options.frames, options.seeds, options.holdout, options.seed, "valid")
        write_families(plan, options.families, options.workers, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
