from __future__ import annotations

from pathlib import Path

import pytest
from training.pack import join, missing_pieces, split


def test_pieces_join_to_the_same_bytes_and_missing_ones_are_named(tmp_path: Path) -> None:
    source, folder = tmp_path / "a.gguf", tmp_path / "pieces"
    source.write_bytes(bytes(range(256)) * 5)
    assert missing_pieces(folder, "a.gguf") == ["a.gguf.pieces.json"]
    pieces = split(source, folder, 500)
    assert [piece.stat().st_size for piece in pieces] == [500, 500, 280]

    join(folder, "a.gguf", tmp_path / "joined.gguf")
    assert (tmp_path / "joined.gguf").read_bytes() == source.read_bytes()

    pieces[1].unlink()
    assert missing_pieces(folder, "a.gguf") == ["a.gguf.part01"]


def test_a_damaged_piece_is_noticed(tmp_path: Path) -> None:
    source = tmp_path / "a.gguf"
    source.write_bytes(b"x" * 100)
    pieces = split(source, tmp_path / "pieces", 60)
    pieces[1].write_bytes(b"y" * 40)
    with pytest.raises(ValueError, match="SHA-256"):
        join(tmp_path / "pieces", "a.gguf", tmp_path / "joined.gguf")
    assert not (tmp_path / "joined.gguf").exists()
