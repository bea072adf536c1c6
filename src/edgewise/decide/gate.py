"""The gate: HOLD the text back, KEEP it (show it), or HAND_OFF to the cloud.

It judges readings only; the flow holds the text. After KEEP there is no way back. So a short answer
is held to its end and judged whole, streamed or not: its first words seldom hold what makes it
right or wrong. A long one is judged once, at the end of a sentence, by the same score.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import takewhile
from typing import Any
from urllib.parse import unquote

from edgewise.decide.calibration import TYPED_KINDS, Calibration, Meter, Reading
from edgewise.types.replies import Token

# -- what the values of a JSON answer say ----------------------------------------------------------
#
# Braces, names of fields and blanks are what the grammar and the schema ask for: they say nothing
# about whether the answer is right. So only tokens that are part of a value are evidence, and they
# are read by the kind of field: a digit that is nearly a coin toss means more than a word that is.


LATEST_YEAR = 2100  # where the request names no year
YEARS_BEYOND = 100  # after the last year that is named
FIRST_YEAR = 100  # "5.12.26" is no day of the year 26
_DEEPEST = 32

_PART = re.compile(r'"(?:[^"\\]|\\.)*"?|-?\d[\d.eE+-]*|true|false|null|[{}\[\],:]')
_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_NUMBERS = re.compile(r"\d+(?:[.,]\d+)*")
_DIGITS = re.compile(r"\d{1,9}")
_YEAR = re.compile(r"(?<!\d)\d{4}(?!\d)")
_WORDS = re.compile(r"\w+")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


@dataclass(frozen=True, slots=True)
class TypedValue:
    """A text, a number, a boolean or null of an answer, and where it stands.

    kind   one of TYPED_KINDS
    until  where the schema leaves one choice from: the rest of a value of an enum is forced
    """

    path: tuple[str, ...]
    kind: str
    text: str
    start: int
    end: int
    until: int

    @property
    def place(self) -> str:
        return "".join(("$", *(f".{step}" for step in self.path)))


@dataclass(frozen=True, slots=True)
class TypedReading:
    """What the values say: a reading of their tokens alone, and what each kind of field adds.

    weakest_KIND     the least likely token of the fields of a kind; 0 without such fields
    unsaid_KIND      fields of a kind whose value does not stand in the request, as a share
    """

    plain: Reading
    by_kind: Mapping[str, float] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        return self.plain.tokens

    @property
    def before(self) -> float | None:
        return None

    @property
    def engine(self) -> float | None:
        return self.plain.engine

    def get(self, name: str, default: float = 0.0) -> float:
        found = self.by_kind.get(name)
        return self.plain.get(name, default) if found is None else found

    def features(self) -> dict[str, float]:
        return {**self.plain.features(), **self.by_kind}


def read_typed(
    tokens: Sequence[Token],
    schema: Mapping[str, Any],
    words: str,
    engine: float | None = None,
) -> TypedReading:
    """`words` are those of the request; `engine` is the runtime's own confidence, if it has one."""
    text = "".join(token.text for token in tokens)
    values = list(find_values(text, schema))
    meter, weakest = Meter(), dict[str, float]()
    at, number = 0, 0
    for token in tokens:
        start, at = at, at + len(token.text)
        while number < len(values) and values[number].end <= start:
            number += 1
        if number == len(values) or not token.has_evidence:
            continue
        value = values[number]
        forced = value.kind == "date" and not any(map(str.isdigit, token.text))  # its dashes
        if value.start < at and start < value.until and not forced:
            meter.add(token)
            weakest[value.kind] = min(weakest.get(value.kind, 0.0), token.logprob)
    by_kind = {f"weakest_{kind}": weakest.get(kind, 0.0) for kind in TYPED_KINDS}
    request = RequestWords(words)
    for kind in TYPED_KINDS:
        there = [request.has(value) for value in values if value.kind == kind]
        by_kind[f"unsaid_{kind}"] = there.count(False) / len(there) if there else 0.0
    reading = meter.reading()
    return TypedReading(replace(reading, engine=engine), by_kind)


def far_off(text: str, schema: Mapping[str, Any], words: str) -> str:
    """A date of a year that nobody can have meant, in words; empty if there is none."""
    last = max((int(year) for year in _YEAR.findall(words)), default=LATEST_YEAR) + YEARS_BEYOND
    for value in find_values(text, schema):
        found = _DAY.match(value.text) if value.kind == "date" else None
        if found and not FIRST_YEAR <= int(found[1]) <= last:
            return f"{value.place}: the request says nothing of the year {found[1]}"
    return ""


def find_values(text: str, schema: Mapping[str, Any]) -> Iterator[TypedValue]:
    """The values of a JSON text, as far as it was written."""
    path: list[str] = []
    inside: list[str] = []  # of objects and lists, as "{" and "["
    name: str | None = None  # of the field whose value comes
    for part in _PART.finditer(text):
        told = part[0]
        if told in "{[":
            inside.append(told)
            path += [] if name is None else [name]
            inside[-1] += "" if name is None else "."  # it left a step behind
            name = None
        elif told in "}]":
            if inside and inside.pop().endswith("."):
                path.pop()
            name = None
        elif told == ",":
            name = None
        elif told != ":" and inside and inside[-1][0] == "{" and name is None:
            name = told.strip('"')
        elif told != ":":
            here = (*path, *(() if name is None else (name,)))
            quoted = told.startswith('"')
            start = part.start() + quoted
            plain = told.strip('"') if quoted else told
            asked, end = _field(schema, here), part.end()
            until = min(end, start + _free(asked, plain, told))
            yield TypedValue(here, _kind(asked, told), plain, start, end, until)


class RequestWords:
    """The words of a request, and whether a value stands in them."""

    def __init__(self, words: str) -> None:
        self._text = " ".join(_WORDS.findall(words.casefold()))
        self._padded = f" {self._text} "
        self._numbers = {_number(each) for each in _NUMBERS.findall(words)}
        self._digits = {int(each) for each in _DIGITS.findall(words)}

    def has(self, value: TypedValue) -> bool:
        if value.kind in ("integer", "number"):
            return _number(value.text.lstrip("-")) in self._numbers
        if value.kind == "date" and (day := _DAY.match(value.text)):
            year, month, of_month = (int(part) for part in day.groups())
            named = f" {_MONTHS[month - 1]}" in self._padded if 1 <= month <= 12 else False
            return {year, of_month} <= self._digits and (named or month in self._digits)
        return self._holds(value.text)

    def _holds(self, text: str) -> bool:
        wanted = " ".join(_WORDS.findall(text.casefold()))
        return bool(wanted) and f" {wanted} " in self._padded


def _number(text: str) -> str:
    """1,200 and 1200.0 are one number."""
    plain = text.replace(",", "")
    whole, _, rest = plain.partition(".")
    rest = rest.rstrip("0")
    return f"{whole.lstrip('0') or '0'}{'.' + rest if rest else ''}"


def _free(found: Mapping[str, Any], text: str, written: str) -> int:
    """How many of a value's characters were a choice."""
    choices = [found["const"]] if "const" in found else found.get("enum")
    if isinstance(choices, Sequence) and not isinstance(choices, str):
        others = [str(each) for each in choices if str(each) != text]
        return max((_shared(each, text) + 1 for each in others), default=0)
    return 1 if written in ("true", "false", "null") else len(text) + 1


def _shared(one: str, other: str) -> int:
    """How many characters two texts begin with in common."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _kind(found: Mapping[str, Any], written: str) -> str:
    if "enum" in found or "const" in found:
        return "enum"
    if written.startswith('"'):
        return "date" if str(found.get("format")) in ("date", "date-time") else "string"
    if written in ("true", "false", "null"):
        return "boolean"
    return "integer" if found.get("type") == "integer" else "number"


def _field(root: Any, path: Sequence[str]) -> Mapping[str, Any]:
    """The schema of a field; an empty one where it cannot be told."""
    found = _plain(root, root)
    for step in path:
        inner = found.get("properties")
        inner = inner.get(step) if isinstance(inner, Mapping) else None
        found = _plain(found.get("additionalProperties") if inner is None else inner, root)
    return found


def _plain(schema: Any, root: Any) -> Mapping[str, Any]:
    """Without references, lists and choices in which one thing is offered."""
    for _ in range(_DEEPEST):
        if not isinstance(schema, Mapping):
            return {}
        options = schema.get("allOf") or schema.get("anyOf") or schema.get("oneOf")
        if "$ref" in schema:
            schema = _referred(root, schema["$ref"])
        elif schema.get("type") == "array" or "items" in schema:
            schema = schema.get("items")
        elif isinstance(options, Sequence) and not isinstance(options, str):
            kept = [one for one in options if one != {"type": "null"}]
            schema = kept[0] if kept else None
        else:
            return schema
    return {}


def _referred(root: Any, address: Any) -> Any:
    found = root
    for step in unquote(str(address)).lstrip("#").split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


# -- when to look ----------------------------------------------------------------------------------


# An answer that ends within these tokens is judged whole. A longer one is judged at the next end of
# a sentence, and at the latest after these. Of the recorded answers, what streams keep is then
# right as often as what `complete` keeps: docs/notes/confidence-fit.md, "Deciding early".
SHORT_TOKENS, HELD_TOKENS = 24, 40

LOOKED_EVERY = 8  # tokens
LONGEST_CIRCLE = 48  # tokens that come again and again
LEAST_ROUNDS = 3
LEAST_REPEATED = 24  # tokens in the circles together: "ha ha ha" is no loop
LEAST_WORDS = 4  # of an answer that counts as repeated: "Yes." may be right twice

_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"(\n|[.!?:;\u2026\u3002\uff01\uff1f][\"'\u2019\u201d)\]*_]*)\s*$")


class RepetitionWatch:
    """Takes the texts of tokens, and says when they go round in circles."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def add(self, text: str) -> bool:
        """Whether the answer repeats itself by now. Looks at every eighth token."""
        self._texts.append(text)
        return len(self._texts) % LOOKED_EVERY == 0 and self._circles()

    def _circles(self) -> bool:
        texts = self._texts
        for length in range(1, min(LONGEST_CIRCLE, len(texts) // LEAST_ROUNDS) + 1):
            repeated = max(LEAST_ROUNDS * length, LEAST_REPEATED)
            if repeated > len(texts):
                continue
            tail = texts[-repeated:]
            # Dashes of a table or dots of a list say nothing; words that come again do.
            if tail[length:] == tail[:-length] and any(map(_WORD.search, tail[-length:])):
                return True
        return False


def repeats_a_turn(answer: str, earlier: Iterable[str]) -> bool:
    """Whether an answer of some length is one that was given before, word for word."""
    words = _words(answer)
    return len(words) >= LEAST_WORDS and any(_words(turn) == words for turn in earlier)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def ends_sentence(text: str) -> bool:
    return _SENTENCE_END.search(text) is not None


def decided_after(texts: Sequence[str]) -> int | None:
    """After how many tokens the gate decides on an answer of these tokens; None: at its end."""
    for count in range(SHORT_TOKENS, min(len(texts), HELD_TOKENS + 1)):
        if count == HELD_TOKENS or ends_sentence("".join(texts[:count])):
            return count
    return None


# -- HOLD, KEEP or HAND_OFF ------------------------------------------------------------------------


Read = Reading | TypedReading


class Verdict(Enum):
    HOLD = "hold"
    KEEP = "keep"
    HAND_OFF = "hand_off"


@dataclass(frozen=True, slots=True)
class Gate:
    """One request's gate: a calibration, the threshold that applies, and its objective.

    `whole`: the threshold was proven for whole answers, so none is shown before its end.
    `longest`: tokens of the longest answer that it was proven for; 0: of any.
    """

    calibration: Calibration
    threshold: float
    objective: str = ""
    usual: float | None = None  # the threshold without budget pacing, if that differs
    whole: bool = False
    longest: int = 0

    def skips(self, reading: Read) -> bool:
        """Whether the device should not even begin: it will hardly know the answer.

        Stop 0 of the boundaries says which chances are too low; of the answers that would have been
        kept, few lie below (`docs/notes/confidence-fit.md`).
        """
        if self.threshold <= 0.0 or reading.before is None:
            return False
        return self.chance_before(reading) < self.calibration.boundaries.at(self.threshold, 0)[0]

    def chance_before(self, reading: Read) -> float:
        """The chance of a right answer, from the hidden state behind the prompt."""
        before = self.calibration.scores.get("before")
        return 1.0 if before is None else before.of(reading)

    def judge(self, reading: Read, held_tokens: int, text: str = "") -> Verdict:
        """The verdict on the beginning of an answer, of which `text` was written so far."""
        if self.threshold <= 0.0:
            return Verdict.KEEP
        if self.calibration.at_end or held_tokens < SHORT_TOKENS:
            return Verdict.HOLD
        if held_tokens < HELD_TOKENS and not ends_sentence(text):
            return Verdict.HOLD
        return self.judge_whole(reading)

    def judge_whole(self, reading: Read) -> Verdict:
        """The verdict on an answer that ended while it was held back."""
        return Verdict.HAND_OFF if self.doubts(self.confidence(reading)) else Verdict.KEEP

    def confidence(self, reading: Read) -> float:
        """The chance that an answer with this evidence is right; 0 if the model gives none.

        One score for beginnings and for whole answers: it was fitted to answers that ended by
        themselves and to such that were cut.
        The runtime's own number, if no calibration has said what that is worth.
        """
        if self.calibration.at_end:
            return 0.0 if reading.engine is None else self.calibration.final.of(reading)
        if reading.tokens or reading.engine is None:
            return self.calibration.final.of(reading) if reading.tokens else 0.0
        return reading.engine

    def doubts(self, confidence: float) -> bool:
        return confidence < self.threshold
