"""Bring an index up to date: read new and changed files, drop deleted ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgewise.errors import Unreadable
from edgewise.search.documents import (
    NO_PICTURES,
    PictureReader,
    cut_into_passages,
    find_documents,
    read_document,
    sha256_of_file,
)
from edgewise.search.index import (
    IndexStore,
    Known,
)
from edgewise.types.embeddings import Embeddings, IndexReport

MOST_AT_ONCE = 256  # passages embedded at once

# Called with the number of files done, of all files, and the path of the next one.
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What an update needs. `embed` makes 8-bit vectors in the store's space."""

    embed: Callable[[Sequence[str]], Embeddings]
    pictures: PictureReader | None
    progress: Progress


@dataclass(slots=True)
class _Tally:
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    skipped: Counter[str] = field(default_factory=Counter)


def update_index(folder: Path, store: IndexStore, parts: Parts) -> IndexReport:
    """Replace each file in one step, so that the next update continues an interrupted one."""
    known, tally = store.files(), _Tally()
    paths = list(find_documents(folder))
    names = [path.relative_to(folder).as_posix() for path in paths]
    gone = sorted(set(known) - set(names))
    if gone:
        store.remove(gone)
    for done, (name, path) in enumerate(zip(names, paths, strict=True)):
        parts.progress(done, len(paths), name)
        _look_at(path, name, known.get(name), store, parts, tally)
    parts.progress(len(paths), len(paths), "")
    return IndexReport(
        added=tally.added,
        changed=tally.changed,
        removed=len(gone),
        unchanged=tally.unchanged,
        skipped=tuple(sorted(tally.skipped.items())),
        files=sum(not file.note for file in store.files().values()),
        passages=store.count(),
        space=store.space,
    )


def _look_at(
    path: Path, name: str, before: Known | None, store: IndexStore, parts: Parts, tally: _Tally
) -> None:
    try:
        now = _as_it_is(path, name, before)
    except OSError as error:  # removed since the folder was listed, or not ours to read
        tally.skipped[f"cannot be read: {error.strerror}"] += 1
        return
    retry = before is not None and before.note == NO_PICTURES and parts.pictures is not None
    if before is not None and before.sha256 == now.sha256 and not retry:
        if before.modified_ns != now.modified_ns:
            store.touch(now)
        if before.note:
            tally.skipped[before.note] += 1
        else:
            tally.unchanged += 1
        return
    try:
        _put(path, now, store, parts)
    except Unreadable as error:
        store.put(replace(now, note=str(error)), (), None)
        tally.skipped[str(error)] += 1
        return
    if before is None or before.note:
        tally.added += 1
    else:
        tally.changed += 1


def _as_it_is(path: Path, name: str, before: Known | None) -> Known:
    """The same size and time mean the same bytes; otherwise hash them."""
    status = path.stat()
    if before and (before.modified_ns, before.bytes) == (status.st_mtime_ns, status.st_size):
        return replace(before, note="")
    return Known(name, status.st_mtime_ns, status.st_size, sha256_of_file(path))


def _put(path: Path, now: Known, store: IndexStore, parts: Parts) -> None:
    passages = cut_into_passages(read_document(path, parts.pictures))
    texts = [passage.text for passage in passages]
    made: Embeddings | None = None
    for start in range(0, len(texts), MOST_AT_ONCE):
        more = parts.embed(texts[start : start + MOST_AT_ONCE])
        made = more if made is None else _joined(made, more)
    store.put(now, passages, made)


def _joined(one: Embeddings, other: Embeddings) -> Embeddings:
    return replace(one, vectors=one.vectors + other.vectors, scales=one.scales + other.scales)
