"""From evidence to the chance of being right, and the threshold for it.

A calibration belongs to one model, quantisation and runtime: the same weights in another format
give other log-probabilities. It is a JSON file; `docs/notes/confidence-fit.md` describes how the
shipped ones were fitted. Every task has its own; `Kind` says which scores and numbers a file
holds.
"""

from __future__ import annotations

import base64
import math
import operator
import sys
from array import array
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple, Protocol

from edgewise.decide.families import Families, read_families
from edgewise.errors import SettingsError
from edgewise.types.replies import (
    BORROWED,
    TYPED,
    UNCALIBRATED,
    UNTYPED,
    Finish,
    Token,
    floats_in,
    is_verified,
)

# -- what was measured -----------------------------------------------------------------------------


# How an answer is judged: as a whole before it is shown, or while it is streamed.
Judged = Literal["whole", "stream"]
QUANTILES = 21  # 0, 5, ... 100 %

NOTHING_CLEAR = (0.0, 1.0)  # no score is below the first or above the second
Stops = Mapping[int, tuple[float, float]]  # tokens seen: (drop_below, keep_above)


@dataclass(frozen=True, slots=True)
class ScoreMap:
    """A non-decreasing, piecewise-linear map from a score to a chance. No points: no change."""

    points: tuple[tuple[float, float], ...] = ()

    def of(self, score: float) -> float:
        if not self.points:
            return score
        after = bisect_right(self.points, score, key=lambda point: point[0])
        if after == 0:
            return self.points[0][1]
        if after == len(self.points):
            return self.points[-1][1]
        (left, low), (right, high) = self.points[after - 1], self.points[after]
        return low + (high - low) * (score - left) / (right - left)


class RiskRow(NamedTuple):
    """How many rows the gate kept at this threshold, and how many of them were wrong."""

    threshold: float
    kept: int
    wrong: int


RiskTable = tuple[RiskRow, ...]  # strictest threshold first


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The optional part of a calibration.

    maps       from the score to the chance: "early" and "final"
    risk       one table for answers judged "whole", one for those that "stream"
    risk_rows  how many rows the tables were counted on, kept or not; 0: unknown
    quantiles  of the final confidence on those rows, at 0, 5, ... 100 %
    feature_means, feature_deviations   of the features on those rows
    agreement  what a second sample is worth, if anything
    families   for whom a risk is promised; None: for whoever is like the rows
    """

    maps: Mapping[str, ScoreMap] = field(default_factory=dict)
    risk: Mapping[str, RiskTable] = field(default_factory=dict)
    risk_rows: int = 0
    quantiles: tuple[float, ...] = ()
    feature_means: Mapping[str, float] = field(default_factory=dict)
    feature_deviations: Mapping[str, float] = field(default_factory=dict)
    agreement: Mapping[str, Any] = field(default_factory=dict)
    families: Families | None = None

    def map_of(self, score: str) -> ScoreMap:
        return self.maps.get(score, UNMAPPED)


UNMAPPED = ScoreMap()
UNMEASURED = Measured()


def read_measured(data: Mapping[str, Any]) -> Measured:
    """The optional keys of a calibration. Raises ValueError or TypeError for bad values."""
    risk = {str(judged): _table(rows) for judged, rows in data.get("risk", {}).items()}
    largest = max((row.kept for table in risk.values() for row in table), default=0)
    rows = _count(data.get("risk_rows", largest), "risk_rows")
    if rows < largest:
        raise ValueError(f"risk_rows = {rows}, but {largest} rows were kept")
    if unknown := sorted(set(risk) - {"whole", "stream"}):
        raise ValueError(f"unknown risk table {unknown[0]!r}")
    return Measured(
        maps={str(score): _map(points) for score, points in data.get("map", {}).items()},
        risk=risk,
        risk_rows=rows,
        quantiles=_quantiles(data.get("quantiles", ())),
        feature_means=_numbers(data.get("feature_means", {})),
        feature_deviations=_numbers(data.get("feature_deviations", {})),
        agreement=dict(data.get("agreement", {})),
        families=read_families(data["families"]) if "families" in data else None,
    )


def _map(points: Sequence[Sequence[float]]) -> ScoreMap:
    read = tuple((_share(x, "map"), _share(y, "map")) for x, y in points)
    if any(left[0] >= right[0] or left[1] > right[1] for left, right in pairwise(read)):
        raise ValueError("a map must rise: x sorted, y never falling")
    return ScoreMap(read)


def _table(rows: Sequence[Sequence[float]]) -> RiskTable:
    read = tuple(
        RiskRow(_share(threshold, "risk"), _count(kept, "risk"), _count(wrong, "risk"))
        for threshold, kept, wrong in rows
    )
    if any(row.wrong > row.kept for row in read):
        raise ValueError("a risk table with more wrong than kept")
    if any(above.threshold <= below.threshold for above, below in pairwise(read)):
        raise ValueError("a risk table begins with its strictest threshold")
    return read


def _quantiles(values: Sequence[float]) -> tuple[float, ...]:
    read = tuple(_share(value, "quantiles") for value in values)
    if read and len(read) != QUANTILES:
        raise ValueError(f"{len(read)} quantiles: must be {QUANTILES}")
    if any(left > right for left, right in pairwise(read)):
        raise ValueError("quantiles must not fall")
    return read


def _numbers(values: Mapping[str, float]) -> dict[str, float]:
    read = {str(name): float(value) for name, value in values.items()}
    if not all(map(math.isfinite, read.values())):
        raise ValueError("a feature's mean or deviation is not a finite number")
    return read


def _share(value: float, name: str) -> float:
    number = float(value)
    if not 0.0 <= number <= 1.0:
        raise ValueError(f"{name}: {value!r} is not between 0 and 1")
    return number


def _count(value: float, name: str) -> int:
    if isinstance(value, bool) or int(value) != value or value < 0:
        raise ValueError(f"{name}: {value!r} is not a count")
    return int(value)


@dataclass(frozen=True, slots=True)
class Boundaries:
    """Tables by the threshold they were computed for, lowest first.

    An answer clearly below 0.5 is clearly below 0.6 too. So what a table says about dropping also
    holds for higher thresholds, and what it says about keeping for lower ones. Each side is
    read from the nearest table that applies.
    """

    thresholds: tuple[float, ...] = ()
    tables: tuple[Stops, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tables)

    def at(self, threshold: float, tokens: int) -> tuple[float, float]:
        """(drop_below, keep_above) after this many tokens. Between two stops nothing is clear."""
        drop_below, keep_above = NOTHING_CLEAR
        below = bisect_right(self.thresholds, threshold)
        if below:
            drop_below = self.tables[below - 1].get(tokens, NOTHING_CLEAR)[0]
        above = bisect_left(self.thresholds, threshold)
        if above < len(self.tables):
            keep_above = self.tables[above].get(tokens, NOTHING_CLEAR)[1]
        return drop_below, keep_above


NO_BOUNDARIES = Boundaries()


def read_boundaries(rows: Sequence[Mapping[str, Any]]) -> Boundaries:
    """The key `boundaries` of a calibration. Raises ValueError or TypeError for bad values."""
    thresholds = tuple(float(row["threshold"]) for row in rows)
    if any(left >= right for left, right in pairwise(thresholds)):
        raise ValueError("boundaries begin with their lowest threshold")
    tables = (_stops(row["stops"], at) for row, at in zip(rows, thresholds, strict=True))
    return Boundaries(thresholds, tuple(tables))


def write_boundaries(boundaries: Boundaries) -> list[dict[str, Any]]:
    """The inverse of `read_boundaries`."""
    return [
        {"threshold": threshold, "stops": [[tokens, *cuts] for tokens, cuts in stops.items()]}
        for threshold, stops in zip(boundaries.thresholds, boundaries.tables, strict=True)
    ]


def _stops(rows: Sequence[Sequence[float]], threshold: float) -> Stops:
    stops = {int(tokens): (float(drop), float(keep)) for tokens, drop, keep in rows}
    if any(not 0.0 <= drop <= threshold <= keep <= 1.0 for drop, keep in stops.values()):
        raise ValueError("a boundary must drop below its threshold and keep above it")
    return stops


# -- the score -------------------------------------------------------------------------------------


class Features(Protocol):
    """Evidence by name: a mapping, or a reading of the meter."""

    def get(self, name: str, default: float, /) -> float: ...


_WIDEST = 60.0  # beyond this the chance no longer changes


@dataclass(frozen=True, slots=True)
class Score:
    """1 / (1 + exp(-(bias + sum of weight x feature))), and the map after it.

    An unknown feature counts as 0.
    """

    weights: Mapping[str, float]
    bias: float
    map: ScoreMap = UNMAPPED

    def of(self, features: Features) -> float:
        total = self.bias
        for name, weight in self.weights.items():
            total += weight * features.get(name, 0.0)
        return self.map.of(1.0 / (1.0 + math.exp(-max(-_WIDEST, min(_WIDEST, total)))))

    def suits(self, features: Mapping[str, float]) -> bool:
        """Whether all its features are known. A runtime may report no evidence."""
        return all(name in features for name in self.weights)


@dataclass(frozen=True, slots=True)
class Head:
    """A linear reading of a hidden state: one number, which a score weighs like any feature.

    Each number of the state is taken as its distance from `centre` in units of `spread`, at most
    `clip` of them, and weighed. The three are 32-bit floats, little-endian, in base64.

    layer  whose input the state is
    """

    layer: int
    centre: str
    spread: str
    weights: str
    clip: float

    def of(self, state: Any) -> float:
        """`state` is a numpy array, or an `array` of a model in another process."""
        if isinstance(state, array) and "numpy" not in sys.modules:
            return self._of_first(state)
        import numpy as np  # noqa: PLC0415

        centre, scale, weights = _arrays(self)
        self._check(len(state))
        distances = (np.asarray(state) - centre) * scale
        return float(weights @ distances.clip(-self.clip, self.clip))

    def _of_first(self, state: array[float]) -> float:
        """The same without numpy: loading it takes longer than the first word should."""
        columns = (self.centre, self.spread, self.weights)
        centre, spread, weights = (floats_in(base64.b64decode(each)) for each in columns)
        self._check(len(state))
        total = 0.0
        for number, middle, width, weight in zip(state, centre, spread, weights, strict=True):
            total += weight * max(-self.clip, min(self.clip, (number - middle) / width))
        return total

    def _check(self, size: int) -> None:
        if size != (own := len(base64.b64decode(self.weights)) // 4):
            raise SettingsError(
                f"the calibration reads states of {own} numbers, and those of the model "
                f"have {size}: it belongs to another model"
            )


@lru_cache(maxsize=16)
def _arrays(head: Head) -> tuple[Any, Any, Any]:
    """Centre, 1 / spread and weights."""
    import numpy as np  # noqa: PLC0415  # the first state is read without it

    columns = (head.centre, head.spread, head.weights)
    centre, spread, weights = (np.frombuffer(base64.b64decode(each), "<f4") for each in columns)
    return centre, 1 / spread, weights


def read_head(data: Mapping[str, Any]) -> Head:
    """A head of a calibration file. Raises ValueError, TypeError or KeyError for bad values."""
    head = Head(
        layer=int(data["layer"]),
        centre=str(data["centre"]),
        spread=str(data["spread"]),
        weights=str(data["weights"]),
        clip=float(data["clip"]),
    )
    sizes = {
        len(base64.b64decode(each, validate=True))
        for each in (head.centre, head.spread, head.weights)
    }
    if len(sizes) != 1 or min(sizes) == 0 or min(sizes) % 4:
        raise ValueError("a head needs as many centres and spreads as weights")
    if head.layer < 1 or not 0 < head.clip < math.inf:
        raise ValueError("a head needs a layer and a clip above 0")
    return head


# -- what is measured while a model writes ---------------------------------------------------------


WINDOW = 8  # tokens in the rolling entropy window


@dataclass(frozen=True, slots=True)
class Reading:
    """All features of the tokens seen so far. A score of them decides.

    length        logarithm of the number of tokens: the least sure of many is less sure than of few
    number_share  share of tokens with a digit: small models are often wrong about numbers, yet sure
    piece_share   share of tokens that continue a word: invented names come in pieces
    state         what a head reads from the mean hidden state of the answer; None: nothing
    before        what a head reads from the hidden state behind the prompt; None: nothing
    engine        the runtime's own confidence in the whole answer; None: it gives none, or goes on
    """

    tokens: int = 0
    mean_logprob: float = 0.0
    min_logprob: float = 0.0
    q10_logprob: float = 0.0
    q50_logprob: float = 0.0
    first_logprob: float = 0.0
    first_margin: float = 0.0
    mean_margin: float = 0.0
    min_margin: float = 0.0
    mean_entropy: float = 0.0
    window_entropy: float = 0.0
    max_window_entropy: float = 0.0
    length: float = 0.0
    number_share: float = 0.0
    piece_share: float = 0.0
    state: float | None = None
    before: float | None = None
    engine: float | None = None

    def get(self, name: str, default: float = 0.0) -> float:
        """One feature, as of a mapping: a score looks at a few of them, at every token."""
        value: float | None = getattr(self, name, default)
        return default if value is None else value

    def features(self) -> dict[str, float]:
        found = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in found.items() if value is not None}


class Meter:
    """Takes one token at a time. Each costs a few microseconds, whatever the length.

    `heads` read hidden states, by the name of the feature: `state` and `before`. A token comes with
    the state that it was predicted from. So the first token brings the state behind the prompt, and
    each later one the state where the token before it entered the model. The state of the last
    token comes with the end.
    """

    def __init__(self, heads: Mapping[str, Head] | None = None) -> None:
        self._heads = heads or {}
        self._states: Any = None  # their sum
        self._state_count = 0
        self._before: float | None = None
        self._sorted: list[float] = []
        self._window: deque[float] = deque(maxlen=WINDOW)
        self._sum_logprob = 0.0
        self._sum_margin = 0.0
        self._sum_entropy = 0.0
        self._max_window = 0.0
        self._min_margin = 0.0
        self._numbers = 0
        self._pieces = 0
        self._first: Token | None = None
        self._engine: float | None = None

    def add(self, token: Token) -> None:
        if not token.has_evidence:
            return
        if self._first is not None:
            self.end(token.state)
        elif token.state is not None and "before" in self._heads:
            self._before = self._heads["before"].of(token.state)
        if self._first is None:
            self._first = token
            self._min_margin = token.margin
        elif token.text[:1].isalpha():  # no space before it: it continues a word
            self._pieces += 1
        if any(map(str.isdigit, token.text)):
            self._numbers += 1
        self._min_margin = min(self._min_margin, token.margin)
        insort(self._sorted, token.logprob)
        self._sum_logprob += token.logprob
        self._sum_margin += token.margin
        self._sum_entropy += token.entropy
        self._window.append(token.entropy)
        self._max_window = max(self._max_window, sum(self._window) / len(self._window))

    def end(self, state: Any) -> None:
        """Take in the state behind the last token, if there is one."""
        if state is None or self._first is None or "state" not in self._heads:
            return
        self._states = _sum(self._states, state, self._state_count)
        self._state_count += 1

    def finish(self, end: Finish) -> None:
        """Take in what comes with the end: the last state, the runtime's own confidence."""
        self.end(end.state)
        self._engine = end.confidence

    def reading(self) -> Reading:
        count = len(self._sorted)
        if self._first is None:
            return Reading(engine=self._engine)
        return Reading(
            tokens=count,
            mean_logprob=self._sum_logprob / count,
            min_logprob=self._sorted[0],
            q10_logprob=self._sorted[int(0.1 * (count - 1))],
            q50_logprob=self._sorted[count // 2],
            first_logprob=self._first.logprob,
            first_margin=self._first.margin,
            mean_margin=self._sum_margin / count,
            min_margin=self._min_margin,
            mean_entropy=self._sum_entropy / count,
            window_entropy=sum(self._window) / len(self._window),
            max_window_entropy=self._max_window,
            length=math.log(count),
            number_share=self._numbers / count,
            piece_share=self._pieces / count,
            state=self._heads["state"].of(_mean(self._states, self._state_count))
            if self._state_count
            else None,
            before=self._before,
            engine=self._engine,
        )


# Sums that loading numpy takes as long as.
_FEW_STATES = 32


def _sum(states: Any, state: Any, count: int) -> Any:
    """A short answer of a model in another process is summed without numpy, see `Head.of`."""
    if isinstance(state, array) and count < _FEW_STATES and "numpy" not in sys.modules:
        return state if states is None else array("d", map(operator.add, states, state))
    import numpy as np  # noqa: PLC0415

    state = np.asarray(state)
    return state if states is None else np.asarray(states) + state


def _mean(states: Any, count: int) -> Any:
    if isinstance(states, array):
        return array("d", (each / count for each in states))
    return states / count


# -- both together ---------------------------------------------------------------------------------


FORMAT = 1
STATE = ":state"  # behind the name of a calibration that also reads hidden states
TYPED_KINDS = ("string", "integer", "number", "boolean", "enum", "date")  # of fields
HOLD_TOKENS, KEEP_ABOVE, DROP_BELOW = "hold_tokens", "keep_above", "drop_below"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The calibration of one model.

    scores      by name; the task decides which there are
    threshold   an answer whose chance of being right is below this is handed off
    numbers     other numbers of the task, such as how long text may be held back
    boundaries  early scores so clear that waiting longer would change little (chat)
    report      how it was fitted; empty if it was not
    measured    what other rows showed: maps, risk tables (decide/calibration.py)
    heads       what read hidden states, by the feature they make (chat)
    with_state  the calibration for replies that come with hidden states, if there is one (chat)
    """

    name: str
    scores: Mapping[str, Score] = field(default_factory=dict)
    threshold: float = 0.5
    numbers: Mapping[str, float] = field(default_factory=dict)
    boundaries: Boundaries = NO_BOUNDARIES
    report: Mapping[str, Any] = field(default_factory=dict)
    measured: Measured = UNMEASURED
    heads: Mapping[str, Head] = field(default_factory=dict)
    with_state: Calibration | None = None

    def seen(self, *, states: bool) -> Calibration:
        """The one that applies if replies come with hidden states, or without."""
        return self.with_state if states and self.with_state is not None else self

    def layer_of(self, head: str) -> int:
        """The layer that a head reads; 0: there is no such head."""
        return self.heads[head].layer if head in self.heads else 0

    @property
    def fitted(self) -> bool:
        return bool(self.report)

    @property
    def verified(self) -> bool:
        """Whether it was measured on answers of the model that it is used for."""
        return is_verified(self.name)

    @property
    def at_end(self) -> bool:
        """Chat: whether it reads the runtime's own confidence, which comes with the end."""
        return "final" in self.scores and "engine" in self.final.weights

    def borrowed(self) -> Calibration:
        """The same for another runtime that runs the very same bits: it decides, and promises no
        risk, because nobody has counted that runtime's errors."""
        return replace(
            self,
            name=f"{self.name}{BORROWED}",
            measured=replace(self.measured, risk={}, risk_rows=0, families=None),
            with_state=None if self.with_state is None else self.with_state.borrowed(),
        )

    def chance(self, score: str, features: Mapping[str, float]) -> float:
        """The chance by one of its scores; 0.5 if it has no such score."""
        found = self.scores.get(score)
        return 0.5 if found is None else found.of(features)

    def with_scores(self, **scores: Score) -> Calibration:
        return replace(self, scores={**self.scores, **scores})

    def with_numbers(self, **numbers: float) -> Calibration:
        return replace(self, numbers={**self.numbers, **numbers})

    def for_typed(self) -> Calibration:
        """The one for typed answers: fitted to them, or else unverified. No risk is promised,
        because nobody has counted the errors of typed answers behind the gate."""
        told = self.scores.get("typed")
        scores = {**self.scores, "final": told or self.final}
        scores.pop("before", None)
        return replace(
            self,
            name=f"{self.name}{TYPED if told else UNTYPED}",
            scores=scores,
            boundaries=NO_BOUNDARIES,
            measured=UNMEASURED,
            heads={},
            with_state=None,
        )

    @property
    def early(self) -> Score:
        """Chat: the score while text is held back."""
        return self.scores["early"]

    @property
    def final(self) -> Score:
        """Chat: the score of a whole answer, which is the confidence that a user sees."""
        return self.scores["final"]

    @property
    def hold_tokens(self) -> int:
        """For how many tokens text may be held back before the gate must decide."""
        return int(self.numbers[HOLD_TOKENS])

    @property
    def keep_above(self) -> float:
        """From this early score on, the text is shown at once."""
        return self.numbers[KEEP_ABOVE]

    @property
    def drop_below(self) -> float:
        """Below this early score, the cloud is asked at once."""
        return self.numbers[DROP_BELOW]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What the calibration files of one task hold.

    name          in the names of its files: MODEL.json for chat, MODEL.calls.json for calls
    scores        the scores it must hold, each with the name of its map; empty: no map
    optional      scores that may be missing
    features      what a score may weigh; a score that is not listed may weigh anything
    rising, falling   features whose weight must not be below 0, or above 0
    numbers       the numbers it must hold, each with its bounds
    formats       the formats that can be read
    uncalibrated  for models without a calibration: its numbers order answers, they are no chances
    """

    name: str
    scores: Mapping[str, str]
    uncalibrated: Calibration
    optional: Set[str] = frozenset()
    features: Mapping[str, Set[str]] = field(default_factory=dict)
    rising: Set[str] = frozenset()
    falling: Set[str] = frozenset()
    numbers: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    formats: tuple[int, ...] = (FORMAT,)


def chat_calibration(
    *,
    name: str,
    early: Score,
    final: Score,
    threshold: float = 0.5,
    hold_tokens: int = 16,
    keep_above: float = 0.9,
    drop_below: float = 0.1,
    boundaries: Boundaries = NO_BOUNDARIES,
    report: Mapping[str, Any] | None = None,
    measured: Measured = UNMEASURED,
) -> Calibration:
    """`early` is the score while text is held back, `final` the score of a whole answer."""
    return Calibration(
        name=name,
        scores={"early": early, "final": final},
        threshold=threshold,
        numbers={HOLD_TOKENS: hold_tokens, KEEP_ABOVE: keep_above, DROP_BELOW: drop_below},
        boundaries=boundaries,
        report=report or {},
        measured=measured,
    )


_OF_FIELDS = ("weakest", "unsaid")
_EVIDENCE = frozenset(each.name for each in fields(Reading))
_WORDS = _EVIDENCE - {"state", "before"}
CHAT = Kind(
    name="chat",
    scores={"early": "early", "final": "final", "typed": "typed"},
    optional={"typed"},
    features={
        "early": _WORDS,
        "final": _WORDS,
        "typed": _WORDS | {f"{sign}_{kind}" for sign in _OF_FIELDS for kind in TYPED_KINDS},
    },
    numbers={HOLD_TOKENS: (1, 256), KEEP_ABOVE: (0, 1), DROP_BELOW: (0, 1)},
    # A simple score of the mean log-probability. Models have at least the transfer calibration.
    uncalibrated=chat_calibration(
        name=UNCALIBRATED,
        early=Score({"mean_logprob": 3.0}, 2.5),
        final=Score({"mean_logprob": 3.0}, 2.5),
    ),
)
# Of the same model, with a head: `before` is the chance before the first token.
CHAT_STATE = replace(
    CHAT,
    scores={"early": "early", "final": "final", "before": "before"},
    optional={"before"},
    features={"early": _EVIDENCE, "final": _EVIDENCE, "before": {"before"}},
)


def parse_calibration(data: Mapping[str, Any], origin: str, kind: Kind = CHAT) -> Calibration:
    """Read the contents of a calibration file. `origin` names the file in errors."""
    if data.get("format") not in kind.formats:
        raise SettingsError(
            f"{origin}: calibration format {data.get('format')!r} is not {kind.formats[-1]};"
            " fit it again"
        )
    try:
        measured = read_measured(data)
        states = data.get("with_state") if kind is CHAT else None
        return Calibration(
            name=str(data["name"]),
            scores={
                score: _score(kind, score, data[score], measured.map_of(after))
                for score, after in kind.scores.items()
                if score in data or score not in kind.optional
            },
            threshold=_within(data, "threshold", 0, 1),
            numbers={name: _within(data, name, *bounds) for name, bounds in kind.numbers.items()},
            boundaries=read_boundaries(data.get("boundaries", ())),
            report=dict(data.get("report", {})),
            measured=measured,
            heads={str(name): read_head(head) for name, head in data.get("heads", {}).items()},
            with_state=None
            if states is None
            else parse_calibration(state_document(data), origin, CHAT_STATE),
        )
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise SettingsError(f"{origin}: not a calibration of {kind.name}: {error!r}") from error


def state_document(data: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a file for replies with hidden states, as if it were a file of its own."""
    return {**data["with_state"], "format": data["format"], "name": f"{data['name']}{STATE}"}


def _score(kind: Kind, name: str, data: Mapping[str, Any], after: ScoreMap) -> Score:
    weights = {str(feature): float(weight) for feature, weight in data["weights"].items()}
    bias = float(data["bias"])
    if not all(map(math.isfinite, (bias, *weights.values()))):
        raise ValueError(f"{name}: a weight is not a finite number")
    if unknown := set(weights) - kind.features.get(name, set(weights)):
        raise ValueError(f"{name}: unknown features {sorted(unknown)}")
    for feature, weight in weights.items():
        if (feature in kind.rising and weight < 0) or (feature in kind.falling and weight > 0):
            raise ValueError(f"{name}: {feature!r} would score a less sure answer higher")
    return Score(weights, bias, after)


def _within(data: Mapping[str, Any], name: str, low: float, high: float) -> float:
    value = float(data[name])
    if not low <= value <= high:
        raise ValueError(f"{name} must be {low:g} to {high:g}")
    return value
