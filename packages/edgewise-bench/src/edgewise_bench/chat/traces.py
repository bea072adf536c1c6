"""Traces to publish: what our models said, how sure each token was, and whether it was right.

A file is JSON lines, packed with gzip. Its first line says which model answered, and how. Questions
are named and not copied: ours by the digest of the prompt that `make_questions` makes, public ones
by file and line. `results/traces/README.md` describes the files that are published.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path
from threading import Lock
from typing import Any

from edgewise.calibrate.rows import Question, is_right
from edgewise.calibrate.traces import MAX_TOKENS, readings_of
from edgewise.decide.calibration import Reading
from edgewise.local.backend import ChatBackend
from edgewise.local.store import InstalledModel
from edgewise.types.messages import Message, Request
from edgewise.types.replies import Finish, Token
from edgewise_bench.questions.make import make_questions
from edgewise_bench.questions.public import read_public_questions

FORMAT = 1
DIGITS = 3  # more would only make the files longer
OWN, PUBLIC = "own", "public"
# That of the default model. A larger one that stands in for the cloud is asked in the same words.
SYSTEM = "You are a helpful assistant. Answer with one short, correct sentence."


@dataclass(frozen=True, slots=True)
class Origin:
    """Which model answered, and how; the same for all rows of a file."""

    model: str
    quantisation: str
    sha256: str
    runtime: Mapping[str, str]
    system: str
    max_tokens: int
    temperature: float = 0.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Recorded:
    """One answer: to which question, token by token, and whether it is right."""

    reference: str
    kind: str
    right: bool
    ended: bool
    tokens: tuple[Token, ...]
    input_tokens: int | None = None  # None: nobody counted
    seconds: float | None = None

    @property
    def own(self) -> bool:
        """Whether the question is one of ours."""
        return self.reference.startswith(OWN)

    @property
    def text(self) -> str:
        return "".join(token.text for token in self.tokens)

    def readings(self) -> list[Reading]:
        """What the meter read after each token, as the gate would have seen it."""
        return readings_of(self.tokens)


@dataclass(frozen=True, slots=True)
class TraceSet:
    """All answers of one model."""

    origin: Origin
    rows: tuple[Recorded, ...] = field(repr=False)

    def by_reference(self) -> dict[str, Recorded]:
        return {row.reference: row for row in self.rows}


def own_reference(prompt: str) -> str:
    return f"{OWN}:{hashlib.sha256(prompt.encode()).hexdigest()[:12]}"


def public_reference(line: str) -> str:
    """`line` is the file and the line, as in `train:812`."""
    return f"{PUBLIC}:{line}"


def traces_of(folder: Path, model: str) -> Path:
    """The published answers of a model, word by word."""
    return folder / f"{model}.jsonl.gz"


def read_trace_set(path: Path) -> TraceSet:
    """A whole file, packed or not. A row that was cut when a run was interrupted is left out."""
    lines = _lines(path)
    head = next(lines, {})
    if head.get("format") != FORMAT:
        raise ValueError(f"{path}: trace format {head.get('format')!r} is not {FORMAT}")
    origin = Origin(**{name: value for name, value in head.items() if name != "format"})
    return TraceSet(origin, tuple(map(_parse, lines)))


def write_trace_set(traces: TraceSet, path: Path) -> None:
    """The same rows give the same bytes: no name and no time is packed with them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [pack_origin(traces.origin), *map(pack_row, traces.rows)]
    text = "".join(line + "\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def pack_origin(origin: Origin) -> str:
    return _line({"format": FORMAT, **asdict(origin)})


def pack_row(row: Recorded) -> str:
    told: dict[str, Any] = {
        "ref": row.reference,
        "kind": row.kind,
        "right": row.right,
        "ended": row.ended,
        "tokens": _packed(row.tokens),
    }
    if row.input_tokens is not None:
        told["input_tokens"] = row.input_tokens
    if row.seconds is not None:
        told["seconds"] = round(row.seconds, DIGITS)
    return _line(told)


def _packed(tokens: Sequence[Token]) -> list[list[Any]]:
    """[text, log-probability, margin, entropy]; the text alone where there is no evidence."""
    return [
        [token.text, *(round(n, DIGITS) for n in (token.logprob, token.margin, token.entropy))]
        if token.has_evidence
        else [token.text]
        for token in tokens
    ]


def _parse(row: Mapping[str, Any]) -> Recorded:
    return Recorded(
        reference=row["ref"],
        kind=row["kind"],
        right=row["right"],
        ended=row["ended"],
        tokens=tuple(_token(*packed) for packed in row["tokens"]),
        input_tokens=row.get("input_tokens"),
        seconds=row.get("seconds"),
    )


def _token(text: str, *evidence: float) -> Token:
    if not evidence:
        return Token(text, has_evidence=False)
    logprob, margin, entropy = evidence
    return Token(text, logprob, margin, entropy)


def _line(entry: Mapping[str, Any]) -> str:
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":"))


def _lines(path: Path) -> Iterator[Mapping[str, Any]]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    return _entries(text.split("\n"))


def _entries(lines: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:  # empty, or cut
            continue


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
