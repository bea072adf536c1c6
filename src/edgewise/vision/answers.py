"""An answer from what the device saw, a receipt's total too, and the chance that it is right."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median
from typing import Literal

from edgewise.decide.calibration import Calibration, Kind, Score
from edgewise.types.replies import Box, Line, Sight, Thing
from edgewise.vision.question import (
    MOST_RIVALS,
    SkillQuestion,
    count_cues,
    find_field,
    find_values,
    plural,
    words_in_both,
)

# -- sums of a receipt: which one is its total -----------------------------------------------------


Role = Literal["total", "subtotal", "tax", "rounding", "cash", "change", "card", "off", "item"]

_UNIT = r"(?:[$€£¥₹]|rm|rp\.?|usd|eur|gbp|chf|sgd|myr)"
# With cents; or in thousands, as where there are none. A reader puts blanks after commas.
_SUM = re.compile(
    rf"(?<![\w,])(?<!\d\.)-?(?:{_UNIT} ?)?-?(?P<sum>\d{{1,3}}(?:[,.' ]\d{{3}})*[.,] ?\d{{2}}"
    rf"|\d{{1,3}}(?:[.,]\d{{3}})+|\d+[.,] ?\d{{2}})(?!\d|[.,]\d|\s?%|[/:-]\d)(?: ?{_UNIT}\b)?",
    re.IGNORECASE,
)
# The first that fits says what a row is: what only contains the word "total" comes before it.
_ROLES: tuple[tuple[Role, str], ...] = (
    ("item", r"total\W*(?:no\.? of )?(?:items?|qty|quantity|points)|\bqty\b"),
    ("off", r"discount|\bdisc\b|saving|you saved|coupon|voucher"),
    ("rounding", r"\bround(?:ing|ed)?\b(?!.*total)|\badj(?:ustment)?\b"),
    ("subtotal",
     r"sub\W*total|\bexcl|before (?:tax|vat|gst)|\bnett?\b(?! ?total)(?!.*payable)|taxable"),
    ("total", r"\btotal.*\bincl|\bincl.*\btotal"),
    ("tax", r"\b(?:vat|tax|gst|sst|mwst|iva|ppn|tva|hst|pst)\b|service charge"),
    ("change", r"\bchange\b|kembali|r[üu]ckgeld|\bbalance\b(?! due)"),
    ("cash", r"\bcash\b|\btender|\bpaid\b|\bgiven\b|tunai|\bbar\b|amount paid|payment"),
    ("card", r"\bvisa\b|master ?card|\bcard\b|\bdebit\b|\bcredit\b|\bamex\b|\beftpos\b|\bqris\b"),
    ("total",
     r"total|\bto pay\b|amount (?:due|payable)|balance due|\bpayable\b|\bsumme?\b|\bamount\b|"
     r"\bdue\b|jumlah"),
)  # fmt: skip
# Among totals, how plainly a label says that this is what is to be paid.
_PLAIN = (
    (3.0, r"grand|to pay|payable|amount due|total due|balance due|rounded|\btotal (?:rm|eur|usd)"),
    (2.5, r"\bincl"),
    (2.0, r"total|summe?\b|jumlah"),
    (1.0, r""),
)
_NEAR = 0.011  # sums that are this near are one: cents are rounded


@dataclass(frozen=True, slots=True)
class Sum:
    """One sum as it is written. `row` counts the rows from 0."""

    written: str
    value: float
    role: Role
    plain: float
    row: int


@dataclass(frozen=True, slots=True)
class Total:
    """The sum that is most likely the total. `evidence` is what speaks for it, for the score.

    labelled  how plainly its label says so, up to 3
    agree     how many equations with other sums hold: subtotal + tax, cash - change, the items
    against   how many do not, of those that could be tried
    repeated  whether it stands twice, as on the row of the card
    margin    how far the next likely sum is behind
    """

    written: str
    row: int
    evidence: Mapping[str, float]


def sums_of(rows: Sequence[str]) -> list[Sum]:
    """The sums of the rows, and what each is by its label, on its row or alone on the one above."""
    found: list[Sum] = []
    above = ""
    for number, row in enumerate(rows):
        places = list(_SUM.finditer(row))
        label = _SUM.sub(" ", row)
        if not places:
            above = row
            continue
        bare = not re.search(r"[^\W\d_]{2,}", re.sub(_UNIT, "", label, flags=re.IGNORECASE))
        said = above if bare and above else label
        role = _role(said)
        for place in places[-1:]:  # the last is the row's own; before it stand prices of one
            value = _amount(place["sum"])
            found.append(Sum(place[0].strip(), value, role, _plain(said, role), number))
        above = ""
    return found


def find_total(rows: Sequence[str]) -> Total | None:
    """None if there is no sum at all, or none that could be a total."""
    sums = sums_of(rows)
    ranked = sorted(
        ((_rank(one, sums), one) for one in sums if one.value > 0), key=lambda pair: -pair[0]
    )
    if not ranked or ranked[0][0] <= 0:
        return None
    best, total = ranked[0]
    others = [rank for rank, one in ranked if not _near(one.value, total.value)]
    agree, against = _equations(total.value, sums)
    same = [one for one in sums if _near(one.value, total.value)]
    return Total(
        total.written,
        total.row,
        {
            "labelled": max(one.plain for one in same),
            "agree": float(min(2, agree)),
            "against": float(min(2, against)),
            "repeated": float(len(same) > 1),
            "margin": min(4.0, best - max(others, default=0.0)),
        },
    )


def _rank(one: Sum, sums: Sequence[Sum]) -> float:
    agree, against = _equations(one.value, sums)
    same = [other for other in sums if _near(other.value, one.value)]
    labelled = max(other.plain for other in same)
    largest = max(other.value for other in sums if other.role not in ("cash", "change"))
    paid = 0.5 * any(other.role in ("card", "cash") for other in same)
    wrong = {"change": 2.0, "tax": 2.0, "off": 2.0, "rounding": 2.0, "subtotal": 1.0, "cash": 0.5}
    # A plain total of no cash and no equations is still one; its own row counts a little more.
    return (
        labelled
        + 1.2 * min(2, agree)
        - 0.8 * min(2, against)
        + paid
        + 0.5 * (one.value >= largest - _NEAR)
        + 0.1 * one.plain
        - wrong.get(one.role, 0.0)
        - 1.0 * (labelled == 0)
    )


def _equations(total: float, sums: Sequence[Sum]) -> tuple[int, int]:
    """(how many hold if this is the total, how many do not)."""
    values = {
        role: [one.value for one in sums if one.role == role]
        for role in ("subtotal", "tax", "cash", "change", "rounding", "off", "card")
    }
    tried: list[bool] = []
    small = [0.0, *values["rounding"], *(-value for value in values["rounding"])]
    if values["subtotal"] and values["tax"]:
        tried.append(
            any(
                _near(base + tax + more, total)
                for base in values["subtotal"]
                for tax in values["tax"]
                for more in (*small, *(-value for value in values["off"]))
            )
        )
    if values["cash"] and values["change"]:
        paid = [(cash, change) for cash in values["cash"] for change in values["change"]]
        tried.append(any(_near(cash - change, total) for cash, change in paid))
    elif values["card"]:
        tried.append(any(_near(value, total) for value in values["card"]))
    items = [one.value for one in sums if one.role == "item" and not _near(one.value, total)]
    if len(items) > 1:
        whole = sum(items)
        taxes = [0.0, *values["tax"], *(-value for value in values["off"])]
        # Items are often missed by the reader: that they do not add up says little.
        if any(_near(whole + tax + more, total) for tax in taxes for more in small):
            tried.append(True)
    return sum(tried), len(tried) - sum(tried)


def _role(label: str) -> Role:
    words = label.lower()
    return next((role for role, pattern in _ROLES if re.search(pattern, words)), "item")


def _plain(label: str, role: Role) -> float:
    if role != "total":
        return 0.0
    return next(plain for plain, pattern in _PLAIN if re.search(pattern, label.lower()))


def _amount(written: str) -> float:
    """Whatever parts its thousands; two digits after the last mark are cents."""
    digits = re.sub(r"\D", "", written)
    cents = re.search(r"[.,] ?\d{2}$", written) is not None
    return int(digits) / 100 if cents else float(int(digits))


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= _NEAR


# -- in which order one reads ----------------------------------------------------------------------


_SAME_ROW = 0.5  # of a line's height: centres closer than this are on one row


@dataclass(frozen=True, slots=True)
class Row:
    """Lines side by side. `score` is the lowest of theirs: a row is as good as its worst part."""

    text: str
    score: float
    height: float


def direction(lines: Sequence[Line]) -> float:
    """In which direction the text runs, in radians: the median of its lines. 0 is to the right."""
    angles = [
        math.atan2(line.box[1][1] - line.box[0][1], line.box[1][0] - line.box[0][0])
        for line in lines
        if len(line.box) >= 2
    ]
    # Around their mean, so that half a turn to the left and half a turn to the right are one.
    mean = math.atan2(sum(map(math.sin, angles)), sum(map(math.cos, angles)))
    return mean + median(_wrapped(angle - mean) for angle in angles) if angles else 0.0


def _wrapped(angle: float) -> float:
    return (angle + math.pi) % math.tau - math.pi


def tilt(lines: Sequence[Line]) -> float:
    """How far the text is from running level or upright, in radians."""
    angle = direction(lines)
    return angle - round(angle / (math.pi / 2)) * (math.pi / 2)


def text_height(line: Line) -> float:
    if len(line.box) < 4:
        return 0.0
    (x0, y0), (x3, y3) = line.box[0], line.box[3]
    return math.hypot(x3 - x0, y3 - y0)


def rows_of(lines: Sequence[Line]) -> list[Row]:
    """Rows from the top, each from the left, in the text's own direction."""
    written = [line for line in lines if line.text.strip()]
    angle = direction(written)
    level = [replace(line, box=_leveled(line, angle)) for line in written]
    placed = sorted(((_middle(line), line) for line in level), key=lambda pair: pair[0][1])
    rows: list[list[tuple[tuple[float, float], Line]]] = []
    for place, line in placed:
        if rows and _same_row(place, line, rows[-1]):
            rows[-1].append((place, line))
        else:
            rows.append([(place, line)])
    return [_row([line for _, line in sorted(row, key=lambda pair: pair[0][0])]) for row in rows]


def _same_row(
    place: tuple[float, float], line: Line, row: Sequence[tuple[tuple[float, float], Line]]
) -> bool:
    middle = sum(found[1] for found, _ in row) / len(row)
    height = max(text_height(line), *(text_height(other) for _, other in row))
    return abs(place[1] - middle) < _SAME_ROW * height


def _leveled(line: Line, angle: float) -> Box:
    """Its corners, rotated so that text runs level."""
    cos, sin = math.cos(-angle), math.sin(-angle)
    return tuple((x * cos - y * sin, x * sin + y * cos) for x, y in line.box)


def _middle(line: Line) -> tuple[float, float]:
    count = max(1, len(line.box))
    return sum(x for x, _ in line.box) / count, sum(y for _, y in line.box) / count


def _row(lines: Sequence[Line]) -> Row:
    text = lines[0].text.strip()
    for left, right in pairwise(lines):
        text = _joined(text, right.text.strip(), shared=_touch(left, right))
    return Row(text, min(line.score for line in lines), min(text_height(line) for line in lines))


def _touch(left: Line, right: Line) -> bool:
    """Whether two boxes of a row overlap: both may then contain the letter between them."""
    if not left.box or not right.box:
        return False
    return max(x for x, _ in left.box) > min(x for x, _ in right.box)


def _joined(left: str, right: str, *, shared: bool) -> str:
    """Join two texts; a piece that both boxes contain is written once."""
    for length in (3, 2, 1):
        bit = right[:length]
        if not shared or len(bit) < length or " " in bit or not left.endswith(bit):
            continue
        if left.endswith(f" {bit}"):  # "keep s" and "shut"
            return f"{left[:-length]}{right}"
        if right[length : length + 1] == " ":  # "Danger" and "r high"
            return f"{left}{right[length:]}"
    return f"{left}  {right}"


# -- how sure it is --------------------------------------------------------------------------------


CLEAR_SCORE = 0.6  # mistakes are rare above it
SURE_HEIGHT = 24.0  # pixels; taller text is read no better


EMPTY = "empty"
# whole    all text of a picture is right, except one character in fifty
# row      one row of it is exactly right
# sum      the sum that is told is the total of a receipt
# thing    an object is what it is called
# present  an object of the requested kind is there, by the best score of that kind
# empty    a number: the chance that there is no text if none was found
SIGHT = Kind(
    name="see",
    scores=dict.fromkeys(("whole", "row", "sum", "thing", "present"), ""),
    optional={"whole", "row", "sum", "thing", "present"},
    numbers={EMPTY: (0, 1)},
    # A simple rule on the models' own scores.
    uncalibrated=Calibration(
        name="uncalibrated",
        scores={
            "whole": Score({"doubt": -12.0}, 2.0),
            "row": Score({"doubt": -12.0}, 2.5),
            "sum": Score({"doubt": -12.0, "agree": 1.5, "against": -2.0, "margin": 0.5}, 0.0),
            "thing": Score({"score": 8.0}, -4.0),
            "present": Score({"score": 8.0}, -4.0),
        },
        numbers={EMPTY: 0.5},
    ),
)


def row_features(row: Row, sight: Sight) -> dict[str, float]:
    """`doubt` is 1 minus the reader's score; small text and haze add to it."""
    return {
        "doubt": 1.0 - row.score,
        "small": max(0.0, 1.0 - row.height / SURE_HEIGHT),
        "length": math.log1p(len(row.text)),
        **_picture_features(sight),
    }


def text_features(sight: Sight) -> dict[str, float]:
    rows = rows_of(sight.lines)
    characters = sum(len(row.text) for row in rows) or 1
    return {
        "doubt": sum((1.0 - row.score) * len(row.text) for row in rows) / characters,
        "worst": max((1.0 - row.score for row in rows), default=1.0),
        "small": max((max(0.0, 1.0 - row.height / SURE_HEIGHT) for row in rows), default=1.0),
        "length": math.log1p(characters),
        **_picture_features(sight),
    }


def _picture_features(sight: Sight) -> dict[str, float]:
    quality = sight.quality
    return {
        "haze": 1.0 - min(1.0, quality.get("contrast", 1.0)),
        "blur": 1.0 - min(1.0, quality.get("sharpness", 1.0)),
        "noise": min(0.2, quality.get("noise", 0.0)),
        "tilt": min(0.3, abs(tilt(sight.lines))),
    }


def score_features(score: float) -> dict[str, float]:
    """From an object finder's score: whether there is one, how high, how far above the usual."""
    return {"found": float(score > 0), "score": score, "clear": max(0.0, score - CLEAR_SCORE)}


def thing_chance(thing: Thing, calibration: Calibration) -> float:
    return calibration.chance("thing", score_features(thing.score))


def presence_chance(things: Sequence[Thing], name: str, calibration: Calibration) -> float:
    """The chance that an object of this kind is in the picture."""
    best = max((thing.score for thing in things if thing.name == name), default=0.0)
    return calibration.chance("present", score_features(best))


# -- what is answered ------------------------------------------------------------------------------


NO_TEXT = "There is no text in the picture that the device can read."
UNFOUND = 0.1  # the chance for an answer that only says what was not found
CLEAR_CUES = 3  # lead of the cues for a kind of paper over those against it
LIKELY = 0.5
MISSED_OF_MANY = 0.9
BESIDE = 0.9  # a time or a sum beside the words of the question is the one that is meant
TURNED = 0.3  # text may be read in reverse if it is not clear which way up it stands
SELDOM_ALL = 0.5  # what the skills name is seldom all that a picture shows


@dataclass(frozen=True, slots=True)
class SeenAnswer:
    """`features` are the evidence for the confidence, for the ledger."""

    text: str
    confidence: float
    features: Mapping[str, float] = field(default_factory=dict)


def answer_from(
    wanted: SkillQuestion, sights: Sequence[Sight], calibration: Calibration
) -> SeenAnswer:
    """One answer for all pictures, as sure as the least sure of them."""
    chance = calibration.measured.map_of("final")
    answers = []
    for sight in sights:
        one = _one(wanted, sight, calibration)
        most = 1.0 if sight.upright else TURNED
        answers.append(replace(one, confidence=min(most, chance.of(one.confidence))))
    if len(answers) == 1:
        return answers[0]
    texts = [f"Image {number}: {one.text}" for number, one in enumerate(answers, 1)]
    least = min(answers, key=lambda one: one.confidence)
    together = math.prod(one.confidence for one in answers)
    return SeenAnswer("\n".join(texts), together, least.features)


def describe_all(
    sights: Sequence[Sight], finder: Calibration | None, reader: Calibration | None
) -> SeenAnswer:
    """What is in the pictures, as far as the skills see it: in doubt, for it is seldom all."""
    told, sure = [], 1.0
    for number, sight in enumerate(sights, 1):
        rows = [row.text for row in rows_of(sight.lines)] if reader else []
        seen = _list(sight, finder) if finder else None
        things = _listed(sight, finder) if finder else ""
        text = f"text: {' / '.join(rows)}" if rows else ""
        found = "; ".join(filter(None, (things, text))) or "nothing that the device recognises"
        told.append(f"Image {number}: {found}." if len(sights) > 1 else _sentence(found))
        sure *= seen.confidence if seen and things else 1.0
        sure *= reader.chance("whole", text_features(sight)) if reader and rows else 1.0
        sure = sure if things or rows else min(sure, UNFOUND)
    return SeenAnswer("\n".join(told), SELDOM_ALL * sure)


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def describe(sights: Sequence[Sight], calibration: Calibration | None) -> str:
    """What the device can say about pictures if it cannot answer the question."""
    told = []
    for number, sight in enumerate(sights, 1):
        rows = [row.text for row in rows_of(sight.lines)]
        seen = _listed(sight, calibration) if calibration else ""
        parts = [f"it reads: {' / '.join(rows)}" if rows else "it reads no text"]
        if calibration is not None:
            parts.append(f"it sees: {seen}" if seen else "it recognises no object")
        which = f"In image {number} " if len(sights) > 1 else ""
        words = "; ".join(parts)
        told.append(_sentence(f"{which}{words}"))
    return f"No skill of the device answers this question. {' '.join(told)}"


def is_about(question: str, sights: Sequence[Sight]) -> bool:
    """Whether a word of the question stands in the text, so that the text may answer it."""
    text = " ".join(row.text for sight in sights for row in rows_of(sight.lines))
    return bool(words_in_both(question, text))


def tell_words(sights: Sequence[Sight]) -> str:
    """The text of all pictures as somebody would read it aloud who cannot show them."""
    told = ["\n".join(row.text for row in rows_of(sight.lines)) for sight in sights]
    if len(told) == 1:
        return told[0]
    return "\n\n".join(f"Image {number}:\n{text}" for number, text in enumerate(told, 1))


def chance_of_rows(sight: Sight, calibration: Calibration) -> float:
    """The chance that the rows an answer needs are read right: that of a usual row."""
    chances = [calibration.chance("row", row_features(row, sight)) for row in rows_of(sight.lines)]
    return min(median(chances), 1.0 if sight.upright else TURNED)


def _one(wanted: SkillQuestion, sight: Sight, calibration: Calibration) -> SeenAnswer:
    match wanted.asked:
        case "all_text":
            return _all_text(sight, calibration)
        case "field":
            return _field(wanted.names[0], sight, calibration)
        case "document":
            return _document(wanted.names, sight, calibration)
        case "mention":
            return _mention(wanted.names[0], sight, calibration)
        case "present":
            return _present(wanted.names[0], sight, calibration)
        case "count":
            return _count(wanted.names[0], sight, calibration)
        case "choose" | "kind":
            chosen = _choose(wanted.names, sight, calibration)
            most = 1.0 if wanted.asked == "choose" else SELDOM_ALL
            return replace(chosen, confidence=most * chosen.confidence)
        case "value":
            return _value(wanted.names, sight, calibration)
        case "list" | "describe":
            return _list(sight, calibration)


# -- text ------------------------------------------------------------------------------------------


def _all_text(sight: Sight, calibration: Calibration) -> SeenAnswer:
    rows = rows_of(sight.lines)
    if not rows:
        return SeenAnswer(NO_TEXT, calibration.numbers[EMPTY])
    features = text_features(sight)
    return SeenAnswer(
        "\n".join(row.text for row in rows), calibration.chance("whole", features), features
    )


def sum_features(total: Total, rows: Sequence[Row], sight: Sight) -> dict[str, float]:
    """The sum's own row, and what its label and the other sums say of it."""
    return row_features(rows[total.row], sight) | dict(total.evidence)


def _total(sight: Sight, calibration: Calibration) -> SeenAnswer | None:
    """What is to be paid; None if no sum of the text could be it."""
    rows = rows_of(sight.lines)
    total = find_total([row.text for row in rows])
    if total is None:
        return None
    features = sum_features(total, rows, sight)
    return SeenAnswer(total.written, calibration.chance("sum", features), features)


def _field(name: str, sight: Sight, calibration: Calibration) -> SeenAnswer:
    if name == "total" and (found := _total(sight, calibration)) is not None:
        return found
    rows = rows_of(sight.lines)
    value, rivals = find_field([row.text for row in rows], name)
    if not value:
        return SeenAnswer(f"The device finds no {name} in the text.", UNFOUND)
    holder = next((row for row in rows if value in row.text), rows[0])
    features = row_features(holder, sight)
    # Several different values with the same label: any of them may be meant.
    return SeenAnswer(value, calibration.chance("row", features) / max(1, rivals), features)


def _value(names: Sequence[str], sight: Sight, calibration: Calibration) -> SeenAnswer:
    rows, (kind, *about) = rows_of(sight.lines), names
    values, beside = find_values([row.text for row in rows], kind, about)
    if not values or len(values) > MOST_RIVALS:
        many = f"{len(values)} of them" if values else "none"
        return SeenAnswer(f"The text has no {kind} that is surely meant: {many}.", UNFOUND)
    holder = next(row for row in rows if values[0] in row.text)
    features = row_features(holder, sight)
    # The words of the question stand beside the value, or they do not: then it is a guess.
    meant = BESIDE if beside else UNFOUND
    sure = meant * calibration.chance("row", features) / len(values)
    return SeenAnswer(" or ".join(values), sure, features)


def _document(kinds: Sequence[str], sight: Sight, calibration: Calibration) -> SeenAnswer:
    rows = rows_of(sight.lines)
    if not rows:
        return SeenAnswer(NO_TEXT, UNFOUND)
    text = "\n".join(row.text for row in rows)
    lead = {
        kind: telling - 2 * foreign
        for kind in kinds
        for telling, foreign in [count_cues(text, kind)]
    }
    best = max(kinds, key=lambda kind: lead[kind])
    features = text_features(sight) | {"cues": float(lead[best])}
    if len(kinds) > 1:
        second = max(lead[kind] for kind in kinds if kind != best)
        sure = _squash(min(lead[best] - CLEAR_CUES + 1, lead[best] - second))
        return SeenAnswer(f"By its words: {_with_article(best)}.", sure, features)
    if lead[best] >= CLEAR_CUES:
        sure = _squash(lead[best] - CLEAR_CUES + 1)
        return SeenAnswer(f"Yes: by its words it is {_with_article(best)}.", sure, features)
    # Few or badly read words say little about what the paper is not.
    enough = len(text) >= 40
    sure = _squash(2 - lead[best]) * (calibration.chance("whole", features) if enough else LIKELY)
    return SeenAnswer(f"No: its words are not those of {_with_article(best)}.", sure, features)


def _mention(words: str, sight: Sight, calibration: Calibration) -> SeenAnswer:
    rows = rows_of(sight.lines)
    holder = next((row for row in rows if _folded(words) in _folded(row.text)), None)
    if holder is not None:
        features = row_features(holder, sight)
        # Misread letters do not spell the requested words by accident.
        return SeenAnswer(
            f'Yes: "{holder.text}".', 0.5 + calibration.chance("row", features) / 2, features
        )
    if not rows:
        return SeenAnswer(f"No. {NO_TEXT}", calibration.numbers[EMPTY])
    features = text_features(sight)
    return SeenAnswer(
        f'No, it does not say "{words}".', calibration.chance("whole", features), features
    )


# -- objects ---------------------------------------------------------------------------------------


def _present(name: str, sight: Sight, calibration: Calibration) -> SeenAnswer:
    chance = presence_chance(sight.things, name, calibration)
    features = {"chance": chance}
    if chance >= LIKELY:
        return SeenAnswer(f"Yes, there is {_with_article(name)}.", chance, features)
    return SeenAnswer(f"No {name} was found.", 1.0 - chance, features)


def _count(name: str, sight: Sight, calibration: Calibration) -> SeenAnswer:
    chances = [thing_chance(thing, calibration) for thing in sight.things if thing.name == name]
    likely = [chance for chance in chances if chance >= LIKELY]
    sure = math.prod(chance if chance >= LIKELY else 1.0 - chance for chance in chances)
    if not likely:
        # Somebody who asks for a number sees some: finding none is probably a miss.
        sure = MISSED_OF_MANY * (1.0 - presence_chance(sight.things, name, calibration))
    # The more there are, the more small and half-hidden ones are missed.
    sure *= MISSED_OF_MANY ** max(0, len(likely) - 1)
    return SeenAnswer(f"{plural(name, len(likely))}.", sure, {"count": float(len(likely))})


def _choose(names: Sequence[str], sight: Sight, calibration: Calibration) -> SeenAnswer:
    best = {name: presence_chance(sight.things, name, calibration) for name in names}
    ranked = sorted(names, key=lambda name: -best[name])
    first = ranked[0]
    if best[first] < LIKELY:
        return SeenAnswer("None of these was found.", min(UNFOUND, 1 - best[first]), best)
    # One of them is there, or none: the odds share the certainty.
    odds = {name: chance / max(1e-9, 1.0 - chance) for name, chance in best.items()}
    return SeenAnswer(f"{first}.", odds[first] / (1.0 + sum(odds.values())), best)


def _list(sight: Sight, calibration: Calibration) -> SeenAnswer:
    likely = [
        chance for thing in sight.things if (chance := thing_chance(thing, calibration)) >= LIKELY
    ]
    if not likely:
        return SeenAnswer("The device recognises no object.", UNFOUND)
    return SeenAnswer(f"{_listed(sight, calibration)}.", math.prod(likely))


def _listed(sight: Sight, calibration: Calibration) -> str:
    names = [thing.name for thing in sight.things if thing_chance(thing, calibration) >= LIKELY]
    return ", ".join(plural(name, names.count(name)) for name in dict.fromkeys(names))


def _squash(lead: float) -> float:
    """From a lead in cues to a chance: no lead is a coin toss, two are nearly sure."""
    return 1.0 / (1.0 + math.exp(-1.8 * lead))


def _folded(text: str) -> str:
    return re.sub(r"\W+", "", text.casefold())


def _with_article(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
