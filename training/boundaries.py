"""Several requests in one breath: bare commas, one lead for all, lists, connecting words."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from random import Random

from training.sample import Clause, Piece
from training.wording import is_imperative, lower_first

_NEXT = (
    ". Also, ", ". And ", ". Then ", ", and ", " and ", ", then ", "; ", ". Next, ",
    ". Additionally, ", ". After that, ", ". Plus, ", " and also ", ", and then ", ".\n", "\n",
    ", ", ", ", ", also ", ". Oh, and ", ". While you're at it, ", ", plus ", ". On top of that, ",
    ". Once that's done, ", ". Besides that, ", ". In addition, ", ". Afterwards ",
    " - and ", ". Second, ", ". I also want you to handle this: ", ". Another thing: ", " & ",
    ". Lastly, ", ". And while you're there, ", ", after that ", ". ", ". ",
)  # fmt: skip
_LAST = (
    ", and ", " and ", ", and ", " and ", ", ", ", and then ", ", then ", ", plus ", ", and also ",
    ", and finally ", " & ", ", and lastly ", ", and while you're at it, ",
)  # fmt: skip
_LEADS = (
    "Could you please ", "Can you ", "Please ", "I need you to ", "I want to ", "I'd like you to ",
    "Would you ", "Help me ", "I'd like to ", "Could you ", "can you please ", "Let's ",
    "I have to ", "I want you to ", "could you ", "please ", "I need to ", "Would you mind to ",
    "Do me a favour and ", "You need to ", "Kindly ", "Time to ", "Go ahead and ",
)  # fmt: skip
_OPENINGS = (
    "Please do the following:\n", "A few things:\n", "I need:\n", "My list:\n", "To do:\n", "",
    "Can you take care of these?\n", "Here is what I need:\n", "Tasks for today:\n", "",
)  # fmt: skip
_COUNTED = {
    2: ("Two things: ", "I need two things. ", "Two questions. ", "Both of these please: "),
    3: ("Three things: ", "I've got three requests: ", "Three tasks for you: "),
    4: ("Four things: ", "I have four requests: "),
}
_FIRST = ("First, ", "First ", "To start, ", "Start with this: ", "First of all, ")
_THEN = (", then ", ", after that ", ". Then ", ", next ", "; then ")
_FINALLY = (", and finally ", ". Finally, ", ", and last ", ". At the end, ")
_MARKS = ("1. ", "1) ", "- ", "* ", "(1) ", "• ", "#1 ")
_BROKEN = re.compile(r"[.?!]\s+\S|\n")
_QUESTION = re.compile(r"(what|who|how|when|where|which|is|are|can|could)\b", re.IGNORECASE)
_POLITE = re.compile(r"(?:please|can you|could you|would you)\s+(?:please\s+)?", re.IGNORECASE)

Part = list[Piece]


def join_clauses(clauses: list[Clause], rng: Random) -> list[Piece]:
    """Requests one after the other in one of the manners people have."""
    parts = [clause.pieces for clause in clauses if clause.pieces]
    if len(parts) < 2:
        return list(parts[0]) if parts else []
    manner = rng.choices(_MANNERS, _SHARES)[0]
    return manner(parts, rng)


def with_commas(parts: list[Part], rng: Random) -> list[Piece]:
    """ "do a, do b and do c"; two sentences in one part are never cut by a comma."""
    if any(_BROKEN.search(_text(part)) for part in parts):
        return as_sentences(parts, rng)
    pieces = _without_mark(parts[0])
    final = rng.choice(_LAST)
    for place, part in enumerate(parts[1:], 2):
        joint = final if place == len(parts) else ", "
        body = part if place == len(parts) else _without_mark(part)
        pieces = [*pieces, _comma(joint, rng), *_started(body, low=True)]
    return pieces


def led(parts: list[Part], rng: Random) -> list[Piece]:
    """ "Could you please do a, b and c?": one polite opening for all of them."""
    bare = [_plain_order(part) for part in parts]
    if not all(bare):
        return with_commas(parts, rng)
    lead = rng.choice(_LEADS)
    pieces = with_commas([part for part in bare if part], rng)
    if lead.lower().startswith(("can", "could", "would")) and rng.random() < 0.7:
        pieces = [*_without_mark(pieces), Piece("?")]
    return [Piece(lead), *_started(pieces, low=True)]


def as_sentences(parts: list[Part], rng: Random) -> list[Piece]:
    """Whole sentences without a word between them."""
    gap = rng.choice((" ", " ", " ", "\n"))
    pieces: list[Piece] = []
    for part in parts:
        mark = "" if part[-1].text.rstrip()[-1:] in ".?!" and not part[-1].slot else "."
        if mark and re.match(
            r"(what|who|how|when|where|which|is|are|can|could)\b", _text(part), re.I
        ):
            mark = "?"
        start = [Piece(gap)] if pieces else []
        pieces += [*start, *_started(part, low=False), *([Piece(mark)] if mark else [])]
    return pieces


def with_words(parts: list[Part], rng: Random) -> list[Piece]:
    """Connecting words between them, mostly of several kinds."""
    pieces = list(parts[0])
    steady = rng.choice(_NEXT)
    for part in parts[1:]:
        joint = steady if rng.random() < 0.3 else rng.choice(_NEXT)
        pieces = _append(pieces, part, joint)
    return pieces


def in_order(parts: list[Part], rng: Random) -> list[Piece]:
    """ "First a, then b, and finally c"."""
    pieces = [Piece(rng.choice(_FIRST)), *_started(_without_mark(parts[0]), low=True)]
    for place, part in enumerate(parts[1:], 2):
        words = _FINALLY if place == len(parts) > 2 else _THEN
        body = part if place == len(parts) else _without_mark(part)
        pieces = [*pieces, Piece(rng.choice(words)), *_started(body, low=True)]
    return pieces


def with_semicolons(parts: list[Part], rng: Random) -> list[Piece]:
    joint = rng.choice(("; ", "; ", " / ", " + ", " - ", "\n", "\n"))
    pieces = _without_mark(parts[0])
    for part in parts[1:]:
        low = rng.random() < 0.7
        pieces = [*pieces, Piece(joint), *_started(_without_mark(part), low=low)]
    return pieces


def counted(parts: list[Part], rng: Random) -> list[Piece]:
    """ "Two things: a, and b"."""
    openings = _COUNTED.get(len(parts))
    if not openings:
        return with_words(parts, rng)
    opening = rng.choice(openings)
    pieces = rng.choice((with_commas, as_sentences, with_words))(parts, rng)
    return [Piece(opening), *_started(pieces, low=opening.endswith(": "))]


def as_list(parts: list[Part], rng: Random) -> list[Piece]:
    """Numbered or with bullets, each on a line; numbers also within one line."""
    mark = rng.choice(_MARKS)
    opening = rng.choice(_OPENINGS)
    inline = "1" in mark and rng.random() < 0.25
    pieces = [Piece(opening.replace("\n", " ") if inline else opening)] if opening else []
    for number, part in enumerate(parts, 1):
        start = ("" if number == 1 else ", " if inline else "\n") + mark.replace("1", str(number))
        pieces += [Piece(start), *(_without_mark(part) if inline else part)]
    return pieces


_MANNERS: tuple[Callable[[list[Part], Random], list[Piece]], ...] = (
    with_words, with_commas, led, as_sentences, as_list, with_semicolons, in_order, counted,
)  # fmt: skip
_SHARES = (30, 24, 15, 11, 6, 6, 4, 4)


def _text(part: Part) -> str:
    return "".join("x" if piece.slot else piece.text for piece in part).strip()


def _comma(joint: str, rng: Random) -> Piece:
    """A comma between requests; in speech it mostly becomes "and", as in a list of values."""
    return Piece(joint, "," if rng.random() < 0.8 else "")


def _without_mark(part: Part) -> Part:
    """A request without the mark at its end."""
    last = part[-1]
    if last.slot or (len(part) == 1 and not last.text.strip(" .?!")):
        return list(part)
    text = last.text.rstrip().rstrip(".?!")
    return [*part[:-1], replace(last, text=text)] if text else list(part[:-1])


def _started(part: Part, low: bool) -> Part:
    first = part[0]
    if first.slot or not first.text:
        return part
    text = first.text[:1].upper() + first.text[1:]
    if low:
        text = lower_first(first.text) if _may_lower(first.text) else first.text
    return [replace(first, text=text), *part[1:]]


def _plain_order(part: Part) -> Part | None:
    """A request as a bare order, "please" and "can you" taken off; None where it is none."""
    first = part[0]
    if first.slot or _BROKEN.search(_text(part)):
        return None
    text = _POLITE.sub("", first.text, count=1) if _POLITE.match(first.text) else first.text
    return [replace(first, text=text), *part[1:]] if is_imperative(text) else None


def _append(pieces: list[Piece], more: list[Piece], joint: str) -> list[Piece]:
    last, first = pieces[-1], more[0]
    if last.text.rstrip()[-1:] in ".?!":
        open_joint = joint[0] in ",; -&"
        joint = f" {joint.lstrip(',; -&').capitalize()}" if open_joint else joint.lstrip(".")
    inside = not joint.endswith((".\n", "\n", ". ")) and joint.strip() and not first.slot
    text = lower_first(first.text) if inside and _may_lower(first.text) else first.text
    if joint in (". ", " ") and not first.slot:
        text = text[:1].upper() + text[1:]
    return [*pieces, Piece(joint), replace(first, text=text), *more[1:]]


def _may_lower(text: str) -> bool:
    return not re.match(r"(I|I'm|I'd|I've|I'll)\b", text)
