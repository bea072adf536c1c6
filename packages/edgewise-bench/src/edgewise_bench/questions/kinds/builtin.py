"""All our kinds of questions, by family, and the questions that a model is calibrated with.

Kinds count more than rows: a confidence that was fitted on many kinds holds for kinds it has never
seen. A family gathers kinds that ask for the same sort of work, so that whole families can be held
out, too.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import zip_longest
from random import Random

from edgewise.calibrate.rows import Question
from edgewise_bench.questions.kinds import (
    code,
    daily,
    following,
    labels,
    life,
    numbers,
    programs,
    reading,
    reasoning,
    recall,
    rewriting,
    skills,
    talking,
    translating,
    world,
)
from edgewise_bench.questions.kinds.recall import Kind

PER_KIND = 70  # questions of one kind at most
ROUNDS = 3  # times that a kind is asked for more, in other words
# What an application may tell a model: nothing, what edgewise tells its own, and a few others.
SHORT_SENTENCE = "You are a helpful assistant. Answer with one short, correct sentence."
SYSTEMS = (
    SHORT_SENTENCE,
    SHORT_SENTENCE,
    SHORT_SENTENCE,
    "",
    "",
    "You are a helpful assistant.",
    "You are a helpful assistant.",
    "You are the assistant in a phone app. Be brief, friendly and correct.",
    "Answer in as few words as possible.",
    "Reply with the answer only, without explanations.",
)

_OLDER: dict[str, tuple[Kind, ...]] = {
    "places": (recall.capitals, recall.continents, recall.languages, recall.currencies),
    "people": (recall.authors, recall.people, recall.years),
    "science": (recall.symbols, recall.science, recall.animals, recall.animal_classes),
    "everyday facts": (
        *(recall.colours, recall.jobs, recall.calendar, recall.units, recall.abbreviations),
    ),
    "common sense": (recall.truths, recall.sayings, skills.comparisons, skills.categories),
    "words": (recall.opposites, skills.grammar, skills.using_words),
    "translation": (recall.translations,),
    "sums": (skills.arithmetic, skills.sequences),
    "everyday sums": (skills.word_problems,),
    "letters and order": (skills.spelling, skills.counting, skills.sorting),
    "instructions": (skills.copying,),
    "extraction": (skills.extraction,),
    "summarising": (skills.summaries,),
}
_ROOMS = (
    *(_OLDER, world.KINDS, numbers.KINDS, rewriting.KINDS, reading.KINDS, labels.KINDS),
    *(translating.KINDS, code.KINDS, following.KINDS, reasoning.KINDS),
)
FAMILIES: dict[str, tuple[Kind, ...]] = {
    family: tuple(kind for room in _ROOMS for kind in room.get(family, ()))
    for family in dict.fromkeys(family for room in _ROOMS for family in room)
}


# As people ask; answers have room for 256 tokens, and a program may be one of them.
LIFE: dict[str, tuple[Kind, ...]] = {
    **life.KINDS,
    **daily.KINDS,
    **talking.KINDS,
    **programs.KINDS,
}


def questions_by_kind(seed: int = 0) -> dict[str, dict[str, list[Question]]]:
    """{family: {kind: questions}}, the same for the same seed; no prompt comes twice."""
    found: dict[str, dict[str, list[Question]]] = {}
    for family, asks in FAMILIES.items():
        kinds: dict[str, dict[str, Question]] = {}
        for number, ask in enumerate(asks):
            for again in range(ROUNDS):
                for question in ask(Random(f"{seed}/{family}/{number}/{again}")):
                    kinds.setdefault(question.kind, {}).setdefault(question.prompt, question)
        found[family] = {
            kind: Random(f"{seed}/{kind}").sample(list(known.values()), min(len(known), PER_KIND))
            for kind, known in kinds.items()
        }
    return found


def make_builtin_questions(seed: int = 0, limit: int | None = None) -> list[Question]:
    """All questions of a seed, or the first `limit`; kinds take turns, so a part is a fair part."""
    shuffled = []
    for kinds in questions_by_kind(seed).values():
        for kind, questions in kinds.items():
            random = Random(f"{seed}/{kind}")
            order = random.sample(questions, len(questions))
            shuffled.append([replace(each, system=_system(random, each)) for each in order])
    Random(seed).shuffle(shuffled)
    turns = zip_longest(*shuffled)
    return [question for turn in turns for question in turn if question is not None][:limit]


def _system(random: Random, question: Question) -> str:
    """A system prompt that does not forbid what the question asks for."""
    strict = question.rule in ("exact", "brief", "json")
    return random.choice([each for each in SYSTEMS if not strict or each != SHORT_SENTENCE])


def family_of(kind: str, otherwise: str = "") -> str:
    """The family of one of our kinds; `otherwise` for a kind of somebody else."""
    return _family_names().get(kind, otherwise)


@cache
def _family_names() -> dict[str, str]:
    return {kind: family for family, kinds in questions_by_kind().items() for kind in kinds}
