"""Kinds of question that ask for something to be done with what the prompt gives."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from edgewise.calibrate.rows import Question
from edgewise_bench.questions.kinds import facts
from edgewise_bench.questions.kinds.recall import Kind, read_pairs

_NAMES = facts.NAMES.split()
_CITIES = facts.CITIES.split()
_THINGS = facts.THINGS.split()

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
_PLAIN_WORDS = facts.PLAIN_WORDS.split()
_HARD_WORDS = facts.HARD_WORDS.split()


def extraction(random: Random) -> Iterator[Question]:
    """Who, what, where and how many, out of one made-up sentence."""
    for _ in range(130):
        name, other = random.sample(_NAMES, 2)
        city, town = random.sample(_CITIES, 2)
        count, thing = random.choice(facts.COUNTS.split()), random.choice(_THINGS)
        day = random.choice(facts.DAYS.split())
        colour = random.choice(facts.PLAIN_COLOURS.split())
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


PASSAGE_KINDS: tuple[Kind, ...] = (extraction, summaries, word_problems)


def arithmetic(random: Random) -> Iterator[Question]:
    """From 2 + 3 to 47 x 38."""
    for level, count, most in ((1, 50, 9), (2, 50, 60), (3, 30, 900)):
        for _ in range(count):
            left, right = random.randint(2, most), random.randint(2, most)
            yield from _sum(random, level, left, right)


def _sum(random: Random, level: int, left: int, right: int) -> Iterator[Question]:
    sign = random.choice("++-*/" if level > 1 else "+++-*")
    if sign == "-":
        left, right = max(left, right), min(left, right)
    if sign in "*/":
        right = random.randint(2, 9)
    answer = {"+": left + right, "-": left - right, "*": left * right, "/": left}[sign]
    if sign == "/":
        left *= right
    if answer in (0, 1, left, right):
        return  # an answer that is also in the question cannot be told from an echo
    said = {"+": "plus", "-": "minus", "*": "times", "/": "divided by"}[sign]
    phrasing = random.choice(
        (
            "What is {0} {1} {2}?",
            "Calculate {0} {1} {2}.",
            "{0} {1} {2} =",
            "How much is {0} {3} {2}?",
        )
    )
    shown = "x" if sign == "*" else sign
    yield Question(
        kind="arithmetic",
        prompt=phrasing.format(left, shown, right, said),
        accepted=(str(answer),),
        rule="number",
        level=level if sign in "+-" else min(3, level + 1),
    )


def sequences(random: Random) -> Iterator[Question]:
    phrasings = ("What number comes next: {}, ...?", "Continue the sequence: {}, ...")
    for _ in range(40):
        level = random.choice((1, 2, 3))
        start, step = (
            random.randint(1, 12),
            random.choice((1, 2, 5, 10) if level == 1 else (3, 4, 7)),
        )
        if level == 3:
            numbers = [start * 2**index for index in range(5)]
        else:
            numbers = [start + step * index for index in range(5)]
        shown = ", ".join(map(str, numbers[:4]))
        yield Question(
            kind="sequences",
            prompt=random.choice(phrasings).format(shown),
            accepted=(str(numbers[4]),),
            rule="number",
            level=level,
        )


def comparisons(random: Random) -> Iterator[Question]:
    for small, _, large in (pair.partition(" ") for pair in _entries(facts.SIZES)):
        shown = random.sample((small, large), 2)
        phrasing = random.choice(("Which is bigger, {0} or {1}?", "What is larger: {0} or {1}?"))
        yield Question(
            kind="comparisons",
            prompt=phrasing.format(*(name if name[0].isupper() else f"a {name}" for name in shown)),
            accepted=(large,),
            rivals=(small,),
            rejected=("smaller", "while"),
        )
    for _ in range(40):
        most = random.choice((20, 100, 10000))
        low, high = sorted(random.sample(range(2, most), 2))
        shown = random.sample((str(low), str(high)), 2)
        word = random.choice(("larger", "smaller"))
        right, wrong = (high, low) if word == "larger" else (low, high)
        yield Question(
            kind="comparisons",
            prompt=f"Which number is {word}, {shown[0]} or {shown[1]}?",
            accepted=(str(right),),
            rivals=(str(wrong),),
            rejected=("solve",),  # starts a calculation that names both and settles nothing
            level=1 if most == 20 else 2,
        )


def spelling(random: Random) -> Iterator[Question]:
    for word in random.sample(_PLAIN_WORDS, 20):
        place, letter = random.choice((("first", word[0]), ("last", word[-1])))
        yield Question(
            kind="spelling",
            prompt=f'What is the {place} letter of the word "{word}"?',
            accepted=(letter,),
            rivals=tuple(
                sorted(set("bcdefghjklmnopqrstuvwxyz") - {letter})
            ),  # "a" and "i" are facts
        )
    for word in random.sample(_PLAIN_WORDS, 15):
        yield Question(
            kind="spelling",
            prompt=random.choice(
                (
                    f'Spell the word "{word}" letter by letter.',
                    f"How do you spell {word}? Separate the letters.",
                )
            ),
            accepted=tuple(word),
            rule="in_order",
        )
    for word in random.sample(_PLAIN_WORDS + _HARD_WORDS, 15):
        yield Question(
            kind="spelling",
            prompt=f'Write the word "{word}" backwards.',
            accepted=(word[::-1],),
            level=3,
        )


def counting(random: Random) -> Iterator[Question]:
    for word in random.sample(_PLAIN_WORDS + _HARD_WORDS, 20):
        yield Question(
            kind="counting",
            prompt=f'How many letters are in the word "{word}"?',
            accepted=(str(len(word)),),
            rule="number",
            level=2,
        )
    for _ in range(25):
        chosen = random.sample(_PLAIN_WORDS, random.randint(2, 8))
        yield Question(
            kind="counting",
            prompt=f"How many words are in this list? {', '.join(chosen)}",
            accepted=(str(len(chosen)),),
            rule="number",
            level=2 if len(chosen) < 5 else 3,
        )


def sorting(random: Random) -> Iterator[Question]:
    for _ in range(30):
        numbers = random.sample(range(2, 60), random.randint(3, 5))
        down = random.random() < 0.3
        order = "from largest to smallest" if down else "from smallest to largest"
        yield Question(
            kind="sorting",
            prompt=f"Sort these numbers {order}: {', '.join(map(str, numbers))}",
            accepted=tuple(map(str, sorted(numbers, reverse=down))),
            rule="in_order",
            level=len(numbers) - 2,
        )
    for _ in range(25):
        chosen = random.sample(_PLAIN_WORDS, random.randint(3, 5))
        yield Question(
            kind="sorting",
            prompt=f"Put these words in alphabetical order: {', '.join(chosen)}",
            accepted=tuple(sorted(chosen)),
            rule="in_order",
            level=len(chosen) - 2,
        )


def categories(random: Random) -> Iterator[Question]:
    names = list(facts.GROUPS)
    for _ in range(50):
        wanted, *others = random.sample(names, 4)
        right = random.choice(facts.GROUPS[wanted].split())
        wrong = [random.choice(facts.GROUPS[other].split()) for other in others]
        if right in wrong or {wanted, *others} >= {"bird", "animal"}:
            continue  # a swan is both
        shown = random.sample([right, *wrong], 4)
        yield Question(
            kind="categories",
            prompt=f"Which of these is a {wanted}: {', '.join(shown[:3])} or {shown[3]}?",
            accepted=(right,),
            rivals=tuple(wrong),
        )
    for _ in range(40):
        common, odd = random.sample([name for name in names if name != "bird"], 2)
        same = random.sample(facts.GROUPS[common].split(), 3)
        other = random.choice(facts.GROUPS[odd].split())
        if other in same:
            continue  # an orange is a fruit and a colour
        shown = random.sample([*same, other], 4)
        yield Question(
            kind="odd_one_out",
            prompt=f"Which word does not belong: {', '.join(shown)}?",
            accepted=(other,),
            rivals=tuple(same),
            level=3,
        )


def grammar(random: Random) -> Iterator[Question]:
    plural = ("What is the plural of {}?", 'What is the plural form of "{}"?')
    past = ('What is the past tense of "{}"?', "What is the simple past of the verb {}?")
    for kind, table, phrasings in (
        ("plurals", facts.PLURALS, plural),
        ("past_tenses", facts.PAST_TENSES, past),
    ):
        for word, answers in read_pairs(table):
            prompt = random.choice(phrasings).format(word)
            yield Question(kind=kind, prompt=prompt, accepted=answers)


def copying(random: Random) -> Iterator[Question]:
    phrasings = ("Repeat this sentence: {}", "Repeat exactly: {}", 'Say "{}"', "Copy this text: {}")
    for sentence in PLAIN_SENTENCES:
        prompt = random.choice(phrasings).format(sentence)
        yield Question(kind="copying", prompt=prompt, accepted=(sentence,), level=1)


def using_words(random: Random) -> Iterator[Question]:
    phrasings = ('Write a sentence with the word "{}".', "Use the word {} in a sentence.")
    for word in facts.PASSAGE_WORDS.split():
        prompt = random.choice(phrasings).format(word)
        yield Question(kind="using_words", prompt=prompt, accepted=(word,), rejected=("sentence",))


def _entries(table: str) -> list[str]:
    return " ".join(table.split()).split("; ")


KINDS: tuple[Kind, ...] = (
    *(arithmetic, sequences, comparisons, spelling, counting, sorting, categories, grammar),
    *(copying, using_words),
)
