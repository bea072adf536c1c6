"""What is packed here arrives there whole, and what was made there comes home whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from training.pack import join, missing_pieces

from training import chat_driver


def test_models_travel_in_numbered_folders(tmp_path: Path) -> None:
    models = [tmp_path / "a.gguf", tmp_path / "b.gguf"]
    for number, model in enumerate(models):
        model.write_bytes(bytes([number]) * 2500)
        (tmp_path / f"{model.stem}.rows.jsonl.gz").write_bytes(b"rows")
    pieces = chat_driver.pack(models, tmp_path, tmp_path / "out", piece_mib=1000 / (1 << 20))
    assert pieces == 6
    keep = tmp_path / "keep"
    for folder in sorted((tmp_path / "out").iterdir())[:4]:
        said = chat_driver.take(keep, folder)
    assert "a.gguf: ready" in said
    assert "b.gguf: 3 pieces missing" in said
    join(keep / "pieces", "a.gguf", tmp_path / "joined")
    assert (tmp_path / "joined").read_bytes() == models[0].read_bytes()
    assert missing_pieces(keep / "pieces", "b.gguf")


def test_results_come_home_in_as_many_calls_as_they_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_driver, "FILE_BYTES", 700)
    keep = tmp_path / "keep"
    (keep / "pieces").mkdir(parents=True)
    (keep / "pieces" / "models.json").write_text(json.dumps(["a.gguf"]))
    heads = {"heads": {"answer": {"state": "mean-5"}, "before": {"state": "before-3"}}}
    (keep / "a.head.json").write_text(json.dumps(heads))
    (keep / "a").mkdir()
    for name in ("answers", "mean-5", "mean-9", "before-3", "early1-5"):
        (keep / "a" / f"{name}.npz").write_bytes(name.encode() * 500)
    (keep / "log.txt").write_text("begun\n")
    home = tmp_path / "home"
    for call in range(10):
        out = tmp_path / f"out{call}"
        out.mkdir()
        said = chat_driver.send(keep, out)
        assert len(list(out.iterdir())) <= chat_driver.FILES_AT_MOST
        chat_driver.receive(out, home)
        if "pieces still to send: 0" in said:
            break
    assert call > 1
    assert json.loads((home / "a.head.json").read_text()) == heads
    for name in ("answers", "mean-5", "before-3", "early1-5"):
        assert (home / "a" / f"{name}.npz").read_bytes() == name.encode() * 500
    assert not (home / "a" / "mean-9.npz").exists()  # not the layer that was chosen


def test_a_started_driver_does_what_is_open_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = tmp_path / "keep"
    (keep / "pieces").mkdir(parents=True)
    (keep / "pieces" / "models.json").write_text(json.dumps(["a.gguf", "b.gguf"]))
    (keep / "a.head.json").write_text("{}")
    monkeypatch.setattr(chat_driver, "missing_pieces", lambda folder, name: [])
    worked: list[str] = []

    def work(folder: Path, name: str) -> bool:
        worked.append(name)
        if len(worked) > 1:
            (folder / "b.head.json").write_text("{}")
        return len(worked) > 1

    monkeypatch.setattr(chat_driver, "_work", work)
    chat_driver.run(keep, minutes=1)
    assert worked == ["b.gguf", "b.gguf"]  # the first try failed
    assert "done" in (keep / "log.txt").read_text()
