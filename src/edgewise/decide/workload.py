"""What verdicts on a workload's own answers prove, however often one looks.

A workload is the requests of one key, app or profile. A calibration was measured on other people's
requests, and may promise too much or too little here; verdicts say what holds here.

For each threshold of a fixed grid, one bets against "more than `error` of the answers above it are
wrong": a right answer wins a little, a wrong one loses much. If that sentence were true, the
capital would reach 1 / probability with at most that probability, at any moment (Ville's
inequality). So one may look after every verdict and stop when it suits. Testing begins at one
threshold, and goes on to lower ones while each is proven: the steps cost nothing. It begins where
the calibration itself says that `error` are wrong, or where the first few verdicts are, if those
are less sure; these few then prove nothing of the threshold that they chose. A tenth of the
probability is for other beginnings, so that one mistake at the top does not stop it.

What is asked may change. So the bets on "too much is wrong here" begin anew at every verdict, each
with a share of the capital; what they refute is no longer promised.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from edgewise.types.messages import Learnt

_STEPS = range(18, -19, -1)  # quarters of a logit
GRID = (*(1 / (1 + math.exp(-step / 4)) for step in _STEPS), 0.0)  # strictest first
# The first verdicts, by whose confidence testing begins; so many of them must be as sure. This, and
# what is worth judging, was chosen on one half of the families; the other half is reported.
CHOOSING, AS_SURE = 5, 2
AT_START, ANEW_EVERY = 0.9, 4  # its part of the probability; every fourth has some of the rest
DOUBT = 1.5  # times the stated error: what is less sure waits until something is proven
# Guesses of the true error, as shares of the stated one, and how much is bet on each. The stated
# error may be too high (the proof) or too low (the disproof).
BELOW = ((0.02, 0.5), (0.2, 0.3), (0.5, 0.2))
ABOVE = ((1.5, 0.4), (2.0, 0.3), (4.0, 0.3))
MOST_ERROR = 0.999  # a guess of 4 times 30 % is no share


class Verdict(NamedTuple):
    """Whether a device's answer was right.

    above  the answer was drawn by chance from all of at least this confidence: it says nothing of
           lower thresholds; 0: from all answers
    """

    confidence: float
    right: bool
    above: float = 0.0


class _Bets:
    """The capital of several guesses about one threshold, as logarithms.

    `anew`: 1/2 of it is bet from the first verdict on, 1/6 from the second, 1/12, 1/20, …
    """

    def __init__(
        self, error: float, guesses: Sequence[tuple[float, float]], *, anew: bool = False
    ) -> None:
        self._shares = [math.log(stake) for _, stake in guesses]
        self._stakes = [-math.inf] * len(guesses) if anew else list(self._shares)
        self._anew, self._count = anew, 0
        rates = [min(share * error, MOST_ERROR) for share, _ in guesses]
        self._right = [math.log((1 - rate) / (1 - error)) for rate in rates]
        self._wrong = [math.log(rate / error) for rate in rates]
        self.most = 0.0  # the greatest logarithm of all capital so far; at first it is 1

    def add(self, right: bool) -> None:
        gains = self._right if right else self._wrong
        if self._anew:
            self._count += 1
            fresh = -math.log(self._count * (self._count + 1))
            self._stakes = [
                _sum((stake, share + fresh))
                for stake, share in zip(self._stakes, self._shares, strict=True)
            ]
        self._stakes = [stake + gain for stake, gain in zip(self._stakes, gains, strict=True)]
        self.most = max(self.most, _sum(self._stakes))

    def right_until(self, level: float) -> int:
        """How many right verdicts in a row would bring the capital to this level."""
        stakes, count = list(self._stakes), 0
        while _sum(stakes) < level:
            stakes = [stake + gain for stake, gain in zip(stakes, self._right, strict=True)]
            count += 1
        return count


def _sum(logarithms: Sequence[float]) -> float:
    """The logarithm of the sum."""
    top = max(logarithms)
    return top + math.log(math.fsum(math.exp(each - top) for each in logarithms))


@dataclass(slots=True)
class Evidence:
    """All verdicts on one workload, for one stated error."""

    error: float
    wrong: int = 0
    _said: list[Verdict] = field(init=False, default_factory=list)
    _start: int = field(init=False)
    _least_sure: float = field(init=False, default=1.0)
    _proofs: list[_Bets] = field(init=False)
    _disproofs: list[_Bets] = field(init=False)

    def __post_init__(self) -> None:
        self._start = self._first
        self._proofs = [_Bets(self.error, BELOW) for _ in GRID]
        self._disproofs = [_Bets(self.error, ABOVE, anew=True) for _ in GRID]

    @property
    def verdicts(self) -> int:
        return len(self._said)

    @property
    def _first(self) -> int:
        """Where the calibration says that `error` are wrong."""
        return min(range(len(GRID)), key=lambda at: abs(GRID[at] - 1 + self.error))

    def add(self, verdict: Verdict) -> None:
        chosen, first = self.verdicts >= CHOOSING, self._first
        self._said.append(verdict)
        self._least_sure = min(self._least_sure, verdict.above or verdict.confidence)
        self.wrong += not verdict.right
        # A promise may lie between two of the grid. What is drawn from its answers may refute it,
        # and proves nothing of the lower one.
        refuting = on_grid(verdict.above)
        for at, threshold in enumerate(GRID):
            if verdict.above <= threshold <= verdict.confidence and (chosen or at == first):
                self._proofs[at].add(verdict.right)
            if refuting <= threshold <= verdict.confidence:
                self._disproofs[at].add(verdict.right)
        if self.verdicts == CHOOSING:
            self._start = self._chosen()

    def _chosen(self) -> int:
        """By their confidence alone, and before any verdict that may prove it. The first threshold
        is the exception: that so many are as sure says nothing about how often those are right."""
        sure = sorted((each.confidence for each in self._said), reverse=True)[AS_SURE - 1]
        above = max(each.above for each in self._said)
        start = max(self._first, GRID.index(on_grid(sure)))
        return min(start, max((at for at, each in enumerate(GRID) if each >= above), default=0))

    def threshold(self, probability: float) -> float | None:
        """The lowest at which at most `error` of the kept answers are wrong; None: none is proven.

        That it is too low, now or at any moment before, has at most this probability. What was
        proven and is refuted by what came later is proven no more. Nothing is promised of answers
        that are less sure than any that was judged.
        """
        others = range(self._first, len(GRID), ANEW_EVERY)
        parts = dict.fromkeys(others, (1 - AT_START) / len(others))
        parts[self._start] = parts.get(self._start, 0.0) + AT_START
        part, lowest = 0.0, None
        for at in range(len(GRID)):
            # What is proven leaves its part to the next one.
            part += parts.get(at, 0.0)
            if part and self._proves(at, probability * part) and not self._refuted(at, probability):
                lowest = GRID[at]
            else:
                part = 0.0
        return None if lowest is None else max(lowest, on_grid(self._least_sure))

    def _proves(self, at: int, probability: float) -> bool:
        return self._proofs[at].most >= -math.log(probability)

    def refutes(self, threshold: float, probability: float) -> bool:
        """Whether more than `error` of the answers above a threshold are wrong.

        Saying so by mistake, now or at any moment before, has at most this probability.
        """
        return self._refuted(GRID.index(on_grid(threshold)), probability)

    def _refuted(self, at: int, probability: float) -> bool:
        return self._disproofs[at].most >= -math.log(probability)

    def missing(self, probability: float) -> tuple[int, float]:
        """How many more right verdicts would prove something, if all are on answers of at least
        this confidence."""
        proof, level = self._proofs[self._start], -math.log(probability * AT_START)
        return proof.right_until(level), GRID[self._start]

    def worth_judging(self, probability: float) -> float:
        """The confidence from which on a verdict teaches most, by the ones that came before.

        Answers that will hardly ever be kept need no verdict. Once something is proven, the
        calibration's confidences are moved by what the verdicts say (one number, held back by a
        prior), and answers are judged that are then right with a chance of 1 - `error`.
        """
        proven = self.threshold(probability) is not None
        doubt = min(self.error * (1 if proven else DOUBT), MOST_ERROR)
        moved = _chance(1 - doubt, -_shift(self._said) if proven else 0.0)
        return min(on_grid(moved), GRID[self._start])

    def learnt(self, probability: float) -> Learnt:
        """All of it, for a request that states this error."""
        return Learnt(
            self.verdicts,
            self.threshold(probability),
            frozenset(each for at, each in enumerate(GRID) if self._refuted(at, probability)),
            *self.missing(probability),
        )


def on_grid(threshold: float) -> float:
    """The strictest of the grid that is no stricter."""
    return next(each for each in GRID if each <= threshold)


def gather(verdicts: Iterable[Verdict], error: float) -> Evidence:
    """In the order in which they came."""
    evidence = Evidence(error)
    for verdict in verdicts:
        evidence.add(verdict)
    return evidence


def _shift(verdicts: Sequence[Verdict]) -> float:
    """What is added to each logit: the most likely number, if about 1 is usual."""
    shift = 0.0
    for _ in range(8):
        chances = [_chance(each.confidence, shift) for each in verdicts]
        slope = math.fsum(each.right - p for each, p in zip(verdicts, chances, strict=True)) - shift
        bend = math.fsum(p * (1 - p) for p in chances) + 1.0
        shift += slope / bend
    return shift


def _chance(confidence: float, shift: float) -> float:
    bounded = min(max(confidence, 0.001), 0.999)
    return 1 / (1 + math.exp(-math.log(bounded / (1 - bounded)) - shift))
