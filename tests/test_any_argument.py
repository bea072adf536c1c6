"""Whatever is given for an argument of the library: an answer, or an error of ours."""

from __future__ import annotations

import random
from pathlib import Path

from edgewise_bench.campaigns.arguments import ODD, foreign, scripted_engine, tries_of
from tests.campaigns import rounds


def test_whatever_is_given_the_error_is_ours_and_says_for_what(tmp_path: Path) -> None:
    with scripted_engine(tmp_path) as engine:
        tries = tries_of(engine, tmp_path)
        every = [(name, odd) for name in tries for odd in ODD]
        chosen = every if rounds(4) == 4 else random.Random(41).sample(every, 2_000)
        found = [foreign(name, tries[name], odd) for name, odd in chosen]
    wrong = sorted({each for each in found if each})
    assert not wrong, f"{len(wrong)} of {len(chosen)}:\n" + "\n".join(wrong)
