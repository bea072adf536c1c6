"""Two sets of answers compared case by case."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from training.compare import compare, main


def answers(right: str) -> list[dict[str, Any]]:
    """One answer for each letter; those in capitals are right."""
    return [
        {"expected": letter.lower(), "exact": letter.isupper(), "f1": 0.5 + 0.5 * letter.isupper()}
        for letter in right
    ]


def test_cases_answered_alike_do_not_widen_the_interval() -> None:
    found = compare(answers("ABcd" * 100), answers("ABcd" * 99 + "ABCd"), "exact")
    assert (found["cases"], found["before"], found["after"]) == (400, 50.0, 50.25)
    assert (found["better"], found["worse"], found["gain"]) == (1, 0, 0.25)
    assert found["lowest"] == pytest.approx(-0.24) and found["highest"] == pytest.approx(0.74)


def test_what_one_wins_and_the_other_loses_cancels_out() -> None:
    found = compare(answers("Ab"), answers("aB"), "f1")
    assert (found["gain"], found["better"], found["worse"]) == (0.0, 1, 1)
    assert found["lowest"] < 0 < found["highest"]


def test_answers_to_other_cases_are_refused() -> None:
    with pytest.raises(ValueError, match="different cases"):
        compare(answers("ab"), answers("ac"), "exact")


def test_the_command_reads_what_the_worker_published(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / "one.jsonl.gz", tmp_path / "two.jsonl.gz"]
    for path, right in zip(paths, ("AB", "Ab"), strict=True):
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in answers(right))
    assert main([str(path) for path in paths]) == 0
    exact, f1 = capsys.readouterr().out.splitlines()
    assert exact.startswith("two.jsonl.gz exact: ") and '"gain": -50.0' in exact
    assert f1.startswith("two.jsonl.gz f1: ") and '"gain": -25.0' in f1
