from __future__ import annotations

import hashlib
import json
from pathlib import Path

from training.collect import FILES_AT_MOST, receive, send
from training.pack import split


def finished(keep: Path, name: str, exact: float, size: int) -> None:
    adapter = keep / f"{name}.gguf"
    adapter.write_bytes(name.encode() * size)
    pieces = split(adapter, keep / "out", 40)
    path = keep / "results.json"
    results = json.loads(path.read_text()) if path.exists() else []
    results.append(
        {
            "name": name,
            "valid": {"exact": exact},
            "pieces": [piece.name for piece in pieces],
            "adapter_sha256": hashlib.sha256(adapter.read_bytes()).hexdigest(),
        }
    )
    path.write_text(json.dumps(results))


def test_everything_arrives_whole_over_several_visits_best_first(tmp_path: Path) -> None:
    keep, home = tmp_path / "keep", tmp_path / "home"
    (keep / "out").mkdir(parents=True)
    (keep / "log.txt").write_text("begins\n")
    finished(keep, "worse", 0.1, 40)  # five pieces each
    finished(keep, "better", 0.2, 33)
    names = []
    for visit in range(3):
        out = tmp_path / f"out{visit}"
        out.mkdir()
        said = send(keep, out, 0)
        assert "begins" in said
        assert len(list(out.iterdir())) <= FILES_AT_MOST
        receive(out, home)
        names.append({path.name for path in home.glob("*.gguf")})
    assert names == [{"better.gguf"}, {"better.gguf", "worse.gguf"}, {"better.gguf", "worse.gguf"}]
    assert (home / "worse.gguf").read_bytes() == b"worse" * 40
    assert "files still to send: 0" in said
