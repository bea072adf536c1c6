"""Evaluation material stays out: paraphrases are caught, other requests pass."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from training.decontaminate import CALL_SETS, Filter, build, main, query_features

TESTED = [
    "What is the tide at Saint-Malo harbour tomorrow morning at six?",
    "Book the blue meeting room for Friday and invite Ana and Piotr",
    "turn off the greenhouse fan",
]


@pytest.fixture
def sets(tmp_path: Path) -> Path:
    for name in CALL_SETS:
        cases = [{"query": text} for text in TESTED] if name == CALL_SETS[0] else []
        (tmp_path / name).write_text(json.dumps({"cases": cases}), "utf-8")
    return tmp_path


@pytest.fixture
def bfcl(tmp_path: Path) -> Path:
    folder = tmp_path / "bfcl" / "data"
    folder.mkdir(parents=True)
    row = {
        "question": [[{"role": "user", "content": "Find prime factors of 450 and of 991, please"}]],
        "function": [
            {"name": "math.prime_factors", "description": "Get the prime factors of a number."}
        ],
    }
    (folder / "BFCL_v4_parallel.json").write_text(json.dumps(row) + "\n", "utf-8")
    return tmp_path / "bfcl"


@pytest.mark.parametrize(
    "text",
    [
        "turn off the greenhouse fan",
        "Turn OFF the greenhouse fan!!",
        "please turn off the greenhouse fan",
        "what is the tide at Saint-Malo harbour tomorrow morning at 7?",
        "Find prime factors of 450 and of 991",
    ],
)
def test_equal_and_nearly_equal_requests_are_caught(sets: Path, bfcl: Path, text: str) -> None:
    assert build(sets, bfcl).bad_query(text)


@pytest.mark.parametrize(
    "text",
    [
        "turn on the kitchen lamp",
        "tide tables for Brest",
        "invite everybody to the blue room party",
        "what are the prime numbers below 40",
        "",
    ],
)
def test_other_requests_pass(sets: Path, bfcl: Path, text: str) -> None:
    assert not build(sets, bfcl).bad_query(text)


def test_tools_like_the_tested_ones_are_caught(sets: Path, bfcl: Path) -> None:
    made = build(sets, bfcl)
    assert made.bad_tool("math.prime_factors", "Get the prime factors of a number.")
    assert made.bad_tool("MathPrimeFactors", "Prime factors of one number")
    assert made.bad_tool("number_math_factors", "Get prime factors of a number")
    assert not made.bad_tool("factorise", "Split something into what it is made of.")


def test_the_hashes_survive_a_file_and_hold_no_text(sets: Path, bfcl: Path, tmp_path: Path) -> None:
    path = tmp_path / "hashes.npz"
    arguments = ["--write", str(path), "--calls", str(sets), "--bfcl", str(bfcl)]
    assert main(arguments) == 0
    loaded = Filter.load(path)
    assert loaded.bad_query(TESTED[0])
    assert loaded.bad_tool("math.prime_factors", "Get the prime factors of a number.")
    assert b"harbour" not in path.read_bytes()


def test_search_by_rare_features_misses_nothing(sets: Path) -> None:
    made = build(sets, None)
    words = TESTED[1].split()
    for cut in range(len(words)):
        text = " ".join(words[:cut] + words[cut + 1 :])
        features = query_features(text)
        best = max(len(features & other) / len(features | other) for other in made.queries.sets)
        assert made.bad_query(text) == (best >= made.queries.threshold)
