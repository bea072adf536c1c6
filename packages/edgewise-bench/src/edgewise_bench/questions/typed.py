"""Typed questions: a schema, and the answer that a program knows. Several families of them.

What they ask for lies in the words (extraction), follows from them (arithmetic, dates, counting),
must be chosen (labels), is true or false, or must be known. Easy and hard ones take turns, because
a confidence is measured by answers that are wrong.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from random import Random
from typing import Any

PER_FAMILY = 30

_NAMES = [
    "Amina Diallo",
    "Bogdan Ionescu",
    "Chiara Conti",
    "Derya Yilmaz",
    "Eero Lahtinen",
    "Farah Haddad",
    "Goran Kovac",
    "Hana Sato",
    "Ivo Petrov",
    "Jonas Weber",
    "Keira Walsh",
    "Liam Okafor",
    "Marta Nowak",
    "Nadia Karimi",
    "Oskar Lund",
    "Priya Raman",
    "Quentin Morel",
    "Rosa Delgado",
    "Sven Aalto",
    "Tomas Novotny",
]
_PLACES = [
    "Oslo",
    "Porto",
    "Graz",
    "Lyon",
    "Cork",
    "Turin",
    "Ghent",
    "Malmo",
    "Split",
    "Brno",
    "Tartu",
    "Bergen",
]
_JOBS = [
    "nurse",
    "baker",
    "welder",
    "teacher",
    "pilot",
    "plumber",
    "lawyer",
    "florist",
    "carpenter",
    "librarian",
]
_THINGS = [
    "desk lamps",
    "oak chairs",
    "ink cartridges",
    "garden hoses",
    "wool blankets",
    "steel bolts",
]
_MONTHS = [
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
_PRAISE = [
    "I would buy this kettle again tomorrow.",
    "The staff remembered our names and the soup was superb.",
    "Best train ride I have had in years.",
    "It does what it says, and the battery lasts for days.",
    "My daughter has not put the book down since Sunday.",
]
_BLAME = [
    "The zip broke on the second day.",
    "We waited an hour, and the food was cold.",
    "I have asked for my money back twice and heard nothing.",
    "The screen flickers whenever it rains.",
    "Not what was promised: half of the parts were missing.",
]
_NEITHER = [
    "The parcel arrived on Tuesday.",
    "The shop is next to the station and opens at nine.",
    "It comes in blue and in green.",
    "The manual has forty pages.",
    "I bought it in March.",
]
_TOPICS = {
    "sport": "The keeper saved two penalties.|She ran the last lap in under a minute.",
    "weather": "Fog will lift by noon, with gales in the west.|Frost is likely in the valleys.",
    "money": "The bank raised its rate by a quarter point.|Shares of the mill fell by a tenth.",
    "health": "A new vaccine halves the risk of shingles.|The clinic treats knees and hips.",
    "travel": "The night ferry now stops at two islands.|Trains to the coast run every hour.",
}
_CAPITALS = {  # country: capital, continent
    "France": ("Paris", "Europe"),
    "Kenya": ("Nairobi", "Africa"),
    "Peru": ("Lima", "South America"),
    "Mongolia": ("Ulaanbaatar", "Asia"),
    "Burkina Faso": ("Ouagadougou", "Africa"),
    "Kazakhstan": ("Astana", "Asia"),
    "Bhutan": ("Thimphu", "Asia"),
    "Suriname": ("Paramaribo", "South America"),
    "Palau": ("Ngerulmud", "Oceania"),
    "Eswatini": ("Mbabane", "Africa"),
    "Latvia": ("Riga", "Europe"),
    "Vanuatu": ("Port Vila", "Oceania"),
    "Myanmar": ("Naypyidaw", "Asia"),
    "Chile": ("Santiago", "South America"),
    "Malawi": ("Lilongwe", "Africa"),
    "Moldova": ("Chisinau", "Europe"),
    "Laos": ("Vientiane", "Asia"),
    "Gabon": ("Libreville", "Africa"),
    "Fiji": ("Suva", "Oceania"),
    "Japan": ("Tokyo", "Asia"),
    "Belize": ("Belmopan", "North America"),
    "Tajikistan": ("Dushanbe", "Asia"),
    "Comoros": ("Moroni", "Africa"),
    "Norway": ("Oslo", "Europe"),
    "Brunei": ("Bandar Seri Begawan", "Asia"),
    "Guyana": ("Georgetown", "South America"),
    "Nauru": ("Yaren", "Oceania"),
    "Honduras": ("Tegucigalpa", "North America"),
    "Slovenia": ("Ljubljana", "Europe"),
    "Benin": ("Porto-Novo", "Africa"),
}
_ELEMENTS = [
    "hydrogen H 1",
    "carbon C 6",
    "oxygen O 8",
    "sodium Na 11",
    "iron Fe 26",
    "copper Cu 29",
    "silver Ag 47",
    "tin Sn 50",
    "gold Au 79",
    "lead Pb 82",
    "uranium U 92",
    "helium He 2",
    "neon Ne 10",
    "zinc Zn 30",
    "gallium Ga 31",
    "yttrium Y 39",
    "niobium Nb 41",
    "indium In 49",
    "barium Ba 56",
    "cerium Ce 58",
    "erbium Er 68",
    "hafnium Hf 72",
    "tungsten W 74",
    "osmium Os 76",
    "bismuth Bi 83",
    "radon Rn 86",
    "thorium Th 90",
    "potassium K 19",
    "argon Ar 18",
    "nickel Ni 28",
]
_YEARS = {
    "the fall of the Berlin Wall": 1989,
    "the first landing of people on the Moon": 1969,
    "the battle of Hastings": 1066,
    "the sinking of the Titanic": 1912,
    "the start of the French Revolution": 1789,
    "the end of the Second World War": 1945,
    "the great fire of London": 1666,
    "the opening of the Suez Canal": 1869,
    "the first edition of the Tour de France": 1903,
    "the treaty of Tordesillas": 1494,
    "the founding of the United Nations": 1945,
    "the eruption of Krakatoa": 1883,
    "the battle of Lepanto": 1571,
    "the first modern Olympic Games": 1896,
    "the peace of Westphalia": 1648,
    "the signing of Magna Carta": 1215,
    "the Chernobyl disaster": 1986,
    "the defenestration of Prague that began the Thirty Years' War": 1618,
    "the first flight of the Wright brothers": 1903,
    "the death of Johann Sebastian Bach": 1750,
    "the battle of Austerlitz": 1805,
    "the independence of Ghana": 1957,
    "the opening of the Panama Canal": 1914,
    "the launch of Sputnik 1": 1957,
    "the great Lisbon earthquake": 1755,
    "the coronation of Charlemagne as emperor": 800,
    "the fall of Constantinople": 1453,
    "the battle of Cannae, as a negative number for BC": -216,
    "the discovery of penicillin": 1928,
    "the founding of Oslo's university": 1811,
}


@dataclass(frozen=True, slots=True)
class TypedQuestion:
    """What is asked, the schema of its answer, and the answer."""

    family: str
    prompt: str
    schema: Mapping[str, Any]
    answer: Mapping[str, Any]

    def wrong_fields(self, told: Any) -> list[str]:
        """The fields that are not what they should be; all of them if the answer is no object."""
        given = told if isinstance(told, Mapping) else {}
        return [
            name for name, right in self.answer.items() if not same_value(given.get(name), right)
        ]


def same_value(told: Any, right: Any) -> bool:
    """Texts without regard to case, numbers within half a percent, lists in their order."""
    if isinstance(right, bool) or isinstance(told, bool):
        return told is right
    if isinstance(right, int | float):
        near = isinstance(told, int | float) and abs(told - right) <= 0.005 * abs(right)
        return near if isinstance(right, float) else told == right
    if isinstance(right, list):
        return (
            isinstance(told, list) and len(told) == len(right) and all(map(same_value, told, right))
        )
    return (
        isinstance(told, str) and " ".join(told.casefold().split()).rstrip(".") == right.casefold()
    )


def make_typed_questions(seed: int = 0, limit: int | None = None) -> list[TypedQuestion]:
    """All of a seed; families take turns, so a part is a fair part."""
    asked = [
        [ask(Random(f"{seed}/{ask.__name__}/{number}"), number) for number in range(PER_FAMILY)]
        for ask in FAMILIES
    ]
    turns = [question for turn in zip_longest(*asked) for question in turn if question is not None]
    return list({question.prompt: question for question in turns}.values())[:limit]


def _object(**fields: Any) -> dict[str, Any]:
    kinds = {
        name: {"type": kind} if isinstance(kind, str) else kind for name, kind in fields.items()
    }
    return {"type": "object", "properties": kinds, "required": list(fields)}


_DATE = {"type": "string", "format": "date"}


def _enum(*choices: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(choices)}


def _day(random: Random) -> datetime.date:
    return datetime.date(random.randint(1990, 2035), 1, 1) + datetime.timedelta(
        random.randrange(365)
    )


def _said(day: datetime.date, way: int) -> str:
    month = _MONTHS[day.month - 1]
    return (
        f"{day.day} {month} {day.year}",
        f"{month} {day.day}, {day.year}",
        f"{day.day}.{day.month}.{day.year}",
        f"the {day.day}th of {month} {day.year}"
        if 3 < day.day < 21
        else f"{month[:3]} {day.day} {day.year}",
    )[way % 4]


def _person(random: Random, number: int) -> TypedQuestion:
    name, place, job, age = (
        random.choice(_NAMES),
        random.choice(_PLACES),
        random.choice(_JOBS),
        random.randint(19, 84),
    )
    other = random.choice([one for one in _NAMES if one != name])
    told = (
        f"{name}, {age}, has worked as a {job} in {place} since leaving school.",
        f"In {place} everybody knows {name}, the {job}. She turned {age} in May; her neighbour"
        f" {other} is {age + random.randint(2, 9)}.",
        f"{other} wrote: 'My cousin {name} moved to {place} last year. At {age} he retrained as a"
        f" {job}.'",
    )[number % 3]
    return TypedQuestion(
        "extraction of persons",
        f"{told}\n\nWho is the {job}?",
        _object(name="string", age="integer", city="string"),
        {"name": name, "age": age, "city": place},
    )


def _event(random: Random, number: int) -> TypedQuestion:
    day, place = _day(random), random.choice(_PLACES)
    what = random.choice(("concert", "inspection", "wedding", "hearing", "regatta"))
    told = f"Please note: the {what} in {place} takes place on {_said(day, number)}."
    if number % 2:
        before = day - datetime.timedelta(random.randint(5, 60))
        told += f" It was first planned for {_said(before, number)}."
    return TypedQuestion(
        "extraction of dates",
        f"{told}\n\nWhen and where is the {what}?",
        _object(day=_DATE, city="string"),
        {"day": day.isoformat(), "city": place},
    )


def _invoice(random: Random, number: int) -> TypedQuestion:
    thing, count, price = (
        random.choice(_THINGS),
        random.randint(2, 60),
        random.randint(150, 9000) / 100,
    )
    paid = random.random() < 0.5
    state = "has been paid" if paid else random.choice(("is still open", "will be paid next month"))
    told = f"Invoice {random.randint(1000, 9999)}: {count} {thing} at {price:.2f} each. It {state}."
    return TypedQuestion(
        "extraction of amounts",
        f"{told}\n\nWhat was bought?",
        _object(quantity="integer", unit_price="number", paid="boolean"),
        {"quantity": count, "unit_price": price, "paid": paid},
    )


def _total(random: Random, number: int) -> TypedQuestion:
    thing, count, price = random.choice(_THINGS), random.randint(2, 40), random.randint(2, 90)
    told = f"{count} {thing} cost {price} euros each."
    return TypedQuestion(
        "totals",
        f"{told} What do they cost together?",
        _object(total="integer"),
        {"total": count * price},
    )


def _sum(random: Random, number: int) -> TypedQuestion:
    size = (20, 100, 1000)[number % 3]
    one, other, third = (random.randint(2, size) for _ in range(3))
    sign = random.choice("+-")
    value = one + other - third if sign == "-" else one + other + third
    return TypedQuestion(
        "sums",
        f"Calculate {one} + {other} {sign} {third}.",
        _object(result="integer"),
        {"result": value},
    )


def _story(random: Random, number: int) -> TypedQuestion:
    name, start = random.choice(_NAMES).split()[0], random.randint(20, 90)
    given, bought = random.randint(3, 15), random.randint(2, 9)
    told = (
        f"{name} has {start} stamps, gives {given} to each of two friends and then buys {bought}"
        " packs of ten."
    )
    left = start - 2 * given + 10 * bought
    return TypedQuestion(
        "word problems",
        f"{told} How many stamps does {name} have now?",
        _object(stamps="integer", more_than_before="boolean"),
        {"stamps": left, "more_than_before": left > start},
    )


def _feeling(random: Random, number: int) -> TypedQuestion:
    label, texts = (("positive", _PRAISE), ("negative", _BLAME), ("neutral", _NEITHER))[number % 3]
    return TypedQuestion(
        "sentiment",
        f'A customer writes: "{texts[number // 3 % 5]} {random.choice(_NEITHER)}"'
        "\n\nWhat is the tone?",
        _object(tone=_enum("positive", "negative", "neutral")),
        {"tone": label},
    )


def _topic(random: Random, number: int) -> TypedQuestion:
    label = list(_TOPICS)[number % 5]
    other = random.choice([one for one in _TOPICS if one != label])
    text = _TOPICS[label].split("|")[number // 5 % 2]
    return TypedQuestion(
        "topics",
        f'Which section does this sentence belong to, and is it about {other}? "{text}"'
        f" (seen {random.randint(2, 900)} times)",
        _object(section=_enum(*_TOPICS), about_the_other="boolean"),
        {"section": label, "about_the_other": False},
    )


def _stated(random: Random, number: int) -> TypedQuestion:
    place, people = random.choice(_PLACES), random.randint(20, 900) * 1000
    other, fewer = (
        random.choice([one for one in _PLACES if one != place]),
        random.randint(20, 900) * 1000,
    )
    told = f"{place} has {people:,} inhabitants, {other} has {fewer:,}."
    return TypedQuestion(
        "comparison",
        f"{told} Is {place} the larger of the two?",
        _object(larger="boolean", inhabitants="integer"),
        {"larger": people > fewer, "inhabitants": people},
    )


def _prime(random: Random, number: int) -> TypedQuestion:
    value = random.randint(20, 400)
    prime = all(value % each for each in range(2, int(value**0.5) + 1))
    return TypedQuestion(
        "properties of numbers",
        f"Look at the number {value}.",
        _object(even="boolean", prime="boolean"),
        {"even": value % 2 == 0, "prime": prime},
    )


def _later(random: Random, number: int) -> TypedQuestion:
    day, days = _day(random), random.choice((1, 2, 3, 7, 10, 14, 30))
    way = random.choice((1, -1))
    words = "after" if way > 0 else "before"
    return TypedQuestion(
        "counting days",
        f"Which day is {days} days {words} {_said(day, number)}?",
        _object(day=_DATE),
        {"day": (day + way * datetime.timedelta(days)).isoformat()},
    )


def _deadline(random: Random, number: int) -> TypedQuestion:
    day, name = _day(random), random.choice(_NAMES)
    urgent = bool(number % 2)
    words = "This cannot wait" if urgent else "There is no hurry"
    return TypedQuestion(
        "tasks",
        f"{words}: {name} must send the report by {_said(day, number // 2)}.",
        _object(who="string", due=_DATE, priority=_enum("low", "high")),
        {"who": name, "due": day.isoformat(), "priority": "high" if urgent else "low"},
    )


def _capital(random: Random, number: int) -> TypedQuestion:
    country = list(_CAPITALS)[number]
    capital, continent = _CAPITALS[country]
    continents = sorted({where for _, where in _CAPITALS.values()})
    return TypedQuestion(
        "capitals",
        f"Name the capital of {country}, and its continent.",
        _object(capital="string", continent=_enum(*continents)),
        {"capital": capital, "continent": continent},
    )


def _element(random: Random, number: int) -> TypedQuestion:
    name, symbol, place = _ELEMENTS[number].split()
    return TypedQuestion(
        "elements",
        f"Give the symbol and the atomic number of {name}.",
        _object(symbol="string", number="integer"),
        {"symbol": symbol, "number": int(place)},
    )


def _year(random: Random, number: int) -> TypedQuestion:
    what = list(_YEARS)[number]
    return TypedQuestion(
        "years", f"In which year was {what}?", _object(year="integer"), {"year": _YEARS[what]}
    )


def _list(random: Random, number: int) -> TypedQuestion:
    words = random.sample(_PLACES, random.randint(3, 6))
    return TypedQuestion(
        "lists",
        f"Sort these towns by the alphabet: {', '.join(words)}.",
        _object(towns={"type": "array", "items": {"type": "string"}}, count="integer"),
        {"towns": sorted(words), "count": len(words)},
    )


def _letters(random: Random, number: int) -> TypedQuestion:
    word = random.choice([*_PLACES, *_JOBS, *(each.lower() for each in _MONTHS)])
    return TypedQuestion(
        "letters",
        f'Look at the word "{word}" (case {number}).',
        _object(letters="integer", last_letter="string"),
        {"letters": len(word), "last_letter": word[-1].lower()},
    )


def _unit(random: Random, number: int) -> TypedQuestion:
    value = random.randint(2, 90)
    one, other, factor = (
        ("kilometres", "metres", 1000.0),
        ("hours", "minutes", 60.0),
        ("inches", "centimetres", 2.54),
        ("pounds", "kilograms", 0.4536),
        ("dozens", "pieces", 12.0),
    )[number % 5]
    return TypedQuestion(
        "units",
        f"How many {other} are {value} {one}?",
        _object(value="number"),
        {"value": value * factor},
    )


FAMILIES: tuple[Callable[[Random, int], TypedQuestion], ...] = (
    _person, _event, _invoice, _total, _sum, _story, _feeling, _topic, _stated, _prime, _later,
    _deadline, _capital, _element, _year, _list, _letters, _unit,
)  # fmt: skip
