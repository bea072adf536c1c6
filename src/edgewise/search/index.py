"""The file of an index (SQLite, one space), and the exact scan over its vectors."""

from __future__ import annotations

import contextlib
import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.errors import IndexUnavailable, SpaceMismatch
from edgewise.types.embeddings import Embeddings, Passage

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

_ROWS_AT_ONCE = 1024  # as floats they stay in the processor's cache
_FORMAT = "1"
_BUSY_S = 30.0  # how long to wait for another process that writes
_SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS files (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    modified_ns INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    note TEXT NOT NULL DEFAULT ''
);
CREATE TABLE IF NOT EXISTS passages (
    id INTEGER PRIMARY KEY,
    file INTEGER NOT NULL REFERENCES files (id) ON DELETE CASCADE,
    first_line INTEGER NOT NULL,
    last_line INTEGER NOT NULL,
    text TEXT NOT NULL,
    vector BLOB NOT NULL,
    scale REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS passages_of_file ON passages (file);
"""


@dataclass(frozen=True, slots=True)
class Known:
    """A file as it was when it was read; `note` says why the index has nothing of it."""

    path: str
    modified_ns: int
    bytes: int
    sha256: str
    note: str = ""


class IndexStore:
    """One connection; use it on the thread that made it.

    Vectors are 8-bit, each with a scale. The first ones decide the space; vectors of another space
    are refused from then on.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._errors():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)  # it holds the content of the files: nobody else may read it
            self._connection = sqlite3.connect(path, isolation_level=None, timeout=_BUSY_S)
        try:
            self._prepare()
        except IndexUnavailable:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        with self._errors():
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute("PRAGMA foreign_keys = ON")
            self._connection.executescript(_SCHEMA)
        if self._fact("format", _FORMAT) != _FORMAT:
            raise IndexUnavailable(f"{self.path} was made by another release; remove it")

    @property
    def space(self) -> str:
        """Empty while the index is empty."""
        return self._fact("space", "")

    @property
    def generation(self) -> int:
        """Grows with every change, by anybody."""
        return int(self._fact("generation", "0"))

    def files(self) -> dict[str, Known]:
        rows = self._run("SELECT path, modified_ns, bytes, sha256, note FROM files ORDER BY path")
        return {row[0]: Known(*row) for row in rows}

    def count(self) -> int:
        ((number,),) = self._run("SELECT count(*) FROM passages")
        return int(number)

    def put(self, file: Known, passages: Sequence[Passage], made: Embeddings | None) -> None:
        """Replace what is known of a file. If it raises SpaceMismatch, nothing is changed."""
        with self._change():
            if made is not None:
                self._pin(made.space)
            self._connection.execute("DELETE FROM files WHERE path = ?", (file.path,))
            number = self._connection.execute(
                "INSERT INTO files (path, modified_ns, bytes, sha256, note) VALUES (?, ?, ?, ?, ?)",
                (file.path, file.modified_ns, file.bytes, file.sha256, file.note),
            ).lastrowid
            if made is not None:
                self._connection.executemany(
                    "INSERT INTO passages (file, first_line, last_line, text, vector, scale) "
                    "VALUES (?, ?, ?, ?, ?, ?)",
                    (
                        (number, one.first_line, one.last_line, one.text, vector.tobytes(), scale)
                        for one, vector, scale in zip(
                            passages, made.vectors, made.scales, strict=True
                        )
                    ),
                )

    def touch(self, file: Known) -> None:
        """The same bytes at another time."""
        self._run(
            "UPDATE files SET modified_ns = ?, bytes = ? WHERE path = ?",
            (file.modified_ns, file.bytes, file.path),
        )

    def remove(self, paths: Iterable[str]) -> None:
        with self._change():
            self._connection.executemany(
                "DELETE FROM files WHERE path = ?", ((path,) for path in paths)
            )

    def clear(self) -> None:
        """Forget everything, including the space."""
        with self._change():
            self._connection.execute("DELETE FROM files")
            self._connection.execute("DELETE FROM facts WHERE name = 'space'")

    def vectors(self) -> tuple[array[int], bytes, array[float]]:
        """Ids of all passages, their 8-bit vectors in a row, and their scales."""
        ids, scales, parts = array("q"), array("f"), []
        rows = self._run("SELECT id, vector, scale FROM passages ORDER BY id")
        for number, vector, scale in rows:
            ids.append(number)
            parts.append(vector)
            scales.append(scale)
        return ids, b"".join(parts), scales

    def passage(self, number: int) -> tuple[str, Passage] | None:
        """The file's path and the passage; None if it was removed meanwhile."""
        rows = self._run(
            "SELECT files.path, first_line, last_line, text FROM passages "
            "JOIN files ON files.id = passages.file WHERE passages.id = ?",
            (number,),
        )
        return (rows[0][0], Passage(*rows[0][1:])) if rows else None

    def close(self) -> None:
        self._connection.close()

    def _pin(self, space: str) -> None:
        pinned = self._fact("space", space)
        if pinned != space:
            raise SpaceMismatch(
                f"this index is in the space {pinned!r} and takes no vectors of {space!r}; "
                "rebuild it (edgewise index --rebuild), or embed in its own space"
            )

    def _fact(self, name: str, first: str) -> str:
        """The value of a name. If there is none, `first` is stored, unless it is empty."""
        rows = self._run("SELECT value FROM facts WHERE name = ?", (name,))
        if rows:
            return str(rows[0][0])
        if first:
            self._run("INSERT OR IGNORE INTO facts VALUES (?, ?)", (name, first))
        return first

    def _run(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        with self._errors():
            return self._connection.execute(statement, values).fetchall()

    @contextlib.contextmanager
    def _change(self) -> Iterator[None]:
        """All or, after an error or a crash, nothing."""
        with self._errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                grown = str(self.generation + 1)
                self._run("INSERT OR REPLACE INTO facts VALUES ('generation', ?)", (grown,))
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.rollback()
                raise

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """One error class for full disks, lasting locks and damage."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise IndexUnavailable(f"the index {self.path} cannot be used: {error}") from error


@dataclass(frozen=True, slots=True)
class Scan:
    """8-bit vectors of length 1 in memory: 40 MB for 100,000 of the default model's."""

    ids: array[int]
    rows: NDArray[numpy.int8]
    scales: NDArray[numpy.float32]

    @classmethod
    def of(cls, ids: array[int], data: bytes, scales: array[float]) -> Scan:
        import numpy  # noqa: PLC0415  # loads with the first search

        rows = numpy.frombuffer(data, numpy.int8)
        shape = (len(ids), len(rows) // max(1, len(ids)))
        return cls(ids, rows.reshape(shape), numpy.frombuffer(scales, numpy.float32))

    def nearest(self, query: array[float], most: int) -> list[tuple[int, float]]:
        """Ids and cosines of the nearest, best first."""
        import numpy  # noqa: PLC0415

        if not self.ids:
            return []
        wanted = numpy.frombuffer(query, numpy.float32)
        scores = numpy.empty(len(self.ids), numpy.float32)
        for start in range(0, len(scores), _ROWS_AT_ONCE):
            block = self.rows[start : start + _ROWS_AT_ONCE]
            scores[start : start + len(block)] = block.astype(numpy.float32) @ wanted
        scores *= self.scales
        most = min(most, len(scores))
        best = numpy.argpartition(scores, -most)[-most:]
        ordered = best[numpy.argsort(-scores[best], kind="stable")]
        return [(self.ids[index], float(scores[index])) for index in ordered.tolist()]
