"""Masking takes time in proportion to the text, whatever the text is.

Processor time of a text is held against that of one four times as long, in the same run: linear
work takes 4 times as long, quadratic work 16 times. What a pattern begins with, what it runs over
and what it would end with are repeated, alone and behind each other.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest

from edgewise.record import rows
from edgewise.record.rows import mask_secrets, short_error

CHARS = 8_000
TOO_STEEP = 8.0
BEGINNINGS = (
    "authorization", "authorization:", "authorization: bearer ", "authorization=\"basic ",
    "bearer ", "bearer", "api_key", "api key provided: ", "client-secret=", "secret", "secret:  ",
    "password='", "?key=", "&sig=", "://", "://a", "://a:", "://a:b", "sk-", "sk-aaaaaaa", "hf_",
    "AKIA", "ya29.", "github_pat_", "eyJ", "-eyJ", "_eyJ", "eyJ-", "eyJaaaaaaaa", "eyJaaaaaaaa.",
)  # fmt: skip
RUNS = ("a", "1", "a1", "A-", "_", "-", ".", "*", ":", "@", "a:", "a@", '"', "=", " ", "\n", "\t ",
        "\u00a0", "[masked]", "[masked", "é", "文")  # fmt: skip
OPENINGS = ("", "eyJ", "://a:", "sk-", "authorization: bearer", "secret=")


def pumps() -> list[tuple[str, str]]:
    """What stands first, and what is repeated behind it."""
    alone = [("", each) for each in BEGINNINGS]
    return alone + [(opening, each) for opening in OPENINGS for each in RUNS]


def seconds(work: Callable[[str], object], text: str) -> float:
    """The best of a few, so that what else the machine does is left out."""
    best = float("inf")
    for _ in range(4):
        started = time.process_time()
        work(text)
        best = min(best, time.process_time() - started)
    return best


def growth(work: Callable[[str], object], opening: str, pump: str) -> float:
    """How many times as long four times the text takes; measured again where it seems too much."""
    short = opening + pump * (CHARS // len(pump))
    long = opening + pump * (4 * CHARS // len(pump))
    for _ in range(3):
        ratio = seconds(work, long) / max(seconds(work, short), 1e-6)
        if ratio <= TOO_STEEP:
            break
    return ratio


@pytest.mark.parametrize("pattern", rows._SECRETS, ids=lambda each: each.pattern[:40])
def test_no_pattern_takes_more_than_linear_time(pattern: re.Pattern[str]) -> None:
    def replaced(text: str) -> str:
        return pattern.sub("x", text)

    steep = {
        (opening, pump): round(found, 1)
        for opening, pump in pumps()
        if (found := growth(replaced, opening, pump)) > TOO_STEEP
    }
    assert not steep


@pytest.mark.parametrize("pump", ["-eyJ", "eyJ-", "x-eyJaaaaaaaa", "://a:b@", "secret=abcd ", "a1"])
def test_nor_do_all_of_them_together(pump: str) -> None:
    assert growth(mask_secrets, "", pump) <= TOO_STEEP


def test_an_error_takes_no_longer_however_long_it_is() -> None:
    assert growth(short_error, "", "-eyJ") <= 2.5
