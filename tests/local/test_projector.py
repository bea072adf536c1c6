"""Models that see: the second file reaches the runtime, and pictures reach the turns."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgewise.assembly.parts import find_model
from edgewise.errors import GenerationFailed, ModelNotFound
from edgewise.local.llama_cpp import (
    PICTURE_BATCH,
    LlamaCpp,
    pictured_turns,
    plain_turns,
    with_projector,
)
from edgewise.local.store.catalogue import PROJECTOR, row_named
from edgewise.local.store.store import InstalledModel
from edgewise.settings import Settings
from edgewise.types.messages import Image, Message, Request


def installed(folder: Path, name: str = "smolvlm-256m-instruct") -> InstalledModel:
    path = folder / "model.gguf"
    path.write_bytes(b"weights")
    return InstalledModel(name, path, "Q8_0", "", 7, row=row_named(name))


def test_a_row_with_a_projector_brings_it(tmp_path: Path) -> None:
    assert with_projector(installed(tmp_path), "").projector == tmp_path / PROJECTOR
    assert with_projector(installed(tmp_path, "smollm2-135m-instruct"), "").projector is None


def test_a_projector_of_the_users_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="no projector file"):
        with_projector(installed(tmp_path), str(tmp_path / "none.gguf"))
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(b"p")
    assert with_projector(installed(tmp_path), str(mine)).projector == mine


def test_the_setting_names_it(tmp_path: Path, default_model: InstalledModel) -> None:
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(b"p")
    settings = Settings.load(model=str(default_model.path), projector=str(mine))
    assert find_model(settings).projector == mine


def test_every_model_that_talks_about_pictures_has_weights_and_a_projector_on_the_hub() -> None:
    for name in ("smolvlm-256m-instruct", "smolvlm-500m-instruct", "lfm2-vl-450m"):
        row = row_named(name)
        assert row is not None and row.kind == "text" and row.chat
        assert [file.name for file in row.beside] == [PROJECTOR]
        assert row.download_bytes > row.bytes


def test_pictures_stand_before_the_words_of_their_turn() -> None:
    messages = (
        Message("system", "Be brief."),
        Message("user", "Look.", images=(Image(b"one", "image/png"), Image(b"two", "image/jpeg"))),
        Message("assistant", "I see."),
        Message("user", "And?"),
    )
    turns = pictured_turns(plain_turns(messages), messages)
    kinds = [part["type"] for part in turns[1]["content"]]
    assert kinds == ["image_url", "image_url", "text"]
    assert turns[1]["content"][1]["image_url"]["url"] == "data:image/jpeg;base64,dHdv"
    assert turns[3] == {"role": "user", "content": "And?"}


class _Params(SimpleNamespace):
    def __init__(self) -> None:
        super().__init__(
            model=SimpleNamespace(path=""),
            mmproj=SimpleNamespace(path=""),
            cpuparams=SimpleNamespace(n_threads=0),
            cpuparams_batch=SimpleNamespace(n_threads=0),
        )


def test_the_runtime_is_given_both_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    fake = SimpleNamespace(CommonParams=_Params, Server=lambda params: given.append(params))
    monkeypatch.setitem(sys.modules, "xllamacpp", fake)
    model = replace(installed(tmp_path), projector=tmp_path / PROJECTOR)
    backend = LlamaCpp(model, threads=1, context_tokens=2048)
    assert backend.facts().images
    backend.load()
    assert given[0].model.path == str(model.path)
    assert given[0].mmproj.path == str(model.projector)
    assert given[0].n_ubatch == PICTURE_BATCH
    backend.close()


@pytest.mark.real_model
def test_a_projector_that_is_none_is_a_clear_error(
    tmp_path: Path, default_model: InstalledModel
) -> None:
    wrong = tmp_path / "mmproj.gguf"
    wrong.write_bytes(b"GGUF but not really")
    backend = LlamaCpp(replace(default_model, projector=wrong), threads=1, context_tokens=256)
    picture = Message("user", "What is this?", images=(Image(b"x"),))
    with pytest.raises(GenerationFailed, match="could not load"):
        list(backend.generate(Request(messages=(picture,))))
    backend.close()
