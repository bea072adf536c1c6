"""Answers that are programs: they are run, and what they may do is bounded."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from random import Random

import pytest

from edgewise_bench.questions.kinds.programs import (
    Task,
    completions,
    functions,
    is_done,
    patterns,
    queries,
)
from edgewise_bench.questions.sandbox import passes, pattern_in


def task(kind: str, prompt: str) -> Task:
    asked = [*functions(Random(0)), *patterns(Random(0)), *queries(Random(0))]
    return next(
        each
        for each in asked
        if isinstance(each, Task) and each.kind == kind and prompt in each.prompt
    )


@pytest.mark.parametrize(
    ("said", "right"),
    [
        ("```python\ndef gcd(a, b):\n    while b: a, b = b, a % b\n    return a\n```", True),
        ("def gcd(a, b):\n    return a if not b else gcd(b, a % b)", True),
        ("Sure! Here it is:\n```\nfrom math import gcd\n```\nIt needs no loop.", True),
        ("def gcd(a, b):\n    return min(a, b)", False),
        ("def divisor(a, b):\n    return 12", False),
        ("I cannot write code.", False),
        ("def gcd(a, b):\n    while True: pass", False),
    ],
)
def test_a_function_is_right_if_it_does_what_was_asked(said: str, right: bool) -> None:
    assert is_done(task("functions", "greatest common divisor"), said) is right


@pytest.mark.parametrize(
    ("said", "right"),
    [
        (r"`\d{5}`", True),
        ("```regex\n^[0-9]{5}$\n```", True),
        (r"r'\d{5}'", True),
        ("```python\nimport re\n\npattern = r'^[0-9]{5}$'\n```", True),
        (r"\d+", False),
        ("[", False),
    ],
)
def test_a_pattern_must_fit_what_it_should_and_nothing_else(said: str, right: bool) -> None:
    assert is_done(task("patterns_to_write", "exactly five digits"), said) is right


def test_a_pattern_is_found_in_quotes_and_slashes() -> None:
    assert pattern_in('pattern = r"a+"') == pattern_in("/a+/g") == pattern_in("`a+`") == "a+"


@pytest.mark.parametrize(
    ("said", "right"),
    [
        ("SELECT name FROM staff WHERE town = 'Bern';", True),
        ("```sql\nselect s.name from staff s where s.town like 'Bern'\n```", True),
        ("SELECT name FROM staff;", False),
        ("SELECT nome FROM staff WHERE town = 'Bern';", False),
    ],
)
def test_a_query_is_right_if_it_finds_the_rows(said: str, right: bool) -> None:
    assert is_done(task("queries", "all who live in Bern"), said) is right


def test_a_completion_may_repeat_the_beginning_or_go_on(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl.gz"
    begun = 'def twice(x: int) -> int:\n    """Two times x."""\n'
    row = {
        "prompt": begun,
        "entry_point": "twice",
        "test": "def check(candidate):\n    assert candidate(4) == 8\n",
    }
    with gzip.open(path, "wt") as file:
        file.write(json.dumps(row) + "\n")
    (asked,) = completions(path)
    assert is_done(asked, "    return 2 * x")
    assert is_done(asked, f"```python\n{begun}    return x + x\n```")
    assert not is_done(asked, "    return x")


@pytest.mark.parametrize(
    "harm",
    [
        "open('left.txt', 'w')",
        "import socket; socket.create_connection(('127.0.0.1', 9))",
        "import os; os.system('true')",
        "import subprocess; subprocess.run(['true'])",
        "import os; os.remove('/nowhere')",
        "x = 'a' * (1 << 32)",
    ],
)
def test_a_program_may_not_reach_out_of_its_process(harm: str) -> None:
    assert passes("1", "assert ANSWER == '1'")
    assert not passes("1", harm)
