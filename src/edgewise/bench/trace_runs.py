"""`edgewise bench traces`: lets a model answer our questions and public ones, and keeps all of it.

A run that was interrupted is taken up where it stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path
from threading import Lock

from edgewise.bench.answers import Question, is_right
from edgewise.bench.public_questions import read_public_questions
from edgewise.bench.questions import make_questions
from edgewise.bench.trace_set import (
    Origin,
    Recorded,
    TraceSet,
    own_reference,
    pack_origin,
    pack_row,
    public_reference,
    read_trace_set,
)
from edgewise.bench.traces import MAX_TOKENS
from edgewise.local.backend import ChatBackend
from edgewise.local.store.store import InstalledModel
from edgewise.types.messages import Message, Request
from edgewise.types.tokens import Finish, Token

# That of the default model. A larger one that stands in for the cloud is asked in the same words.
SYSTEM = "You are a helpful assistant. Answer with one short, correct sentence."


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and the name by which it is published."""

    reference: str
    question: Question


def make_origin(
    model: InstalledModel, temperature: float = 0.0, seed: int = 0, system: str = SYSTEM
) -> Origin:
    return Origin(
        model=model.name,
        quantisation=model.quantisation,
        sha256=model.sha256,
        runtime={"xllamacpp": version("xllamacpp")},
        system=system,
        max_tokens=MAX_TOKENS,
        temperature=temperature,
        seed=seed,
    )


def questions_to_ask(data: Path | None, seed: int = 0) -> list[Asked]:
    """Ours, and with a folder LLMRouter's as well, by turns: a part of them is a fair part."""
    own = [Asked(own_reference(each.prompt), each) for each in make_questions(seed)]
    public = [
        Asked(public_reference(each.reference), each.question)
        for each in (read_public_questions(data) if data else ())
    ]
    turns = zip_longest(own, public)
    return [asked for turn in turns for asked in turn if asked is not None]


def run_traces(
    backend: ChatBackend,
    asked: Sequence[Asked],
    origin: Origin,
    path: Path,
    *,
    slots: int = 1,
    progress: Callable[[], None] = lambda: None,
) -> TraceSet:
    """An answer to each question, written to `path` as it comes, or read from there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    known = _known(path, origin)
    lock = Lock()

    with path.open("a", encoding="utf-8") as file:

        def ask(each: Asked) -> None:
            row = _answer(backend, each, origin)
            with lock:
                file.write("\n" + pack_row(row))  # the newline first: a line may have been cut
                file.flush()

        if not file.tell():
            file.write(pack_origin(origin))
        todo = [each for each in asked if each.reference not in known]
        for _ in range(len(asked) - len(todo)):
            progress()
        with ThreadPoolExecutor(slots) as pool:
            for _ in pool.map(ask, todo):
                progress()
    kept = _known(path, origin)  # as a later run will read them: evidence is rounded
    return TraceSet(origin, tuple(kept[each.reference] for each in asked))


def _known(path: Path, origin: Origin) -> dict[str, Recorded]:
    if not path.exists() or not path.stat().st_size:
        return {}
    traces = read_trace_set(path)
    if traces.origin != origin:
        raise ValueError(f"{path} holds answers of another model, or to another way of asking")
    return traces.by_reference()


def _answer(backend: ChatBackend, asked: Asked, origin: Origin) -> Recorded:
    system = (Message("system", origin.system),) if origin.system else ()
    request = Request(
        messages=(*system, Message("user", asked.question.prompt)),
        max_tokens=MAX_TOKENS,
        temperature=origin.temperature,
        seed=origin.seed,
    )
    started = time.perf_counter()
    items = list(backend.generate(request))
    seconds = time.perf_counter() - started
    tokens = tuple(item for item in items if isinstance(item, Token))
    finish = next((item for item in items if isinstance(item, Finish)), Finish("length"))
    return Recorded(
        reference=asked.reference,
        kind=asked.question.kind,
        right=is_right(asked.question, "".join(token.text for token in tokens)),
        ended=finish.reason == "stop",
        tokens=tokens,
        input_tokens=finish.input_tokens,
        seconds=seconds,
    )
