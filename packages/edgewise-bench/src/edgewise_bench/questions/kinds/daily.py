"""Kinds of question of every day: choices with letters and in words, what is right to write, what
somebody feels, what is safe, facts that few know, facts in two steps, words for meanings, more
languages, layouts that nobody tidied, problems that are worked out.

Their texts are in `daily.txt`.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from edgewise.calibrate.rows import Question
from edgewise_bench.questions.kinds.life import in_language
from edgewise_bench.questions.kinds.recall import Kind
from edgewise_bench.questions.kinds.texts import lines_of, pairs_of

# -- choices ---------------------------------------------------------------------------------------

_LETTERED = (
    "{ask}\n{options}\nAnswer:",
    "{ask}\n{options}",
    "{ask}\n\n{options}\n\nAnswer with the letter only.",
    "Choose the right answer.\n{ask}\n{options}",
)


def lettered(random: Random) -> Iterator[Question]:
    for line in lines_of("lettered"):
        ask, _, told = line.rpartition(" = ")
        right, *wrong = told.split(" | ")
        for shape, mark in zip(random.sample(_LETTERED, 2), random.sample(".)", 2), strict=True):
            shown = random.sample([right, *wrong], 4)
            options = "\n".join(
                f"{letter}{mark} {text}" for letter, text in zip("ABCD", shown, strict=True)
            )
            yield Question(
                kind="lettered_knowledge",
                prompt=shape.format(ask=ask, options=options),
                accepted=("ABCD"[shown.index(right)], right),
                rivals=tuple(wrong),
                rule="letter",
            )


def worded(random: Random) -> Iterator[Question]:
    for line in lines_of("worded"):
        ask, _, told = line.rpartition(" = ")
        right, wrong = (tuple(each.split(" / ")) for each in told.split(" | "))
        end = random.choice(("", "", " Answer in one word.", " Just name it."))
        yield Question(kind="worded_choices", prompt=ask + end, accepted=right, rivals=wrong)


# -- what is right to write, what somebody feels, what is safe -------------------------------------

_ACCEPTABLE = (
    'Is this sentence grammatically correct? "{0}" Answer yes or no.',
    "Is the following good English grammar? Yes or no.\n\n{0}",
    'A learner of English wrote: "{0}" Is that correct?',
)


def acceptable(random: Random) -> Iterator[Question]:
    for sentence, answers in pairs_of("acceptable"):
        yield Question(
            kind="acceptability",
            prompt=random.choice(_ACCEPTABLE).format(sentence),
            accepted=(*answers, *_CORRECT[answers[0]]),
            rivals=_CORRECT["no" if answers[0] == "yes" else "yes"],
        )


_CORRECT = {
    "yes": ("yes", "is correct", "is grammatically correct", "is good"),
    "no": ("no", "not correct", "incorrect", "is not", "not grammatically correct", "should be"),
}
_FELT = {
    "joy": ("joy", "happiness", "happy", "joyful"),
    "sadness": ("sadness", "sad", "grief"),
    "anger": ("anger", "angry", "furious"),
    "fear": ("fear", "afraid", "scared", "fearful"),
    "surprise": ("surprise", "surprised"),
    "disgust": ("disgust", "disgusted"),
}
_FEELING = (
    "Which feeling does this show: {0}?\n\n{1}",
    "What does the writer feel ({0})?\n{1}",
    '"{1}"\nName the emotion. Options: {0}.',
)


def feelings(random: Random) -> Iterator[Question]:
    for text, (felt,) in pairs_of("feelings"):
        listed = ", ".join(random.sample(list(_FELT), len(_FELT)))
        yield Question(
            kind="feelings",
            prompt=random.choice(_FEELING).format(listed, text),
            accepted=_FELT[felt],
            rivals=tuple(word for name in _FELT if name != felt for word in _FELT[name]),
        )


def advice(random: Random) -> Iterator[Question]:
    for ask, answers in pairs_of("advice"):
        end = random.choice(("", "", " Yes or no?", " Answer briefly."))
        yield Question(kind="advice", prompt=ask + end, accepted=answers, rule="yes_no")


# -- what few know, and what takes two steps -------------------------------------------------------


def _answered(kind: str, section: str, beginnings: tuple[str, ...]) -> Kind:
    def ask(random: Random) -> Iterator[Question]:
        for prompt, answers in pairs_of(section):
            yield Question(kind=kind, prompt=random.choice(beginnings) + prompt, accepted=answers)

    return ask


_MEANINGS = (
    "Which word means: {0}?",
    "What is the word for {0}?",
    "I am looking for a word: {0}.",
    "Crossword clue: {0}.",
)


def meanings(random: Random) -> Iterator[Question]:
    for meaning, words in pairs_of("reverse dictionary"):
        yield Question(
            kind="words_for_meanings",
            prompt=random.choice(_MEANINGS).format(meaning),
            accepted=tuple(form for word in words for form in (word, f"{word}s")),
        )


# -- layouts that nobody tidied --------------------------------------------------------------------

_SHOPS = ("Corner Bakery", "Nordlicht Books", "Casa Verde", "Hill & Sons", "Bike Point", "Aqua")
_GOODS = ("bread", "soap", "pens", "tea", "socks", "glue", "rice", "lamp", "tape", "jam")
_FIRST = ("Ada", "Bruno", "Carla", "Dmitri", "Elif", "Farid", "Gerd", "Hana", "Ivo", "Jana")
_LAST = ("Moss", "Quill", "Stone", "Vega", "Novak", "Lindt", "Orsini", "Park", "Reyes", "Thorn")


def till_rolls(random: Random) -> Iterator[Question]:
    for _ in range(24):
        shop, number = random.choice(_SHOPS), random.randint(1000, 9999)
        bought = random.sample(_GOODS, 4)
        cents = [random.randint(120, 1990) for _ in bought]
        day, month = random.randint(1, 28), random.randint(1, 12)
        lines = [f"{name.upper():<12}{value / 100:>8.2f}" for name, value in zip(bought, cents)]  # noqa: B905
        total = sum(cents)
        roll = "\n".join(
            (f"   *** {shop.upper()} ***", f"No.{number}   {day:02d}/{month:02d}/26", *lines,
             "-" * 20, f"{'TOTAL EUR':<12}{total / 100:>8.2f}", "  thank you! ")
        )  # fmt: skip
        place = random.randrange(4)
        ask, answer = random.choice(
            (
                ("What was the total?", f"{total / 100:.2f}"),
                (f"How much did the {bought[place]} cost?", f"{cents[place] / 100:.2f}"),
                ("What is the number of the receipt?", str(number)),
            )
        )
        yield Question(kind="till_rolls", prompt=f"{roll}\n\n{ask}", accepted=(answer,))


def signatures(random: Random) -> Iterator[Question]:
    for _ in range(24):
        first, last = random.choice(_FIRST), random.choice(_LAST)
        other = random.choice([name for name in _FIRST if name != first])
        phone = f"0{random.randint(20, 99)} {random.randint(100, 999)} {random.randint(1000, 9999)}"
        mail = f"{first.lower()}.{last.lower()}@{random.choice(('post', 'mail', 'box'))}.example"
        room = f"{random.choice('ABC')}-{random.randint(101, 499)}"
        text = (
            f">> {other} wrote:\n>> can you send me the plan?? thx\n\nsure, see attachment\n\n--\n"
            f"{first} {last} |  Room {room}|tel:{phone}\n{mail}   ~ please think before printing ~"
        )
        ask, answer = random.choice(
            (
                ("Which room is the sender in?", room),
                ("What is the sender's e-mail address?", mail),
                ("What is the full name of the person who signed?", f"{first} {last}"),
                ("Who asked for the plan?", other),
            )
        )
        yield Question(kind="signatures", prompt=f"{text}\n\n{ask}", accepted=(answer,))


def broken_tables(random: Random) -> Iterator[Question]:
    for _ in range(24):
        names = random.sample(_FIRST, 4)
        ages = random.sample(range(19, 78), 4)
        towns = random.sample(("Bern", "Oslo", "Porto", "Graz", "Lyon", "Turku", "Bari"), 4)
        rows = [
            random.choice(("{0};{1};{2}", "{0} ; {1};  {2}", " {0};{1} ;{2};")).format(*row)
            for row in zip(names, ages, towns, strict=True)
        ]
        table = "\n".join(("name;age;town", *rows))
        place = random.randrange(4)
        ask, answer = random.choice(
            (
                (f"How old is {names[place]}?", str(ages[place])),
                (f"Where does {names[place]} live?", towns[place]),
                (f"Who lives in {towns[place]}?", names[place]),
                ("Who is the oldest?", names[ages.index(max(ages))]),
            )
        )
        yield Question(
            kind="broken_tables",
            prompt=f"{table}\n\n{ask}",
            accepted=(answer,),
            rivals=tuple(each for each in (*names, *towns) if each not in (answer, names[place]))
            if not answer.isdigit()
            else (),
        )


# -- problems that are worked out ------------------------------------------------------------------

_STEPWISE = ("", " Think step by step.", " Show your work.", " Explain how you get there.")


def worked_problems(random: Random) -> Iterator[Question]:
    for _ in range(12):
        name = random.choice(_FIRST)
        a, b, c = random.randint(3, 9), random.randint(12, 30), random.randint(2, 6)
        price, paid = random.randint(3, 9), random.choice((50, 100, 200))
        stories = (
            (
                f"{name} plants {a} rows of {b} trees each. In winter {c * a} trees die."
                " How many trees are left?",
                a * b - c * a,
            ),
            (
                f"A bus starts with {b} people. At the first stop {a} get off and {c * 2} get on."
                f" At the second stop half as many as {2 * c} get off. How many are on the bus?",
                b - a + 2 * c - c,
            ),
            (
                f"{name} buys {c} notebooks for {price} euros each and a bag for {b} euros, and"
                f" pays with a note of {paid + 100} euros. How much change does {name} get?",
                paid + 100 - c * price - b,
            ),
            (
                f"A tap fills {a} litres a minute. A tank holds {a * b} litres and is already"
                f" filled with {a * c} litres. How many minutes does it take to fill the rest?",
                b - c,
            ),
            (
                f"{name} reads {b} pages on each of the {c} first days, and {a} pages more than"
                f" that on the next day. How many pages is that in all?",
                b * c + b + a,
            ),
        )
        for story, result in random.sample(stories, 3):
            yield Question(
                kind="worked_problems",
                prompt=story + random.choice(_STEPWISE),
                accepted=(str(result),),
                rule="result",
            )


KINDS: dict[str, tuple[Kind, ...]] = {
    "lettered choices": (lettered,),
    "worded choices": (worded,),
    "acceptability": (acceptable,),
    "feelings": (feelings,),
    "advice": (advice,),
    "hard facts": (_answered("hard_facts", "hard facts", ("", "", "Quick question: ")),),
    "two steps": (_answered("two_steps", "two steps", ("", "", "A riddle for you: ")),),
    "words for meanings": (meanings,),
    "more languages": tuple(
        in_language(f"in_{name}", inside=name == "japanese")
        for name in ("dutch", "polish", "swedish", "turkish", "romanian", "japanese")
    ),
    "odd layouts": (till_rolls, signatures, broken_tables),
    "worked problems": (worked_problems,),
}
