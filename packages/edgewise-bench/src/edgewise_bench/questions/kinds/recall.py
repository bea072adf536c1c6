"""Kinds of question that ask for something the model may know."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

from edgewise.calibrate.rows import Question, Rule
from edgewise_bench.questions.kinds import facts

Pairs = list[tuple[str, tuple[str, ...]]]
Kind = Callable[[Random], Iterator[Question]]

_ONE_WORD = ("", "", " Answer with one word.", " Give only the answer.", " Answer briefly.")


def read_pairs(table: str) -> Pairs:
    """`thing=answer/other answer; …` as pairs."""
    pairs = []
    for entry in " ".join(table.split()).split("; "):
        thing, _, answers = entry.rpartition("=")
        pairs.append((thing.strip(), tuple(answer.strip() for answer in answers.split("/"))))
    return pairs


def _graded(tables: Sequence[str]) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    for level, table in enumerate(tables, start=1):
        for thing, answers in read_pairs(table):
            yield level, thing, answers


def _lookup(
    kind: str,
    tables: Sequence[str],
    phrasings: Sequence[str],
    *,
    rivalry: bool = True,
    times: int = 1,
    rule: Rule = "mention",
) -> Kind:
    """A kind that looks things up in graded tables; the other answers of a table are rivals."""

    def ask(random: Random) -> Iterator[Question]:
        rows = list(_graded(tables))
        known = {answer for _, _, answers in rows for answer in answers} if rivalry else set()
        for level, thing, answers in rows:
            for phrasing in random.sample(phrasings, times):
                prompt = phrasing.format(thing) + random.choice(_ONE_WORD)
                # A capital that is named in the question ("Mexico") must not count against it.
                rivals = tuple(sorted(r for r in known - set(answers) if r not in prompt))
                yield Question(
                    kind=kind,
                    prompt=prompt[0].upper() + prompt[1:],
                    accepted=answers,
                    rule=rule,
                    rivals=rivals,
                    level=level,
                )

    return ask


def with_plurals(answers: Sequence[str]) -> tuple[str, ...]:
    """The answers, and more than one of each: "toothbrushes" is as right as "toothbrush"."""
    return tuple(form for each in answers for form in (each, f"{each}s", f"{each}es"))


lookup = _lookup  # the name of the function is part of the seed of the kinds below


capitals = _lookup(
    "capitals",
    facts.CAPITALS,
    (
        "What is the capital of {}?",
        "Name the capital city of {}.",
        "Which city is the capital of {}?",
        "The capital of {} is called what?",
    ),
)
continents = _lookup(
    "continents",
    facts.CONTINENTS,
    ("On which continent is {}?", "What continent is {} in?", "Which continent does {} lie in?"),
)
languages = _lookup(
    "languages",
    facts.LANGUAGES,
    (
        "What language do most people speak in {}?",
        "Which language is spoken in {}?",
        "What is the official language of {}?",
    ),
)
currencies = _lookup(
    "currencies",
    facts.CURRENCIES,
    (
        "What is the currency of {}?",
        "What money is used in {}?",
        "Which currency do you use in {}?",
    ),
)
authors = _lookup(
    "authors",
    facts.AUTHORS,
    ("Who wrote {}?", "Who is the author of {}?", "Name the author of {}."),
)
people = _lookup("people", facts.PEOPLE, ("{}",), rivalry=False)
years = _lookup(
    "years", facts.YEARS, ("In what year {}?", "In which year {}?", "What year {}?"), rivalry=False
)
science = _lookup("science", facts.SCIENCE, ("{}",), rivalry=False)
opposites = _lookup(
    "opposites",
    facts.OPPOSITES,
    (
        'What is the opposite of "{}"?',
        "What is the opposite of {}?",
        'Give an antonym of "{}".',
        "Which word means the opposite of {}?",
    ),
    rivalry=False,
)
colours = _lookup(
    "colours",
    facts.COLOURS,
    ("What colour is {}?", "What color is {}?", "Which colour does {} have?"),
    rivalry=False,
)
jobs = _lookup(
    "jobs",
    (facts.JOBS,),
    (
        "What do we call a person who {}?",
        "What is the job of someone who {} called?",
    ),
    rivalry=False,
)


def sayings(random: Random) -> Iterator[Question]:
    phrasings = (
        "Complete the saying: {} ...",
        'How does this continue? "{} ..."',
        "Finish this sentence: {}",
        "Fill in the missing last word: {} ___",
    )
    for saying, answers in read_pairs(facts.SAYINGS):
        last = saying.split()[-1]
        said_before = any(answer in saying.lower().split() for answer in answers)  # "to be …"
        yield Question(
            kind="sayings",
            prompt=random.choice(phrasings).format(saying),
            accepted=tuple(f"{last} {answer}" for answer in answers) if said_before else answers,
        )


def symbols(random: Random) -> Iterator[Question]:
    forward = ("What is the chemical symbol for {}?", "What is the symbol of the element {}?")
    rows = list(_graded(facts.SYMBOLS))
    for level, element, (symbol,) in rows:
        yield Question(
            kind="symbols",
            prompt=random.choice(forward).format(element) + random.choice(_ONE_WORD),
            accepted=(symbol,),
            case_matters=True,  # "He" is helium, "he" is not
            level=level,
        )
    backward = ('Which chemical element has the symbol "{}"?', "What element is written as {}?")
    names = {element for _, element, _ in rows}
    for level, element, (symbol,) in random.sample(rows, 20):
        yield Question(
            kind="symbols",
            prompt=random.choice(backward).format(symbol),
            accepted=(element, "aluminum") if element == "aluminium" else (element,),
            rivals=tuple(sorted(names - {element})),
            level=level,
        )


def animals(random: Random) -> Iterator[Question]:
    young = ("What is a baby {} called?", "What do you call a young {}?")
    for animal, answers in read_pairs(facts.YOUNG):
        prompt = _article(random.choice(young).format(animal), animal)
        yield Question(kind="animals", prompt=prompt, accepted=answers)
    sounds = ("What sound does a {} make?", "Which noise does a {} make?")
    for animal, answers in read_pairs(facts.SOUNDS):
        prompt = _article(random.choice(sounds).format(animal), animal)
        forms = tuple(answer + ending for answer in answers for ending in ("", "s", "ing"))
        yield Question(kind="animals", prompt=prompt, accepted=forms)
    for animal, (legs,) in read_pairs(facts.LEGS):
        prompt = _article(f"How many legs does a {animal} have?", animal)
        pairs = f"{int(legs) // 2} pairs"
        others = tuple(str(number) for number in range(2, 13) if str(number) != legs)
        yield Question(kind="animals", prompt=prompt, accepted=(legs, pairs), rivals=others)


def animal_classes(random: Random) -> Iterator[Question]:
    classes = ("mammal", "bird", "fish", "reptile", "amphibian", "insect")
    phrasings = (
        "Is a {} a mammal, a bird, a fish, a reptile, an amphibian or an insect?",
        "What class of animal is a {}: mammal, bird, fish, reptile, amphibian or insect?",
        "What kind of animal is a {}?",
    )
    for animal, answers in read_pairs(facts.ANIMAL_CLASSES):
        rivals = [name for name in classes if name not in answers]
        yield Question(
            kind="animal_classes",
            prompt=_article(random.choice(phrasings).format(animal), animal),
            accepted=tuple(form for answer in answers for form in (answer, answer + "s")),
            rivals=tuple(form for rival in rivals for form in (rival, rival + "s")),
        )


def abbreviations(random: Random) -> Iterator[Question]:
    phrasings = ("What does {} stand for?", "What is {} short for?", "Spell out the acronym {}.")
    for level, short, (parts, *_) in _graded(facts.ABBREVIATIONS):
        yield Question(
            kind="abbreviations",
            prompt=random.choice(phrasings).format(short),
            accepted=tuple(parts.split(",")),
            rule="every",
            level=level,
        )


def calendar(random: Random) -> Iterator[Question]:
    for level, prompt, answers in _graded(facts.CALENDAR_FACTS):
        rule: Rule = "number" if answers[0].isdigit() else "mention"
        yield Question(kind="calendar", prompt=prompt, accepted=answers, rule=rule, level=level)
    days, months = facts.DAYS.split(), facts.MONTHS.split()
    for names in (days, months):
        for index, name in enumerate(names):
            step, word = random.choice(((1, "after"), (-1, "before")))
            answer = names[(index + step) % len(names)]
            thing = "day" if names is days else "month"
            yield Question(
                kind="calendar",
                prompt=random.choice(
                    (f"What {thing} comes {word} {name}?", f"Which {thing} is right {word} {name}?")
                ),
                accepted=(answer,),
                rivals=tuple(other for other in names if other not in (answer, name)),
            )


def units(random: Random) -> Iterator[Question]:
    phrasings = ("How many {} are there in {}?", "How many {} are in {}?", "{1} has how many {0}?")
    for level, thing, answers in _graded(facts.UNITS):
        prompt = random.choice(phrasings).format(*thing.split("|")) + random.choice(_ONE_WORD)
        yield Question(
            kind="units",
            prompt=prompt[0].upper() + prompt[1:],
            accepted=answers,
            rule="number",
            level=level,
        )


def truths(random: Random) -> Iterator[Question]:
    phrasings = ("{} Answer yes or no.", "Yes or no: {}", "{} Yes or no?")
    for level, table in enumerate(facts.TRUTHS, start=1):
        for entry in " ".join(table.split()).split("; "):
            statement, sign = entry[:-1].strip(), entry[-1]
            yield Question(
                kind="truths",
                prompt=random.choice(phrasings).format(statement),
                accepted=("yes" if sign == "+" else "no",),
                rule="yes_no",
                level=level,
            )


def translations(random: Random) -> Iterator[Question]:
    phrasings = (
        'How do you say "{}" in {}?',
        'Translate "{}" into {}.',
        "What is the {1} word for {0}?",
    )
    for language, table in facts.TRANSLATIONS.items():
        for word, answers in read_pairs(table):
            prompt = random.choice(phrasings).format(word, language)
            yield Question(kind="translations", prompt=prompt, accepted=answers)


def _article(prompt: str, noun: str) -> str:
    return prompt.replace(f" a {noun}", f" an {noun}") if noun[0] in "aeiou" else prompt


KINDS: tuple[Kind, ...] = (
    *(capitals, continents, languages, currencies, symbols, authors, people, years, science),
    *(opposites, colours, jobs, sayings, animals, animal_classes, abbreviations, calendar, units),
    *(truths, translations),
)
