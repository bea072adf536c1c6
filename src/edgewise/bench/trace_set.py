"""The published traces: what our models said, how sure each token was, and whether it was right.

A file is JSON lines, packed with gzip. Its first line says which model answered, and how. Questions
are named and not copied: ours by the digest of the prompt that `make_questions` makes, public ones
by file and line. `benchmarks/traces/README.md` describes the files that are published.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from edgewise.bench.traces import readings_of
from edgewise.decide.meter import Reading
from edgewise.types.tokens import Token

FORMAT = 1
DIGITS = 3  # more would only make the files longer
OWN, PUBLIC = "own", "public"


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
