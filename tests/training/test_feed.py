from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from training.pack import split

from training import feed as module

PLAN: dict[str, Any] = {
    "base": "small.gguf",
    "bases": {"small.gguf": 1, "large.gguf": 2},
    "data": {"rounds": [{"count": 1, "seed": 1}, {"count": 1, "seed": 2}]},
}


@pytest.fixture
def keep(tmp_path: Path) -> Path:
    for folder in ("base", "data", "rows"):
        (tmp_path / folder).mkdir()
    return tmp_path


def test_a_base_that_comes_late_holds_up_no_other_and_gets_all_its_rounds(
    keep: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    did: list[tuple[int, str]] = []
    (keep / "large").write_bytes(b"weights")

    def generate(_: Path, task: module.Task, plan: Any) -> None:
        did.append((task.number, ""))

    def make_rows(_: Path, task: module.Task, plan: Any) -> None:
        module.rows_folder(keep, task.base).mkdir(exist_ok=True)
        did.append((task.number, task.base))
        if task == module.Task(0, "small.gguf"):
            raise OSError("once")
        if did[-1] == (0, "small.gguf"):  # tried again, at the very end: now the other comes
            (keep / "large").rename(keep / "large.gguf")
            split(keep / "large.gguf", keep / "base", 4)
            (keep / "large.gguf").unlink()

    monkeypatch.setattr(module, "_generate", generate)
    monkeypatch.setattr(module, "_rows", make_rows)
    (keep / "small.gguf").write_bytes(b"weights")
    module.feed(keep, PLAN, time.monotonic() + 60)

    small, large = "small.gguf", "large.gguf"
    assert did == [(0, ""), (0, small), (1, ""), (0, small), (0, large), (1, large)]
    assert (module.ready_rounds(keep, small), module.ready_rounds(keep, large)) == (1, 2)
    did.clear()
    module.feed(keep, PLAN, time.monotonic() + 60)
    assert did == []


def test_a_base_is_there_only_when_its_pieces_make_the_whole(keep: Path) -> None:
    (keep / "small.gguf").write_bytes(b"weights")
    pieces = split(keep / "small.gguf", keep / "base", 4)
    (keep / "small.gguf").unlink()
    whole = pieces[1].read_bytes()
    pieces[1].write_bytes(whole[:1])
    assert not module.arrived(keep, "small.gguf")
    pieces[1].write_bytes(whole)
    assert module.arrived(keep, "small.gguf")
