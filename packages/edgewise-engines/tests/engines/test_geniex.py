"""GenieX's own Python binding above a stub of its native library, compiled here.

Its binding is installed by `make test` without the library. Nothing of this ran on hardware.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgewise import Engine, parts
from edgewise.errors import ContextExceeded, GenerationFailed, ModelNotFound
from edgewise.settings import Settings
from edgewise.types.messages import Message, Request, ResponseFormat
from edgewise.types.replies import Finish
from edgewise_engines import native
from edgewise_engines.geniex import GeniexModel
from engines.reading import read_all

geniex: Any = pytest.importorskip("geniex")
COMPILER = shutil.which("cc") or shutil.which("gcc")
pytestmark = pytest.mark.skipif(COMPILER is None or os.name == "nt", reason="needs a C compiler")


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ctypes.CDLL]:
    """The binding, with the stub as its library. It stays loaded for the whole process."""
    built = tmp_path_factory.mktemp("geniex") / "libgeniex.so"
    source = Path(__file__).parent / "geniex_stub.c"
    subprocess.run([str(COMPILER), "-shared", "-fPIC", "-w", "-o", built, source], check=True)
    from geniex._ffi import _lib

    if _lib._lib is None:
        _lib._lib = ctypes.CDLL(str(built))
    library = _lib._lib
    library.stub_log.restype = ctypes.c_char_p
    yield library


@pytest.fixture
def model(stub: ctypes.CDLL, tmp_path: Path) -> Iterator[GeniexModel]:
    stub.stub_clear()
    opened = parts.open_backend(_settings(tmp_path))
    assert isinstance(opened, GeniexModel)
    yield opened
    opened.close()


def _settings(tmp_path: Path, name: str = "bundle") -> Settings:
    folder = tmp_path / name
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text("{}", "utf-8")
    return Settings.load(model=f"{folder}@geniex", data_dir=tmp_path, context_tokens=512)


def _asked(words: str, **more: Any) -> Request:
    return Request(messages=(Message("user", words),), **more)


def _log(stub: ctypes.CDLL) -> list[str]:
    return bytes(stub.stub_log()).decode().splitlines()


def test_it_answers_greedily_and_says_that_it_cannot_be_judged(
    model: GeniexModel, stub: ctypes.CDLL
) -> None:
    tokens, end = read_all(model.generate(_asked("Where?")))
    assert "".join(each.text for each in tokens) == "Paris is a city."
    assert not any(each.has_evidence for each in tokens)
    assert end == Finish("stop", input_tokens=12, output_tokens=5)
    facts = model.facts()
    assert (facts.backend, facts.model, facts.context_tokens) == ("geniex", "bundle", 512)
    assert not facts.evidence and not facts.rates
    log = _log(stub)
    assert "reset" in log, "nothing of the request before"
    assert "top_k 1 grammar no" in log, "a temperature of 0 means its default"


def test_it_goes_on_where_a_text_broke_off(model: GeniexModel, stub: ctypes.CDLL) -> None:
    list(model.generate(_asked("Where?"), already="In the "))
    assert "assistant: In the " in _log(stub)


def test_a_schema_becomes_a_grammar(model: GeniexModel, stub: ctypes.CDLL) -> None:
    wanted = ResponseFormat({"type": "object", "properties": {"a": {"type": "integer"}}})
    list(model.generate(_asked("Where?", response_format=wanted)))
    assert "top_k 1 grammar yes" in _log(stub)


def test_the_engine_keeps_its_answers_unjudged(stub: ctypes.CDLL, tmp_path: Path) -> None:
    with Engine(_settings(tmp_path)) as engine:
        reply = engine.complete("Where?")
    assert (reply.text, reply.source) == ("Paris is a city.", "local")
    assert (reply.decision.code, reply.confidence) == ("kept_unjudged", None)


def test_a_character_that_two_tokens_share_is_not_lost(model: GeniexModel) -> None:
    tokens, _ = read_all(model.generate(_asked("smile")))
    assert "".join(each.text for each in tokens) == "A smile: \N{GRINNING FACE} it is"
    assert tokens[0].text == "A smile: ", "what came before it is shown at once"


def test_closing_the_stream_stops_the_model_and_the_next_one_runs(
    model: GeniexModel, stub: ctypes.CDLL
) -> None:
    stream = model.generate(_asked("for ever", max_tokens=1_000_000))
    next(stream)
    stream.close()
    assert "cancelled" in _log(stub)
    _, end = read_all(model.generate(_asked("Where?")))
    assert end.reason == "stop"


def test_aborting_from_another_thread_wakes_the_reader(model: GeniexModel) -> None:
    stream = model.generate(_asked("for ever", max_tokens=1_000_000))
    next(stream)
    threading.Timer(0.05, stream.abort).start()
    with pytest.raises(GenerationFailed, match="called off"):
        list(stream)


def test_a_library_that_does_not_stop_is_left_alone(
    model: GeniexModel, stub: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "STOP_S", 0.1)
    stream = model.generate(_asked("deaf", max_tokens=1_000_000))
    next(stream)
    stream.close()
    with pytest.raises(GenerationFailed, match="does not stop"):
        list(model.generate(_asked("Where?")))
    model.close()
    assert "destroyed" not in _log(stub), "nothing is freed under it"
    stub.stub_let_go()
    monkeypatch.setattr(native, "STOP_S", 30.0)
    model.close()
    assert "destroyed" in _log(stub)


def test_two_threads_wait_for_each_other(model: GeniexModel) -> None:
    texts: list[str] = []

    def ask() -> None:
        tokens, _ = read_all(model.generate(_asked("Where?")))
        texts.append("".join(each.text for each in tokens))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert texts == ["Paris is a city."] * 4


def test_an_overflow_is_told_from_a_limit(model: GeniexModel) -> None:
    with pytest.raises(ContextExceeded):
        list(model.generate(_asked("too long")))
    _, end = read_all(model.generate(_asked("Where?", max_tokens=2)))
    assert (end.reason, end.output_tokens) == ("length", 2)


def test_an_error_of_the_library_is_one_line(model: GeniexModel, tmp_path: Path) -> None:
    with pytest.raises(GenerationFailed, match=r"geniex failed: .*the stub was told to fail"):
        list(model.generate(_asked("please fail")))
    broken = parts.open_backend(_settings(tmp_path, "broken"))
    with pytest.raises(GenerationFailed, match="geniex cannot load broken: "):
        list(broken.generate(_asked("Where?")))


def test_a_name_that_is_not_in_its_store_is_never_downloaded(
    stub: ctypes.CDLL, tmp_path: Path
) -> None:
    settings = Settings.load(model="Qwen/Qwen3-4B@geniex", data_dir=tmp_path)
    with pytest.raises(ModelNotFound, match="run `geniex-py pull Qwen/Qwen3-4B`"):
        parts.open_backend(settings)


def test_without_its_library_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from geniex._ffi import _api, _lib

    monkeypatch.setattr(_lib, "_lib", None)
    monkeypatch.setattr(_api, "_initialized", False)
    monkeypatch.setattr(_api, "_bound", False)
    with pytest.raises(ModelNotFound, match="native library of GenieX does not load: Cannot find"):
        parts.open_backend(_settings(tmp_path))
    monkeypatch.setitem(__import__("sys").modules, "geniex", None)
    with pytest.raises(ModelNotFound, match=r"pip install geniex==0.9.3"):
        parts.open_backend(_settings(tmp_path))


def test_it_writes_no_calls() -> None:
    with pytest.raises(ModelNotFound, match="geniex cannot write calls"):
        parts.open_function_model(Settings.load(function_model="bundle@geniex"))
