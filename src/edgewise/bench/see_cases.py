"""A question about a picture with a known answer, and whether an answer is right."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgewise.vision.question import plural

if TYPE_CHECKING:
    from PIL.Image import Image as Pixels

MOST_ERRORS = 0.02  # of the characters of a text that still counts as read right


@dataclass(frozen=True, slots=True)
class SeeCase:
    """`draw` makes the picture. `truth`: the text, value, word or classes that are right.

    unclear   classes that a picture may or may not be said to hold: naming them is no mistake
    """

    name: str
    question: str
    asked: str  # as in vision.question.Wanted, or "beyond"
    truth: tuple[str, ...]
    draw: Callable[[], Pixels] = field(repr=False)
    unclear: tuple[str, ...] = ()

    @property
    def skill(self) -> str:
        if self.asked == "beyond":
            return ""
        text = ("all_text", "field", "document", "mention")
        return "reads text" if self.asked in text else "names objects"


def is_right(case: SeeCase, answer: str) -> bool:
    said = answer.strip()
    match case.asked:
        case "all_text":
            return error_rate(case.truth[0], said) <= MOST_ERRORS
        case "field":
            return _squeezed(said) == _squeezed(case.truth[0])
        case "document" | "mention" | "present":
            return said.lower().startswith(case.truth[0])
        case "count":
            return said.split(" ")[0] == case.truth[0]
        case "choose":
            return said.rstrip(".") == case.truth[0]
        case "list":
            named = {re.sub(r"^\d+ ", "", part) for part in said.rstrip(".").split(", ")}
            known = {*case.truth, *case.unclear}
            return named <= {plural(name, n)[2:] for name in known for n in (1, 2)}
    return False


def error_rate(truth: str, said: str) -> float:
    """Characters to change, by the length of the truth; spaces and line ends do not count."""
    left, right = _squeezed(truth), _squeezed(said)
    row = list(range(len(right) + 1))
    for number, one in enumerate(left, 1):
        before, row[0] = row[0], number
        for place, other in enumerate(right, 1):
            before, row[place] = (
                row[place],
                min(row[place] + 1, row[place - 1] + 1, before + (one != other)),
            )
    return row[-1] / max(1, len(left))


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)
