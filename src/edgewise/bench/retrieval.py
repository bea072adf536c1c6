"""How well vectors find: sixty passages and a question for each, in other words than theirs.

The set was written for this bench (retrieval_set.txt). Twelve subjects have five passages each, so
that the wrong ones are near.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources

Score = Callable[[int, int], float]  # of a question and a passage, by their numbers


@dataclass(frozen=True, slots=True)
class Pair:
    passage: str
    question: str


def read_pairs() -> list[Pair]:
    text = (resources.files("edgewise.bench") / "retrieval_set.txt").read_text("utf-8")
    return [Pair(*(part.strip() for part in block.split("\n? "))) for block in text.split("\n\n")]


def ranks(count: int, score: Score) -> list[int]:
    """The place of each question's own passage among all, from 1; ties count against it."""
    found = []
    for question in range(count):
        own = score(question, question)
        others = (score(question, passage) for passage in range(count) if passage != question)
        found.append(1 + sum(other >= own for other in others))
    return found


def recall_at(places: Sequence[int], most: int) -> float:
    return sum(place <= most for place in places) / len(places)


def mean_reciprocal_rank(places: Sequence[int]) -> float:
    return sum(1 / place for place in places) / len(places)


def lexical_score(pairs: Sequence[Pair]) -> Score:
    """The baseline: words in common, rare ones counting more (BM25 with its usual numbers)."""
    documents = [Counter(_words(pair.passage)) for pair in pairs]
    seen = Counter(word for document in documents for word in document)
    mean = sum(document.total() for document in documents) / len(documents)
    questions = [_words(pair.question) for pair in pairs]

    def score(question: int, passage: int) -> float:
        document = documents[passage]
        total = 0.0
        for word in questions[question]:
            count = document[word]
            weight = math.log(1 + (len(pairs) - seen[word] + 0.5) / (seen[word] + 0.5))
            length = 0.25 + 0.75 * document.total() / mean
            total += weight * count * 2.2 / (count + 1.2 * length)
        return total

    return score


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())
