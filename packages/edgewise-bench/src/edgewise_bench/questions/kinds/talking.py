"""Kinds of question that hang on what was said: by several people, by the same person before, or by
whoever wrote the system prompt.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from edgewise.calibrate.rows import Question
from edgewise_bench.questions.kinds.recall import Kind

_WHO = ("Mia", "Tom", "Lea", "Sam", "Eva", "Kai", "Zoe", "Jon")
_DUTIES = ("the tickets", "the cake", "the music", "the tent", "the drinks", "the photos")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_PLACES = ("the station", "the library", "the old bridge", "the cinema", "the market", "the pool")


def group_chats(random: Random) -> Iterator[Question]:
    """Plans change in them: the last word counts."""
    for _ in range(40):
        one, two, three = random.sample(_WHO, 3)
        first, then = random.sample(_DAYS, 2)
        place, other = random.sample(_PLACES, 2)
        mine, yours = random.sample(_DUTIES, 2)
        hour = random.randint(2, 9)
        chat = (
            f"{one}: shall we meet on {first}?\n{two}: cant on {first}, what about {then}\n"
            f"{one}: ok {then} then. at {place}?\n{three}: {other} is closer for me\n"
            f"{two}: fine, {other}, {hour} pm\n{one}: I bring {mine}\n"
            f"{three}: I take care of {yours}"
        )
        asks = (
            ("On which day do they meet?", then, (first,)),
            ("Where do they meet?", other.removeprefix("the "), (place.removeprefix("the "),)),
            (f"Who takes care of {yours}?", three, (one, two)),
            (f"Who brings {mine}?", one, (two, three)),
            ("At what time do they meet?", str(hour), ()),
        )
        ask, answer, wrong = random.choice(asks)
        yield Question(
            kind="group_chats", prompt=f"{chat}\n\n{ask}", accepted=(answer,), rivals=wrong
        )


_MINDS = (
    ("What is the capital of {0}?", "{1}.", "Sorry, I meant {2}.", "capital"),
    ("Which currency does {0} have?", "{1}", "Oh, I wanted to ask about {2}.", "currency"),
    ("Which language do most people in {0} speak?", "{1}.", "No, not there: in {2}.", "language"),
)
_COUNTRIES = (
    ("Japan", {"capital": "Tokyo", "currency": "yen", "language": "Japanese"}),
    ("Poland", {"capital": "Warsaw", "currency": "zloty", "language": "Polish"}),
    ("Brazil", {"capital": "Brasilia", "currency": "real", "language": "Portuguese"}),
    ("Sweden", {"capital": "Stockholm", "currency": "krona", "language": "Swedish"}),
    ("Turkey", {"capital": "Ankara", "currency": "lira", "language": "Turkish"}),
    ("Hungary", {"capital": "Budapest", "currency": "forint", "language": "Hungarian"}),
    ("Thailand", {"capital": "Bangkok", "currency": "baht", "language": "Thai"}),
    ("Denmark", {"capital": "Copenhagen", "currency": "krone", "language": "Danish"}),
    ("Russia", {"capital": "Moscow", "currency": "ruble", "language": "Russian"}),
    ("Vietnam", {"capital": "Hanoi", "currency": "dong", "language": "Vietnamese"}),
)


def changed_minds(random: Random) -> Iterator[Question]:
    for name, facts in _COUNTRIES:
        for first, said, then, what in _MINDS:
            other, others = random.choice([each for each in _COUNTRIES if each[0] != name])
            yield Question(
                kind="changed_minds",
                earlier=(first.format(other), said.format(other, others[what])),
                prompt=then.format(other, others[what], name),
                accepted=(facts[what],),
                rivals=(others[what],),
            )


_SHOPS = (
    ("a library", "books and opening hours", "open from 10 to 18", "18", "two weeks"),
    ("a swimming pool", "the pool and its prices", "open from 7 to 21", "21", "one day"),
    ("a bicycle shop", "bicycles and repairs", "open from 9 to 17", "17", "three days"),
    ("a museum of trains", "the museum and its trains", "open from 11 to 16", "16", "one hour"),
    ("a language school", "its courses", "open from 8 to 20", "20", "ten weeks"),
)
_ELSEWHERE = (
    "What is the capital of Peru?",
    "Can you write me a poem about the sea?",
    "How much is 17 times 4?",
    "Who painted the Mona Lisa?",
    "What do you think about the election?",
)
_SORRY = "Sorry, I cannot help with that."


def house_rules(random: Random) -> Iterator[Question]:
    """What the operator wrote decides, and not what the model knows."""
    for place, about, hours, closes, lasts in _SHOPS:
        system = (
            f"You are the assistant of {place}. You talk about {about} only. It is {hours} o'clock"
            f" every day but Monday, and a booking lasts {lasts}. To any other question answer"
            f' exactly: "{_SORRY}"'
        )
        inside = (
            ("Until when are you open?", (closes, f"{int(closes) - 12} pm")),
            ("How long does a booking last?", (lasts, lasts.replace("one", "1"))),
            ("On which day are you closed?", ("Monday", "Mondays")),
        )
        for ask, answers in inside:
            begin = random.choice(("", "Hello! ", "Hi, "))
            yield Question(
                kind="inside_the_rules", system=system, prompt=begin + ask, accepted=answers
            )
        for ask in random.sample(_ELSEWHERE, 3):
            yield Question(
                kind="outside_the_rules",
                system=system,
                prompt=ask,
                accepted=("cannot help", "can not help", "can t help"),
                rejected=("Lima", "68", "Leonardo"),
                rule="contains",
            )


_TONES = (
    ("You answer in capital letters only.", "capitals=1"),
    ("You answer every question in exactly one sentence.", "sentences=1"),
    ("You answer in at most eight words.", "most_words=8"),
    ('Every answer of yours contains the word "indeed".', "has=indeed"),
    ("You never use commas.", "without=,"),
    ("You write in lower-case letters only, also names.", "lower_case=1"),
    ('You end every answer with the words "at your service".', "ends=at your service"),
    ('You begin every answer with "Dear guest".', "begins=dear guest"),
)
_ASKED = (
    "Why is the sky blue?",
    "What is a good breakfast?",
    "How do I boil an egg?",
    "What is the Moon made of?",
    "How can I sleep better?",
)


def tones(random: Random) -> Iterator[Question]:
    for system, form in _TONES:
        for ask in random.sample(_ASKED, 4):
            yield Question(kind="tones", system=system, prompt=ask, accepted=(form,), rule="form")


KINDS: dict[str, tuple[Kind, ...]] = {
    "group chats": (group_chats,),
    "changed minds": (changed_minds,),
    "house rules": (house_rules,),
    "tones": (tones,),
}
