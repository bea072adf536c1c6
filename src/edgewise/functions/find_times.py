"""Times of day that a text says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from edgewise.functions.find_numbers import Said
from edgewise.functions.number_words import ONES, TENS
from edgewise.types.calls import Found

_HOUR_WORDS = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_HOUR = rf"(?P<hour>(?<![\d.,:/])[012]?\d(?![\d,:/]|\.\d)|{_HOUR_WORDS})"
_MINUTE_WORDS = (
    r"(?:oh|o)[ -](?:one|two|three|four|five|six|seven|eight|nine)|ten|eleven|twelve|thirteen|"
    r"fourteen|fifteen|sixteen|seventeen|eighteen|nineteen|"
    r"(?:twenty|thirty|forty|fifty)(?:[ -](?:one|two|three|four|five|six|seven|eight|nine)\b)?"
)
_HALF_OF_DAY = (
    r"(?P<half>a\.m\.|p\.m\.|a\.m\b|p\.m\b|[ap]m\b|in the (?:early )?(?:morning|afternoon|evening)|"
    r"(?:this|tomorrow) (?:morning|afternoon|evening)|at night|tonight)"
)
_MERIDIEM = r"(?P<half>a\.m\.|p\.m\.|a\.m\b|p\.m\b|[ap]m\b)"
_LATER = rf"(?:,?\s*{_HALF_OF_DAY})?"
_CUE = r"(?:at|by|until|till|before|after|around|from|to|for|past|since|is|be)\s+"
# After a bare "at 7" only these may follow: "at 7 Elm Street" and "at 5 degrees" are no times.
_THEN = (
    r"(?=\s*(?:$|[.,;:!?)]|\b(?:and|or|for|to|on|tomorrow|today|tonight|every|each|with|then|please|"
    r"in|so|until|till|this|next|sharp|daily|if|but|that|saying|about|called|named|labelled|"
    r"mon|tues|wednes|thurs|fri|satur|sun)))"
)


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


_NAMED = _pattern(r"\b(?:12 )?(noon|midday|midnight)\b")
_CLOCK = _pattern(
    r"(?<![\d:/])(?<!\d[.,])(?P<hour>[012]?\d)(?P<mark>[:.]|(?<=\d)h(?=\d))(?P<minute>[0-5]\d)"
    rf"(?::(?P<second>[0-5]\d)(?:\.\d+)?)?(?![\d:]|\.\d)(?:\s*h(?:rs|ours)?\b)?{_LATER}"
)
_PACKED = _pattern(rf"\b(?P<hour>1[012]|0?\d)\s?(?P<minute>[0-5]\d)\s*{_MERIDIEM}")
_OCLOCK = _pattern(rf"\b{_HOUR}\s*o\s?['\u2019]?\s?clock\b{_LATER}")
_WITH_MERIDIEM = _pattern(rf"(?:(?<![\w.,:/-])|(?<=[\dm]-)){_HOUR}\s*{_MERIDIEM}")
_RELATIVE = _pattern(
    r"\b(?P<minutes>half|(?:a )?quarter|five|ten|twenty(?:[ -]five)?|[1-5]?\d)(?: minutes?)?\s+"
    rf"(?P<way>past|to|till|after|before|of)\s+{_HOUR}\b(?:\s*o\s?['\u2019]?\s?clock)?{_LATER}"
)
_SPOKEN = _pattern(rf"\b(?P<hour>{_HOUR_WORDS})[ -](?P<spoken>{_MINUTE_WORDS})\b{_LATER}")
_BARE = _pattern(rf"\b(?:at|by|until|till|before|after|around)\s+{_HOUR}\b(?:{_LATER}){_THEN}")
_DAY_NAMED = _pattern(rf"\b{_HOUR}\s+(?P<half>in the (?:morning|afternoon|evening)|at night)\b")
_CUE_BEFORE = _pattern(rf"{_CUE}(?:about |around )?$")
_DOT_CUE = _pattern(r"\b(?:at|by|until|till|around)\s+$")
_HALF_AFTER = _pattern(r",?\s*(?:tonight|(?:this|tomorrow) (?:morning|afternoon|evening))\b")
_PART_OF_DAY = _pattern(r"\b(morning|afternoon|evening|tonight|night)\b")


def find_times(text: str, whole_text: str = "") -> Iterator[Found]:
    """Times of day; `unit` is `am` or `pm` where said, `24` where the hour leaves no doubt.

    `whole_text` is the text with the words that `text` has lost to dates: "tonight" tells the half
    of the day.
    """
    for pattern, read in _FORMS:
        for match in pattern.finditer(text):
            found = read(match, _half(match, whole_text or text))
            if found:
                yield found


def _number(word: str) -> int:
    """A hour or minute in digits or words; -1 where it is neither."""
    if word.isdecimal():
        return int(word)
    total = 0
    for part in re.split(r"[ -]", word.lower()):
        total += ONES.get(part, TENS.get(part, 0))
    return total


def _half(match: re.Match[str], text: str) -> str:
    """`am`, `pm`, `night` or nothing, from the words beside a time, after it or shortly before."""
    said = (match.groupdict().get("half") or "").lower().replace(".", "")
    if not said:
        after = _HALF_AFTER.match(text, match.end())
        parts = _PART_OF_DAY.findall(text, max(0, match.start() - 32), match.start())
        said = (after.group() if after else parts[-1] if parts else "").lower()
    if said == "am" or "morning" in said:
        return "am"
    if said == "pm" or "afternoon" in said or "evening" in said:
        return "pm"
    return "night" if "night" in said else ""


def _time(
    match: re.Match[str], half: str, hour: int, minute: int, start: int | None = None
) -> Said | None:
    if not (0 <= hour <= 24 and 0 <= minute <= 59) or (hour == 24 and minute):
        return None
    if half == "night":
        half = "pm" if 5 <= hour < 12 else "am"
    if half == "pm" and hour < 12:
        hour += 12
    elif half == "am" and hour == 12:
        hour = 0
    unit = half or ("24" if hour > 12 or hour == 0 else "")
    start = match.start() if start is None else start
    text = match.string[start : match.end()]
    return Said("time", f"{hour % 24:02}:{minute:02}", text, start, match.end(), unit)


def _named(match: re.Match[str], half: str) -> Said:
    value = "00:00" if match.group(1).lower() == "midnight" else "12:00"
    return Said("time", value, match.group(), *match.span(), "24")


def _clock(match: re.Match[str], half: str) -> Said | None:
    mark, said = match.group("mark"), match.group("half")
    cued = _DOT_CUE.search(match.string, max(0, match.start() - 16), match.start())
    if mark != ":" and not said and not cued:
        return None  # 7.30 is a number, and 1h30 a length of time, unless the words say otherwise.
    if mark == "h" and not said and int(match.group("hour")) < 10:
        return None
    found = _time(match, half, int(match.group("hour")), int(match.group("minute")))
    second = match.group("second")
    if not found or not second:
        return found
    value = f"{found.value}:{second}"
    return Said("time", value, found.text, found.start, found.end, found.unit)


def _plain_hour(match: re.Match[str], half: str) -> Said | None:
    return _time(match, half, _number(match.group("hour")), 0, match.start("hour"))


def _packed(match: re.Match[str], half: str) -> Said | None:
    return _time(match, half, int(match.group("hour")), int(match.group("minute")))


def _spoken(match: re.Match[str], half: str) -> Said | None:
    cued = _CUE_BEFORE.search(match.string, max(0, match.start() - 16), match.start())
    if not cued and not match.group("half") and match.end() != len(match.string.rstrip(" .!?")):
        return None  # "six thirty-litre bags" is no time.
    return _time(match, half, _number(match.group("hour")), _number(match.group("spoken")))


def _relative(match: re.Match[str], half: str) -> Said | None:
    said = match.group("minutes").lower()
    way = match.group("way").lower()
    sure = "quarter" in said or "half" in said or way == "past"
    cued = _CUE_BEFORE.search(match.string, max(0, match.start() - 16), match.start())
    if not (sure or match.group("half") or (cued and way in ("to", "till"))):
        return None  # "five to nine people" is a range.
    if way in ("of", "before", "after") and not match.group("half"):
        return None
    minutes = 30 if said == "half" else 15 if "quarter" in said else _number(said)
    hour = _number(match.group("hour"))
    if way in ("past", "after"):
        return _time(match, half, hour, minutes)
    if said == "half" or minutes == 0:
        return None
    found = _time(match, half, hour, 0)
    if not found:
        return None
    full = (int(found.value[:2]) * 60 - minutes) % (24 * 60)
    if full // 60 == 0 and hour == 1 and found.unit == "":
        full += 12 * 60
    value = f"{full // 60:02}:{full % 60:02}"
    return Said("time", value, found.text, found.start, found.end, found.unit)


# Earlier forms win where two overlap: the longer reading stands first.
_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], str], Said | None]], ...] = (
    (_RELATIVE, _relative),
    (_CLOCK, _clock),
    (_SPOKEN, _spoken),
    (_PACKED, _packed),
    (_OCLOCK, _plain_hour),
    (_WITH_MERIDIEM, _plain_hour),
    (_NAMED, _named),
    (_DAY_NAMED, _plain_hour),
    (_BARE, _plain_hour),
)
