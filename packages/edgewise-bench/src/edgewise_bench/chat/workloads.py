"""Each left-out family as the workload of new users, whose verdicts come one by one.

The confidences are those of a score that never saw the family. A user draws answers of one family
with replacement; the truth is what the whole family shows. A promise is broken for a user if at any
moment the promised threshold keeps more wrong answers than stated.

Where testing begins, and which answers are worth judging (`edgewise.decide.families`), was chosen
on every second family. The others play the users.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from edgewise.decide.families import GRID, Evidence, Verdict
from edgewise.decide.policy import tail
from edgewise_bench.chat.families import Strangers
from edgewise_bench.chat.held_out import RISKS, Judged
from edgewise_bench.chat.life import Lived
from edgewise_bench.risk import DELTA

MOMENTS = (50, 100, 200)
LEAST_ROWS = 100  # of a family that plays users
EVERY = 5  # verdicts between two looks at what is worth judging
LEAST_ORACLE = 0.02  # where hardly anything can be kept, a share of it says nothing
# The share of verdicts that are false, and whether answers are judged where it teaches most, or as
# they come.
WAYS = {"": (0.0, True), "_mistaken": (0.05, True), "_any": (0.0, False)}
# The hopes of the issue that asked for it are for the stated 10 %.
TARGETS = {
    "broken_10": ("<=", 0.10),
    "broken_10_mistaken": ("<=", 0.10),
    "broken_10_any": ("<=", 0.10),
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

    def provable(self, error: float, verdicts: int) -> float:
        """What is kept on average of an oracle's share by someone who is told which one threshold
        to prove, judges only answers above it, and looks once: nobody can keep much more."""
        best, oracle = 0.0, self.oracle(error)
        for threshold in GRID:
            count = self._count(threshold)
            if not count or self._wrong[count] > error * count:
                continue
            most = max(
                (n for n in range(verdicts) if tail(n, verdicts, error) <= DELTA), default=-1
            )
            chance = tail(most, verdicts, self._wrong[count] / count) if most >= 0 else 0.0
            best = max(best, chance * min(1.0, count / len(self.rows) / oracle))
        return best

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


def rows_of(found: Strangers, traces: Sequence[Judged], lived: Sequence[Lived]) -> list[Judged]:
    """All answers, by the chances of `found`: fitted without the family, where they were fitted."""
    sizes = [(each.input_tokens, each.output_tokens) for each in traces]
    sizes += [(each.input_tokens, each.tokens) for each in lived]
    columns = (found.own.tolist(), found.chances.tolist(), found.right.tolist(), sizes)
    return [
        Judged(None, right, chance, chance, None, found.families[own], *size)
        for own, chance, right, size in zip(*columns, strict=True)
    ]


def live(
    family: Family, error: float, mistakes: float, draw: random.Random, choosy: bool = True
) -> User:
    """One user; a choosy one is asked for a verdict only where it teaches most."""
    user, evidence, oracle = User(), Evidence(error), family.oracle(error)
    above, requests = 0.0, 0
    while evidence.verdicts < max(MOMENTS):
        if choosy and evidence.verdicts % EVERY == 0:
            above = evidence.worth_judging(DELTA)
        row = draw.choice(family.rows)
        requests += 1
        if row.kinds < above:
            if requests > 20 * max(MOMENTS):  # nothing is sure enough here
                break
            continue
        right = row.right != (draw.random() < mistakes)
        evidence.add(Verdict(row.kinds, right, above))
        threshold = evidence.threshold(DELTA)
        user.broken = user.broken or family.breaks(threshold, error)
        if evidence.verdicts in MOMENTS:
            if oracle >= LEAST_ORACLE:
                user.kept[evidence.verdicts] = min(1.0, family.kept(threshold) / oracle)
            user.requests[evidence.verdicts] = requests
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
    families = families_of(rows)[1::2]
    metrics = {"families": float(len(families)), "users": float(per_family * len(families))}
    for error in RISKS:
        risk = "" if error == RISKS[0] else f"_{100 * error:.0f}"
        for suffix, (mistakes, choosy) in WAYS.items():
            draw = random.Random(seed)
            users = []
            for family in families:
                for _ in range(per_family):
                    users.append(live(family, error, mistakes, draw, choosy))
                    step()
            broken = fmean(user.broken for user in users)
            metrics[f"broken_{100 * error:.0f}{suffix}"] = broken
            for moment in MOMENTS:
                kept = [user.kept[moment] for user in users if moment in user.kept]
                metrics[f"kept_at_{moment}{risk}{suffix}"] = fmean(kept)
                asked = [user.requests[moment] for user in users if moment in user.requests]
                metrics[f"requests_at_{moment}{risk}{suffix}"] = fmean(asked) if asked else 0.0
        for moment in MOMENTS:
            told = [f.provable(error, moment) for f in families if f.oracle(error) >= LEAST_ORACLE]
            metrics[f"provable_at_{moment}{risk}"] = fmean(told)
    every = [row for family in families for row in family.rows]
    price = fmean(dollars(row) for row in every)
    return metrics | {f"audit_dollars_at_{moment}": moment * price for moment in MOMENTS}


def steps(rows: Sequence[Judged], per_family: int) -> int:
    return len(families_of(rows)[1::2]) * per_family * len(RISKS) * len(WAYS)
