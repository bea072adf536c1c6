"""Dates, times of day and lengths of time that a text says; the days that relative words mean."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator

from edgewise.calls.values.numbers import ONES, TENS, Said, whole
from edgewise.types.replies import Found

_MONTH_NAMES = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
MONTHS = {name[:length]: index for index, name in enumerate(_MONTH_NAMES, 1) for length in (3, 99)}
MONTHS["sept"] = 9
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    r"sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DAY = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:1[5-9]|2[01])\d\d)(?!\d)"
_WEEKDAY = (
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?"  # Short forms would find "sun" and "sat".
)
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
_Piece = tuple[int, int, float, str]  # start, end, seconds, unit
SECONDS = {
    "millisecond": 0.001, "second": 1, "minute": 60, "hour": 3600, "day": 86400, "night": 86400,
    "week": 604800, "fortnight": 1209600, "month": 2592000, "year": 31536000,
}  # fmt: skip
_UNIT_NAMES = {
    "ms": "millisecond", "sec": "second", "secs": "second", "s": "second", "min": "minute",
    "mins": "minute", "m": "minute", "hr": "hour", "hrs": "hour", "h": "hour", "d": "day",
    "wk": "week", "wks": "week", "yr": "year", "yrs": "year",
}  # fmt: skip
_LONG_UNIT = r"(?:milliseconds?|seconds?|minutes?|hours?|days?|weeks?|fortnights?|months?|years?)"
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DAYS_AWAY = {
    "the day before yesterday": -2, "yesterday": -1, "today": 0, "tonight": 0,
    "this morning": 0, "this afternoon": 0, "this evening": 0, "tomorrow": 1,
    "tomorrow morning": 1, "tomorrow afternoon": 1, "tomorrow evening": 1,
    "the day after tomorrow": 2,
}  # fmt: skip
_WEEKDAY_SAID = re.compile(rf"(?:(this|next|coming)\s+)?({'|'.join(_WEEKDAYS)})", re.IGNORECASE)
_ONE_OR_TWO_DIGITS = re.compile(r"\d{1,2}")
_MONTH_WORD = re.compile(r"[a-z]{3,}", re.IGNORECASE)
# A leap day comes round within this many years, also over 2100.
_YEARS_AHEAD = 9


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


# In "2026-03-03 10:30-11:15" the second time is no offset: that follows seconds, or a T before.
_DATETIME = _pattern(
    r"\b\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z\b|[+-]\d\d:?\d\d)?|"
    r" \d\d:\d\d(?::\d\d(?:\.\d+)?(?:[+-]\d\d:?\d\d)?|\+\d\d:?\d\d)?(?:Z\b)?)"
)
_YEAR_FIRST = _pattern(rf"(?<![\w./-]){_YEAR}([-/.])(?P<month>\d\d?)\2(?P<day>\d\d?)(?![\w/-])")
_YEAR_LAST = _pattern(
    r"(?<![\w./-])(?P<one>\d\d?)([-/.])(?P<two>\d\d?)\2(?P<year>\d{4}|\d\d)(?![\w/-])"
)
_NAMED_DAY_FIRST = _pattern(
    rf"(?<![\w.,/:-])(?:the )?{_DAY}[ -]?(?: of )?\s*{_MONTH}(?:,?\s*-?(?:of )?{_YEAR})?"
)
_NAMED_MONTH_FIRST = _pattern(
    rf"\b{_MONTH}[ -]?\s*(?:the )?{_DAY}(?!\d|:|\.\d|\s*[ap]\.?m)\b(?:,?\s*-?\s*{_YEAR})?"
)
_MONTH_AND_YEAR = _pattern(rf"\b{_MONTH},?(?: of)?\s+{_YEAR}")
_RELATIVE = _pattern(
    r"\b(?:the day after tomorrow|the day before yesterday|today|tomorrow|yesterday|"
    rf"(?:this|next|last|coming|every)\s+(?:{_WEEKDAY}|week(?:end)?|month|year|quarter|{_MONTH})|"
    rf"{_WEEKDAY}(?:\s+week|\s+next)?|the weekend|(?:this|tomorrow) (?:morning|afternoon|evening)|"
    r"tonight)\b".replace("(?P<month>", "(?:")
)
_MONTH_ALONE = _pattern(rf"\b(?:in|of|for|since|until|by|during|from) {_MONTH}(?!\w)")


def find_dates(text: str) -> Iterator[Found]:
    """Dates and moments. Where two overlap the earlier yielded is the better reading."""
    for match in _DATETIME.finditer(text):
        yield Said("datetime", match.group().replace(" ", "T", 1), match.group(), *match.span())
    for match in _YEAR_FIRST.finditer(text):
        yield from _full(match, match["year"], match["month"], match["day"])
    for match in _YEAR_LAST.finditer(text):
        yield from _numeric(match)
    for pattern in (_NAMED_DAY_FIRST, _NAMED_MONTH_FIRST):
        for match in pattern.finditer(text):
            yield from _named(match)
    for pattern in (_MONTH_AND_YEAR, _RELATIVE):
        for match in pattern.finditer(text):
            yield Said("date", match.group(), match.group(), *match.span())
    for match in _MONTH_ALONE.finditer(text):
        if match["month"][0].isupper() or len(match["month"]) > 3:
            start = match.start("month")
            word = match["month"]
            yield Said("date", word, word, start, start + len(word))


def month_number(word: str) -> int:
    """3 for `March` and `mar`; 0 where it is no month."""
    return MONTHS.get(word.lower().rstrip("."), 0)


def _full(match: re.Match[str], year: str, month: str, day: str) -> Iterator[Said]:
    number = month_number(month) or (int(month) if month.isdecimal() else 0)
    if 1 <= number <= 12 and 1 <= int(day) <= 31:
        value = f"{int(year):04}-{number:02}-{int(day):02}"
        yield Said("date", value, match.group(), *match.span())


def _numeric(match: re.Match[str]) -> Iterator[Said]:
    """3/4/2025 is read month first; day first where it must be, or where dots part it."""
    one, two, year = match["one"], match["two"], match["year"]
    if len(year) == 2:
        if match[2] == ".":
            return  # 1.2.34 is a version.
        year = f"20{year}"
    day_first = int(one) > 12 or (match[2] == "." and int(two) <= 12)
    month, day = (two, one) if day_first else (one, two)
    for found in _full(match, year, month, day):
        unsure = int(one) <= 12 and int(two) <= 12 and match[2] != "."
        yield Said("date", found.value, found.text, found.start, found.end, "?" if unsure else "")


def _named(match: re.Match[str]) -> Iterator[Said]:
    day, year = int(match["day"]), match["year"]
    if not 1 <= day <= 31:
        return
    if year:
        yield from _full(match, year, match["month"], match["day"])
    else:
        yield Said("date", match.group(), match.group(), *match.span())


_NAMED = _pattern(r"\b(?:12 )?(noon|midday|midnight)\b")
_CLOCK = _pattern(
    r"(?<![\d:/])(?<!\d[.,])(?P<hour>[012]?\d)(?P<mark>[:.]|(?<=\d)h(?=\d))(?P<minute>[0-5]\d)"
    rf"(?::(?P<second>[0-5]\d)(?:\.\d+)?)?(?![\d:]|\.\d)(?:\s*h(?:rs|ours)?\b)?{_LATER}"
)
_PACKED = _pattern(rf"\b(?P<hour>1[012]|0?\d)\s?(?P<minute>[0-5]\d)\s*{_MERIDIEM}")
_OCLOCK = _pattern(rf"\b{_HOUR}\s*o\s?['\u2019]?\s?clock\b{_LATER}")
_WITH_MERIDIEM = _pattern(rf"(?:(?<![\w.,:/-])|(?<=[\dm]-)){_HOUR}\s*{_MERIDIEM}")
_RELATIVE_TIME = _pattern(
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


def _named_time(match: re.Match[str], half: str) -> Said:
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
    (_RELATIVE_TIME, _relative),
    (_CLOCK, _clock),
    (_SPOKEN, _spoken),
    (_PACKED, _packed),
    (_OCLOCK, _plain_hour),
    (_WITH_MERIDIEM, _plain_hour),
    (_NAMED, _named_time),
    (_DAY_NAMED, _plain_hour),
    (_BARE, _plain_hour),
)
_UNIT = _pattern(rf"\s*-?\s*({_LONG_UNIT}|ms|secs?|mins?|hrs?|wks?|yrs?|[smhd])\b")
_HALF_AN = _pattern(rf"\b(half (?:an?|of an) |a half[ -]|three[ -]quarters of an )({_LONG_UNIT})\b")
_A_UNIT = _pattern(rf"\b(an?|one|per)\s+(?:(half|quarter)\s+(?:of an\s+)?)?({_LONG_UNIT})\b")
_AND_A_HALF = _pattern(r"\s+and\s+(?:a|one)\s+(half|quarter)\b")
_SHORT = _pattern(r"(?<![\w.])(\d{1,3})\s?h\s?(\d{1,2})(?:\s?m(?:in)?)?\b(?:\s?(\d{1,2})\s?s\b)?")
_JOIN = _pattern(r"\s*(?:,|and|,\s*and)?\s*")


# What a JSON Schema's `format` asks for, as Python's types read it.
_ZONE = r"(?:Z|[+-]\d\d:?\d\d)?"
_IN_FORMAT = {
    "date": re.compile(r"\d{4}-\d\d-\d\d"),
    "time": re.compile(rf"\d\d:\d\d(?::\d\d(?:\.\d+)?)?{_ZONE}"),
    "date-time": re.compile(rf"\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?{_ZONE}"),
    "duration": re.compile(r"-?P(?=.)(?:\d+W|(?:\d+Y)?(?:\d+M)?(?:\d+D)?(?:T(?=.)(?:\d+H)?"
                           r"(?:\d+M)?(?:\d+(?:\.\d+)?S)?)?)"),
}  # fmt: skip


def has_format(text: str, name: str) -> bool:
    """Whether a text is a date, time, date-time or duration as the format has it, and a real one.

    True for every other format: those are only notes.
    """
    pattern = _IN_FORMAT.get(name)
    if pattern is None:
        return True
    if not pattern.fullmatch(text):
        return False
    reader = {
        "date": datetime.date.fromisoformat,
        "time": datetime.time.fromisoformat,
        "date-time": datetime.datetime.fromisoformat,
    }.get(name)
    try:
        return reader is None or reader(text) is not None
    except ValueError:
        return False


def iso_duration(seconds: float) -> str:
    """`PT1H30M` of 5400: days, hours, minutes and seconds."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    days, hours = divmod(hours, 24)
    clock = "".join(
        f"{number:g}{unit}"
        for number, unit in ((hours, "H"), (minutes, "M"), (rest, "S"))
        if number
    )
    day = f"{days}D" if days else ""
    return f"P{day}T{clock}" if clock else f"P{day}" if day else "PT0S"


def unit_name(word: str) -> str:
    """`mins` → `minute`; empty where the word is no unit of time."""
    low = word.lower()
    name = _UNIT_NAMES.get(low) or low.removesuffix("s")
    return name if name in SECONDS else ""


def find_durations(text: str, numbers: list[Said]) -> Iterator[Said]:
    """Lengths of time in seconds, built on the numbers found; `unit` is the first unit said."""
    for match in _SHORT.finditer(text):
        hours, minutes, seconds = (int(group or 0) for group in match.groups())
        yield _length(text, *match.span(), hours * 3600 + minutes * 60 + seconds, "hour")
    pieces = _apart(sorted({*_pieces(text, numbers), *_articles(text)}))
    index = 0
    while index < len(pieces):
        start, end, seconds_said, unit = pieces[index]
        index += 1
        while index < len(pieces) and _JOIN.fullmatch(text, end, pieces[index][0]):
            if SECONDS[pieces[index][3]] >= SECONDS[unit]:
                break  # "20 minutes and 2 hours" are two lengths.
            seconds_said += pieces[index][2]
            end, last = pieces[index][1], pieces[index]
            index += 1
            if SECONDS[last[3]] <= 1:
                break
        yield _length(text, start, end, seconds_said, unit)


def _length(text: str, start: int, end: int, seconds: float, unit: str) -> Said:
    return Said("duration", whole(seconds), text[start:end], start, end, unit)


def _apart(pieces: list[_Piece]) -> list[_Piece]:
    """Without those inside another: the `an hour` of `half an hour`."""
    kept: list[_Piece] = []
    for piece in pieces:
        if not kept or piece[0] >= kept[-1][1]:
            kept.append(piece)
    return kept


def _pieces(text: str, numbers: list[Said]) -> Iterator[_Piece]:
    for number in numbers:
        if number.kind != "number":
            continue
        match = _UNIT.match(text, number.end)
        if match and number.value >= 0:
            unit = unit_name(match.group(1))
            # Lone letters are units of time only right behind the digits: 90s, but not "5 m".
            if len(match.group(1)) == 1 and (match.start(1) != number.end or match.group(1) == "m"):
                continue
            extra = _AND_A_HALF.match(text, match.end())
            more = {"half": 0.5, "quarter": 0.25}[extra.group(1).lower()] if extra else 0
            end = extra.end() if extra else match.end()
            yield number.start, end, (number.value + more) * SECONDS[unit], unit


def _articles(text: str) -> Iterator[_Piece]:
    for match in _HALF_AN.finditer(text):
        share = 0.75 if match.group(1).lower().startswith("three") else 0.5
        yield *match.span(), share * SECONDS[unit_name(match.group(2))], unit_name(match.group(2))
    for match in _A_UNIT.finditer(text):
        article, part, unit = match.groups()
        if article.lower() not in ("a", "an"):
            continue
        share = {"half": 0.5, "quarter": 0.25}[part.lower()] if part else 1.0
        extra = _AND_A_HALF.match(text, match.end())
        if extra:
            share += 0.5 if extra.group(1).lower() == "half" else 0.25
        end = extra.end() if extra else match.end()
        yield match.start(), end, share * SECONDS[unit_name(unit)], unit_name(unit)


def month_and_day(words: str) -> tuple[int, int] | None:
    """(3, 16) for `March 16`; None for anything with a year, or without a day."""
    found = next(find_dates(words), None)
    if found is None or found.text.strip() != words.strip() or found.value != found.text:
        return None
    day = _ONE_OR_TWO_DIGITS.findall(words)
    months = [month_number(word) for word in _MONTH_WORD.findall(words) if month_number(word)]
    return (months[0], int(day[0])) if len(day) == 1 and len(months) == 1 else None


def next_such_day(month: int, day: int, today: datetime.date) -> datetime.date | None:
    """The first day with this month and day of month, today or later."""
    for year in range(today.year, min(today.year + _YEARS_AHEAD, datetime.MAXYEAR) + 1):
        try:
            found = datetime.date(year, month, day)
        except ValueError:
            continue  # February 29, or no day at all.
        if found >= today:
            return found
    return None


def day_meant(words: str, today: datetime.date) -> datetime.date | None:
    """The day, where the words leave one. A bare weekday that today is leaves two.

    `next Friday` is the Friday of the next week, which begins on Monday.
    """
    plain = " ".join(words.lower().split())
    try:
        if plain in _DAYS_AWAY:
            return today + datetime.timedelta(days=_DAYS_AWAY[plain])
        weekday = _WEEKDAY_SAID.fullmatch(plain)
        if weekday:
            return _weekday(weekday[1] or "", _WEEKDAYS.index(weekday[2]), today)
        named = month_and_day(words)
        return next_such_day(*named, today) if named else None
    except OverflowError:
        return None  # The calendar ends.


def _weekday(which: str, wanted: int, today: datetime.date) -> datetime.date | None:
    ahead = (wanted - today.weekday()) % 7
    if which == "next":
        return today + datetime.timedelta(days=7 - today.weekday() + wanted)
    return today + datetime.timedelta(days=ahead) if ahead else None
