"""Which requests a calibration promises anything for: families of questions, and this workload.

Rows of one family resemble each other, so many rows of few families prove little about another
one. A calibration may hold `families`. Then a stated error is promised

1. under the conditions of the measurement (temperature, room for the answer, system prompt, turns),
2. to a request whose words are near a measured family: whoever is far from all is a stranger,
3. at the threshold that this family's own rows prove, and not below a floor. The floor is the
   lowest threshold for which families, as units, prove with probability 90 % that at most one in
   ten is wrong more often than stated, each with the thresholds of the others, as if nobody had
   measured it.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
import sys
import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from edgewise.types.messages import Learnt, Request

BUCKETS = 4096  # that words and pairs of words are hashed into
LONGEST = 4000  # characters: the beginning and the end of a longer text are read
TOP = 48  # buckets that a centre keeps
_WORD = re.compile(r"\w+|[^\w\s]")
_BYTE = 255.0
_RAREST = 16.0  # no rarity is above it
MANY = 1 << 16


def buckets_of(text: str) -> dict[int, float]:
    """Words and pairs of neighbours, hashed, with a weight that grows slowly with their count.

    All numbers are one word: which number it is says little about the sort of question.
    """
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]} {text[-LONGEST // 2 :]}"
    words = ["#" if word.isdigit() else word for word in _WORD.findall(text.lower())]
    pairs = (f"{one} {other}" for one, other in pairwise(words))
    counts = Counter(zlib.crc32(each.encode()) % BUCKETS for each in (*words, *pairs))
    return {bucket: math.log1p(count) for bucket, count in counts.items()}


class Near(NamedTuple):
    """The family that a text is nearest to, and how near: 1 is the same words, 0 no word."""

    family: str
    nearness: float


@dataclass(frozen=True, slots=True)
class Centres:
    """Each kind of measured question as the mean of its rows' words.

    rarity  of each bucket: a word that all questions have says little
    kinds   (family, {bucket: weight}), of length 1
    """

    rarity: tuple[float, ...] = ()
    kinds: tuple[tuple[str, Mapping[int, float]], ...] = ()
    _places: dict[int, list[tuple[int, float]]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def nearest(self, text: str, without: frozenset[str] = frozenset()) -> Near:
        """`without`: families that count as not measured."""
        weights = {at: share * self.rarity[at] for at, share in buckets_of(text).items()}
        length = math.sqrt(math.fsum(each * each for each in weights.values()))
        sums: dict[int, float] = {}
        places = self._places or self._places_of_buckets()
        for bucket, weight in weights.items():
            for number, there in places.get(bucket, ()):
                sums[number] = sums.get(number, 0.0) + weight * there
        found = [
            (total, number)
            for number, total in sums.items()
            if not without or self.kinds[number][0] not in without
        ]
        if not found or not length:
            return Near("", 0.0)
        total, number = max(found)
        return Near(self.kinds[number][0], total / length)

    def _places_of_buckets(self) -> dict[int, list[tuple[int, float]]]:
        """Where each bucket occurs, once somebody asks: most requests state no risk."""
        found: dict[int, list[tuple[int, float]]] = {}
        for number, (_, weights) in enumerate(self.kinds):
            for bucket, weight in weights.items():
                found.setdefault(bucket, []).append((number, weight))
        self._places.update(found)  # whole: other threads may look
        return found


def centres_of(rows: Iterable[tuple[str, str, str]]) -> Centres:
    """From the rows' families, kinds and texts."""
    counted = [(family, kind, buckets_of(text)) for family, kind, text in rows]
    having = Counter(bucket for _, _, found in counted for bucket in found)
    rarity = tuple(
        min(_RAREST, math.log((1 + len(counted)) / (1 + having[bucket])))
        for bucket in range(BUCKETS)
    )
    sums: dict[tuple[str, str], Counter[int]] = {}
    for family, kind, found in counted:
        weights = {bucket: share * rarity[bucket] for bucket, share in found.items()}
        scale = 1 / (_length(weights.values()) or 1.0)
        total = sums.setdefault((family, kind), Counter())
        for bucket, weight in weights.items():
            total[bucket] += weight * scale  # type: ignore[assignment]  # a count may be a share
    return Centres(
        rarity,
        tuple((family, _unit(total.most_common(TOP))) for (family, _), total in sums.items()),
    )


def _length(weights: Iterable[float]) -> float:
    return math.sqrt(math.fsum(each * each for each in weights))


def _unit(weights: Iterable[tuple[int, float]]) -> dict[int, float]:
    kept = dict(weights)
    length = _length(kept.values()) or 1.0
    return {bucket: weight / length for bucket, weight in kept.items()}


def write_centres(centres: Centres) -> dict[str, Any]:
    """The inverse of `read_centres`, but for rounding: weights are kept as bytes."""
    return {
        "rarity": _packed(bytes(round(each / _RAREST * _BYTE) for each in centres.rarity)),
        "kinds": [
            [
                family,
                _packed(b"".join(bucket.to_bytes(2, "little") for bucket in weights)),
                _packed(bytes(round(weight * _BYTE) for weight in weights.values())),
            ]
            for family, weights in centres.kinds
        ],
    }


def read_centres(data: Mapping[str, Any]) -> Centres:
    """Raises ValueError, TypeError or KeyError for bad values."""
    kinds = tuple((str(family), str(at), str(weights)) for family, at, weights in data["kinds"])
    return _centres(str(data["rarity"]), kinds)


@lru_cache(maxsize=4)
def _centres(rarity: str, kinds: tuple[tuple[str, str, str], ...]) -> Centres:
    found = tuple(each / _BYTE * _RAREST for each in base64.b64decode(rarity, validate=True))
    if len(found) != BUCKETS:
        raise ValueError(f"the rarity of {len(found)} buckets: must be {BUCKETS}")
    read = []
    for family, places, packed in kinds:
        buckets = array("H", base64.b64decode(places, validate=True))
        if sys.byteorder == "big":
            buckets.byteswap()
        weights = base64.b64decode(packed, validate=True)
        if max(buckets, default=0) >= BUCKETS:
            raise ValueError("a centre with an unknown bucket")
        read.append((family, _unit(zip(buckets, weights, strict=True))))
    return Centres(found, tuple(read))


def _packed(data: bytes) -> str:
    return base64.b64encode(data).decode()


# -- the conditions of a measurement ---------------------------------------------------------------


def digest_of(system: str) -> str:
    """By which a system prompt is known."""
    return hashlib.sha256(system.strip().encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Conditions:
    """How the measured rows were asked.

    temperature  of sampling; 0: greedily
    tokens       how much room an answer had: with less, it is cut
    longest      tokens of the longest answer; 0: nobody counted
    turns        of the user, at most
    systems      digests of the system prompts; the model's own always counts
    """

    temperature: float = 0.0
    tokens: int = 0
    longest: int = 0
    turns: int = MANY
    systems: frozenset[str] = frozenset()

    def broken_by(self, request: Request) -> str:
        """The first condition that a request does not meet, in words; empty: it meets all."""
        if request.temperature > self.temperature:
            return f"temperature {request.temperature:g}, where {self.temperature:g} was measured"
        if request.max_tokens is not None and request.max_tokens < self.tokens:
            return f"at most {request.max_tokens} tokens, where answers had room for {self.tokens}"
        turns = sum(message.role == "user" for message in request.messages)
        if turns > self.turns:
            return f"{turns} turns, where at most {self.turns} was measured"
        systems = [message.content for message in request.messages if message.role == "system"]
        if any(digest_of(each) not in self.systems for each in systems if each.strip()):
            return "a system prompt that was not measured"
        return ""


def read_conditions(data: Mapping[str, Any]) -> Conditions:
    return Conditions(
        temperature=float(data.get("temperature", 0.0)),
        tokens=int(data.get("tokens", 0)),
        longest=int(data.get("longest", 0)),
        turns=int(data.get("turns", MANY)),
        systems=frozenset(map(str, data.get("systems", ()))),
    )


# -- what families prove ---------------------------------------------------------------------------


class Cell(NamedTuple):
    """The measured rows that are nearest to a family. `counts`: kept and wrong, per threshold."""

    rows: int
    counts: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Families:
    """The key `families` of a calibration.

    rows        all that were measured, strangers included
    least       a request less near than this is a stranger
    floors      (error, threshold): what families prove of each other, smallest error first
    curve       (threshold, share kept, share right of it) of families that were left out, each
                weighing the same
    thresholds  of the counts in `cells`, strictest first
    left_out    what came of families that were left out, for reports
    """

    rows: int = 0
    least: float = 1.0
    conditions: Conditions = field(default_factory=Conditions)
    floors: tuple[tuple[float, float], ...] = ()
    thresholds: tuple[float, ...] = ()
    cells: Mapping[str, Cell] = field(default_factory=dict)
    centres: Centres = field(default_factory=Centres)
    curve: tuple[tuple[float, float, float], ...] = ()
    left_out: Mapping[str, float] = field(default_factory=dict)

    def floor(self, error: float) -> tuple[float, float] | None:
        """The largest error, up to this one, that families prove of each other, and from which
        threshold on; None: none."""
        fitting = [floor for floor in self.floors if floor[0] <= error + 1e-9]
        return fitting[-1] if fitting else None

    def table(self, family: str) -> tuple[tuple[float, int, int], ...]:
        """Threshold, kept and wrong, strictest first: a risk table of one family."""
        cell = self.cells.get(family)
        if cell is None:
            return ()
        pairs = zip(self.thresholds, cell.counts, strict=True)
        return tuple((threshold, kept, wrong) for threshold, (kept, wrong) in pairs)

    def near(self, request: Request) -> Near:
        """By the words of the last turn."""
        asked = [message.content for message in request.messages if message.role == "user"]
        found = self.centres.nearest(asked[-1] if asked else "")
        return found if found.nearness >= self.least else Near("", found.nearness)


def read_families(data: Mapping[str, Any]) -> Families:
    """Raises ValueError, TypeError or KeyError for bad values."""
    thresholds = tuple(float(each) for each in data.get("thresholds", ()))
    if any(above <= below for above, below in pairwise(thresholds)):
        raise ValueError("families: thresholds begin with the strictest")
    return Families(
        rows=int(data.get("rows", 0)),
        least=float(data.get("least", 1.0)),
        conditions=read_conditions(data.get("conditions", {})),
        floors=tuple(sorted((float(error), float(at)) for error, at in data.get("floors", ()))),
        thresholds=thresholds,
        cells={
            str(name): _cell(rows, counts, len(thresholds))
            for name, (rows, counts) in data.get("cells", {}).items()
        },
        centres=read_centres(data["centres"]) if data.get("centres") else Centres(),
        curve=tuple(
            (float(at), float(kept), float(right)) for at, kept, right in data.get("curve", ())
        ),
        left_out={str(name): float(value) for name, value in data.get("left_out", {}).items()},
    )


def _cell(rows: int, counts: str, steps: int) -> Cell:
    numbers = [int(each) for each in str(counts).split()]
    pairs = tuple(zip(numbers[::2], numbers[1::2], strict=True))
    if len(pairs) != steps or any(wrong > kept for kept, wrong in pairs):
        raise ValueError("families: a cell does not count every threshold")
    return Cell(int(rows), pairs)


def write_cells(cells: Mapping[str, Cell]) -> dict[str, list[Any]]:
    """The inverse of what `read_families` reads."""
    return {
        name: [cell.rows, " ".join(f"{kept} {wrong}" for kept, wrong in cell.counts)]
        for name, cell in cells.items()
    }


# -- what this workload's own verdicts prove -------------------------------------------------------
#
# A workload is the requests of one key, app or profile. A calibration was measured on other
# people's requests, and may promise too much or too little here; verdicts say what holds here.
#
# For each threshold of a fixed grid, one bets against "more than `error` of the answers above it
# are wrong": a right answer wins a little, a wrong one loses much. If that sentence were true, the
# capital would reach 1 / probability with at most that probability, at any moment (Ville's
# inequality). So one may look after every verdict and stop when it suits. Testing begins at one
# threshold, and goes on to lower ones while each is proven: the steps cost nothing. It begins where
# the calibration itself says that `error` are wrong, or where the first few verdicts are, if those
# are less sure; these few then prove nothing of the threshold that they chose. A tenth of the
# probability is for other beginnings, so that one mistake at the top does not stop it.
#
# What is asked may change. So the bets on "too much is wrong here" begin anew at every verdict,
# each with a share of the capital; what they refute is no longer promised.


_STEPS = range(18, -19, -1)  # quarters of a logit
GRID = (*(1 / (1 + math.exp(-step / 4)) for step in _STEPS), 0.0)  # strictest first
# The first verdicts, by whose confidence testing begins; so many of them must be as sure. This, and
# what is worth judging, was chosen on one half of the families; the other half is reported.
CHOOSING, AS_SURE = 5, 2
AT_START, ANEW_EVERY = 0.9, 4  # its part of the probability; every fourth has some of the rest
# Times the stated error: what is less sure need not be judged before something is proven.
DOUBT = 1.5
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
