"""Search a folder by meaning: keep an index up to date, and answer questions from it."""

from __future__ import annotations

import hashlib
import importlib.util
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from edgewise.engine import Engine
from edgewise.errors import InvalidRequest
from edgewise.flows.index_folder import Parts, Progress, update_index
from edgewise.local.vision import TextReader
from edgewise.search.documents import (
    PictureReader,
    cited_prompt,
    room_for_passages,
)
from edgewise.search.index import IndexStore, Scan
from edgewise.settings import Settings
from edgewise.types.embeddings import (
    Embeddings,
    Hit,
    IndexReport,
)
from edgewise.types.messages import Image
from edgewise.vision.pictures import (
    open_picture,
)
from edgewise.vision.reading_order import rows_of

if TYPE_CHECKING:
    from edgewise.local.backend import PictureArray


LONGEST_SIDE = 2000  # pixels; more detail does not help the text reader, and costs seconds


def picture_reader(threads: int) -> PictureReader | None:
    """None if this installation cannot read images. They are skipped, and the report says so."""
    if any(importlib.util.find_spec(package) is None for package in ("rapidocr", "PIL")):
        return None
    reader = TextReader(threads=threads)

    def read(path: Path) -> str:
        sight = reader.look(_pixels(path))
        return "\n".join(row.text for row in rows_of(sight.lines))

    return read


def _pixels(path: Path) -> PictureArray:
    import numpy  # noqa: PLC0415  # only pictures need it

    try:
        image = Image.from_path(path)
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror}") from error
    picture = open_picture(image, side=LONGEST_SIDE)
    return numpy.asarray(picture.pixels, dtype=numpy.uint8)


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
    upload a folder. `pictures` reads the text in images.
    """

    def __init__(
        self,
        engine: Engine,
        folder: str | Path,
        *,
        policy: str = "local_only",
        pictures: PictureReader | None = None,
    ) -> None:
        self.folder = Path(folder).expanduser()
        if not self.folder.is_dir():
            raise InvalidRequest(f"{str(folder)!r} is not a folder")
        self._engine = engine
        self._policy = policy
        self._pictures = pictures
        self._store = IndexStore(index_path(engine.settings, self.folder))
        self._scan: tuple[int, Scan] | None = None

    def update(self, progress: Progress = silent, *, rebuild: bool = False) -> IndexReport:
        """Index new and changed files, drop deleted ones. `rebuild` starts over."""
        if rebuild:
            self._store.clear()
        parts = Parts(embed=self._embed, pictures=self._pictures, progress=progress)
        return update_index(self.folder, self._store, parts)

    def find(self, query: str, most: int = 5) -> list[Hit]:
        """The passages nearest in meaning, best first."""
        if not query.strip():
            raise InvalidRequest("there is nothing to look for")
        if not self._store.space:
            return []
        made = self._engine.embed(query, space=self._store.space, policy=self._policy)
        (vector,) = made.vectors
        hits = []
        for number, score in self._scanned().nearest(array("f", vector), most):
            if (found := self._store.passage(number)) is not None:
                path, passage = found
                hits.append(
                    Hit(
                        path=path,
                        first_line=passage.first_line,
                        last_line=passage.last_line,
                        text=passage.text,
                        score=round(score, 4),
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

    def _embed(self, texts: Sequence[str]) -> Embeddings:
        return self._engine.embed(texts, space=self._store.space, policy=self._policy, int8=True)

    def _scanned(self) -> Scan:
        generation = self._store.generation
        if self._scan is None or self._scan[0] != generation:
            self._scan = generation, Scan.of(*self._store.vectors())
        return self._scan[1]
