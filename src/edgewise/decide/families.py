"""For whom a calibration promises anything: families of questions, and who is a stranger to them.

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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from edgewise.types.messages import Request

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
