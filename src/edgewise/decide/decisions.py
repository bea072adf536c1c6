"""How sure a typed question was answered: from what a device read to the chance of being right."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, Literal, Protocol

from edgewise.decide.calibration import Calibration, Kind, Measured, RiskRow, Score
from edgewise.errors import SettingsError
from edgewise.types.answers import LabelReading
from edgewise.types.messages import Choice, Question, YesNo
from edgewise.types.replies import UNCALIBRATED

ANSWER = "answer"  # the one score
FEATURES = frozenset(
    {"top", "margin", "entropy", "agreement", "same", "mass", "options", "choice", "yes_no"}
)
DECIDE = Kind(
    name="decide",
    scores={ANSWER: ANSWER},
    features={ANSWER: FEATURES},
    # Orders answers by the likeliest option's chance. None
    # is kept by it unless a request names its own threshold: what was measured is not good enough
    # (docs/decisions/0049-decisions-by-labels.md).
    uncalibrated=Calibration(
        name=UNCALIBRATED,
        scores={ANSWER: Score({"top": 8.0}, -5.0)},
        threshold=1.0,
    ),
)


class Read(Protocol):
    @property
    def chances(self) -> Mapping[str, float]: ...
    @property
    def one_way(self) -> tuple[Mapping[str, float], ...]: ...
    @property
    def mass(self) -> float: ...


def features_of(question: Question, read: Read) -> dict[str, float]:
    """What is known of an answer before anybody says whether it is right.

    top, margin  the likeliest option's chance, and how far the second one is behind
    entropy      of the chances; 1: all options are alike
    agreement    how much both orders of the options have in common; 1: they say the same
    same         whether both orders prefer the same option
    mass         how much of its probability the model gave to the options
    options      the logarithm of their number
    choice, yes_no   the type of the question; 0 for both: a score
    """
    ordered = sorted(read.chances.values(), reverse=True)
    count = len(ordered)
    entropy = -math.fsum(chance * math.log(chance) for chance in ordered if chance > 0)
    one, other = read.one_way[0], read.one_way[-1]
    return {
        "top": ordered[0],
        "margin": ordered[0] - ordered[1] if count > 1 else 1.0,
        "entropy": entropy / math.log(count) if count > 1 else 0.0,
        "agreement": math.fsum(min(one[name], other[name]) for name in one),
        "same": float(max(one, key=lambda n: one[n]) == max(other, key=lambda n: other[n])),
        "mass": read.mass,
        "options": math.log(count),
        "choice": float(isinstance(question, Choice)),
        "yes_no": float(isinstance(question, YesNo)),
    }


def confidence_of(question: Question, read: LabelReading, calibration: Calibration) -> float:
    """The chance that the likeliest option is right. A question with one option is certain."""
    if len(question.options) == 1:
        return 1.0
    return calibration.chance(ANSWER, features_of(question, read))


# -- what was learnt from labels -------------------------------------------------------------------
#
# Learnt questions: answered from labels of the same question, without asking a language model.
#
# A linear head reads either the words of the state or its vector. Which of the two, and what its
# chances are worth, was found on labels that it had not seen (`calibrate/learn.py`).


FORMAT = 1
Reads = Literal["words", "vector"]
_WORD = re.compile(r"[^\W_]+")


def key_of(question: Question) -> str:
    """The same for the same type, instructions and options, in whatever order options came."""
    told = sorted(zip(question.options, question.described, strict=True), key=lambda one: one[0])
    kind = type(question).__name__
    written = json.dumps([kind, question.ask or "", told], ensure_ascii=False)
    return hashlib.sha256(written.encode("utf-8", "replace")).hexdigest()[:16]


def terms_of(text: str) -> Counter[str]:
    """The words of a text, and each two neighbours."""
    words = [word.lower() for word in _WORD.findall(text)]
    pairs = (f"{one} {other}" for one, other in pairwise(words))
    return Counter([*words, *pairs])


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntQuestion:
    """A question that was fitted to labels.

    reads      what the head reads: the words of a state, or its vector
    space      of the vector
    options    in the order of `weights`
    weights    of each option: by term for words, a list of numbers for a vector
    terms      for words: what a term counts, by its rarity
    centres    for a vector: the mean of each option's states. A state that is far from all of them
               is a stranger, for which nothing was learnt; for words, one without a known term is
    least      how near a state must be
    calibration  what the chances of the head are worth, with its risk table
    """

    name: str
    key: str
    reads: Reads
    options: tuple[str, ...]
    biases: tuple[float, ...]
    weights: tuple[Any, ...]
    space: str = ""
    terms: Mapping[str, float] = field(default_factory=dict)
    centres: tuple[Sequence[float], ...] = ()
    least: float = 0.0
    calibration: Calibration
    report: Mapping[str, Any] = field(default_factory=dict)

    def chances(self, text: str, vector: Sequence[float] = ()) -> dict[str, float]:
        """By option. The vector is of length 1, and of the question's space."""
        if self.reads == "vector":
            totals = [
                bias + math.fsum(a * b for a, b in zip(weights, vector, strict=True))
                for bias, weights in zip(self.biases, self.weights, strict=True)
            ]
        else:
            found = self.weighed(text)
            totals = [
                bias + math.fsum(weights.get(term, 0.0) * much for term, much in found.items())
                for bias, weights in zip(self.biases, self.weights, strict=True)
            ]
        most = max(totals)
        powers = [math.exp(each - most) for each in totals]
        total = math.fsum(powers)
        return {name: power / total for name, power in zip(self.options, powers, strict=True)}

    def weighed(self, text: str) -> dict[str, float]:
        """The known terms of a text, as a vector of length 1."""
        found = {
            term: (1 + math.log(count)) * self.terms[term]
            for term, count in terms_of(text).items()
            if term in self.terms
        }
        length = math.sqrt(math.fsum(each * each for each in found.values())) or 1.0
        return {term: each / length for term, each in found.items()}

    def is_stranger(self, text: str, vector: Sequence[float] = ()) -> bool:
        """Whether nothing like it was among the labelled states."""
        if self.reads == "words":
            return not self.weighed(text)
        return nearness(vector, self.centres) < self.least

    def to_dict(self) -> dict[str, Any]:
        measured = self.calibration.measured
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "format": FORMAT,
            "score": asdict(self.calibration.scores[ANSWER]) | {"map": None},
            "threshold": self.calibration.threshold,
            "risk": [list(row) for row in measured.risk["whole"]],
            "risk_rows": measured.risk_rows,
            "quantiles": list(measured.quantiles),
        }


_PLAIN = (
    "name", "key", "reads", "options", "biases", "weights", "space", "terms", "centres", "least",
    "report",
)  # fmt: skip


def nearness(vector: Sequence[float], centres: Sequence[Sequence[float]]) -> float:
    """The cosine with the nearest of the centres, which are of length 1."""
    return max(
        (math.fsum(a * b for a, b in zip(vector, one, strict=True)) for one in centres),
        default=0.0,
    )


def read_learnt(data: Mapping[str, Any], origin: str) -> LearntQuestion:
    """Raises SettingsError for what is no learnt question."""
    try:
        if data["format"] != FORMAT:
            raise ValueError(f"format {data['format']!r}")
        score = Score(dict(data["score"]["weights"]), float(data["score"]["bias"]))
        table = tuple(RiskRow(float(at), int(kept), int(bad)) for at, kept, bad in data["risk"])
        calibration = learnt_calibration(
            str(data["name"]),
            score,
            float(data["threshold"]),
            table,
            int(data["risk_rows"]),
            [float(each) for each in data["quantiles"]],
        )
        given = {name: data[name] for name in _PLAIN}
        for name in ("options", "biases", "weights", "centres"):
            given[name] = tuple(given[name])
        return LearntQuestion(**given, calibration=calibration)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SettingsError(f"{origin}: no learnt question: {error!r}") from error


def learnt_calibration(
    name: str,
    score: Score,
    threshold: float,
    table: tuple[RiskRow, ...],
    rows: int,
    quantiles: Sequence[float],
) -> Calibration:
    """What judges the answers to a learnt question."""
    measured = Measured(risk={"whole": table}, risk_rows=rows, quantiles=tuple(quantiles))
    return Calibration(
        name=f"learnt:{name}",
        scores={ANSWER: score},
        threshold=threshold,
        report={"rows": rows},
        measured=measured,
    )
