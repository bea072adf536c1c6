"""The text in images, for the index."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from PIL import Image as Pillow
from PIL import ImageDraw, ImageFont

from edgewise import Engine, Settings
from edgewise.folder_search import FolderIndex, picture_reader
from edgewise.local.store.store import InstalledModel


@pytest.mark.real_model
def test_a_sign_in_a_picture_is_found_by_its_meaning(
    tmp_path: Path, default_embedder: InstalledModel
) -> None:
    picture = Pillow.new("RGB", (700, 160), "white")
    font = ImageFont.load_default(44)
    ImageDraw.Draw(picture).text((20, 50), "Parking forbidden on Sundays", "black", font)
    picture.save(tmp_path / "sign.png")
    (tmp_path / "broken.png").write_bytes(b"no picture")
    (tmp_path / "bread.txt").write_text("Bread needs flour, water, salt and yeast.")
    with (
        Engine(Settings.load(threads=1)) as engine,
        FolderIndex(engine, tmp_path, pictures=picture_reader(1)) as index,
    ):
        report = index.update()
        assert dict(report.skipped) == {"images that cannot be read (invalid_request)": 1}
        best = index.find("Where may I leave my car at the weekend?", 1)[0]
        assert index.update().unchanged == 2
    assert best.path == "sign.png"
    assert "Sunday" in best.text


def test_without_a_reader_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert picture_reader(1) is None
