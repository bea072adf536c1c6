"""Find the words of a request and the joints between them: the places where it might split."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgewise.functions.request_words import ABBREVIATIONS, AT_STOP_ONLY, SEQUENCE, WEAK_WORDS

_TOKEN = re.compile(r"\S+")
_TRAILING = re.compile(r"[.,;:!?)\]\"”'\u2019]*$")
_QUOTED = re.compile(
    r"\"[^\"]*\"|“[^”]*”|«[^»]*»|`[^`]*`|\([^()]*\)|"
    r"(?<!\w)['\u2018](?=\S)(?:[^'\u2019]|['\u2019](?=\w)){0,400}['\u2019](?!\w)"
)
_PHRASES = tuple(
    tuple(phrase.split())
    for phrase in (
        "after that", "after this", "in addition", "as well as", "as well", "on top of that",
        "once done", "when done",
    )
)  # fmt: skip
_ENUMERATOR = re.compile(r"\(?\d{1,2}[.):]|[-*•]")


@dataclass(frozen=True, slots=True)
class Word:
    text: str  # lower case, without the punctuation around it
    start: int
    end: int
    after: str  # the punctuation that follows, with "\n" where the line ends
    capital: bool
    inside: bool  # of quotes or brackets


@dataclass(frozen=True, slots=True)
class Joint:
    """Words `left_end` to `right` join what is before to what is after."""

    left_end: int
    right: int
    stop: bool  # a full stop, a question mark, a semicolon or a new line
    sequence: bool  # "then", "also", ". And", ";", a new line
    firm: bool  # ". After that,", "2)": nothing else can be meant


def read_words(request: str) -> list[Word]:
    quoted = [match.span() for match in _QUOTED.finditer(request)]
    words: list[Word] = []
    tokens = list(_TOKEN.finditer(request))
    place = 0
    for number, token in enumerate(tokens):
        while place < len(quoted) and quoted[place][1] <= token.start():
            place += 1
        inside = place < len(quoted) and quoted[place][0] < token.end() < quoted[place][1]
        trailing = _TRAILING.search(token[0])
        after = trailing[0] if trailing else ""
        core = token[0][: len(token[0]) - len(after)]
        following = tokens[number + 1].start() if number + 1 < len(tokens) else token.end()
        line = "\n" if "\n" in request[token.end() : following] else ""
        bare = core.strip("(\"'“\u2018[:").lower().replace("\u2019", "'")
        end = token.end() - len(after)
        capital = core.lstrip("(\"'“\u2018[")[:1].isupper()
        words.append(Word(bare, token.start(), end, after + line, capital, inside))
    return words


def find_joints(words: Sequence[Word]) -> Iterator[Joint]:
    """Every place where a request might go on to another one, in order."""
    place = 1
    while place < len(words):
        before = words[place - 1]
        after = "" if before.text in ABBREVIATIONS or before.inside else before.after
        stop = any(mark in after for mark in ".!?;\n")
        right = _connecting_until(words, place, stop)
        between = {word.text for word in words[place:right]}
        if right < len(words) and (stop or "," in after or right > place):
            told = bool(between - WEAK_WORDS)
            sequence = told or (stop and bool(between)) or ";" in after or "\n" in after
            yield Joint(place, right, stop, sequence, told and stop)
        place = right + 1


def _connecting_until(words: Sequence[Word], place: int, stop: bool) -> int:
    right = place
    while right < len(words) and not words[right].inside:
        rest = tuple(word.text for word in words[right : right + 4])
        phrase = next((p for p in _PHRASES if rest[: len(p)] == p), None)
        fits = rest[0] in WEAK_WORDS | SEQUENCE
        if rest[0] in AT_STOP_ONLY and not (stop or "," in words[right - 1].after):
            fits = False
        listed = "\n" in words[right - 1].after and _ENUMERATOR.fullmatch(
            words[right].text + words[right].after[:1]
        )
        if not (phrase or fits or listed):
            break
        right += len(phrase) if phrase else 1
    return right


def is_connecting(text: str) -> bool:
    """Whether a text between two intents is nothing but connecting words and punctuation."""
    known = WEAK_WORDS | SEQUENCE | {word for phrase in _PHRASES for word in phrase}
    return all(
        _bare(token) in known or not _bare(token) or _ENUMERATOR.fullmatch(token)
        for token in text.split()
    )


def _bare(token: str) -> str:
    return token.strip(".,;:!?()[]\"'“”\u2018\u2019").lower()
