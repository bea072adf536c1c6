"""The Cactus engine, over a faithful stand-in for its binding. Nothing of this ran on hardware."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from edgewise import Engine, parts
from edgewise.errors import (
    ContextExceeded,
    GenerationFailed,
    ModelNotFound,
    SchemaUnsupported,
)
from edgewise.settings import Settings
from edgewise.types.messages import Message, Request, ResponseFormat
from edgewise.types.replies import Finish
from edgewise_engines import native
from edgewise_engines.cactus import CactusModel
from engines import fake_cactus
from engines.reading import read_all


@pytest.fixture
def binding(monkeypatch: pytest.MonkeyPatch) -> fake_cactus.Engine:
    engine = fake_cactus.Engine()
    for name in ("cactus", "cactus.bindings"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "cactus.bindings.cactus", engine)
    return engine


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    folder = tmp_path / "smol"
    folder.mkdir()
    (folder / "config.txt").write_text("model_type=smol", "utf-8")
    return Settings.load(model=f"{folder}@cactus", data_dir=tmp_path, context_tokens=128)


@pytest.fixture
def model(binding: fake_cactus.Engine, settings: Settings) -> Iterator[CactusModel]:
    opened = parts.open_backend(settings)
    assert isinstance(opened, CactusModel)
    yield opened
    opened.close()


def _asked(words: str, **more: Any) -> Request:
    return Request(messages=(Message("user", words),), **more)


def test_it_answers_and_says_at_the_end_how_sure_it_is(
    model: CactusModel, binding: fake_cactus.Engine
) -> None:
    tokens, end = read_all(model.generate(_asked("Where?", stop=("END",))))
    assert "".join(each.text for each in tokens) == "Paris is a city."
    assert not any(each.has_evidence for each in tokens)
    assert end == Finish("stop", input_tokens=12, output_tokens=5, confidence=0.92)
    messages, options = binding.log[-1]
    assert messages == [{"role": "user", "content": "Where?"}]
    assert options["auto_handoff"] is False, "whether it leaves the device is decided here"
    assert (options["temperature"], options["stop_sequences"]) == (0.0, ["END"])
    assert "reset" in binding.log, "nothing of the request before"


@pytest.mark.parametrize("value", [None, -1.0, float("nan"), "high"])
def test_what_is_no_chance_is_not_passed_on(
    model: CactusModel, binding: fake_cactus.Engine, value: Any
) -> None:
    binding.confidence = value
    _, end = read_all(model.generate(_asked("Where?")))
    assert end.confidence is None


def test_the_engine_shows_its_confidence_as_unverified_and_judges_nothing(
    binding: fake_cactus.Engine, settings: Settings
) -> None:
    binding.confidence = 0.1
    with Engine(settings) as engine:
        reply = engine.complete("Where?")
    assert (reply.source, reply.decision.code) == ("local", "kept_unjudged")
    assert (reply.confidence, reply.confidence_verified) == (0.1, False)
    assert "nobody has calibrated the runtime's own confidence" in reply.decision.reason
    assert "(unverified)" in repr(reply)


def test_a_character_that_two_tokens_share_is_not_lost(model: CactusModel) -> None:
    tokens, _ = read_all(model.generate(_asked("smile")))
    assert "".join(each.text for each in tokens) == "A smile: \N{GRINNING FACE} it is"


def test_closing_the_stream_stops_it_and_the_next_one_runs(
    model: CactusModel, binding: fake_cactus.Engine
) -> None:
    stream = model.generate(_asked("for ever", max_tokens=1_000_000))
    next(stream)
    stream.close()
    stops = binding.log.count("stop")
    assert stops
    read_all(model.generate(_asked("Where?")))
    assert binding.log.count("stop") == stops, "what has ended is not stopped"


def test_a_stop_that_comes_before_the_engine_begins_is_not_lost(
    model: CactusModel, binding: fake_cactus.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = model.generate(_asked("for ever", max_tokens=1_000_000))

    def reset(handle: int) -> None:
        stream.abort()
        binding.stop.clear()  # as the engine does when it begins

    monkeypatch.setattr(binding, "cactus_reset", reset)
    with pytest.raises(GenerationFailed, match="called off"):
        list(stream)
    assert not model._turn.locked(), "the engine has stopped"


def test_a_stream_that_waits_for_its_turn_can_be_called_off(
    model: CactusModel, binding: fake_cactus.Engine
) -> None:
    first = model.generate(_asked("for ever", max_tokens=1_000_000))
    next(first)
    second = model.generate(_asked("Where?"))
    threading.Timer(0.05, second.abort).start()
    with pytest.raises(GenerationFailed, match="called off"):
        list(second)
    assert "stop" not in binding.log, "the other's answer goes on"
    first.close()


def test_an_engine_that_does_not_stop_is_left_alone(
    model: CactusModel, binding: fake_cactus.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "STOP_S", 0.1)
    stream = model.generate(_asked("deaf", max_tokens=1_000_000))
    next(stream)
    stream.close()
    with pytest.raises(GenerationFailed, match="does not stop"):
        list(model.generate(_asked("Where?")))
    model.close()
    assert "destroy" not in binding.log
    binding.let_go.set()
    monkeypatch.setattr(native, "STOP_S", 30.0)
    model.close()
    assert binding.log[-1] == "destroy"


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        ("too long", ContextExceeded, "at least 129 tokens, the context window holds 128"),
        ("please fail", GenerationFailed, "cactus failed: Completion failed"),
        ("no JSON", GenerationFailed, "cannot be read"),
        ("the cloud", GenerationFailed, "its own cloud"),
    ],
)
def test_every_fault_is_one_line(
    model: CactusModel, words: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        list(model.generate(_asked(words)))
    _, end = read_all(model.generate(_asked("Where?", max_tokens=2)))
    assert end.reason == "length"


def test_what_it_cannot_do_is_said_before_any_work(model: CactusModel) -> None:
    with pytest.raises(GenerationFailed, match="go on"):
        model.generate(_asked("Where?"), already="In ")
    with pytest.raises(SchemaUnsupported):
        model.generate(_asked("Where?", response_format=ResponseFormat({"type": "object"})))


def test_without_binding_library_or_model_it_says_what_to_do(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cactus", None)
    with pytest.raises(ModelNotFound, match=r"pip install cactus-compute==2.2.2"):
        parts.open_backend(settings)
    package = tmp_path / "cactus" / "bindings"
    package.mkdir(parents=True)
    (tmp_path / "cactus" / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "cactus.py").write_text("raise RuntimeError('library not found')", "utf-8")
    monkeypatch.delitem(sys.modules, "cactus")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModelNotFound, match="library of Cactus does not load: library not found"):
        parts.open_backend(settings)
    for name in ("cactus", "cactus.bindings"):
        sys.modules.pop(name, None)


def test_a_folder_that_is_not_there(binding: fake_cactus.Engine, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="cactus download"):
        parts.open_backend(Settings.load(model="nowhere@cactus", data_dir=tmp_path))
    empty = tmp_path / "empty"
    empty.mkdir()
    opened = parts.open_backend(Settings.load(model=f"{empty}@cactus", data_dir=tmp_path))
    with pytest.raises(GenerationFailed, match="cactus cannot load empty: Failed to initialize"):
        list(opened.generate(_asked("Where?")))
