"""Put back what the pronouns of an intent stand for, from the intents before it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from edgewise.functions.request_words import (
    ACTION_VERBS,
    CONTENT_OPENERS,
    DETERMINERS,
    FILLERS,
    NOT_A_NAME,
    NOUN_VERBS,
    PREPOSITIONS,
    QUESTION_WORDS,
    REQUEST_OPENERS,
    word_set,
)

OBJECT_WORDS = 6
_WORD = re.compile(r"[^\s,;:!?()]+")
_NAME = re.compile(r"(?<!\w)[^\W\d_a-z][\w'\u2019-]*(?:\s+[^\W\d_a-z][\w'\u2019-]*)*")
_PLACE = re.compile(
    r"\b(?:in|at|near|around|to|from|of|for)\s+"
    r"([^\W\d_a-z][\w'\u2019-]*(?:,?\s+[^\W\d_a-z][\w'\u2019-]*)*|(?:the|my|a)\s+\w+(?:\s+\w+)?)"
)
_LOWER_PLACE = re.compile(r"\b(?:in|at|near)\s+([^\W\d]\w+)")
_CONTENT = re.compile(
    r"[:\"“«]|\b(?:" + "|".join(sorted(CONTENT_OPENERS)) + r")\b|"
    r"\bthat\s+(?!(?:to|in|for|from|on|at|with|day|time)\b)\w",
    re.IGNORECASE,
)
_TOLD = word_set("send text tell give message email ask remind show bring")
_PARTICLES = word_set("up out for me us down on off over")
_DETERMINERS = word_set("a an the my our your this that some")
_PLACE_PREPOSITIONS = frozenset({"in", "at", "near", "from", "on"})
_OPENING_WORDS = ACTION_VERBS | NOUN_VERBS | FILLERS | QUESTION_WORDS | DETERMINERS | {"there"}
_BEFORE_THERE = word_set("is are was were be hi hey hello over isn't aren't")
_GOING = word_set("go going off drive driving fly flying travel walk ride heading")
_NOT_AFTER_HER = PREPOSITIONS | {"a", "an", "the", "and", "my", "that", "i", "i'm", "i'll", "if"}


def resolve(texts: Sequence[str]) -> list[str]:
    """Each text with its pronouns replaced where an earlier text says by what; else as it is."""
    resolved: list[str] = []
    for text in texts:
        before = resolved[::-1]
        resolved.append(_complete(_replace(text, before), before) if before else text)
    return resolved


def _replace(text: str, before: Sequence[str]) -> str:
    """Pronouns up to where a message begins: what is said to others is left alone."""
    content = _CONTENT.search(text, 1) if text else None
    head = text[: content.start()] if content else text
    words = list(_WORD.finditer(head))
    pieces, done = [], 0
    for place, word in enumerate(words):
        said = [other[0].lower() for other in words[max(place - 1, 0) : place + 2]]
        previous = said[0] if place else ""
        following = said[-1] if place + 1 < len(words) else ""
        stands_for = _stands_for(word[0].lower(), previous, following, before)
        if stands_for:
            pieces += [text[done : word.start()], stands_for]
            done = word.end()
    return "".join([*pieces, text[done:]])


def _stands_for(word: str, previous: str, following: str, before: Sequence[str]) -> str | None:
    verb_before = previous in ACTION_VERBS | NOUN_VERBS
    if word in ("him", "them") and previous:
        return _person(before) or (_thing(before) if word == "them" else None)
    if word in ("her", "his", "their"):
        owner = word != "her" or not (
            not following or following in _NOT_AFTER_HER or previous in _TOLD
        )
        person = _person(before)
        return f"{person}'s" if person and owner else person
    if word == "it" and (verb_before or previous in PREPOSITIONS | _PARTICLES):
        return _thing(before)
    if word in ("that", "this") and verb_before and (not following or following in PREPOSITIONS):
        return _thing(before)
    if word == "there" and previous and previous not in _BEFORE_THERE:
        place = _place(before)
        if not place or previous in PREPOSITIONS - {"off"}:
            return place
        return f"to {place}" if previous in _GOING else f"in {place}"
    return None


def _person(before: Sequence[str]) -> str | None:
    for text in before:
        named = [name for name, left in _names(text) if left not in _PLACE_PREPOSITIONS]
        if named:
            return named[0]
        found = _thing([text])
        if found:
            return found
    return None


def _place(before: Sequence[str]) -> str | None:
    for text in before:
        places = [match[1].rstrip(".,") for match in _PLACE.finditer(text)]
        places += [match[1] for match in _LOWER_PLACE.finditer(text)]
        places += [name for name, _ in _names(text)]
        named = [place for place in places if place.lower() not in NOT_A_NAME]
        if named:
            return named[0]
    return None


def _names(text: str) -> list[tuple[str, str]]:
    """Capitalised words with the word before each; one that begins the text comes last."""
    names: list[tuple[str, str]] = []
    first: list[tuple[str, str]] = []
    for match in _NAME.finditer(text):
        words = match[0].removesuffix("'s").removesuffix("\u2019s").split()
        left = text[: match.start()].split()
        if not left:
            while words and words[0].lower() in _OPENING_WORDS:
                words = words[1:]
        name = " ".join(words)
        code = name.isupper() and len(name) <= 3  # EUR, USD, PM
        if name and name[0].isupper() and not code and name.lower() not in NOT_A_NAME:
            kept = names if left or len(words) < len(match[0].split()) else first
            kept.append((name, left[-1].lower() if left else ""))
    return names + first


def _thing(before: Sequence[str]) -> str | None:
    """The object of the nearest earlier verb: "the report" of "find the report from Monday"."""
    for text in before:
        quoted = re.search(r"\"[^\"]+\"|“[^”]+”|'[^']+'(?!\w)", text)
        if quoted:
            return quoted[0]
        _, rest = _verb_and_rest(text)
        words: list[str] = []
        for match in _WORD.finditer(rest):
            if match[0].lower() in PREPOSITIONS or len(words) == OBJECT_WORDS:
                break
            words.append(match[0])
        if words and words[-1].lower() not in _DETERMINERS | _PARTICLES:
            return " ".join(words).rstrip(".")
    return None


def _verb_and_rest(text: str) -> tuple[str, str]:
    """The words up to and with the first verb and its particles, and what comes after."""
    words = list(_WORD.finditer(text))
    place = 0
    while place < len(words) and words[place][0].lower() in FILLERS:
        place += 1
    said = " ".join(word[0].lower() for word in words[place:])
    opener = next((o for o in REQUEST_OPENERS if said.startswith(f"{o} ")), "")
    place += len(opener.split())
    if place >= len(words) or words[place][0].lower() not in ACTION_VERBS | NOUN_VERBS:
        return "", ""
    place += 1
    while place < len(words) and words[place][0].lower() in _PARTICLES:
        place += 1
    cut = words[place].start() if place < len(words) else len(text)
    return text[:cut], text[cut:]


def _complete(text: str, before: Sequence[str]) -> str:
    """ "another for 8" after "set an alarm for 7": "set an alarm for 8"."""
    ellipsis = re.match(r"(?:another|one)(?:\s+(?:one|more))?\s+(?=\w)", text, re.IGNORECASE)
    if ellipsis is None:
        return text
    verb, _ = _verb_and_rest(before[0])
    thing = _thing(before[:1])
    return f"{verb}{thing} {text[ellipsis.end() :]}" if verb and thing else text
