"""Keeps evaluation material out of training, by likeness and not only by equality.

`python -m training.decontaminate --write hashes.npz --calls DIR --bfcl DIR` reads every evaluation
set and writes hashes only; `Filter.load("hashes.npz")` needs nothing else.

A request is dropped if its word and word-pair sets have a Jaccard similarity of at least
QUERY_THRESHOLD with those of any evaluation request. A tool is dropped if its name equals that of a
BFCL function and the descriptions are alike (NAMED_THRESHOLD), or if name and description together
are (TOOL_THRESHOLD).
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from zlib import crc32

import numpy as np

from training.naming import words_of

QUERY_THRESHOLD = 0.6
TOOL_THRESHOLD = 0.7
NAMED_THRESHOLD = 0.35
CALL_SETS = (
    "hackathon_30.json",
    "assistant_dev.json",
    "snips_as_calls.json",
    "home_assistant_as_calls.json",
)


def query_features(text: str) -> frozenset[int]:
    """Hashes of the words and neighbouring pairs of a request."""
    words = re.findall(r"\w+", text.lower())
    pairs = [f"{first} {second}" for first, second in pairwise(words)]
    return frozenset(crc32(item.encode()) for item in (*words, *pairs))


def tool_features(name: str, description: str) -> frozenset[int]:
    words = {*words_of(name), *words_of(description)}
    return frozenset(crc32(word.encode()) for word in words if len(word) > 2)


def jaccard(one: frozenset[int], other: frozenset[int]) -> float:
    union = len(one | other)
    return len(one & other) / union if union else 1.0


class Index:
    """Sets of hashes, searched for one that is alike enough."""

    def __init__(self, sets: Sequence[frozenset[int]], threshold: float) -> None:
        self.sets = list(dict.fromkeys(sets))
        self.threshold = threshold
        self.count = Counter(item for features in self.sets for item in features)
        self.places: dict[int, list[int]] = defaultdict(list)
        for place, features in enumerate(self.sets):
            for item in features:
                self.places[item].append(place)

    def alike(self, features: frozenset[int]) -> bool:
        """Whether any set reaches the threshold.

        Such a set shares at least ceil(threshold * size) of the features, so among the
        size - that + 1 rarest ones there is one it has: only those need be looked up.
        """
        if not features:
            return False
        looked = len(features) - math.ceil(self.threshold * len(features)) + 1
        rarest = sorted(features, key=lambda item: self.count.get(item, 0))[:looked]
        candidates = {place for item in rarest for place in self.places.get(item, ())}
        return any(
            jaccard(features, self.sets[place]) >= self.threshold
            for place in candidates
            if self.threshold * len(features) <= len(self.sets[place])
            and self.threshold * len(self.sets[place]) <= len(features)
        )


class Filter:
    """What may be trained on, given the hashes of what is tested on."""

    def __init__(
        self, queries: Sequence[frozenset[int]], tools: Sequence[tuple[int, frozenset[int]]]
    ) -> None:
        self.queries = Index(queries, QUERY_THRESHOLD)
        self.tools = Index([features for _, features in tools], TOOL_THRESHOLD)
        self.by_name: dict[int, list[frozenset[int]]] = defaultdict(list)
        for name, features in tools:
            self.by_name[name].append(features)

    def bad_query(self, text: str) -> bool:
        return self.queries.alike(query_features(text))

    def bad_tool(self, name: str, description: str) -> bool:
        features = tool_features(name, description)
        named = self.by_name.get(_name_hash(name), ())
        return self.tools.alike(features) or any(
            jaccard(features, other) >= NAMED_THRESHOLD for other in named
        )

    def save(self, path: Path) -> None:
        names = [(name, features) for name, group in self.by_name.items() for features in group]
        queries, query_ends = _flat(self.queries.sets)
        tools, tool_ends = _flat([features for _, features in names])
        np.savez_compressed(
            path,
            queries=queries,
            query_ends=query_ends,
            tools=tools,
            tool_ends=tool_ends,
            tool_names=np.array([name for name, _ in names], dtype=np.uint32),
        )

    @classmethod
    def load(cls, path: Path) -> Filter:
        with np.load(path) as stored:
            queries = list(_sets(stored["queries"], stored["query_ends"]))
            tools = list(_sets(stored["tools"], stored["tool_ends"]))
            names = [int(name) for name in stored["tool_names"]]
        return cls(queries, list(zip(names, tools, strict=True)))


def _name_hash(name: str) -> int:
    return crc32("".join(words_of(name)).encode())


def _flat(sets: Iterable[frozenset[int]]) -> tuple[np.ndarray, np.ndarray]:
    items: list[int] = []
    ends = []
    for features in sets:
        items += sorted(features)
        ends.append(len(items))
    return np.array(items, dtype=np.uint32), np.array(ends, dtype=np.int64)


def _sets(items: np.ndarray, ends: np.ndarray) -> Iterator[frozenset[int]]:
    start = 0
    for end in ends.tolist():
        yield frozenset(items[start:end].tolist())
        start = end


def evaluation_queries(calls: Path, bfcl: Path | None) -> Iterator[str]:
    """Every request of every evaluation set."""
    for name in CALL_SETS:
        cases = json.loads((calls / name).read_text("utf-8"))["cases"]
        for case in cases:
            yield from _case_texts(case)
    for row in _bfcl_rows(bfcl):
        for turn in row.get("question", []):
            for message in turn if isinstance(turn, list) else [turn]:
                if isinstance(message, dict) and message.get("role") == "user":
                    yield str(message.get("content", ""))


def _case_texts(case: dict[str, object]) -> Iterator[str]:
    for key in ("query", "text", "utterance"):
        if isinstance(case.get(key), str):
            yield str(case[key])
    messages = case.get("messages")
    for message in messages if isinstance(messages, list) else []:
        if message.get("role") == "user":
            yield str(message["content"])


def bfcl_tools(bfcl: Path | None) -> Iterator[tuple[int, frozenset[int]]]:
    for row in _bfcl_rows(bfcl):
        for tool in row.get("function", []):
            name, description = str(tool.get("name", "")), str(tool.get("description", ""))
            yield _name_hash(name), tool_features(name, description)


def _bfcl_rows(bfcl: Path | None) -> Iterator[dict[str, list[dict[str, object]]]]:
    for path in sorted(bfcl.rglob("BFCL_v4_*.json")) if bfcl else []:
        # Answers hold no requests; format_sensitivity only lists ids of other files.
        if "possible_answer" in path.parts or "format_sensitivity" in path.name:
            continue
        for line in path.read_text("utf-8").split("\n"):
            if line.strip():
                yield json.loads(line)


def build(calls: Path, bfcl: Path | None) -> Filter:
    queries = {query_features(text) for text in evaluation_queries(calls, bfcl) if text.strip()}
    tools = list(dict.fromkeys(bfcl_tools(bfcl)))
    return Filter(sorted(queries, key=sorted), tools)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--write", type=Path, required=True, help="file for the hashes (.npz)")
    parser.add_argument("--calls", type=Path, required=True, help="folder of the call sets")
    parser.add_argument("--bfcl", type=Path, help="unpacked bfcl-eval package")
    options = parser.parse_args(arguments)
    made = build(options.calls, options.bfcl)
    made.save(options.write)
    sys.stdout.write(
        f"{len(made.queries.sets)} requests, {sum(map(len, made.by_name.values()))} tools, "
        f"{options.write.stat().st_size:,} bytes\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
