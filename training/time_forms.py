"""Dates, times and durations: what is said and, where the call wants one, the normal form."""

from __future__ import annotations

import datetime as dt
from random import Random

from training.number_forms import digits, in_words

WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_HOLIDAYS = (
    "Christmas Eve", "New Year's Eve", "Easter Monday", "Valentine's Day", "Halloween", "Diwali",
    "Thanksgiving", "Boxing Day", "Midsummer's Eve", "Labour Day", "Eid al-Fitr",
)  # fmt: skip
_RELATIVE = (
    "today", "tomorrow", "today", "tomorrow", "tonight", "the day after tomorrow", "next week",
    "this week", "next month", "this weekend", "next weekend", "in two weeks", "in three days",
    "in 5 days", "a week from now", "at the end of the month", "tomorrow evening", "this afternoon",
    "this morning", "yesterday",
)  # fmt: skip
_SPOKEN_HOURS = [in_words(hour) for hour in range(13)]


def ordinal(day: int) -> str:
    ending = "th" if 10 <= day % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"


def pick_date(rng: Random) -> dt.date:
    start = dt.date(2019, 1, 1) if rng.random() < 0.5 else dt.date(2024, 6, 1)
    return start + dt.timedelta(days=rng.randrange(1100 if start.year > 2020 else 2600))


def say_date(rng: Random) -> str:
    """A date as people say one; the call copies it word for word."""
    chance = rng.random()
    if chance < 0.25:
        return rng.choice(_RELATIVE)
    if chance < 0.4:
        weekday = rng.choice(WEEKDAYS)
        return rng.choice(("", "", "", "next ", "this ", "this coming ")) + weekday
    if chance < 0.45:
        return rng.choice(_HOLIDAYS)
    day = pick_date(rng)
    if chance < 0.7:
        return rng.choice(_dates_without_year(day))
    return rng.choice(_dates_with_year(day))


def say_iso_date(rng: Random) -> tuple[str, str]:
    """ISO form and a way to say it that gives day, month and year without doubt."""
    day = pick_date(rng)
    forms = _dates_with_year(day)
    slashed = f"{day.month}/{day.day}/{day.year}"
    said = rng.choice([form for form in forms if form != slashed])
    return day.isoformat(), said


def _dates_without_year(day: dt.date) -> list[str]:
    month, short, nth = MONTHS[day.month - 1], MONTHS[day.month - 1][:3], ordinal(day.day)
    return [
        f"{month} {day.day}", f"{month} {nth}", f"{nth} of {month}", f"the {nth} of {month}",
        f"{day.day} {month}", f"{short} {day.day}", f"{day.day} {short}", f"the {nth}",
        f"{WEEKDAYS[day.weekday()]}, {month} {nth}", f"{WEEKDAYS[day.weekday()]} the {nth}",
        f"{day.month}/{day.day}", f"{nth} {month}",
    ]  # fmt: skip


def _dates_with_year(day: dt.date) -> list[str]:
    month, short, nth = MONTHS[day.month - 1], MONTHS[day.month - 1][:3], ordinal(day.day)
    return [
        day.isoformat(), day.isoformat(), f"{month} {day.day}, {day.year}",
        f"{month} {nth}, {day.year}", f"{day.day} {month} {day.year}", f"{nth} {month} {day.year}",
        f"the {nth} of {month} {day.year}", f"{short} {day.day}, {day.year}",
        f"{day.day} {short} {day.year}", f"{day.month}/{day.day}/{day.year}",
        f"{month} {day.day} {day.year}", f"{day.day}-{short}-{day.year}",
        f"{day.year}/{day.month:02}/{day.day:02}",
    ]  # fmt: skip


def pick_time(rng: Random) -> tuple[int, int]:
    minute = rng.choice((0, 0, 0, 30, 30, 15, 45, 5, 10, 20, 40, 50, 55, rng.randrange(60)))
    return rng.randrange(24), minute


def say_time(rng: Random) -> str:
    """A time as people say one; the call copies it word for word."""
    hour, minute = pick_time(rng)
    chance = rng.random()
    if chance < 0.05:
        return rng.choice(("noon", "midnight", "lunchtime", "sunrise", "sunset"))
    if chance < 0.09:
        return f"{hour % 12 or 12}ish"
    if chance < 0.2:
        return _spoken_clock(hour % 12 or 12, minute)
    if chance < 0.28 and minute == 0:
        return f"{hour % 12 or 12} o'clock"
    return rng.choice(_clock_forms(hour, minute))


def say_exact_time(rng: Random) -> tuple[str, str]:
    """`HH:MM` and a way to say it that leaves no doubt about morning or evening."""
    hour, minute = pick_time(rng)
    normal = f"{hour:02}:{minute:02}"
    if normal in ("00:00", "12:00") and rng.random() < 0.6:
        return normal, "midnight" if hour == 0 else "noon"
    if rng.random() < 0.2 and hour not in (0, 12) and minute in (0, 15, 30, 45, 10, 20, 50):
        base = (hour + (minute > 30)) % 24
        part = "in the morning" if base < 12 else "in the afternoon" if base < 18 else "at night"
        if 18 <= base < 22:
            part = "in the evening"
        if base not in (0, 12):
            return normal, f"{_spoken_clock(hour % 12 or 12, minute)} {part}"
    return normal, rng.choice(_clock_forms(hour, minute))


def _clock_forms(hour: int, minute: int) -> list[str]:
    """With am or pm, or on the 24-hour clock; never in doubt."""
    twelve, half = hour % 12 or 12, "am" if hour < 12 else "pm"
    dotted = f"{half[0]}.m."
    if minute == 0:
        forms = [f"{twelve} {half}", f"{twelve}{half}", f"{twelve} {half.upper()}"]
        forms += [f"{twelve}:00 {half.upper()}", f"{twelve} {dotted}", f"{hour:02}:00"]
        forms += [f"{_SPOKEN_HOURS[twelve]} {half}", f"{twelve}{half.upper()}"]
        return forms
    written = f"{twelve}:{minute:02}"
    forms = [f"{written} {half}", f"{written}{half}", f"{written} {half.upper()}"]
    forms += [f"{written} {dotted}", f"{hour:02}:{minute:02}", f"{twelve}.{minute:02} {half}"]
    if minute >= 10:
        forms.append(f"{_SPOKEN_HOURS[twelve]} {in_words(minute)} {half}")
    return forms


def _spoken_clock(twelve: int, minute: int) -> str:
    following = twelve % 12 + 1
    if minute == 0:
        return f"{_SPOKEN_HOURS[twelve]} o'clock"
    if minute == 30:
        return f"half past {_SPOKEN_HOURS[twelve]}"
    if minute == 15:
        return f"quarter past {_SPOKEN_HOURS[twelve]}"
    if minute == 45:
        return f"quarter to {_SPOKEN_HOURS[following]}"
    if minute < 30:
        return f"{_minutes(minute)} past {_SPOKEN_HOURS[twelve]}"
    return f"{_minutes(60 - minute)} to {_SPOKEN_HOURS[following]}"


def _minutes(count: int) -> str:
    return in_words(count) if count % 5 == 0 else f"{count} minutes"


def say_datetime(rng: Random) -> str:
    """Day and time together, copied word for word."""
    day = say_date(rng)
    while day.startswith(("in ", "at ")) or day.endswith(
        ("ago", "now", "night", "week", "noon", "ning", "month")
    ):
        day = say_date(rng)
    time = say_time(rng)
    if time[0].isalpha() and not time.startswith(("noon", "midnight")):
        return f"{day} at {time}"
    return rng.choice((f"{day} at {time}", f"{day}, {time}", f"{time} on {day}", f"{day} {time}"))


def say_iso_datetime(rng: Random) -> tuple[str, str]:
    day, said_day = say_iso_date(rng)
    time, said_time = say_exact_time(rng)
    form = rng.choice(("{day} at {time}", "{time} on {day}", "{day}, {time}"))
    return f"{day}T{time}:00", form.format(day=said_day, time=said_time)


def say_duration(rng: Random) -> str:
    """A length of time, copied word for word."""
    fixed = (
        "half an hour", "an hour", "an hour and a half", "a couple of hours", "a year",
        "a quarter of an hour",
        "two and a half hours", "a week", "a fortnight", "three months", "half a day",
    )  # fmt: skip
    chance = rng.random()
    if chance < 0.2:
        return rng.choice(fixed)
    unit, most = rng.choice(
        (("minute", 90), ("minute", 60), ("hour", 48), ("day", 30), ("week", 12), ("month", 24),
         ("year", 30), ("second", 90))
    )  # fmt: skip
    count = rng.randint(2, most)
    number = in_words(count) if rng.random() < 0.25 else str(count)
    if chance < 0.35 and unit in ("minute", "hour", "second"):
        return f"{count} " + {"minute": "min", "hour": "hrs", "second": "sec"}[unit]
    return f"{number} {unit}s"


def say_exact_duration(form: str, rng: Random) -> tuple[float, str]:
    """The length in minutes or seconds, and the words for it."""
    if form == "s":
        return _seconds(rng)
    return _in_minutes(rng)


def _seconds(rng: Random) -> tuple[float, str]:
    if rng.random() < 0.5:
        count = rng.choice((5, 10, 15, 20, 30, 45, 60, 90, rng.randint(2, 240)))
        number = in_words(count) if count <= 60 and rng.random() < 0.2 else str(count)
        return count, rng.choice((f"{number} seconds", f"{count}s", f"{count} sec"))
    minutes, said = _in_minutes(rng)
    return minutes * 60, said


def _in_minutes(rng: Random) -> tuple[float, str]:
    chance = rng.random()
    if chance < 0.1:
        return rng.choice(
            ((30, "half an hour"), (60, "an hour"), (90, "an hour and a half"),
             (15, "a quarter of an hour"), (45, "three quarters of an hour"),
             (150, "two and a half hours"))
        )  # fmt: skip
    if chance < 0.3:
        hours = rng.choice((1.5, 2, 2, 3, 4, 5, 6, 8, 12, 2.5))
        return int(hours * 60), f"{digits(hours)} {rng.choice(('hours', 'hours', 'hrs'))}"
    if chance < 0.4:
        hours, minutes = rng.randint(1, 4), rng.choice((5, 10, 15, 20, 30, 40, 45))
        one = "hour" if hours == 1 else "hours"
        long, short = f"{hours} {one} {minutes} minutes", f"{hours}h {minutes}m"
        return hours * 60 + minutes, rng.choice((long, short, f"{hours} {one} and {minutes} min"))
    count = rng.choice((5, 10, 15, 20, 25, 30, 45, 60, 90, rng.randint(2, 180)))
    number = in_words(count) if count <= 60 and rng.random() < 0.25 else str(count)
    return count, rng.choice((f"{number} minutes", f"{number} minutes", f"{count} min"))
