"""Frozen outcomes of other people's models: which of two answered a prompt, as they published it.

Nothing of theirs is in this repository: the files are read where they lie (docs/routing.md says
whose they are). RouteLLM's sets come without the prompts it found in its training data.
"""

from __future__ import annotations

import csv
import json
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

from edgewise.bench.routing_metrics import Numbers
from edgewise.errors import SettingsError

WEAK = "mistralai/Mixtral-8x7B-Instruct-v0.1"
STRONG = "gpt-4-1106-preview"
_ROUTELLM, _LLMROUTER = "routellm", "llmrouter"


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Prompts, and how well a weak and a strong model answered each: 1 is right, 0 is wrong.

    `files` names the file a row comes from. A router does not see it: only a variant that says so
    may use it.
    """

    prompts: tuple[str, ...]
    weak: Numbers
    strong: Numbers
    files: tuple[str, ...] = ()

    @property
    def gain(self) -> Numbers:
        return self.strong - self.weak

    def __len__(self) -> int:
        return len(self.prompts)

    def rows(self, chosen: Sequence[int] | numpy.ndarray[Any, Any]) -> Outcomes:
        numbers = [int(each) for each in chosen]
        return Outcomes(
            tuple(self.prompts[each] for each in numbers),
            self.weak[numbers],
            self.strong[numbers],
            tuple(self.files[each] for each in numbers) if self.files else (),
        )


@contextmanager
def open_data(path: Path) -> Iterator[Path]:
    """The folder with the data: `path` itself, or where the archive was unpacked for the while."""
    if path.is_file() and tarfile.is_tarfile(path):
        with tempfile.TemporaryDirectory(prefix="edgewise-bench-") as folder:
            with tarfile.open(path) as archive:
                archive.extractall(folder, filter="data")
            yield check_data(Path(folder))
        return
    yield check_data(path)


def check_data(folder: Path) -> Path:
    missing = [name for name in (_ROUTELLM, _LLMROUTER) if not (folder / name).is_dir()]
    if missing:
        raise SettingsError(
            f"--data {str(folder)!r} has no folder {missing[0]!r}: docs/routing.md says what to put"
            " there. Without --data the bench measures our own traces only"
        )
    return folder


def read_mmlu(folder: Path) -> Outcomes:
    """RouteLLM's MMLU: Mixtral-8x7B against GPT-4."""
    place = folder / _ROUTELLM / "mmlu"
    rows = [
        (path.stem.removeprefix("mmlu_"), row)
        for path in sorted(place.glob("mmlu_*.csv"))
        for row in _table(path)
    ]
    return _uncontaminated(place, rows)


def read_gsm8k(folder: Path) -> Outcomes:
    """RouteLLM's GSM8K, of the same two models."""
    place = folder / _ROUTELLM / "gsm8k"
    return _uncontaminated(place, [("", row) for row in _table(place / "gsm8k_responses.csv")])


def read_pair(folder: Path, weak: str, strong: str) -> tuple[Outcomes, Outcomes]:
    """LLMRouter's (training, test) rows of two of its models, as it split them."""
    found = []
    for part in ("train", "test"):
        path = folder / _LLMROUTER / f"dcrouter_{part}.json"
        rows = json.loads(path.read_text("utf-8"))
        found.append(
            Outcomes(
                tuple(row["question"] for row in rows),
                numpy.array([row["scores"][weak] for row in rows], dtype=numpy.float64),
                numpy.array([row["scores"][strong] for row in rows], dtype=numpy.float64),
            )
        )
    return found[0], found[1]


def read_prices(folder: Path) -> dict[str, float]:
    """Dollars per million output tokens, by LLMRouter's names of its models."""
    path = folder / _LLMROUTER / "default_llm.json"
    rows = json.loads(path.read_text("utf-8"))
    return {name: float(row["output_price"]) for name, row in rows.items()}


def _table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _uncontaminated(place: Path, rows: Sequence[tuple[str, dict[str, str]]]) -> Outcomes:
    lines = (place / "contaminated_prompts.jsonl").read_text("utf-8").splitlines()
    seen = {json.loads(line)["eval_prompt"] for line in lines if line.strip()}
    kept = [(file, row) for file, row in rows if row["prompt"] not in seen]
    return Outcomes(
        tuple(row["prompt"] for _, row in kept),
        numpy.array([row[WEAK] == "True" for _, row in kept], dtype=numpy.float64),
        numpy.array([row[STRONG] == "True" for _, row in kept], dtype=numpy.float64),
        tuple(file for file, _ in kept),
    )
