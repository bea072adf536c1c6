"""Search a folder by meaning and by exact words: how texts are cut, and the index of them."""

from __future__ import annotations

import contextlib
import hashlib
import math
import re
import sqlite3
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from edgewise.documents import (
    NO_PDF,
    READ,
    PictureReader,
    ending,
    find_files,
    most_bytes,
    picture_reader,
    read_document,
    reasons_of_installation,
)
from edgewise.engine import Engine
from edgewise.errors import (
    IndexUnavailable,
    InvalidRequest,
    SpaceMismatch,
    Unreadable,
)
from edgewise.requests import check_text, is_number, shown
from edgewise.settings import Settings
from edgewise.types.embeddings import Embeddings, Hit, IndexReport, Passage

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray


def index_path(settings: Settings, folder: Path) -> Path:
    """In the user's data folder: the folder itself may be read-only or shared."""
    name = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:24]
    return settings.data_dir / "indexes" / f"{name}.sqlite3"


def silent(done: int, total: int, name: str) -> None:
    """The default progress callback."""


class FolderIndex:
    """The index of one folder, pinned to one space.

        with Engine() as engine, FolderIndex(engine, "notes") as index:
            index.update()
            for hit in index.find("when does the ferry leave?"):
                print(hit.place, hit.score)

    Files are embedded under `policy`, by default on the device only: nobody expects a search to
    upload a folder. `pictures` reads the text in images; by default the device does, if the extra
    `vision` is there.
    """

    def __init__(
        self,
        engine: Engine,
        folder: str | Path,
        *,
        policy: str = "local_only",
        pictures: PictureReader | None = None,
    ) -> None:
        try:
            self.folder = Path(folder).expanduser()
            is_folder = self.folder.is_dir()
        except (OSError, RuntimeError, TypeError, ValueError) as error:
            raise InvalidRequest(f"folder: no path of a folder: {shown(folder)}") from error
        if not is_folder:
            raise InvalidRequest(f"{str(folder)!r} is not a folder")
        self._engine = engine
        self._policy = policy
        self._pictures = pictures or picture_reader(engine.settings.threads)
        self._store = IndexStore(index_path(engine.settings, self.folder))
        self._scan: tuple[int, Scan] | None = None

    @property
    def path(self) -> Path:
        """Where the index is kept."""
        return self._store.path

    @property
    def space(self) -> str:
        """The space of its vectors; empty before anything is indexed."""
        return self._store.space

    def update(self, progress: Progress = silent, *, rebuild: bool = False) -> IndexReport:
        """Index new and changed files, drop deleted ones. `rebuild` starts over.

        Each file is replaced in one step: the next update continues an interrupted one.
        """
        if rebuild:
            self._store.clear()
        known, tally = self._store.files(), _Tally()
        paths = list(_those_read(find_files(self.folder), tally))
        names = [path.relative_to(self.folder).as_posix() for path in paths]
        gone = sorted(set(known) - set(names))
        if gone:
            self._store.remove(gone)
        for done, (name, path) in enumerate(zip(names, paths, strict=True)):
            progress(done, len(paths), name)
            self._look_at(path, name, known.get(name), tally)
        progress(len(paths), len(paths), "")
        return IndexReport(
            added=tally.added,
            changed=tally.changed,
            removed=len(gone),
            unchanged=tally.unchanged,
            skipped=tuple(sorted(tally.skipped.items())),
            files=sum(not file.note for file in self._store.files().values()),
            passages=self._store.count(),
            space=self._store.space,
        )

    def find(self, query: str, most: int = 5) -> list[Hit]:
        """The passages nearest in meaning, best first; rare words of the query count besides."""
        if not check_text(query, "query").strip():
            raise InvalidRequest("there is nothing to look for")
        if not is_number(most) or most < 1:
            raise InvalidRequest(f"most: expected a whole number from 1, got {shown(most)}")
        if not self._store.space:
            return []
        made = self._engine.embed(query, space=self._store.space, policy=self._policy)
        (vector,) = made.vectors
        scan = self._scanned()
        shares = shares_of_words(query, len(scan.ids), self._store.having)
        hits = []
        for number, score in scan.nearest(array("f", vector), most, shares):
            if (found := self._store.passage(number)) is not None:
                path, passage = found
                hits.append(
                    Hit(
                        path=path,
                        first_line=passage.first_line,
                        last_line=passage.last_line,
                        text=passage.text,
                        score=round(score, 4),
                        words=round(shares.get(number, 0.0), 4),
                        page=passage.page,
                    )
                )
        return hits

    def cite(
        self, question: str, *, context_tokens: int, answer_tokens: int, most: int = 3
    ) -> tuple[str, list[Hit]]:
        """The question with as many passages as the context window holds, and those passages."""
        room = room_for_passages(context_tokens, question, answer_tokens)
        return cited_prompt(question, self.find(question, most), room)

    def close(self) -> None:
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _look_at(self, path: Path, name: str, before: KnownFile | None, tally: _Tally) -> None:
        try:
            now = _as_it_is(path, name, before)
        except OSError as error:  # removed since the folder was listed, or not ours to read
            tally.skipped[f"cannot be read: {error.strerror}"] += 1
            return
        if before is not None and before.sha256 == now.sha256 and not self._mended(before.note):
            if before.modified_ns != now.modified_ns:
                self._store.touch(now)
            if before.note:
                tally.skipped[before.note] += 1
            else:
                tally.unchanged += 1
            return
        try:
            self._put(path, now)
        except Unreadable as error:
            self._store.put(replace(now, note=str(error)), (), None)
            tally.skipped[str(error)] += 1
            return
        if before is None or before.note:
            tally.added += 1
        else:
            tally.changed += 1

    def _mended(self, note: str) -> bool:
        """Whether a file was not read for want of something that is here now."""
        anywhere = reasons_of_installation(None) | {NO_PDF}
        return note in anywhere - reasons_of_installation(self._pictures)

    def _put(self, path: Path, now: KnownFile) -> None:
        passages = cut_into_passages(read_document(path, self._pictures))
        texts = [passage.text for passage in passages]
        made: Embeddings | None = None
        for start in range(0, len(texts), MOST_AT_ONCE):
            some = texts[start : start + MOST_AT_ONCE]
            space, policy = self._store.space, self._policy
            more = self._engine.embed(some, space=space, policy=policy, int8=True)
            if made is not None:
                vectors, scales = made.vectors + more.vectors, made.scales + more.scales
                more = replace(more, vectors=vectors, scales=scales)
            made = more
        self._store.put(now, passages, made)

    def _scanned(self) -> Scan:
        generation = self._store.generation
        if self._scan is None or self._scan[0] != generation:
            self._scan = generation, Scan.of(*self._store.vectors())
        return self._scan[1]


# -- an update -------------------------------------------------------------------------------------


MOST_AT_ONCE = 256  # passages embedded at once
MOST_KINDS = 8  # of files that are not read, named in a report

# Called with the number of files done, of all files, and the path of the next one.
Progress = Callable[[int, int, str], None]


@dataclass(slots=True)
class _Tally:
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    skipped: Counter[str] = field(default_factory=Counter)


def _those_read(paths: Iterable[Path], tally: _Tally) -> Iterator[Path]:
    """Files of a kind that is read; a file without an ending may be text. Others are counted."""
    others = Counter[str]()
    for path in paths:
        kind = ending(path)
        if not kind or kind in READ:
            yield path
        else:
            others[kind] += 1
    if others:
        usual = sorted(kind for kind, _ in others.most_common(MOST_KINDS))
        more = ", …" if len(others) > MOST_KINDS else ""
        tally.skipped[f"of kinds that are not read: {', '.join(usual)}{more}"] = others.total()


def _as_it_is(path: Path, name: str, before: KnownFile | None) -> KnownFile:
    """The same size and time mean the same bytes; otherwise hash them, unless they are too many."""
    status = path.stat()
    if before and (before.modified_ns, before.bytes) == (status.st_mtime_ns, status.st_size):
        return replace(before, note="")
    sha256 = sha256_of_file(path) if status.st_size <= most_bytes(path) else ""
    return KnownFile(name, status.st_mtime_ns, status.st_size, sha256)


def sha256_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# -- how a text is cut -----------------------------------------------------------------------------


MOST_WORDS = 180  # about one window of the default model
_Line = tuple[int, str]
SAFE_CHARACTERS_PER_TOKEN = 3.0  # fewer than usual: better a shorter prompt than one too long
LEAST_CHARACTERS = 200  # a shorter rest of a passage says nothing
_TASK = (
    "{passages}\n\nQuestion: {question}\n"
    "Answer from the passages above in a sentence or two, and name those you used, as [1]."
)


def cut_into_passages(text: str, most_words: int = MOST_WORDS) -> list[Passage]:
    """Every word of `text` is in exactly one passage, in order. No passage is empty.

    Form feeds end pages: then no passage goes over two of them, and each knows its own.
    """
    if "\f" not in text:
        return _cut(text, most_words)
    passages: list[Passage] = []
    before = 0
    for number, page in enumerate(text.split("\f"), 1):
        passages += [
            Passage(before + one.first_line, before + one.last_line, one.text, number)
            for one in _cut(page, most_words)
        ]
        before += max(1, len(page.splitlines()))
    return passages


def _cut(text: str, most_words: int) -> list[Passage]:
    passages: list[Passage] = []
    held: list[_Line] = []
    words = 0
    for block in _blocks(text, most_words):
        count = sum(len(line.split()) for _, line in block)
        if held and words + count > most_words:
            passages.append(_passage(held))
            held, words = [], 0
        held += block
        words += count
    if held:
        passages.append(_passage(held))
    return passages


def room_for_passages(context_tokens: int, question: str, answer_tokens: int) -> int:
    """How many characters of passages fit the window beside the question and the answer."""
    beside = len(_TASK) + len(question)
    return int((context_tokens - answer_tokens) * SAFE_CHARACTERS_PER_TOKEN) - beside


def cited_prompt(question: str, hits: Sequence[Hit], room: int) -> tuple[str, list[Hit]]:
    """The prompt, and its hits: [1] is the first. The last one may be cut."""
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
    """The passages of a prompt for JSON, each with its number and whether the answer cites it."""
    named = cited_numbers(answer, len(hits))
    return [
        {"number": number, "cited": number in named} | hit.to_dict()
        for number, hit in enumerate(hits, start=1)
    ]


def cited_numbers(answer: str, count: int) -> set[int]:
    """Which passages an answer cites, as [1] or [1, 3]."""
    named = re.findall(r"\[(\d{1,3}(?:\s*,\s*\d{1,3})*)\]", answer)
    numbers = {int(number) for group in named for number in group.split(",")}
    return {number for number in numbers if 1 <= number <= count}


def _passage(lines: list[_Line]) -> Passage:
    """Blank lines between paragraphs become one."""
    text, before = "", lines[0][0]
    for number, line in lines:
        gap = (
            "" if not text else "\n\n" if number > before + 1 else "\n" if number > before else " "
        )
        text, before = text + gap + line, number
    return Passage(lines[0][0], lines[-1][0], text)


def _blocks(text: str, most_words: int) -> Iterator[list[_Line]]:
    """Paragraphs; long ones as pieces of whole lines."""
    for paragraph in _paragraphs(text):
        if sum(len(line.split()) for _, line in paragraph) <= most_words:
            yield paragraph
        else:
            for line in paragraph:
                yield from _pieces(line, most_words)


def _paragraphs(text: str) -> Iterator[list[_Line]]:
    paragraph: list[_Line] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            paragraph.append((number, line.rstrip()))
        elif paragraph:
            yield paragraph
            paragraph = []
    if paragraph:
        yield paragraph


def _pieces(line: _Line, most_words: int) -> Iterable[list[_Line]]:
    number, text = line
    words = text.split()
    if len(words) <= most_words:
        return [[line]]
    starts = range(0, len(words), most_words)
    return [[(number, " ".join(words[start : start + most_words]))] for start in starts]


# -- where it is kept ------------------------------------------------------------------------------


NO_SHARES: Mapping[int, float] = MappingProxyType({})
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
# What an index of an earlier release lacks: it is added when that is opened.
_WORDS = """
ALTER TABLE passages ADD COLUMN page INTEGER NOT NULL DEFAULT 0;
CREATE VIRTUAL TABLE words USING fts5(
    text, content='passages', content_rowid='id', detail='full',
    tokenize='unicode61 remove_diacritics 2'
);
CREATE TRIGGER words_of_new AFTER INSERT ON passages BEGIN
    INSERT INTO words (rowid, text) VALUES (new.id, new.text);
END;
CREATE TRIGGER words_of_gone AFTER DELETE ON passages BEGIN
    INSERT INTO words (words, rowid, text) VALUES ('delete', old.id, old.text);
END;
INSERT INTO words (words) VALUES ('rebuild');
DELETE FROM files WHERE note <> '';
"""


@dataclass(frozen=True, slots=True)
class KnownFile:
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
            for folder in (path.parent.parent, path.parent):  # `parents` would open it to others
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
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
            if not self._run("SELECT 1 FROM sqlite_schema WHERE name = 'words'"):
                self._connection.executescript(f"BEGIN IMMEDIATE; {_WORDS} COMMIT")
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

    def files(self) -> dict[str, KnownFile]:
        rows = self._run("SELECT path, modified_ns, bytes, sha256, note FROM files ORDER BY path")
        return {row[0]: KnownFile(*row) for row in rows}

    def count(self) -> int:
        ((number,),) = self._run("SELECT count(*) FROM passages")
        return int(number)

    def put(self, file: KnownFile, passages: Sequence[Passage], made: Embeddings | None) -> None:
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
                    "INSERT INTO passages (file, first_line, last_line, text, page, vector, scale) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (
                        (number, *astuple(one), vector.tobytes(), scale)
                        for one, vector, scale in zip(
                            passages, made.vectors, made.scales, strict=True
                        )
                    ),
                )

    def touch(self, file: KnownFile) -> None:
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
            "SELECT files.path, first_line, last_line, text, page FROM passages "
            "JOIN files ON files.id = passages.file WHERE passages.id = ?",
            (number,),
        )
        return (rows[0][0], Passage(*rows[0][1:])) if rows else None

    def having(self, words: str) -> list[int]:
        """Ids of passages in which these words stand one after the other: of more than COMMON,
        only so many that it shows.
        """
        phrase = '"' + words.replace('"', '""') + '"'
        statement = "SELECT rowid FROM words WHERE words MATCH ? LIMIT ?"
        return [row[0] for row in self._run(statement, (phrase, COMMON + 1))]

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

    def nearest(
        self, query: array[float], most: int, shares: Mapping[int, float] = NO_SHARES
    ) -> list[tuple[int, float]]:
        """Ids and cosines, best first. `shares`: what of the query's words a passage has."""
        import numpy  # noqa: PLC0415

        if not self.ids:
            return []
        wanted = numpy.frombuffer(query, numpy.float32)
        scores = numpy.empty(len(self.ids), numpy.float32)
        for start in range(0, len(scores), _ROWS_AT_ONCE):
            block = self.rows[start : start + _ROWS_AT_ONCE]
            scores[start : start + len(block)] = block.astype(numpy.float32) @ wanted
        scores *= self.scales
        ranked = scores + self._of_words(shares) if shares else scores
        most = min(most, len(scores))
        best = numpy.argpartition(ranked, -most)[-most:]
        ordered = best[numpy.argsort(-ranked[best], kind="stable")]
        return [(self.ids[index], float(scores[index])) for index in ordered.tolist()]

    def _of_words(self, shares: Mapping[int, float]) -> NDArray[numpy.float32]:
        """What the words of each passage add to its cosine."""
        import numpy  # noqa: PLC0415

        added = numpy.zeros(len(self.ids), numpy.float32)
        for number, share in shares.items():
            place = bisect_left(self.ids, number)
            if place < len(self.ids) and self.ids[place] == number:  # not put there since
                added[place] = OF_WORDS * share**2
        return added


# -- exact words -----------------------------------------------------------------------------------


# Both chosen on the even half of `edgewise bench find`. Squared, so that a word or two that happen
# to be shared move nothing, and all of a query's rare words outweigh any likeness.
OF_WORDS = 1.2
OF_NAMES = 6.0  # how much more a name, number or code counts than another word as rare
COMMON = 5000  # passages; a word in more of them tells nothing, and collecting them takes long


def shares_of_words(
    query: str, count: int, having: Callable[[str], Sequence[int]]
) -> dict[int, float]:
    """For each passage with words of the query: what part of their weight it has, up to 1.

    The rarer a word is among the `count` passages, the more it weighs (as in BM25).
    """
    shares = dict[int, float]()
    total = 0.0
    for number, word in enumerate(_words_of(query)):
        found = having(word)
        if len(found) > COMMON:
            continue
        weight = math.log(1 + (count - len(found) + 0.5) / (len(found) + 0.5))
        weight *= OF_NAMES if _is_name(word, first=number == 0) else 1.0
        total += weight
        for passage in found:
            shares[passage] = shares.get(passage, 0.0) + weight
    return {passage: share / total for passage, share in shares.items()}


def _words_of(query: str) -> list[str]:
    """As they are parted by blanks: codes such as `NR-88` and `079/231` are one word each."""
    return list(dict.fromkeys(word for word in query.split() if any(map(str.isalnum, word))))


def _is_name(word: str, *, first: bool) -> bool:
    """It has a digit, or a capital where a sentence has none."""
    inner = word.lstrip("\"'([{«„“")[first:]
    return any(one.isdigit() for one in word) or any(one.isupper() for one in inner)
