"""How many layers go to a GPU. There is none here: what the runtime says of one is made up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from edgewise import Settings
from edgewise.errors import SettingsError
from edgewise.local.llama_api import find_gpus, layers_on_gpu
from edgewise.local.llama_cpp import LlamaLoop
from edgewise.local.store import InstalledModel

xllamacpp = pytest.importorskip("xllamacpp")

LAYERS = 30  # of the default model, and one for what comes out
MEBIBYTE = 2**20


def a_gpu(free: int) -> dict[str, Any]:
    kind = SimpleNamespace(name="GGML_BACKEND_DEVICE_TYPE_GPU")
    return {"name": "CUDA0", "description": "a GPU", "type": kind, "memory_free": free}


def layers(model: InstalledModel, gpu: str) -> int:
    return layers_on_gpu(gpu, model.path, context_tokens=2048, slots=1, batch=128)


def test_without_a_gpu_nothing_goes_there(default_model: InstalledModel) -> None:
    assert find_gpus() == [] and layers(default_model, "auto") == 0


def test_a_number_and_off_are_taken_at_their_word(default_model: InstalledModel) -> None:
    assert (layers(default_model, "12"), layers(default_model, "off")) == (12, 0)


@pytest.mark.parametrize(("free", "least", "most"), [(8192, LAYERS, LAYERS + 1), (1, 0, 0)])
def test_auto_takes_what_fits_into_the_free_memory(
    default_model: InstalledModel,
    monkeypatch: pytest.MonkeyPatch,
    free: int,
    least: int,
    most: int,
) -> None:
    monkeypatch.setattr(xllamacpp, "get_device_info", lambda: [a_gpu(free * MEBIBYTE)])
    assert least <= layers(default_model, "auto") <= most


def test_a_little_memory_takes_a_part_of_the_model(
    default_model: InstalledModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for free in (560, 700, 840):
        monkeypatch.setattr(
            xllamacpp, "get_device_info", lambda free=free: [a_gpu(free * MEBIBYTE)]
        )
        found.append(layers(default_model, "auto"))
    assert found == sorted(found) and any(0 < each < LAYERS for each in found)


@pytest.mark.real_model
def test_a_model_answers_with_the_setting(default_model: InstalledModel) -> None:
    for gpu in ("auto", "off", "99"):  # the usual wheel has no GPU, and ignores the wish
        backend = LlamaLoop(default_model, threads=1, context_tokens=256, gpu=gpu)
        assert backend.load()
        backend.close()


def test_another_word_is_a_clear_error() -> None:
    with pytest.raises(SettingsError, match="auto, off or a number of layers"):
        Settings.load(gpu="all")
