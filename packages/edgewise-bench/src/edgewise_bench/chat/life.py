"""Answers to questions as people ask them, with room for 256 tokens: long ones end by themselves.

While a run goes on, an answer is kept with its evidence, token by token, and with the hidden states
that the heads read. `judge` makes the small file that is published: what the shipped confidence
says of each, which has seen none of these families, and the evidence it goes by. The texts of
answers to public questions stay out of it.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from edgewise.calibrate.rows import Question
from edgewise.calibrate.traces import key_of, pack_token, readings_of, request_of
from edgewise.decide.calibration import Calibration
from edgewise.local.backend import ChatBackend
from edgewise.types.replies import Finish, Token
from edgewise_bench.questions.kinds.builtin import LIFE, SYSTEMS
from edgewise_bench.questions.kinds.programs import Task, completions, is_done
from edgewise_bench.questions.public import read_lettered, read_word_problems

MAX_TOKENS = 256  # as the product allows
# These are asked as somebody types them; a prompt for short answers would forbid the answer.
_AT_LENGTH = ("form", "json", "brief", "exact", "pick", "result", "letter")
Numbers = Any


@dataclass(frozen=True, slots=True)
class Asked:
    """A question of a family. `source` is empty if it is ours: then its text may be published."""

    family: str
    question: Question
    source: str = ""

    @property
    def reference(self) -> str:
        return hashlib.sha256(key_of(self.question).encode()).hexdigest()[:12]


def questions_of_life(seed: int = 0) -> dict[str, list[Asked]]:
    """By family, in an order in which kinds take turns."""
    found = {}
    for family, asks in LIFE.items():
        kinds: dict[str, dict[str, Question]] = {}
        for number, ask in enumerate(asks):
            for question in ask(Random(f"{seed}/{family}/{number}")):
                kinds.setdefault(question.kind, {}).setdefault(key_of(question), question)
        found[family] = [
            Asked(family, with_system(question)) for question in _by_turns(kinds.values(), seed)
        ]
    return found


# The families of public questions by letter; `families.PUBLIC` has those that name their choices.
_BY_LETTER = {
    "commonsense_qa": "public common sense by letter",
    "openbook_qa": "public science by letter",
    "arc_challenge": "public science by letter",
    "mmlu": "public exams by letter",
}


def public_questions(
    data: Path | None = None, problems: Path | None = None, programs: Path | None = None
) -> dict[str, list[Asked]]:
    """Of LLMRouter's folder, GSM8K's file and HumanEval's, as far as they are here. Their texts are
    never published."""
    found: dict[str, list[Asked]] = {}
    for name, question in read_lettered(data) if data else ():
        found.setdefault(_BY_LETTER[name], []).append(Asked(_BY_LETTER[name], question, name))
    if problems:
        name = "public word problems"
        found[name] = [Asked(name, each, "gsm8k") for each in read_word_problems(problems)]
    if programs:
        name = "public programs"
        found[name] = [Asked(name, each, "humaneval") for each in completions(programs)]
    for name, asked in found.items():
        Random(name).shuffle(asked)
    return found


def with_system(question: Question) -> Question:
    """One of the system prompts that applications use, and none that forbids what is asked."""
    if question.system:
        return question
    return replace(question, system=Random(key_of(question)).choice(_fitting(question)))


def again(asked: Asked, most: int = 4) -> list[Asked]:
    """The same question under other system prompts; one that hangs on its own is asked once."""
    question = asked.question
    if question.system not in SYSTEMS:
        return []
    others = [each for each in _fitting(question) if each != question.system]
    Random(asked.reference).shuffle(others)
    found = [replace(asked, question=replace(question, system=each)) for each in others[:most]]
    return list({each.reference: each for each in found}.values())


def _fitting(question: Question) -> list[str]:
    strict = question.rule in _AT_LENGTH or isinstance(question, Task)
    return [each for each in SYSTEMS if not strict or each in ("", "You are a helpful assistant.")]


def everything(
    data: Path | None = None, problems: Path | None = None, programs: Path | None = None
) -> list[Asked]:
    """Ours, public ones, then ours under other system prompts; of each, the families take turns.
    A public question that stands in two sets is asked once."""
    ours = in_turns(questions_of_life().values())
    public = in_turns(public_questions(data, problems, programs).values())
    found = [*in_turns((ours, public)), *(other for each in ours for other in again(each))]
    once: dict[str, Asked] = {}
    for each in found:
        once.setdefault(each.reference, each)
    return list(once.values())


def in_turns(families: Iterable[Sequence[Asked]]) -> list[Asked]:
    """Every prefix is balanced: each family in turn."""
    return [each for turn in zip_longest(*families) for each in turn if each is not None]


def _by_turns(kinds: Iterable[dict[str, Question]], seed: int) -> Iterator[Question]:
    shuffled = []
    for questions in kinds:
        order = list(questions.values())
        Random(seed).shuffle(order)
        shuffled.append(order)
    for turn in zip_longest(*shuffled):
        yield from (question for question in turn if question is not None)


# -- asking ----------------------------------------------------------------------------------------


def ask(
    backend: ChatBackend,
    asked: Sequence[Asked],
    path: Path,
    layers: tuple[int, int],
    step: Callable[[], None] = lambda: None,
) -> None:
    """One answer a line, at once; what is there is not asked again. One at a time: four together
    take as long, because a processor is bound by computing.

    layers  whose inputs the heads read: of the answer, of the prompt
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    known = {row["ref"] for row in read_lines(path)}
    with path.open("a", encoding="utf-8") as file:
        for each in asked:
            if each.reference not in known:
                row = {"ref": each.reference, **_answer(backend, each.question, layers)}
                file.write("\n" + json.dumps(row, ensure_ascii=False))
                file.flush()
            step()


def _answer(backend: ChatBackend, question: Question, layers: tuple[int, int]) -> dict[str, Any]:
    layer, prompt_layer = layers
    request = request_of(question, MAX_TOKENS)
    states, tokens, end = list[Numbers](), list[Token](), Finish("length")
    for item in backend.generate(request, layer=layer, prompt_layer=prompt_layer):
        states.append(item.state)
        if isinstance(item, Token):
            tokens.append(item)
        else:
            end = item
    behind = [each for each in states[1:] if each is not None]
    return {
        "ended": end.reason == "stop",
        "input_tokens": end.input_tokens,
        "tokens": [pack_token(token) for token in tokens],
        "before": _packed(states[0]) if states else "",
        "mean": _packed(np.mean(behind, axis=0)) if behind else "",
    }


def _packed(state: Numbers) -> str:
    if state is None:
        return ""
    return base64.b64encode(np.asarray(state, "<f2").tobytes()).decode()


def unpacked(text: str) -> Numbers:
    return np.frombuffer(base64.b64decode(text), "<f2").astype(np.float32)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Packed or not; a line that was cut by an interruption is left out."""
    if not path.exists():
        return []
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    found = []
    for line in text.split("\n"):
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


# -- what is published -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lived:
    """An answer, and what the shipped confidence says of it.

    tokens    how many it has; `ended` is false if it was cut at MAX_TOKENS
    chance    of being right, with hidden states, by the score before it was fitted anew
    words     the same by the words alone
    before    before the first token
    features  what both go by
    text      of an answer to a question of ours; else empty
    """

    ref: str
    family: str
    kind: str
    right: bool
    ended: bool
    tokens: int
    input_tokens: int
    chance: float
    words: float
    before: float
    features: dict[str, float]
    text: str = ""


def as_first_fitted(document: Mapping[str, Any]) -> dict[str, Any]:
    """A calibration whose final score is that from before it was fitted to answers of `life`
    (`families.refit`): they are judged by what has not seen them."""
    both = document["with_state"]
    return {**document, "with_state": {**both, "final": both.get("plain_final", both["final"])}}


def judge(
    rows: Iterable[dict[str, Any]], asked: Iterable[Asked], calibration: Calibration
) -> list[Lived]:
    """In the order of the questions; an answer without evidence is left out."""
    known = {row["ref"]: row for row in rows}
    return [
        found
        for each in asked
        if (row := known.get(each.reference)) and (found := _judged(row, each, calibration))
    ]


def _judged(row: dict[str, Any], asked: Asked, calibration: Calibration) -> Lived | None:
    tokens, both = [Token(*packed) for packed in row["tokens"]], calibration.seen(states=True)
    readings = readings_of(tokens)
    if not readings or not row["mean"]:
        return None
    reading = replace(
        readings[-1],
        state=both.heads["state"].of(unpacked(row["mean"])),
        before=both.heads["before"].of(unpacked(row["before"])),
    )
    text = "".join(token.text for token in tokens)
    return Lived(
        ref=row["ref"],
        family=asked.family,
        kind=asked.question.kind,
        right=is_done(asked.question, text),
        ended=row["ended"],
        tokens=len(tokens),
        input_tokens=row["input_tokens"] or 0,
        chance=both.final.of(reading),
        words=calibration.final.of(reading),
        before=both.chance("before", reading.features()),
        features=reading.features(),
        text="" if asked.source else text,
    )


def path_of(folder: Path, name: str) -> Path:
    """`name` is that of the calibration: model and quantisation."""
    return folder / f"{name}.life.jsonl.gz"


def write_lived(rows: Iterable[Lived], path: Path) -> None:
    lines = "".join(json.dumps(_short(asdict(row)), ensure_ascii=False) + "\n" for row in rows)
    path.write_bytes(gzip.compress(lines.encode(), 9, mtime=0))


def read_lived(path: Path) -> list[Lived]:
    """Nothing if the model has no such answers."""
    return [Lived(**row) for row in read_lines(path)]


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _short(each) for name, each in value.items()}
    return round(value, 4) if isinstance(value, float) else value
