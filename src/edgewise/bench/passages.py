"""Kinds of question about a short text that the prompt itself gives."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from edgewise.bench import words
from edgewise.bench.answers import Question
from edgewise.bench.recall import Kind

_NAMES = words.NAMES.split()
_CITIES = words.CITIES.split()
_THINGS = words.THINGS.split()

PLAIN_SENTENCES = (
    "The cat sat on the mat.",
    "I like green apples.",
    "Good morning, everyone.",
    "The train leaves at noon.",
    "My sister plays the piano.",
    "It rained all day yesterday.",
    "Please close the door quietly.",
    "The old man walked to the market.",
    "Birds sing in the early morning.",
    "We will meet at the station at eight.",
    "A small boat crossed the lake.",
    "The soup needs more salt.",
    "She found her keys under the bed.",
    "The museum opens at ten every morning.",
    "Snow covered the roof of the barn.",
    "He wrote a long letter to his uncle.",
    "The yellow bus stopped near the school.",
    "Three children played with a wooden top.",
    "Nobody noticed the clock had stopped.",
    "Purple umbrellas cost nineteen crowns in Bergen.",
    "The gardener watered the tulips before breakfast.",
    "Quiet rivers carve deep valleys.",
    "Our neighbour sells honey and wax candles.",
    "The violin was older than the violinist.",
)

# A text, then what a summary must mention; "a|b" is satisfied by either.
_TEXTS = (
    (
        "The bakery on Mill Street burned down on Sunday night. Nobody was hurt, but the owner "
        "lost everything. Neighbours are collecting money to help him rebuild.",
        "bakery,burned|fire|burnt",
    ),
    (
        "Dolphins sleep with one half of the brain at a time. This lets them keep swimming and "
        "rise for air while they rest.",
        "dolphins|dolphin,sleep|rest|brain",
    ),
    (
        "The city will close Bridge Road for two weeks in May. Workers will replace old water "
        "pipes. Buses will use King Street instead.",
        "road|street,close|closed|pipes|water",
    ),
    (
        "Anna wanted to learn the violin, but her family had no money for lessons. She watched "
        "videos every evening, and after three years she played in an orchestra.",
        "anna,violin|orchestra",
    ),
    (
        "Honey never goes bad if it is kept in a closed jar. Jars found in old Egyptian tombs "
        "were still good to eat after three thousand years.",
        "honey",
    ),
    (
        "A storm hit the coast last night. Waves broke a sea wall and flooded forty houses. "
        "Schools stay closed today.",
        "storm|flood|flooded|waves",
    ),
    (
        "The company sold fewer phones this year, because people keep their old ones longer. It "
        "now wants to earn more from repairs and services.",
        "phones|phone,fewer|less|repairs|services|old",
    ),
    (
        "Coffee plants need warm days, cool nights and a lot of rain. Most of them grow in a "
        "belt around the equator.",
        "coffee",
    ),
    (
        "The school library bought two hundred new books. Pupils can borrow three of them at a "
        "time, and keep them for two weeks.",
        "library,books",
    ),
    (
        "Scientists found that bees can count up to four. They trained the insects to fly past "
        "coloured signs and gave them sugar water as a reward.",
        "bees,count|four|numbers",
    ),
    (
        "Tom missed the last train home. He walked ten kilometres in the rain, and arrived at "
        "three in the morning with wet shoes.",
        "tom,train|walked|rain|home",
    ),
    (
        "The museum shows paintings by children from twelve countries. The youngest painter is "
        "four years old. Entry is free.",
        "museum,paintings|children",
    ),
)


def extraction(random: Random) -> Iterator[Question]:
    """Who, what, where and how many, out of one made-up sentence."""
    for _ in range(130):
        name, other = random.sample(_NAMES, 2)
        city, town = random.sample(_CITIES, 2)
        count, thing = random.choice(words.COUNTS.split()), random.choice(_THINGS)
        day = random.choice(words.DAYS.split())
        colour = random.choice(words.PLAIN_COLOURS.split())
        text = random.choice(
            (
                f"On {day}, {name} bought {count} {colour} {thing} in {city}.",
                f"{name} went to {city} on {day} and bought {count} {colour} {thing}.",
                f"{other} lives in {town}. On {day}, {name} came home from {city} with {count} "
                f"{colour} {thing}.",
            )
        )
        ask, answer, rivals = random.choice(
            (
                (f"Who bought {thing} or brought them home?", name, (other,)),
                (f"In which city did {name} get the {thing}?", city, (town,)),
                (f"How many {thing} did {name} get?", count, ()),
                (f"On which day did {name} get the {thing}?", day, ()),
                (f"What colour are the {thing}?", colour, ()),
                (f"What did {name} get?", thing, ()),
            )
        )
        shape = random.choice(("{0} {1}", "{1} Text: {0}", "Read this: {0}\nQuestion: {1}"))
        yield Question(
            kind="extraction",
            prompt=shape.format(text, ask),
            accepted=(answer,),
            rivals=rivals,
            level=2 if rivals else 1,
        )


def summaries(random: Random) -> Iterator[Question]:
    phrasings = (
        "Summarise this in one sentence: {}",
        "What is this text about? {}",
        "Write a short title for this text: {}",
    )
    for text, needed in _TEXTS:
        for phrasing in phrasings:
            yield Question(
                kind="summaries",
                prompt=phrasing.format(text),
                accepted=tuple(needed.split(",")),
                rule="every",
            )


def word_problems(random: Random) -> Iterator[Question]:
    for _ in range(50):
        name, other = random.sample(_NAMES, 2)
        thing = random.choice(_THINGS)
        first, second = random.randint(3, 30), random.randint(2, 12)
        text, answer = random.choice(
            (
                (f"{name} has {first} {thing} and gets {second} more.", first + second),
                (f"{name} has {first + second} {thing} and gives {second} to {other}.", first),
                (f"{name} buys {second} boxes with {first} {thing} each.", first * second),
            )
        )
        if answer in (first + second, first, second) and str(answer) in text:
            continue
        ask = f"How many {thing} does {name} have now?"
        yield Question(
            kind="word_problems",
            prompt=f"{text} {ask}",
            accepted=(str(answer),),
            rule="number",
            level=3,
        )


KINDS: tuple[Kind, ...] = (extraction, summaries, word_problems)
