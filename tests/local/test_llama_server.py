"""The server API of llama.cpp: its socket, its wire form, its projector."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgewise.errors import GenerationFailed
from edgewise.local.catalogue import PROJECTOR, row_named
from edgewise.local.llama_server import PICTURE_BATCH, LlamaServer, read_tokens
from edgewise.local.store import InstalledModel
from edgewise.types.messages import Image, Message, Request
from edgewise.types.replies import Finish


def installed(folder: Path, name: str = "smolvlm-256m-instruct") -> InstalledModel:
    path = folder / "model.gguf"
    path.write_bytes(b"weights")
    return InstalledModel(name, path, "Q8_0", "", 7, row=row_named(name))


@pytest.mark.real_model
def test_no_port_is_opened_on_the_network(default_model: InstalledModel) -> None:
    backend = LlamaServer(default_model, threads=1, context_tokens=256)
    assert backend.load().listening_address.startswith("unix://")
    # The runtime hangs if it is closed before its first request.
    list(backend.generate(Request(messages=(Message("user", "Hi."),), max_tokens=1)))
    backend.close()


@pytest.mark.real_model
def test_a_second_owner_ends_the_reuse_of_prompts(default_model: InstalledModel) -> None:
    backend = LlamaServer(default_model, threads=1, context_tokens=256)
    secret = Message("user", "My diagnosis is a rare one: tell nobody. " * 6)

    def cached(owner: str) -> int:
        request = Request(messages=(secret,), max_tokens=1, owner=owner)
        finish = list(backend.generate(request))[-1]
        assert isinstance(finish, Finish)
        return finish.cached_tokens

    try:
        assert (cached("alice"), cached("alice") > 40) == (0, True)
        assert backend.passes() >= 2, "whoever watches its process sees progress"
        assert (cached("mallory"), cached("mallory"), cached("alice")) == (0, 0, 0)
    finally:
        backend.close()


def test_entropy_and_margin_of_a_coin_toss() -> None:
    half = math.log(0.5)
    choice = {
        "delta": {"content": "a"},
        "logprobs": {
            "content": [{"logprob": half, "top_logprobs": [{"logprob": half}, {"logprob": half}]}]
        },
    }
    (token,) = read_tokens(choice)
    assert token.margin == 0.0
    assert math.isclose(token.entropy, math.log(2))
    (plain,) = read_tokens({"delta": {"content": "b"}})
    assert not plain.has_evidence


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
    fake = SimpleNamespace(
        CommonParams=_Params, Server=lambda params: given.append(params), get_device_info=list
    )
    monkeypatch.setitem(sys.modules, "xllamacpp", fake)
    model = replace(installed(tmp_path), projector=tmp_path / PROJECTOR)
    backend = LlamaServer(model, threads=1, context_tokens=2048)
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
    backend = LlamaServer(replace(default_model, projector=wrong), threads=1, context_tokens=256)
    picture = Message("user", "What is this?", images=(Image(b"x"),))
    with pytest.raises(GenerationFailed, match="could not load"):
        list(backend.generate(Request(messages=(picture,))))
    backend.close()
