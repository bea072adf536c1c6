"""Reads a typed question off a chat model: the chance of each option, without a written word.

The state comes first, so that what was computed of it serves every question about it. Options are
labels of one token each: letters, or Yes and No. They stand in one canonical order, which is read
forwards and backwards: the order that the caller gave changes nothing, and a model's liking for the
first letter evens out. More options than letters are read in groups, then the best of each group.
"""

from __future__ import annotations

import math
import string
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from edgewise.errors import GenerationFailed
from edgewise.local.backend import ChatBackend, DeviceFacts, guarded
from edgewise.types.answers import LabelReading
from edgewise.types.messages import Described, Message, Question, Request, Score, YesNo, text_of
from edgewise.types.replies import Finish, Token

LETTERS = tuple(string.ascii_uppercase)
YES_NO = {"true": "Yes", "false": "No"}
SYSTEM = "You read a text and answer a question about it. You answer with one word or letter only."


class LabelReader:
    """Fulfils `backend.QuestionReader` with a chat model whose facts say `labels`."""

    def __init__(self, backend: ChatBackend) -> None:
        self._backend = backend

    def facts(self) -> DeviceFacts:
        return self._backend.facts()

    def close(self) -> None:
        self._backend.close()

    def read_question(self, request: Request) -> LabelReading:
        return read_question(self._backend, request)


def read_question(backend: ChatBackend, request: Request) -> LabelReading:
    """The chances of the options of the request's one question, about its state."""
    (question,) = request.questions.values()
    if len(question.options) == 1:
        sure = {question.options[0]: 1.0}
        return LabelReading(chances=sure, one_way=(sure, sure), mass=1.0)
    told = dict(zip(question.options, question.described, strict=True))
    order = list(question.options)
    if not isinstance(question, YesNo | Score):  # those have an order of their own
        order.sort()
    reads: list[_Read] = []
    one_way = [
        _chances(backend, request, question, told, way, reads) for way in (order, order[::-1])
    ]
    return LabelReading(
        chances={name: (one_way[0][name] + one_way[1][name]) / 2 for name in question.options},
        one_way=tuple(one_way),
        mass=min(each.mass for each in reads),
        input_tokens=sum(each.finish.input_tokens for each in reads),
        cached_tokens=sum(each.finish.cached_tokens for each in reads),
        output_tokens=len(reads),
    )


@dataclass(frozen=True, slots=True)
class _Read:
    mass: float
    finish: Finish


def _chances(
    backend: ChatBackend,
    request: Request,
    question: Question,
    told: Mapping[str, Described],
    order: Sequence[str],
    reads: list[_Read],
) -> dict[str, float]:
    """One way through the options: at once, or group by group and then the best of each."""
    if len(order) <= len(LETTERS):
        return _ask(backend, request, question, told, order, reads)
    groups = [_ask(backend, request, question, told, each, reads) for each in _groups(order)]
    best = [max(group, key=lambda name: group[name]) for group in groups]
    of_best = _ask(backend, request, question, told, best, reads)
    return {
        name: of_best[first] * chance
        for first, group in zip(best, groups, strict=True)
        for name, chance in group.items()
    }


def _groups(order: Sequence[str]) -> Iterator[Sequence[str]]:
    """Groups of nearly one size, none larger than the letters reach."""
    count = math.ceil(len(order) / len(LETTERS))
    for number in range(count):
        yield order[len(order) * number // count : len(order) * (number + 1) // count]


def _ask(
    backend: ChatBackend,
    request: Request,
    question: Question,
    told: Mapping[str, Described],
    order: Sequence[str],
    reads: list[_Read],
) -> dict[str, float]:
    labels = (
        tuple(YES_NO[name] for name in order)
        if isinstance(question, YesNo)
        else LETTERS[: len(order)]
    )
    asked = replace(
        request,
        messages=(
            Message("system", SYSTEM),
            Message("user", write(request.state, question, told, order, labels)),
        ),
        labels=labels,
        temperature=0.0,
    )
    token, finish = None, Finish()
    with guarded(backend.facts().model), closing(backend.generate(asked)) as items:
        for item in items:
            if isinstance(item, Finish):
                finish = item
            elif token is None:
                token = item
    chances = _softmaxed(token, labels)
    reads.append(_Read(chances.pop(""), finish))
    return dict(zip(order, chances.values(), strict=True))


def write(
    state: str,
    question: Question,
    told: Mapping[str, Described],
    order: Sequence[str],
    labels: Sequence[str],
) -> str:
    """The turn that asks: the state, the question, the options behind their labels."""
    lines = ["Text:", state, "", f"Question: {text_of(question.ask) or _usual(question)}"]
    for name, label in zip(order, labels, strict=True):
        meaning = text_of(told[name])
        if isinstance(question, YesNo):
            lines += [f"{label}: {meaning}"] * bool(meaning)
        elif isinstance(question, Score):
            lines.append(f"{label}) {meaning or name}")
        else:
            lines.append(f"{label}) {name}: {meaning}" if meaning else f"{label}) {name}")
    if isinstance(question, YesNo):
        lines.append(f"Answer {labels[0]} or {labels[1]}.")
    else:
        lines.append("Answer with the letter.")
    return "\n".join(lines)


def _usual(question: Question) -> str:
    if isinstance(question, YesNo):
        return "Which of the two is true of the text?"
    if isinstance(question, Score):
        return "Which level fits the text best?"
    return "Which option fits the text best?"


def _softmaxed(token: Token | None, labels: Sequence[str]) -> dict[str, float]:
    """The labels' shares of their own mass; that mass under the empty name."""
    found = dict(token.alternatives) if token is not None else {}
    if token is None or any(label not in found for label in labels):
        raise GenerationFailed("the model gave no chances for the labels")
    powers = {label: math.exp(found[label]) for label in labels}
    total = math.fsum(powers.values())
    if not total > 0:
        raise GenerationFailed("the model gave the labels no chance at all")
    return {label: power / total for label, power in powers.items()} | {"": min(total, 1.0)}
