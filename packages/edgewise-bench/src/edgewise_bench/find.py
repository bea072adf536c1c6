"""Measures the search of a folder: questions that avoid a note's words, and rare words of it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from edgewise import Engine
from edgewise.folder_search import FolderIndex
from edgewise.settings import Settings
from edgewise_bench.embed import bm25, read_pairs

# Of the half that nothing was chosen on. "As BM25 has them": all.
TARGETS: dict[str, tuple[str, float]] = {"exact_at_1": (">=", 1.0)}
IN_WORDS = (
    "where is {} mentioned?", "what do my notes say about {}", "tell me about {}",
    "{} which file?",
)  # fmt: skip
MOST = 5

Step = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """`half` 0 is the one that weights were chosen on, 1 the one that is reported."""

    kind: str  # meaning, exact, exact_in_words, everyday
    query: str
    path: str
    half: int = 1


@dataclass(frozen=True, slots=True)
class Notes:
    texts: dict[str, str]  # by path
    asked: list[Asked]


def own_notes() -> Notes:
    """Fifty notes with names and codes, and sixty passages of everyday things around them."""
    text = (resources.files("edgewise_bench") / "notes_set.txt").read_text("utf-8")
    texts, asked = dict[str, str](), []
    for number, block in enumerate(text.strip().split("\n\n")):
        path, note, meaning, exact = block.split("\n")
        texts[path], half, word = note, number % 2, exact.removeprefix("= ")
        code = word.removeprefix("what is ").removesuffix(" error")
        wordy = IN_WORDS[number // 2 % len(IN_WORDS)].format(code)
        asked += [
            Asked("meaning", meaning.removeprefix("? "), path, half),
            Asked("exact", word, path, half),
            Asked("exact_in_words", wordy, path, half),
        ]
    for number, pair in enumerate(read_pairs()):
        path = f"everyday/{number:02}.txt"
        texts[path] = pair.passage
        asked.append(Asked("everyday", pair.question, path, number % 2))
    return Notes(texts, asked)


def asked_of(path: Path) -> list[Asked]:
    """A JSON object a line: `query`, the `path` that is right, and if you like its `kind`."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
    return [Asked(row.get("kind", "asked"), row["query"], row["path"]) for row in rows]


def measure_find(
    settings: Settings, folder: Path | None, asked: Sequence[Asked], step: Step
) -> dict[str, float]:
    """Of a folder and its questions, or of the notes that come with this bench."""
    with tempfile.TemporaryDirectory(prefix="edgewise-bench-") as made:
        if folder is None:
            notes = own_notes()
            folder, asked = Path(made) / "notes", notes.asked
            _write(notes, folder)
        changed = settings.with_changes(data_dir=Path(made) / "data")
        with Engine(changed) as engine, FolderIndex(engine, folder) as index:
            report = index.update()
            places = [_places(index, one, step) for one in asked]
    metrics: dict[str, float] = {"files": report.files, "passages": report.passages}
    metrics["skipped"] = sum(count for _, count in report.skipped)
    for half, prefix in ((1, ""), (0, "chosen_on_")):
        for kind in dict.fromkeys(one.kind for one in asked):
            ours = [
                place
                for one, place in zip(asked, places, strict=True)
                if (one.kind, one.half) == (kind, half)
            ]
            if ours:
                metrics |= _figures(f"{prefix}{kind}", ours)
    return metrics


def _write(notes: Notes, folder: Path) -> None:
    for name, text in notes.texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


@dataclass(frozen=True, slots=True)
class Places:
    """Where the right file stood, from 1; 0 if not among the first."""

    ours: int
    meaning_only: int
    words_only: int


def _places(index: FolderIndex, asked: Asked, step: Step) -> Places:
    hits = index.find(asked.query, 10**6)
    step()
    by_meaning = sorted(hits, key=lambda hit: -hit.score)
    shared = zip(bm25([hit.text for hit in hits])(asked.query), hits, strict=True)
    ranked = sorted(shared, key=lambda pair: -pair[0])
    found = [hit for score, hit in ranked if score > 0]
    return Places(*(_place(each, asked.path) for each in (hits, by_meaning, found)))


def _place(hits: Sequence[Any], path: str) -> int:
    paths = list(dict.fromkeys(hit.path for hit in hits))[:MOST]
    return paths.index(path) + 1 if path in paths else 0


def _figures(kind: str, places: Sequence[Places]) -> dict[str, float]:
    count = len(places)
    return {
        f"{kind}_questions": count,
        f"{kind}_at_1": sum(place.ours == 1 for place in places) / count,
        f"{kind}_at_{MOST}": sum(place.ours > 0 for place in places) / count,
        f"{kind}_at_1_meaning_only": sum(place.meaning_only == 1 for place in places) / count,
        f"{kind}_at_1_bm25": sum(place.words_only == 1 for place in places) / count,
    }
