"""The calibration questions: about 1,500, made from a seed, with answers a program can check."""

from __future__ import annotations

from itertools import zip_longest
from random import Random

from edgewise.calibrate.rows import Question
from edgewise_bench.questions.kinds import recall, skills

KINDS = recall.KINDS + skills.KINDS + skills.PASSAGE_KINDS


def make_questions(seed: int = 0, limit: int | None = None) -> list[Question]:
    """All questions of a seed, or the first `limit`; kinds take turns, so a part is a fair part."""
    by_kind: dict[str, dict[str, Question]] = {}
    for ask in KINDS:
        for question in ask(Random(f"{seed}/{ask.__qualname__}/{KINDS.index(ask)}")):
            by_kind.setdefault(question.kind, {}).setdefault(question.prompt, question)
    shuffled = []
    for kind, questions in by_kind.items():
        order = list(questions.values())
        Random(f"{seed}/{kind}").shuffle(order)
        shuffled.append(order)
    turns = zip_longest(*shuffled)
    return [question for turn in turns for question in turn if question is not None][:limit]
