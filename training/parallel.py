"""The same tool several times in one request, the way people shorten it: "in Paris and in Rome"."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from random import Random

from training.boundaries import join_clauses
from training.frame_types import Choices, Flag, Frame, Number, Pairs, Pool, Template
from training.naming import words_of
from training.number_forms import digits, say
from training.sample import (
    Clause,
    Piece,
    choose_present,
    clause_from,
    fill,
    pick_template,
    sample_clause,
    sample_values,
    unit_follows,
)
from training.values import Said, join_list, sample_value

_LEAD = re.compile(
    r"(?:^|(?<=[\s(]))((?:(?:in|for|at|to|from|of|with|on|by|about|between|called|named|near|into)"
    r"\s+)?(?:(?:the|a|an|my|our|an?other)\s+)?)$",
    re.IGNORECASE,
)
_JOINED = re.compile(r",|;|\b(and|or|I|it|my)\b")
_AND = re.compile(r"\band\b|\bby\b|\bto\b")
_SEPARATOR = re.compile(r"(?<=\d),(?=\d{3})")
_SENTENCE_END = re.compile(r"[.?!:]\s+\S|\n")
_AGAIN = (
    ". And the same for {}.", ", and the same for {}", ", then the same for {}",
    ". Do the same for {}.", ". Also for {}.", " and also for {}", ". What about {}?",
    ". Same for {}.", ", then again for {}", ". Repeat that for {}.", ". After that {}.",
    ". I need it for {} as well.", " - and {} too", ". How about {}?", ", and {} too",
    ". And {}?", ". And for {}?", ", {} too", ", {} as well", ", plus {}", "; also {}", ", also {}",
    ". Then {}.", ". And now {}.", " and then {}", ". The same thing for {}, please.", " plus {}",
    ". {} as well, please.", ", likewise for {}", ". Oh, and {}.", ". Next: {}.", " as well as {}",
)  # fmt: skip
_LAST = (
    " and ", " and ", " and ", " and ", " as well as ", " and also ", ", and ", ", and ", " & ",
    ", ", " plus ", " and then ",
)  # fmt: skip
_AGAIN_WITH = (
    ". And the same with {}.", ", then again with {}", ". Do it once more with {}.",
    ", and also with {}", ". Then with {}.", ". Same thing with {}.", ". A second one with {}.",
    ". Repeat with {}.", " and another one with {}", ". Now with {}.", ", next with {}",
    ". What if it is {}?", ". And with {}?", "; also with {}", ". Again, but {}.", ", then {}",
)  # fmt: skip
Composed = tuple[list[Clause], list[Piece]]


def same_tool(frame: Frame, rng: Random, count: int) -> Composed:
    """Several calls of one tool in one request, coordinated, shortened or one sentence each."""
    chance = rng.random()
    if frame.templates and chance < 0.5:
        found = coordinate(frame, pick_template(frame, rng), rng, count)
        if found:
            return found
    if frame.templates and chance < 0.68:
        found = repeat_briefly(frame, pick_template(frame, rng), rng, count)
        if found:
            return found
    same_form = bool(frame.templates) and rng.random() < 0.5
    template = pick_template(frame, rng) if same_form else None
    clauses = _distinct(frame, template, rng, count)
    return clauses, join_clauses(clauses, rng)


def _distinct(frame: Frame, template: Template | None, rng: Random, count: int) -> list[Clause]:
    clauses: list[Clause] = []
    seen: set[str] = set()
    for _ in range(count * 3):
        clause = clause_from(frame, template, rng) if template else sample_clause(frame, rng)
        key = repr(sorted((name, said.value) for name, said in clause.values.items()))
        if key not in seen:
            seen.add(key)
            clauses.append(clause)
        if len(clauses) == count:
            break
    return clauses


def varying_slots(frame: Frame, template: Template, present: list[str], rng: Random) -> list[str]:
    """One or two parameters that may differ between the calls; each is said once."""
    said = Counter(part.slot for part in template.parts if part.slot)
    able = [
        name
        for name in present
        if said[name] == 1
        and frame.parameters[name].counts is None
        and not isinstance(frame.parameters[name].values, Flag | Pairs)
        and _roomy(frame, name)
    ]
    wanted = 2 if rng.random() < 0.4 else 1
    if len(able) < wanted:
        return able
    if wanted == 1:
        return [rng.choice(able)]
    start = rng.randrange(len(able) - 1)
    return able[start : start + 2]


def _roomy(frame: Frame, name: str) -> bool:
    """Whether values of a parameter can be listed: several of them, and no long sentences."""
    values = frame.parameters[name].values
    if not isinstance(values, Choices):
        return True
    ways = [way for choice in values.options for way in choice.said]
    longest = 2 if values.closed else 4
    plain = all(way.count(" ") < longest and not _JOINED.search(way) for way in ways)
    return len(values.options) >= 3 and plain


def _variants(
    frame: Frame, template: Template, rng: Random, count: int
) -> tuple[list[str], list[dict[str, Said]]] | None:
    """Which parameters vary, and the values of each call; the other values are shared."""
    present = choose_present(frame, template, rng)
    names = varying_slots(frame, template, present, rng)
    if not names:
        return None
    base = sample_values(frame, template, present, rng)
    calls = [base]
    for _ in range(count * 4):
        fresh = sample_values(frame, template, names, rng)
        if all(fresh[name].value != call[name].value for name in names for call in calls):
            calls.append({**base, **fresh})
        if len(calls) == count:
            return names, [_listable(call, names) for call in calls]
    return None


def _listable(call: dict[str, Said], names: list[str]) -> dict[str, Said]:
    """Numbers of a list lose their separators: "1, 200 and 81" could be two numbers."""
    for name in names:
        said = call[name]
        if "," in said.text and not isinstance(said.value, str):
            call[name] = replace(said, text=_SEPARATOR.sub("", said.text))
    return call


def coordinate(frame: Frame, template: Template, rng: Random, count: int) -> Composed | None:
    """ "the weather in Oslo and in Rome": one sentence, the varying part repeated."""
    found = _variants(frame, template, rng, count)
    if not found:
        return None
    names, calls = found
    filled = [fill(template, values) for values in calls]
    span = _span(filled[0], names)
    if span is None or any(len(pieces) != len(filled[0]) for pieces in filled):
        return None
    start, end = span
    if len(names) > 1 and any(piece.slot for piece in filled[0][end:]):
        return None  # what stands at the end could belong to the last call alone
    clauses = [
        Clause(frame, pieces, values, template)
        for pieces, values in zip(filled, calls, strict=True)
    ]
    between = "".join(piece.text for piece in filled[0][start:end] if not piece.slot)
    if len(names) == 2 and rng.random() < 0.25 and re.search(r"[a-z]{2}", _AND.sub("", between)):
        return clauses, _respectively(filled, names, rng)
    before, lead = _lead(filled[0], start, rng)
    spans = [[Piece(lead), *pieces[start:end]] if lead else pieces[start:end] for pieces in filled]
    return clauses, [*before, *_listed(spans, rng), *filled[0][end:]]


def _span(pieces: list[Piece], names: list[str]) -> tuple[int, int] | None:
    """Where the varying part starts and ends; None where it cannot be repeated in place."""
    text = "".join(piece.text if not piece.slot else "x" for piece in pieces)
    if _SENTENCE_END.search(text.strip()):
        return None
    places = [index for index, piece in enumerate(pieces) if piece.slot in names]
    if len(places) != len(names):
        return None
    start, end = places[0], places[-1] + 1
    if start > 1 and not pieces[start - 1].text.strip() and pieces[start - 2].slot:
        return None  # the unit of a number: "over 17 years and months" is nonsense
    middle = "".join(piece.text for piece in pieces[start:end] if not piece.slot)
    after = pieces[end].text if end < len(pieces) else ""
    if len(middle) > 30 or re.match(r"[^\s,.?!;:)]", after):
        return None
    before = pieces[start - 1].text[-1:] if start else " "
    return (start, end) if before.isspace() or not before else None


def _lead(pieces: list[Piece], start: int, rng: Random) -> tuple[list[Piece], str]:
    """The preposition or article before the varying part, which may be said again."""
    before = list(pieces[:start])
    if not before or before[-1].slot:
        return before, ""
    match = _LEAD.search(before[-1].text)
    lead = match[1] if match else ""
    article = bool(re.search(r"\b(a|an|the|my|our|another)\s*$", lead, re.IGNORECASE))
    if not lead or not (article or rng.random() < 0.5):
        return before, ""
    before[-1] = replace(before[-1], text=before[-1].text[: -len(lead)])
    return [piece for piece in before if piece.text], lead


def _listed(spans: list[list[Piece]], rng: Random) -> list[Piece]:
    """Spans joined as in "a, b and c"; semicolons where they hold commas themselves."""
    text = "".join(piece.text for span in spans for piece in span)
    comma = "; " if "," in text else ", "
    last = rng.choice(_LAST)
    pieces = list(spans[0])
    if len(spans) == 2 and rng.random() < 0.1:
        pieces.insert(0, Piece("both "))
        last = " and "
    for index, span in enumerate(spans[1:], 2):
        again = [Piece(span[0].text.lower()), *span[1:]] if not span[0].slot else span
        pieces += [Piece(last if index == len(spans) else comma, ","), *again]
    return pieces


def _respectively(filled: list[list[Piece]], names: list[str], rng: Random) -> list[Piece]:
    pieces: list[Piece] = []
    for index, piece in enumerate(filled[0]):
        if piece.slot in names:
            texts = [other[index].text for other in filled]
            pieces.append(Piece(", ".join(texts[:-1]) + f" and {texts[-1]}", piece.slot))
        else:
            pieces.append(piece)
    last = pieces[-1]
    if last.slot:
        return [*pieces, Piece(rng.choice((" respectively", ", respectively")))]
    body = last.text.rstrip(".?!")
    return [*pieces[:-1], replace(last, text=f"{body} respectively{last.text[len(body) :]}")]


def repeat_briefly(frame: Frame, template: Template, rng: Random, count: int) -> Composed | None:
    """A whole request, then only what differs: "and the same for Rome"."""
    found = _variants(frame, template, rng, count)
    if not found:
        return None
    names, calls = found
    clauses = [Clause(frame, fill(template, values), values, template) for values in calls]
    if len(names) == 1 and not _needs_label(frame, names[0]):
        texts = [values[names[0]].text for values in calls[1:]]
        form = rng.choice(_AGAIN)
        tail = join_list(texts, rng) if len(texts) > 1 else texts[0]
    else:
        form = rng.choice(_AGAIN_WITH)
        tails = [
            " and ".join(f"{' '.join(words_of(n.split('.')[-1]))} {v[n].text}" for n in names)
            for v in calls[1:]
        ]
        tail = ", then ".join(tails)
    pieces = list(clauses[0].pieces)
    lead, _, end = form.partition("{}")
    if pieces[-1].text.rstrip()[-1:] in ".?!" and not pieces[-1].slot:
        lead = " " + lead.lstrip(".,- ").capitalize()
    return clauses, [*pieces, Piece(lead), Piece(tail, names[0]), Piece(end)]


def confusable(frame: Frame, rng: Random, count: int) -> Composed | None:
    """One sentence each, in one form, with values that are nearly those of the one before.

    Numbers differ by a digit, codes by a character, and alike ones change places.
    """
    if not frame.templates:
        return None
    template = rng.choice(frame.templates)
    first = clause_from(frame, template, rng)
    able = [
        name for name in first.values if _nearly(frame, name, first.values[name], template, rng)
    ]
    if not able:
        return None
    clauses, seen = [first], {_key(first)}
    for _ in range(count * 3):
        values = dict(clauses[-1].values)
        for name in able if rng.random() < 0.4 else [rng.choice(able)]:
            near = _nearly(frame, name, values[name], template, rng)
            values[name] = near or values[name]
        _exchange(frame, values, rng)
        clause = Clause(frame, fill(template, values), values, template)
        if _key(clause) not in seen:
            seen.add(_key(clause))
            clauses.append(clause)
        if len(clauses) == count:
            return clauses, join_clauses(clauses, rng)
    return None


def _key(clause: Clause) -> str:
    return repr(sorted((name, str(said.value)) for name, said in clause.values.items()))


def _nearly(frame: Frame, name: str, said: Said, template: Template, rng: Random) -> Said | None:
    """Almost the same value; None where there is no such thing."""
    parameter = frame.parameters[name]
    values = parameter.values
    if parameter.counts is not None:
        return None
    if isinstance(values, Number) and not isinstance(said.value, str):
        return _near_number(values, said.value, unit_follows(template, name, parameter), rng)
    if isinstance(values, Pool) and values.name in _CODES and said.verbatim:
        letters = [place for place, letter in enumerate(said.text) if letter.isdigit()]
        if not letters:
            return None
        place = rng.choice(letters)
        digit = str((int(said.text[place]) + rng.randint(1, 9)) % 10)
        text = said.text[:place] + digit + said.text[place + 1 :]
        return Said(text, text, verbatim=True)
    return None


_CODES = ("id", "phone", "filename", "username", "code", "url", "street", "email")


def _near_number(values: Number, value: float, bare: bool, rng: Random) -> Said | None:
    plain = digits(value)
    ways = [f"{plain}0", plain[:-1], plain[::-1], digits(round(value + 1, 6))]
    ways.append(digits(round(value - 1, 6)))
    if len(plain) > 1:
        place = rng.randrange(len(plain) - 1)
        ways.append(plain[:place] + plain[place + 1] + plain[place] + plain[place + 2 :])
        ways.append(plain[:place] + str(rng.randint(1, 9)) + plain[place + 1 :])
    rng.shuffle(ways)
    for way in ways:
        if not re.fullmatch(r"[1-9]\d*(\.\d*[1-9])?", way) or way == plain:
            continue
        near = float(way)
        if not values.low <= near <= values.high or (values.step and near % values.step):
            continue
        if values.integral and near != int(near):
            continue
        near = int(near) if near == int(near) else near
        return Said(near, say(values, near, rng, bare))
    return None


def _exchange(frame: Frame, values: dict[str, Said], rng: Random) -> None:
    """Two places, people or words of one kind change places: "from Rome to Oslo" and back."""
    groups: dict[str, list[str]] = {}
    for name in values:
        pool = frame.parameters[name].values
        if isinstance(pool, Pool) and not pool.form and frame.parameters[name].counts is None:
            groups.setdefault(pool.name, []).append(name)
    for kind, names in groups.items():
        if len(names) == 2 and kind not in ("date", "time", "datetime") and rng.random() < 0.5:
            first, second = names
            values[first], values[second] = values[second], values[first]


def _needs_label(frame: Frame, name: str) -> bool:
    """A bare number does not say which of several numbers it is."""
    values = frame.parameters[name].values
    numbers = [p for p in frame.parameters.values() if p.kind in ("int", "float")]
    return isinstance(values, Number) and values.kind != "money" and len(numbers) > 1


def wrong_value(clause: Clause, name: str, rng: Random) -> Said | None:
    """Another value for a parameter, to be taken back."""
    right = clause.values[name]
    for _ in range(5):
        wrong = sample_value(clause.frame.parameters[name], rng)
        if wrong.value != right.value:
            return wrong
    return None
