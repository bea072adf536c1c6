"""One request for one tool: a template filled with values, kept in pieces until it is written."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from training.frame_types import Flag, Frame, Number, Parameter, Pool, Template
from training.number_forms import unit_words
from training.values import Said, sample_value

_RELATIVE_DAY = re.compile(
    r"(today|tomorrow|tonight|yesterday|next|this|last|the day after|in |at |a week|two weeks|"
    r"three days)",
    re.IGNORECASE,
)
# Values of the frames such as "on Friday" are copied without "on", see articles.py.
_ON_DAY = re.compile(r"on (?=the \d|[A-Z]|\d)")
_PREPOSITION = re.compile(r"\b(for|from|on|by|until|since|at|to|of|is|in) $", re.IGNORECASE)
_PREPOSITION_BEFORE_DAY = re.compile(r"\b(on|at|in|On|At|In)\s$")


_PAIRS = (
    ("start", "end"), ("from", "to"), ("from", "until"), ("min", "max"), ("after", "before"),
    ("check_in", "check_out"), ("low", "high"), ("lower", "upper"), ("since", "until"),
    ("begin", "end"), ("departure", "return"), ("start", "until"), ("earliest", "latest"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Piece:
    """Some text of a request; `slot` names the parameter whose value it says."""

    text: str
    slot: str = ""


@dataclass(slots=True)
class Clause:
    """A request for one call of one tool."""

    frame: Frame
    pieces: list[Piece]
    values: dict[str, Said]
    template: Template | None = None
    shared: dict[str, Said] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)


def sample_clause(frame: Frame, rng: Random, fixed: Mapping[str, Said] | None = None) -> Clause:
    """A request this tool serves, with `fixed` values where they are given."""
    if frame.utterances and (not frame.templates or rng.random() < 0.7):
        template, arguments = rng.choice(frame.utterances)
        values = {
            name: Said(value, str(value), verbatim=isinstance(value, str))
            for name, value in arguments.items()
        }
        return Clause(frame, fill(template, values), values)
    return clause_from(frame, pick_template(frame, rng), rng, fixed)


def pick_template(frame: Frame, rng: Random) -> Template:
    """One of the written ways to ask; now and then a plain one made from the schema."""
    plain = frame.generic and rng.random() < 0.1
    return rng.choice(frame.generic if plain else frame.templates)


def clause_from(
    frame: Frame, template: Template, rng: Random, fixed: Mapping[str, Said] | None = None
) -> Clause:
    present = choose_present(frame, template, rng)
    values = sample_values(frame, template, present, rng)
    if fixed:
        values.update({name: said for name, said in fixed.items() if name in values})
    return Clause(frame, fill(template, values), values, template)


def choose_present(frame: Frame, template: Template, rng: Random) -> list[str]:
    """Required parameters and those the template cannot do without; the others by chance."""
    keep = rng.choice((0.25, 0.6, 0.9))
    return [
        name
        for name in template.slots
        if frame.parameters[name].required or name not in template.conditions or rng.random() < keep
    ]


def sample_values(
    frame: Frame, template: Template, present: Collection[str], rng: Random
) -> dict[str, Said]:
    """A value for each parameter that is present, two alike ones never the same."""
    values: dict[str, Said] = {}
    used: set[str] = set()
    for name in present:
        parameter = frame.parameters[name]
        bare = unit_follows(template, name, parameter)
        said = sample_value(parameter, rng, bare)
        for _ in range(4):
            if said.text not in used or isinstance(parameter.values, Flag):
                break
            said = sample_value(parameter, rng, bare)
        used.add(said.text)
        values[name] = said
    return _in_order(values)


_WRITTEN_TIME = re.compile(r"\d{4}-\d\d-\d\d|\d\d:\d\d$")


def _ordered(value: object) -> bool:
    """Whether less and more mean something: numbers, days and times, but no names or units."""
    if isinstance(value, str):
        return bool(_WRITTEN_TIME.match(value))
    return isinstance(value, int | float)


def _in_order(values: dict[str, Said]) -> dict[str, Said]:
    """Start before end, least before most: values of such pairs change places if need be."""
    for first, second in _PAIRS:
        for name in values:
            if first not in name:
                continue
            other = name.replace(first, second)
            one, two = values[name], values.get(other)
            if two is None or other == name or one.verbatim or two.verbatim:
                continue
            if isinstance(one.value, str) != isinstance(two.value, str):
                continue
            if _ordered(one.value) and _ordered(two.value) and one.value > two.value:
                values[name], values[other] = two, one
    return values


def unit_follows(template: Template, name: str, parameter: Parameter) -> bool:
    """Whether the sentence itself names the unit, as in `{width} cm wide` or `${price}`."""
    number = parameter.values
    if not isinstance(number, Number):
        return False
    words = unit_words(number.unit)
    if number.kind in ("percent", "fraction"):
        words = ("%", "percent", "per cent")
    for before, part, after in zip(
        (None, *template.parts), template.parts, (*template.parts[1:], None), strict=False
    ):
        if part.slot != name:
            continue
        following = after.text.lstrip(" -").lower() if after else ""
        leading = before.text[-1:] if before else ""
        if leading in ("$", "€", "£") or (after and after.text.startswith("-")):
            return True
        if any(re.match(re.escape(word.lower()) + r"(?![a-z])", following) for word in words):
            return True
    return False


def fill(template: Template, values: Mapping[str, Said]) -> list[Piece]:
    """The pieces of a template, with conditional text where its parameter is present."""
    pieces: list[Piece] = []
    for part in template.parts:
        if part.condition and part.condition not in values:
            continue
        if not part.slot:
            pieces.append(Piece(part.text))
        elif part.slot in values:
            pieces.append(Piece(values[part.slot].text, part.slot))
    return smooth([piece for piece in pieces if piece.text])


def smooth(pieces: list[Piece]) -> list[Piece]:
    """Small repairs of grammar around values: "on tomorrow", "a apple", doubled articles."""
    for index in range(1, len(pieces)):
        before, piece = pieces[index - 1], pieces[index]
        if not piece.slot or before.slot:
            continue
        text = before.text
        if _ON_DAY.match(piece.text) and _PREPOSITION.search(text):
            pieces[index] = piece = replace(piece, text=piece.text[3:])
        if _RELATIVE_DAY.match(piece.text) and _PREPOSITION_BEFORE_DAY.search(text):
            text = _PREPOSITION_BEFORE_DAY.sub("", text)
        text = _fix_articles(text, piece.text)
        if text != before.text:
            pieces[index - 1] = replace(before, text=text)
    if pieces and pieces[0].text and not pieces[0].slot:
        first = pieces[0].text.lstrip()
        pieces[0] = replace(pieces[0], text=first)
    return [piece for piece in pieces if piece.text]


def _fix_articles(text: str, following: str) -> str:
    low = following.lower()
    match = re.search(r"\b([Aa]n?|[Tt]he|[Mm]y) $", text)
    if not match:
        return text
    if re.match(r"(the|my|our|a|an) ", low):
        return text[: match.start()]
    if match[1].lower() in ("a", "an"):
        vowel = low[0] in "aeiou" and not low.startswith(("uni", "use", "euro", "one", "ufo"))
        vowel = vowel or bool(re.match(r"8|1[18](?!\d)", low))
        article = "an" if vowel else "a"
        if match[1][0] == "A":
            article = article.capitalize()
        return f"{text[: match.start()]}{article} "
    return text


def is_place(parameter: Parameter) -> bool:
    return isinstance(parameter.values, Pool) and parameter.values.name in ("city", "country")


def is_day(parameter: Parameter) -> bool:
    return isinstance(parameter.values, Pool) and parameter.values.name == "date"


def is_person(parameter: Parameter) -> bool:
    return isinstance(parameter.values, Pool) and parameter.values.name in ("person", "first_name")
