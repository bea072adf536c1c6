"""Public questions with gold answers, read from where a user put them; none is copied here.

The files are LLMRouter's `default_query_train.jsonl` and `default_query_test.jsonl` (MIT), which
gather CommonsenseQA, OpenBookQA, ARC, MMLU, Natural Questions and TriviaQA. A question is known by
the file and the line it is on.
"""

from __future__ import annotations

import ast
import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from edgewise.calibrate.rows import Question
from edgewise.decide.compare_answers import normalise

FILES = ("default_query_train.jsonl", "default_query_test.jsonl")
CHOICES = ("commonsense_qa", "openbook_qa", "arc_challenge", "mmlu")
OPEN = ("natural_qa", "trivia_qa")
FIRM = (*CHOICES, "natural_qa")  # TriviaQA's rows hold one alias at random
LONGEST = 700  # characters: what is longer takes a small device seconds to read
LETTERS = "ABCDE"
_FILLERS = frozenset(["a", "an", "the", "of", "in", "on", "at", "and"])


@dataclass(frozen=True, slots=True)
class PublicQuestion:
    """A question, its reference (`train:812`), and its text as LLMRouter has it."""

    reference: str
    source: str
    question: Question


def read_public_questions(folder: Path) -> list[PublicQuestion]:
    """All that can be checked by a program, the sources taking turns, so a part is a fair part."""
    by_source: dict[str, list[PublicQuestion]] = {}
    seen: set[str] = set()
    for name in FILES:
        for line, row in enumerate(_rows(folder / name)):
            question = _question(row)
            if question is not None and question.prompt not in seen:
                seen.add(question.prompt)
                reference = f"{name.removesuffix('.jsonl').rpartition('_')[2]}:{line}"
                by_source.setdefault(row["task_name"], []).append(
                    PublicQuestion(reference, row["query"], question)
                )
    turns = zip_longest(*by_source.values())
    return [question for turn in turns for question in turn if question is not None]


def read_lettered(folder: Path) -> list[tuple[str, Question]]:
    """(source, question): the same questions of choice, with letters and without being told how."""
    found = []
    for name in FILES:
        for row in _rows(folder / name):
            if row["task_name"] in CHOICES and len(row["query"]) <= LONGEST:
                question = _by_letter(row)
                if question is not None:
                    found.append((row["task_name"], question))
    return found


def _by_letter(row: Mapping[str, Any]) -> Question | None:
    choices = ast.literal_eval(row["choices"])
    texts = [str(text).strip() for text in _texts(choices)]
    labels = [str(label) for label in _labels(choices, len(texts))]
    if row["ground_truth"] not in labels or len(texts) > len(LETTERS):
        return None
    place = labels.index(row["ground_truth"])
    lines = (f"{letter}. {text}" for letter, text in zip(LETTERS, texts, strict=False))
    return Question(
        kind=f"{row['task_name']}_letters",
        prompt="\n".join((row["query"].strip(), *lines, "Answer:")),
        accepted=(LETTERS[place], texts[place]),
        rivals=tuple(text for text in texts if text != texts[place]),
        rule="letter",
    )


def read_word_problems(path: Path) -> Iterator[Question]:
    """Those of a file that has the form of GSM8K's: the answer ends with the number."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            result = row["answer"].rpartition("####")[2].strip().replace(",", "")
            yield Question(
                kind="grade_school", prompt=row["question"], accepted=(result,), rule="result"
            )


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _question(row: Mapping[str, Any]) -> Question | None:
    if len(row["query"]) > LONGEST:
        return None
    if row["task_name"] in CHOICES:
        return _choice(row)
    if row["task_name"] in OPEN:
        words = [word for word in normalise(row["ground_truth"]).split() if word not in _FILLERS]
        prompt = row["query"].strip().rstrip("?") + "?"
        accepted = tuple(dict.fromkeys(words))
        return (
            Question(kind=row["task_name"], prompt=prompt, accepted=accepted, rule="every")
            if accepted
            else None
        )
    return None


def _choice(row: Mapping[str, Any]) -> Question | None:
    """The choices are named and not lettered: a letter says little, and small models guess it."""
    choices = ast.literal_eval(row["choices"])
    texts = [str(text).strip().rstrip(".") for text in _texts(choices)]
    labels = [str(label) for label in _labels(choices, len(texts))]
    if row["ground_truth"] not in labels or any(not normalise(text) for text in texts):
        return None
    gold = texts[labels.index(row["ground_truth"])]
    listed = "; ".join(texts)
    return Question(
        kind=row["task_name"],
        prompt=f"{row['query'].strip()}\nChoose one: {listed}.",
        accepted=(gold,),
        rivals=tuple(text for text in texts if text != gold),
    )


def _texts(choices: Any) -> list[Any]:
    return list(choices["text"] if isinstance(choices, Mapping) else choices)


def _labels(choices: Any, count: int) -> list[Any]:
    return list(choices["label"] if isinstance(choices, Mapping) else "ABCDEFGHIJ"[:count])
