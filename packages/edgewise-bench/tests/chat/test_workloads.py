"""Users whose verdicts come one by one, and what they are promised."""

from __future__ import annotations

import random

from edgewise_bench.chat.held_out import Judged
from edgewise_bench.chat.workloads import MOMENTS, Family, live, measure


def rows(family: str, chance: float, count: int = 200) -> list[Judged]:
    draw = random.Random(family)
    spread = [draw.random() for _ in range(count)]
    return [Judged(None, draw.random() < chance, each, each, None, family) for each in spread]


def test_an_oracle_keeps_all_that_holds() -> None:
    told = [Judged(None, right, at, at, None) for right, at in ((False, 0.1), (True, 0.9))]
    family = Family(told)
    assert family.oracle(0.1) == family.kept(0.5) == 0.5
    assert family.oracle(0.5) == family.kept(0.0) == 1.0
    assert family.breaks(0.0, 0.4)
    assert not family.breaks(0.5, 0.4)
    assert not family.breaks(None, 0.4)


def test_a_user_whose_answers_are_right_soon_keeps_most_of_them() -> None:
    user = live(Family(rows("right", 1.0, 1000)), 0.1, 0.0, random.Random(1))
    assert not user.broken
    assert user.kept[50] <= user.kept[100] <= user.kept[200]
    assert user.kept[200] > 0.6


def test_where_most_answers_are_wrong_nothing_is_promised() -> None:
    user = live(Family(rows("wrong", 0.2)), 0.1, 0.0, random.Random(1))
    assert not user.broken
    assert not any(user.kept.values())


def test_the_figures_are_those_of_all_users() -> None:
    names = ("also right", "right", "seen", "wrong", "few")
    told = [row for name in names for row in rows(name, 0.2 if name == "wrong" else 0.99)]
    told = [row for row in told if row.family != "few"] + rows("few", 1.0, 20)
    seen: list[int] = []
    metrics = measure(told, 2, 0, lambda _: 0.001, lambda: seen.append(1))
    assert metrics["families"] == 2, "20 rows are too few; every second family chose the rules"
    assert metrics["users"] == 4
    assert len(seen) == 4 * 2 * 3
    assert metrics["broken_10"] == 0
    assert metrics["kept_at_200"] >= metrics["kept_at_50"]
    assert metrics["audit_dollars_at_50"] == 50 * 0.001
    assert all(f"requests_at_{moment}" in metrics for moment in MOMENTS)


def test_nobody_can_prove_more_than_who_is_told_what_to_prove() -> None:
    sure, poor = Family(rows("right", 0.99)), Family(rows("poor", 0.8))
    assert sure.provable(0.1, 20) < sure.provable(0.1, 50) <= sure.provable(0.1, 200) <= 1
    assert sure.provable(0.1, 20) == 0, "22 right ones are needed"
    assert poor.provable(0.1, 200) < 0.5


def test_a_promise_that_does_not_hold_counts_as_broken() -> None:
    """The measurement can fail: mistaken verdicts hide that every answer is wrong."""
    user = live(Family(rows("never", 0.0)), 0.1, 1.0, random.Random(1))
    assert user.broken
