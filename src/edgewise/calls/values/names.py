"""Quoted text, addresses, codes, names and places that a text says."""

from __future__ import annotations

import re
from collections.abc import Iterator

from edgewise.calls.values.numbers import Said
from edgewise.types.calls import Found, FoundKind

# A quotation longer than this is a passage, not a value; the bound keeps the search linear.
LONGEST_QUOTE = 2000
_QUOTED = re.compile(
    rf'"([^"\n]{{1,{LONGEST_QUOTE}}})"|“([^”\n]{{1,{LONGEST_QUOTE}}})”|'
    rf"«([^»\n]{{1,{LONGEST_QUOTE}}})»|`([^`\n]{{1,{LONGEST_QUOTE}}})`|"
    r"(?<!\w)['\u2018](?=\S)([^'\u2019\n]{1,200}(?:['\u2019](?=\w)[^'\u2019\n]{1,200}){0,3})(?<=\S)['\u2019](?!\w)"
)
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}(?!\w)")
_URL = re.compile(
    r"\b(?:https?://|www\.)[^\s<>\"')]{1,500}|(?<![\w@.])(?:[\w-]{1,63}\.){1,3}(?:com|org|net|io|dev)"
    r"(?:/[^\s<>\"')]{0,300})?(?![\w.-]\w)"
)
_CODE = re.compile(r"(?<![\w@#/\\.~-])[\w@#/\\.~:+*=^<>-]{2,120}")
_CODE_LETTERS = re.compile(r"[^\W\d_]")
# What looks like a code but is a quantity ("20kg", "1h30", "7pm") or a plain hyphenated word.
_QUANTITY = re.compile(
    r"\d[\d:.]*(?:[ap]m)?[-\u2013]\d[\d:.]*[ap]m|[-+]?[\d.,:/]+(?:st|nd|rd|th|k|K|M|bn|%|[ap]m|h\d*m?|[a-zA-Z]{1,4}(?:[/²³]\w{0,4})?)?\.?"
)
_CAPITAL = r"[^\W\d_a-zà-öø-ÿ]"
# A full stop belongs to a name only after one or two letters: `J.`, `Dr.`
_NAME_WORD = rf"(?:{_CAPITAL}[\w'\u2019&-]*(?:(?<=\b\w)\.|(?<=\b\w\w)\.)?)"
_INNER = r"(?:of|de|da|do|di|del|della|la|le|les|van|von|der|den|bin|al|el|y|du|the|&|upon)"
_SPAN = re.compile(
    rf"(?<!\w){_NAME_WORD}(?:\s(?:{_INNER}\s){{0,2}}(?:{_NAME_WORD}|\d{{1,4}}\b)){{0,6}}"
)
_SENTENCE_START = re.compile(r"(?:^|[.!?:;\n]\s*|[\"“(]\s*)$")
_PLACE_BEFORE = re.compile(
    r"\b(?:in|at|near|around|to|from|towards|for|of|via|into)\s+(?:the\s+)?$"
)
_PERSON_BEFORE = re.compile(
    r"\b(?:with|to|for|from|by|call|text|message|email|tell|ask|invite|remind|and|ping|contact|"
    r"phone|ring|dear|hi|hey|hello|find)\s+(?:the\s+)?$",
    re.IGNORECASE,
)
_SURELY_PLACE = re.compile(r"\b(?:in|near|around|towards|via|into)\s+(?:the\s+)?$")
_NOT_NAMES = frozenset({
    "I", "AM", "PM", "OK", "A", "Please", "The", "An", "My", "Your", "Our", "Hey", "Hi", "Hello",
    "Thanks", "What", "When", "Where", "Who", "Why", "How", "Is", "Are", "Do", "Does", "Did", "Can",
    "Could", "Would", "Will", "Should", "And", "Or", "But", "Then", "Also", "If", "It", "This",
    "That", "These", "Those", "We", "You", "They", "He", "She",
})  # fmt: skip
_LOWER_CUE = re.compile(
    r"\b(?P<cue>in|near|around|with|from)\s+(?!(?:the|a|an|my|your|it|its|me|my|this|that|all|be|do|"
    r"go|get|see|have|make|buy|them|him|her|us|you|which|what|order|case|front|total|about|spring|summer|autumn|winter|fall|general|fact|person|advance|\d)\b)"
    r"(?P<span>[a-z][\w'\u2019-]{2,30})(?=\s*(?:$|[,.!?;\ufffc]|\b(?:and|for|on|at|today|tomorrow|please|that|"
    r"saying|about|then|tonight|this|next|with|from|to|in|by)\b))"
)


def find_literal(text: str) -> Iterator[Found]:
    """What is copied as it stands: addresses and quotations. Earlier kinds win overlaps."""
    for match in _URL.finditer(text):
        yield _found("url", match.group().rstrip(".,;:!?"), match.start())
    for match in _EMAIL.finditer(text):
        yield _found("email", match.group(), match.start())
    for match in _QUOTED.finditer(text):
        group = match.lastindex or 0
        yield Said("quoted", match.group(group), match.group(), *match.span())


def find_codes(text: str) -> Iterator[Found]:
    """Identifiers, paths, versions: letters with digits, or parts joined by signs."""
    for match in _CODE.finditer(text):
        code = match.group().rstrip(".,;:!?-")
        if _is_code(code):
            yield _found("code", code, match.start())


def find_names(text: str) -> Iterator[Found]:
    """Capitalised spans, and single words after `in`, `with`, …, as names or places."""
    for match in _SPAN.finditer(text):
        start, end = _trimmed(text, *match.span())
        if start < end:
            yield _found(_kind(text[max(0, start - 24) : start]), text[start:end], start)
    for match in _LOWER_CUE.finditer(text):
        place = match["cue"] in ("in", "near", "around")
        yield _found("place" if place else "name", match["span"], match.start("span"))


def _found(kind: FoundKind, text: str, start: int) -> Said:
    return Said(kind, text, text, start, start + len(text))


def _is_code(text: str) -> bool:
    """Letters mixed with digits, a path, a handle, or parts joined by signs."""
    if len(text) < 2 or _QUANTITY.fullmatch(text):
        return False
    digits = any(letter.isdigit() for letter in text)
    if text[0] in "/~@#\\" or "_" in text or "\\" in text:
        return len(text) > 2
    if digits and _CODE_LETTERS.search(text):
        return not re.fullmatch(r"\d+-[a-z]{3,}", text)
    if digits:
        return text.count("-") >= 2 or text.count("/") > 2
    inner = text[1:-1]
    if "/" in inner:
        return text.count("/") > 1 or "." in inner or "-" in inner
    name, _, ending = text.rpartition(".")
    return len(name) > 1 and len(ending) > 1 and ending.islower() and ".." not in text


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """The span without a capital that only opens a sentence and without trailing marks."""
    while end > start and text[end - 1] in ".'\u2019&-":
        end -= 1
    first = text[start:end].split(maxsplit=1)
    if not first:
        return start, start
    opens = bool(_SENTENCE_START.search(text, max(0, start - 3), start))
    if (
        first[0] in _NOT_NAMES
        or first[0].startswith(("I'", "I\u2019"))
        or (opens and not first[0][1:2].isupper())
    ):
        if len(first) == 1:
            return start, start
        cut = text.index(first[1], start + len(first[0]))
        return _trimmed(text, cut, end) if first[1][0].isupper() else (start, start)
    return start, end


def _kind(before: str) -> FoundKind:
    if _SURELY_PLACE.search(before):
        return "place"
    if _PERSON_BEFORE.search(before):
        return "name"
    return "place" if _PLACE_BEFORE.search(before) else "name"
