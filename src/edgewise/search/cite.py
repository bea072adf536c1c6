"""A question with passages to answer it from, numbered, so that the answer can name them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from edgewise.types.passages import Hit

SAFE_CHARACTERS_PER_TOKEN = 3.0  # fewer than usual: a prompt that does not fit is worse than less
LEAST_CHARACTERS = 200  # a shorter rest of a passage says nothing

_TASK = (
    "{passages}\n\nQuestion: {question}\n"
    "Answer from the passages above in a sentence or two, and name those you used, as [1]."
)


def room_for_passages(context_tokens: int, question: str, answer_tokens: int) -> int:
    """Characters of passages that a context window holds beside the question and the answer."""
    beside = len(_TASK) + len(question)
    return int((context_tokens - answer_tokens) * SAFE_CHARACTERS_PER_TOKEN) - beside


def cited_prompt(question: str, hits: Sequence[Hit], room: int) -> tuple[str, list[Hit]]:
    """The prompt, and the hits that are in it: [1] is the first. The last one may be cut."""
    parts: list[str] = []
    used: list[Hit] = []
    for hit in hits:
        head = f"[{len(used) + 1}] {hit.place}\n"
        left = room - sum(map(len, parts)) - len(head) - 2 * len(parts)
        if left < min(LEAST_CHARACTERS, len(hit.text)):
            break
        parts.append(head + hit.text[:left])
        used.append(hit)
    if not used:
        return question, []
    return _TASK.format(passages="\n\n".join(parts), question=question), used


def sources(hits: Sequence[Hit], answer: str) -> list[dict[str, Any]]:
    """The passages of a prompt for JSON, each with its number and whether the answer names it."""
    named = cited_numbers(answer, len(hits))
    return [
        {"number": number, "cited": number in named} | hit.to_dict()
        for number, hit in enumerate(hits, start=1)
    ]


def cited_numbers(answer: str, count: int) -> set[int]:
    """Which of the passages an answer names, as [1] or [1, 3]."""
    named = re.findall(r"\[(\d{1,3}(?:\s*,\s*\d{1,3})*)\]", answer)
    numbers = {int(number) for group in named for number in group.split(",")}
    return {number for number in numbers if 1 <= number <= count}
