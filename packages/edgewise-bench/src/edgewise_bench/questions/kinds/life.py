"""Kinds of question as people ask them: what nobody can know, what a text does not say, what is not
so, slips of the keyboard, a second question about the first, other languages, forms to be kept.

Their texts are in `life.txt`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random

from edgewise.calibrate.rows import Question, Rule
from edgewise_bench.questions.kinds import facts
from edgewise_bench.questions.kinds.recall import Kind
from edgewise_bench.questions.kinds.texts import lines_of, pairs_of

# -- what cannot be known --------------------------------------------------------------------------


def unknowable(random: Random) -> Iterator[Question]:
    for prompt in lines_of("unknowable"):
        yield Question(
            kind="unknowable",
            prompt=random.choice(("", "", "Tell me: ", "Quick question. ", "Hi! ")) + prompt,
            accepted=lines_of("says that it is not known"),
            rule="contains",
        )


_PEOPLE = (
    ("Mara Ellison", "she", "a baker", "Dunmore", "three cats"),
    ("Tobias Renn", "he", "a bus driver", "Falkirk", "an old motorcycle"),
    ("Priya Nandan", "she", "a dentist", "Kettering", "a greenhouse"),
    ("Oskar Blom", "he", "a carpenter", "Lund", "two brothers"),
    ("Ines Carvalho", "she", "a pilot", "Braga", "a collection of stamps"),
    ("Henry Achebe", "he", "a librarian", "Leeds", "a small boat"),
    ("Yuki Tanabe", "she", "a gardener", "Nara", "a red bicycle"),
    ("Pavel Dusek", "he", "a piano tuner", "Brno", "four grandchildren"),
)
_TEXTS = (
    "{name} is {work} from {town}. Every morning {who} gets up at five. {name} has {owns}.",
    "In {town} everybody knows {name}, who is {work}. At weekends {who} looks after {owns}.",
)
_TOLD = "{name} is {work}, lives in {town} and has {owns}. On Sundays {who} gets up at five."
_ABSENT = (
    "How old is {name}?",
    "What is the name of {name}'s mother?",
    "How much does {name} earn?",
    "What is {name}'s telephone number?",
    "Which school did {name} go to?",
    "On which date was {name} born?",
)
_OR_SAY_SO = (
    ' If the text does not say it, answer "not stated".',
    ' Write "not stated" if it is not in the text.',
    " Use only the text.",
)


def not_stated(random: Random) -> Iterator[Question]:
    """Half of the questions have an answer in the text, so that neither answer is always right."""
    for name, who, work, town, owns in _PEOPLE:
        text = random.choice(_TEXTS).format(name=name, who=who, work=work, town=town, owns=owns)
        end = random.choice(_OR_SAY_SO)
        for ask in random.sample(_ABSENT, 4):
            yield Question(
                kind="absent_from_text",
                prompt=f"{text}\n\n{ask.format(name=name)}{end}",
                accepted=lines_of("says that the text does not say it"),
                rule="contains",
            )
        told = _TOLD.format(name=name, who=who, work=work, town=town, owns=owns)
        for ask, answer in (
            (f"In which town does {name} live?", town),
            (f"What does {name} do for a living?", work.split(" ", 1)[1]),
            (f"What does {name} have?", owns.split(" ")[-1]),
        ):
            yield Question(
                kind="present_in_text",
                prompt=f"{told}\n\n{ask}{end}",
                accepted=(answer,),
                rejected=("not stated",),
            )


# -- what is not so --------------------------------------------------------------------------------


def false_premises(random: Random) -> Iterator[Question]:
    for prompt in lines_of("false premises"):
        yield Question(
            kind="false_premises",
            prompt=random.choice(("", "", "I have a question. ", "For a quiz: ")) + prompt,
            accepted=lines_of("says that it is not so"),
            level=3,
        )


def beliefs(random: Random) -> Iterator[Question]:
    for prompt, answers in pairs_of("beliefs"):
        end = random.choice(("", " Answer yes or no.", " Yes or no?", " Is that true?"))
        yield Question(
            kind="beliefs", prompt=prompt + end, accepted=answers, rule="yes_no", level=3
        )


# -- as people type --------------------------------------------------------------------------------


def mistyped(text: str, random: Random, slips: int) -> str:
    """Neighbours exchanged, letters left out or doubled, inside of long lower-case words."""
    words = text.split(" ")
    long = [at for at, word in enumerate(words) if len(word) > 3 and word.isalpha()]
    for at in random.sample(long, min(slips, len(long))):
        word = words[at]
        cut = random.randrange(1, len(word) - 1)
        exchanged = word[:cut] + word[cut + 1] + word[cut] + word[cut + 2 :]
        words[at] = random.choice(
            (exchanged, word[:cut] + word[cut + 1 :], word[:cut] + word[cut] + word[cut:])
        )
    return " ".join(words)


_OPENERS = ("hey ", "pls tell me ", "sorry, ", "ok so ", "um ", "hi, ", "")
_ENDS = (" thx", " pls", "", "", " asap", " :)")


def everyday_typos(random: Random) -> Iterator[Question]:
    for prompt, answers in pairs_of("everyday"):
        for slips in (1, 3):
            typed = mistyped(prompt, random, slips)
            yield Question(
                kind="typos",
                prompt=random.choice(_OPENERS) + typed + random.choice(_ENDS),
                accepted=answers,
            )


# -- a second question -----------------------------------------------------------------------------

_ASKED_AGAIN = (
    ("What is the capital of {0}?", "{1}.", "And of {2}?"),
    ("{0}, what is its capital?", "The capital of {0} is {1}.", "And what about {2}?"),
    ("What's the capital of {0}?", "{1}", "Thanks! Same question for {2}."),
)


def same_again(random: Random) -> Iterator[Question]:
    pairs = pairs_of("capitals")
    random.shuffle(pairs)
    for (one, told), (other, wanted) in pairwise(pairs):
        first, said, then = random.choice(_ASKED_AGAIN)
        yield Question(
            kind="same_again",
            earlier=(first.format(one), said.format(one, told[0])),
            prompt=then.format(one, told[0], other),
            accepted=wanted,
        )


def go_on_counting(random: Random) -> Iterator[Question]:
    for _ in range(30):
        a, b, c = random.randint(12, 60), random.randint(3, 40), random.choice((2, 3, 4, 5, 10))
        told = random.choice((f"{a + b}", f"{a} plus {b} is {a + b}."))
        task, value = random.choice(
            (
                (f"Now add {c}.", a + b + c),
                (f"And times {c}?", (a + b) * c),
                (f"Minus {c}?", a + b - c),
            )
        )
        yield Question(
            kind="go_on_counting",
            earlier=(f"What is {a} plus {b}?", told),
            prompt=task,
            accepted=(str(value),),
            rule="result",
        )


def remembered(random: Random) -> Iterator[Question]:
    words = f"{facts.PASSAGE_WORDS} {facts.PLAIN_WORDS}".split()
    things = random.sample([word for word in dict.fromkeys(words) if len(word) > 3], 30)
    for at in range(0, 30, 3):
        listed = things[at : at + 3]
        place, name = random.choice(((0, "first"), (1, "second"), (2, "last")))
        heard = random.choice(("I will remember them.", "OK.", "Got it! How can I help you?"))
        yield Question(
            kind="remembered",
            earlier=(
                f"Please remember these words: {', '.join(listed)}.",
                heard,
                "How much is 7 plus 6?",
                "13.",
            ),
            prompt=f"Which word was the {name} one that I asked you to remember?",
            accepted=(listed[place],),
            rivals=tuple(each for each in listed if each != listed[place]),
        )


_TELLERS = (
    *(("Nora", "nurse", "Bergen"), ("Ali", "painter", "Izmir"), ("Greta", "judge", "Ulm")),
    *(("Luis", "cook", "Quito"), ("Anna", "vet", "Graz"), ("Ben", "farmer", "Cork")),
    *(("Mina", "tailor", "Busan"), ("Otto", "miller", "Riga")),
)


def told_before(random: Random) -> Iterator[Question]:
    for name, work, town in _TELLERS:
        heard = random.choice((f"Nice to meet you, {name}!", "Hello! What can I do for you?"))
        asks = (("What is my job?", work), ("Where do I live?", town), ("What is my name?", name))
        for ask, answer in asks:
            yield Question(
                kind="told_before",
                earlier=(f"Hi, I am {name}. I work as a {work} in {town}.", heard),
                prompt=ask,
                accepted=(answer,),
            )


# -- other languages -------------------------------------------------------------------------------


def in_language(kind: str, *, inside: bool = False) -> Kind:
    def ask(_: Random) -> Iterator[Question]:
        for prompt, answers in pairs_of(kind):
            rule: Rule = "contains" if inside else "mention"
            yield Question(kind=kind, prompt=prompt, accepted=answers, rule=rule)

    return ask


# -- to be kept to the letter ----------------------------------------------------------------------


def kept_forms(random: Random) -> Iterator[Question]:
    for theme in lines_of("themes"):
        for kind, prompt, form in _forms(theme, random):
            forms = (form, "sentences=2") if kind == "without_commas" else (form,)
            yield Question(kind=kind, prompt=prompt, accepted=forms, rule="form")


def _forms(theme: str, random: Random) -> Iterator[tuple[str, str, str]]:
    """The kind, what is asked, and the form that the answer must have."""
    count, most = random.choice((1, 2, 3)), random.choice((12, 20, 30))
    letter = random.choice("xzqjk")
    word = random.choice(("however", "because", "quiet", "always"))
    sentences = f"{count} sentence{'s' * (count > 1)}"
    points = f"Give me {count + 2} bullet points about {theme}."
    yield "so_many_sentences", f"Write exactly {sentences} about {theme}.", f"sentences={count}"
    yield "at_most_words", f"Describe {theme} in at most {most} words.", f"most_words={most}"
    yield "a_word_in_it", f'Use the word "{word}" in a sentence about {theme}.', f"has={word}"
    yield "without_commas", f"Write two sentences about {theme}. Use no commas.", "without=,"
    only = "Begin each with a hyphen and write nothing else."
    yield "bullets", f"{points} {only}", f"bullets={count + 2}"
    yield "all_capitals", f"One sentence about {theme}, in capital letters only.", "capitals=1"
    without = f'Write a short sentence about {theme} without the letter "{letter}".'
    yield "without_a_letter", without, f"without={letter}"


KINDS: dict[str, tuple[Kind, ...]] = {
    "unknowable": (unknowable,),
    "not stated": (not_stated,),
    "false premises": (false_premises,),
    "beliefs": (beliefs,),
    "typos": (everyday_typos,),
    "follow-ups": (same_again, go_on_counting, remembered, told_before),
    "European languages": tuple(
        in_language(f"in_{name}")
        for name in ("german", "french", "spanish", "italian", "portuguese")
    ),
    "other scripts": tuple(
        in_language(f"in_{name}", inside=True) for name in ("russian", "chinese")
    ),
    "forms": (kept_forms,),
}
