"""Typed answers of a model: asked, judged, and what their confidence is worth.

Families of questions are left out one at a time: a confidence that was fitted on sums and towns is
asked about dates. One answer is one line, so an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.calibrate.fit import fit_logistic
from edgewise.calibrate.metrics import auroc, expected_calibration_error
from edgewise.decide.calibration import Score
from edgewise.decide.gate import TypedReading, read_typed
from edgewise.flows.chat import as_told
from edgewise.local.backend import ChatBackend
from edgewise.types.messages import Message, Request, ResponseFormat
from edgewise.types.replies import Finish, Token
from edgewise_bench.questions.typed import TypedQuestion, make_typed_questions
from edgewise_bench.risk import ece_floor

MAX_TOKENS = 128
BINS = 10
FEATURES = ("min_logprob", "mean_logprob", "min_margin")
DIGITS = 4


@dataclass(frozen=True, slots=True)
class TypedAnswer:
    question: TypedQuestion
    tokens: tuple[Token, ...]
    ended: bool

    @property
    def text(self) -> str:
        return "".join(token.text for token in self.tokens)

    @property
    def right(self) -> bool:
        try:
            told = json.loads(self.text)
        except ValueError:  # cut
            return False
        return not self.question.wrong_fields(told)

    def reading(self) -> TypedReading:
        return read_typed(self.tokens, self.question.schema, self.question.prompt)


def path_of(folder: Path, name: str) -> Path:
    """The typed answers of the model that a calibration is named after."""
    return folder / f"{name}.typed.jsonl.gz"


def ask_typed(
    backend: ChatBackend,
    path: Path,
    limit: int | None = None,
    progress: Callable[[], None] = lambda: None,
) -> list[TypedAnswer]:
    """Asked as users ask: the flow's own words, the grammar of the schema, greedily."""
    path.parent.mkdir(parents=True, exist_ok=True)
    known = {each.question.prompt for each in read_typed_answers(path)} if path.exists() else set()
    with path.open("a", encoding="utf-8") as file:
        for question in make_typed_questions(0, limit):
            if question.prompt not in known:
                file.write("\n" + _line(_ask(backend, question)))
                file.flush()
            progress()
    return read_typed_answers(path)


def _ask(backend: ChatBackend, question: TypedQuestion) -> TypedAnswer:
    asked = Request(
        messages=(Message("user", question.prompt),),
        max_tokens=MAX_TOKENS,
        response_format=ResponseFormat(question.schema),
    )
    items = list(backend.generate(as_told(asked)))
    ended = any(isinstance(item, Finish) and item.reason == "stop" for item in items)
    return TypedAnswer(question, tuple(i for i in items if isinstance(i, Token)), ended)


def _line(each: TypedAnswer) -> str:
    tokens = [
        [token.text, *(round(n, DIGITS) for n in (token.logprob, token.margin, token.entropy))]
        for token in each.tokens
    ]
    told = {"prompt": each.question.prompt, "ended": each.ended, "tokens": tokens}
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"))


def read_typed_answers(path: Path) -> list[TypedAnswer]:
    """A line that was cut, and a question that is no longer asked, are left out."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    asked = {each.prompt: each for each in make_typed_questions(0)}
    found = []
    for line in text.split("\n"):
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if question := asked.get(row["prompt"]):
            tokens = tuple(Token(*token) for token in row["tokens"])
            found.append(TypedAnswer(question, tokens, row["ended"]))
    return found


def write_typed_answers(answers: Sequence[TypedAnswer], path: Path) -> None:
    """The same answers give the same bytes."""
    text = "".join(_line(each) + "\n" for each in answers)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def typed_figures(answers: Sequence[TypedAnswer]) -> dict[str, float]:
    """Every answer is judged by a score that saw nothing of its family."""
    chances, right = held_out(answers), [each.right for each in answers]
    kept = [good for good, chance in zip(right, chances, strict=True) if chance >= 0.5]
    found = {
        "typed_rows": len(answers),
        "typed_families": len({each.question.family for each in answers}),
        "typed_accuracy": sum(right) / len(right),
        "typed_auroc": auroc(chances, right),
        "typed_ece": expected_calibration_error(chances, right, BINS),
        "typed_ece_by_chance": ece_floor(chances, bins=BINS),
        "typed_kept_share": len(kept) / len(right),
        "typed_kept_accuracy": sum(kept) / max(1, len(kept)),
    }
    for family in sorted({each.question.family for each in answers}):
        there = [each.question.family == family for each in answers]
        good = [one for one, here in zip(right, there, strict=True) if here]
        told = [one for one, here in zip(chances, there, strict=True) if here]
        name = family.replace(" ", "_")
        found[f"typed_accuracy_{name}"] = sum(good) / len(good)
        found[f"typed_confidence_{name}"] = sum(told) / len(told)
    return found


def held_out(answers: Sequence[TypedAnswer]) -> list[float]:
    families = [each.question.family for each in answers]
    chances = [0.0] * len(answers)
    for family in sorted(set(families)):
        others = [each for each in answers if each.question.family != family]
        score = fit_typed(others)
        for place, each in enumerate(answers):
            if families[place] == family:
                chances[place] = score.of(each.reading())
    return chances


def fit_typed(answers: Sequence[TypedAnswer]) -> Score:
    """The chance that all fields are right, from the tokens of the values."""
    rows = [[each.reading().get(name) for name in FEATURES] for each in answers]
    right = np.array([each.right for each in answers], float)
    fitted = fit_logistic(np.array(rows), right)
    weights = [float(f"{weight:.4g}") for weight in fitted.weights]
    return Score(dict(zip(FEATURES, weights, strict=True)), float(f"{fitted.bias:.4g}"))


def typed_key(answers: Sequence[TypedAnswer], command: str) -> Mapping[str, Any]:
    """The key `typed` of a calibration file."""
    score, told = fit_typed(answers), typed_figures(answers)
    names = ("typed_rows", "typed_families", "typed_auroc", "typed_ece")
    return {
        "weights": dict(score.weights),
        "bias": score.bias,
        "command": command,
        **{name.removeprefix("typed_"): round(told[name], 4) for name in names},
    }
