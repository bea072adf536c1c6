"""Turn generated examples into rows of tokens: many whole examples to a row, none split.

    python -m training.rows --base base.gguf --source DATA --out ROWS --workers 15

Prompt and answer are tokenised apart, because in use the model also continues a finished prompt.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from training.base_tokenizer import build_tokenizer, end_of_turn
from training.base_weights import GgufFile

LENGTH = 2048
CHUNK = 4096  # examples packed together
NO_DOCUMENT = 255
# What a token is, for weighing its loss.
ANSWER, VALUE, DIGIT = 1, 2, 4

Encoded = tuple[list[int], list[int]]  # tokens and their flags

_VALUE = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d[\w.+-]*|true|false|null')


@dataclass(frozen=True, slots=True)
class Rows:
    """`tokens[row, position]`, which example of the row each belongs to, and what it is."""

    tokens: npt.NDArray[np.unsignedinteger[Any]]  # two bytes each where that is enough
    documents: npt.NDArray[np.uint8]
    flags: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def filled(self) -> int:
        return int((self.documents != NO_DOCUMENT).sum())


def value_spans(answer: str) -> Iterator[tuple[int, int]]:
    """Where in the answer argument values stand; names and keys are not values."""
    begin = 0
    for line in answer.split("\n"):
        brace = line.find("{")
        for match in _VALUE.finditer(line, brace) if brace >= 0 else ():
            if line[match.end() : match.end() + 1] != ":":
                yield begin + match.start(), begin + match.end()
        begin += len(line) + 1


def answer_flags(answer: str, offsets: Sequence[tuple[int, int]]) -> list[int]:
    """One flag per token of the answer, from the characters it covers."""
    spans = list(value_spans(answer))
    flags = []
    for start, end in offsets:
        flag = ANSWER
        if any(start < stop and begin < end for begin, stop in spans):
            flag |= VALUE
            if any(character.isdigit() for character in answer[start:end]):
                flag |= DIGIT
        flags.append(flag)
    return flags


def encode(tokenizer: Any, prompts: list[str], answers: list[str]) -> list[Encoded]:
    """For each example its tokens, end of turn included, and their flags."""
    end = end_of_turn(tokenizer)
    encoded = []
    for answer, left, right in zip(
        answers,
        tokenizer.encode_batch(prompts),
        tokenizer.encode_batch(answers, add_special_tokens=False),
        strict=True,
    ):
        tokens = [*left.ids, *right.ids, end]
        flags = [0] * len(left.ids) + [*answer_flags(answer, right.offsets), ANSWER]
        encoded.append((tokens, flags))
    return encoded


def pack(examples: Sequence[Encoded], length: int = LENGTH) -> Rows:
    """First-fit, longest first: rows are filled to about 99 percent. Too long ones are left out."""
    fitting = [example for example in examples if len(example[0]) <= length]
    fitting.sort(key=lambda example: len(example[0]), reverse=True)
    room = np.full(max(1, len(fitting)), length, dtype=np.int32)
    members: list[list[Encoded]] = [[] for _ in fitting]
    for example in fitting:
        size = len(example[0])
        row = int(np.argmax(room >= size))
        while len(members[row]) >= NO_DOCUMENT:
            row += 1
        members[row].append(example)
        room[row] -= size
    members = [row for row in members if row]
    highest = max((max(ids) for ids, _ in fitting), default=0)
    tokens = np.zeros((len(members), length), dtype=np.min_scalar_type(max(highest, 1 << 15)))
    documents = np.full((len(members), length), NO_DOCUMENT, dtype=np.uint8)
    flags = np.zeros((len(members), length), dtype=np.uint8)
    for number, row_members in enumerate(members):
        at = 0
        for document, (ids, marks) in enumerate(row_members):
            to = at + len(ids)
            tokens[number, at:to], flags[number, at:to] = ids, marks
            documents[number, at:to] = document
            at = to
    return Rows(tokens, documents, flags)


def concatenate(parts: Sequence[Rows]) -> Rows:
    return Rows(
        np.concatenate([part.tokens for part in parts]),
        np.concatenate([part.documents for part in parts]),
        np.concatenate([part.flags for part in parts]),
    )


def fewer_rows(rows: Rows, tokens: int) -> Rows:
    """Rows of about so many tokens, taken evenly since the longest lie first; 0: all of them."""
    count = max(1, tokens // rows.tokens.shape[1])
    if not tokens or count >= len(rows):
        return rows
    chosen = np.linspace(0, len(rows) - 1, count).astype(int)
    return Rows(rows.tokens[chosen], rows.documents[chosen], rows.flags[chosen])


def read_examples(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def convert(job: tuple[Path, Path, Path, int]) -> int:
    """One shard of examples to one file of rows; returns how many tokens it holds."""
    base, source, destination, length = job
    tokenizer = build_tokenizer(GgufFile(base).metadata)
    parts = []
    prompts: list[str] = []
    answers: list[str] = []
    for example in read_examples(source):
        prompts.append(example["prompt"])
        answers.append(example["answer"])
        if len(prompts) == CHUNK:
            parts.append(pack(encode(tokenizer, prompts, answers), length))
            prompts, answers = [], []
    if prompts:
        parts.append(pack(encode(tokenizer, prompts, answers), length))
    if not parts:
        return 0
    rows = concatenate(parts)
    temporary = destination.with_suffix(".tmp.npz")
    np.savez(temporary, tokens=rows.tokens, documents=rows.documents, flags=rows.flags)
    temporary.replace(destination)
    return rows.filled


def load_rows(path: Path) -> Rows:
    with np.load(path) as file:
        return Rows(file["tokens"], file["documents"], file["flags"])


def convert_folder(base: Path, source: Path, out: Path, workers: int, length: int = LENGTH) -> int:
    """Every `train*.jsonl` of a folder; returns the tokens in all."""
    out.mkdir(parents=True, exist_ok=True)
    jobs = [
        (base, shard, out / f"{source.name}-{shard.stem}.npz", length)
        for shard in sorted(source.glob("train*.jsonl"))
    ]
    with Pool(min(workers, max(1, len(jobs)))) as pool:
        return sum(pool.imap_unordered(convert, jobs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--length", type=int, default=LENGTH)
    options = parser.parse_args()
    convert_folder(options.base, options.source, options.out, options.workers, options.length)


if __name__ == "__main__":
    main()
