"""Each left-out family as the workload of new users, whose verdicts come one by one.

The confidences are those of heads that never saw the answer's kind. A user draws answers of one
family with replacement; the truth is what the whole family shows. A promise is broken for a user if
at any moment the promised threshold keeps more wrong answers than stated.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from edgewise.decide.families import Evidence, Verdict, worth_judging
from edgewise_bench.chat.held_out import RISKS, Judged
from edgewise_bench.risk import DELTA

MOMENTS = (50, 100, 200)
LEAST_ROWS = 100  # of a family that plays users
EVERY = 10  # verdicts between two looks at what is worth judging
LEAST_ORACLE = 0.02  # where hardly anything can be kept, a share of it says nothing
MISTAKES = {"": 0.0, "_mistaken": 0.05}  # the share of verdicts that are false
# The hopes of the issue that asked for it are for the stated 10 %.
TARGETS = {
    "broken_10": ("<=", 0.10),
    "broken_10_mistaken": ("<=", 0.10),
    "broken_20": ("<=", 0.10),
    "broken_20_mistaken": ("<=", 0.10),
    "kept_at_50": (">=", 0.30),
    "kept_at_100": (">=", 0.40),
    "kept_at_200": (">=", 0.50),
}


class Family:
    """Rows of one family; what a threshold keeps of them, and how much of that is wrong."""

    def __init__(self, rows: Sequence[Judged]) -> None:
        self.rows = sorted(rows, key=lambda row: row.kinds)
        self._confidences = [row.kinds for row in self.rows]
        self._wrong = [0]  # among the last 0, 1, 2, … rows
        for row in reversed(self.rows):
            self._wrong.append(self._wrong[-1] + (not row.right))

    def kept(self, threshold: float | None) -> float:
        return 0.0 if threshold is None else self._count(threshold) / len(self.rows)

    def breaks(self, threshold: float | None, error: float) -> bool:
        if threshold is None:
            return False
        count = self._count(threshold)
        return self._wrong[count] > error * count

    def oracle(self, error: float) -> float:
        """The largest share that can be kept, by someone who knows the truth."""
        counts = range(1, len(self.rows) + 1)
        fitting = (count for count in counts if self._wrong[count] <= error * count)
        return max(fitting, default=0) / len(self.rows)

    def _count(self, threshold: float) -> int:
        return len(self.rows) - bisect_left(self._confidences, threshold)


@dataclass(slots=True)
class User:
    """What came of one user's promise: after so many verdicts, the share of an oracle's."""

    broken: bool = False
    kept: dict[int, float] = field(default_factory=dict)
    requests: dict[int, int] = field(default_factory=dict)


def families_of(rows: Sequence[Judged]) -> list[Family]:
    found = defaultdict(list)
    for row in rows:
        found[row.family].append(row)
    return [Family(found[name]) for name in sorted(found) if len(found[name]) >= LEAST_ROWS]


def live(family: Family, error: float, mistakes: float, draw: random.Random) -> User:
    """One user, who is asked for a verdict only where it teaches most."""
    user, evidence, oracle = User(), Evidence(error), family.oracle(error)
    verdicts: list[Verdict] = []
    above, requests = 0.0, 0
    while len(verdicts) < max(MOMENTS):
        if len(verdicts) % EVERY == 0:
            above = worth_judging(verdicts, error)
        row = draw.choice(family.rows)
        requests += 1
        if row.kinds < above:
            if requests > 20 * max(MOMENTS):  # nothing is sure enough here
                break
            continue
        right = row.right != (draw.random() < mistakes)
        verdicts.append(Verdict(row.kinds, right, above))
        evidence.add(verdicts[-1])
        threshold = evidence.threshold(DELTA)
        user.broken = user.broken or family.breaks(threshold, error)
        if len(verdicts) in MOMENTS:
            if oracle >= LEAST_ORACLE:
                user.kept[len(verdicts)] = min(1.0, family.kept(threshold) / oracle)
            user.requests[len(verdicts)] = requests
    if oracle >= LEAST_ORACLE:
        share = min(1.0, family.kept(evidence.threshold(DELTA)) / oracle)
        user.kept |= {moment: share for moment in MOMENTS if moment not in user.kept}
    return user


def measure(
    rows: Sequence[Judged],
    per_family: int,
    seed: int,
    dollars: Callable[[Judged], float],
    step: Callable[[], None] = lambda: None,
) -> dict[str, float]:
    """`dollars`: what a cloud's answer to a row's request costs."""
    families = families_of(rows)
    metrics = {"families": float(len(families)), "users": float(per_family * len(families))}
    for error in RISKS:
        risk = "" if error == RISKS[0] else f"_{100 * error:.0f}"
        for suffix, mistakes in MISTAKES.items():
            draw = random.Random(seed)
            users = []
            for family in families:
                for _ in range(per_family):
                    users.append(live(family, error, mistakes, draw))
                    step()
            broken = fmean(user.broken for user in users)
            metrics[f"broken_{100 * error:.0f}{suffix}"] = broken
            for moment in MOMENTS:
                kept = [user.kept[moment] for user in users if moment in user.kept]
                metrics[f"kept_at_{moment}{risk}{suffix}"] = fmean(kept)
                asked = [user.requests[moment] for user in users if moment in user.requests]
                metrics[f"requests_at_{moment}{risk}{suffix}"] = fmean(asked) if asked else 0.0
    every = [row for family in families for row in family.rows]
    price = fmean(dollars(row) for row in every)
    return metrics | {f"audit_dollars_at_{moment}": moment * price for moment in MOMENTS}


def steps(rows: Sequence[Judged], per_family: int) -> int:
    return len(families_of(rows)) * per_family * len(RISKS) * len(MISTAKES)
