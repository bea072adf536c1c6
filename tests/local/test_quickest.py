"""The quickest runtime for a model: measured, remembered, and given up when something changes."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from edgewise import parts, plugins
from edgewise.errors import GenerationFailed
from edgewise.local import quickest
from edgewise.local.backend import DeviceFacts
from edgewise.local.quickest import Choice, choose, measure, on_quickest, read_choices, remember
from edgewise.local.store import LLAMA_CPP, InstalledModel, ModelStore
from edgewise.settings import Settings
from edgewise.testing.scripted import SCRIPTED_FUNCTION_MODEL_FACTS
from edgewise.types.replies import Finish, Token

MODEL = InstalledModel("caller", Path("caller.gguf"), "Q8_0", "abc", 1)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Paced:
    """A function model of which every pass takes so many seconds; the first one loads it."""

    def __init__(self, clock: Clock, takes: float, answer: str = "none", fails: bool = False):
        self.clock, self.takes, self.answer, self.fails = clock, takes, answer, fails
        self.passes, self.closed = 0, False

    def facts(self) -> DeviceFacts:
        return SCRIPTED_FUNCTION_MODEL_FACTS

    def write_call(self, call: Any) -> Iterator[Token | Finish]:
        if self.fails:
            raise GenerationFailed("it broke")
        assert call.prompt and call.grammar and call.drafts
        self.passes += 1
        self.clock.now += self.takes if self.passes > 1 else 60.0
        yield Token(self.answer, -0.1)
        yield Finish("stop", 1, 1)

    def close(self) -> None:
        self.closed = True


def chosen_among(models: dict[str, Paced], clock: Clock, worse: str = "", **left: str) -> Choice:
    every: list[tuple[str, InstalledModel | str]] = [
        (name, replace(MODEL, runtime="" if name == LLAMA_CPP else name)) for name in models
    ]
    choice = choose(
        MODEL,
        [*every, *left.items()],
        lambda one: models[one.runtime or LLAMA_CPP],
        lambda facts: ("caller-q8_0", worse),
        calls=True,
        clock=clock,
    )
    assert all(model.closed for model in models.values())
    return choice


@pytest.fixture(autouse=True)
def released(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The release of every package that is installed here."""
    known = {"xllamacpp": "1", "onnxruntime": "1", "openvino": "1"}

    def version(package: str) -> str:
        if package not in known:
            raise PackageNotFoundError(package)
        return known[package]

    monkeypatch.setattr(quickest, "version", version)
    return known


def test_the_quickest_runtime_that_writes_the_same_calls_is_chosen() -> None:
    clock = Clock()
    models = {
        LLAMA_CPP: Paced(clock, 0.2),
        "onnx": Paced(clock, 0.1),
        "openvino": Paced(clock, 0.05, answer="another call"),
    }
    choice = chosen_among(models, clock, executorch="it is not converted")
    assert (choice.runtime, choice.calibration) == ("onnx", "caller-q8_0")
    assert choice.gain == pytest.approx(2.0)
    assert choice.milliseconds["openvino"] == pytest.approx(50.0)
    assert choice.left_out == {
        "executorch": "it is not converted",
        "openvino": "0 of 20 calls are llama.cpp's",
    }
    assert [model.passes for model in models.values()] == [21, 21, 21]
    assert choice.releases == {
        "xllamacpp": "1",
        "onnxruntime": "1",
        "openvino": "1",
        "executorch": "",
    }


def test_what_is_hardly_quicker_or_breaks_or_judges_worse_is_not_chosen() -> None:
    clock = Clock()
    models = {LLAMA_CPP: Paced(clock, 0.2), "onnx": Paced(clock, 0.19)}
    assert chosen_among(models, clock).runtime == ""
    models = {LLAMA_CPP: Paced(clock, 0.2), "onnx": Paced(clock, 0.1, fails=True)}
    choice = chosen_among(models, clock)
    assert (choice.runtime, choice.left_out) == ("", {"onnx": "it broke"})
    models = {LLAMA_CPP: Paced(clock, 0.2), "onnx": Paced(clock, 0.1)}
    choice = chosen_among(models, clock, worse="it gives no hidden states")
    assert (choice.runtime, choice.gain) == ("", 1.0)
    assert choice.left_out == {"onnx": "it gives no hidden states"}


def test_a_burst_of_other_work_does_not_decide() -> None:
    clock = Clock()
    model = Paced(clock, 0.1)

    def step() -> None:
        model.takes = 5.0 if model.passes % 3 == 0 else 0.1

    took, answers, _ = measure(lambda one: model, MODEL, calls=True, step=step, clock=clock)
    assert took == pytest.approx(100.0)
    assert len(answers) == 20


def on_onnx(**changes: Any) -> Choice:
    choice = Choice(
        model="caller",
        runtime="onnx",
        calibration="caller-q8_0:borrowed",
        milliseconds={LLAMA_CPP: 200.0, "onnx": 100.0},
        sha256="abc",
        machine=quickest.machine_name(),
        releases={"xllamacpp": "1", "onnxruntime": "1"},
    )
    return replace(choice, **changes)


class Converted(ModelStore):
    """A store with `caller@onnx`."""

    @override
    def find(self, name_or_path: str | Path) -> InstalledModel:
        assert name_or_path == "caller@onnx"
        return replace(MODEL, name="caller@onnx", runtime="onnx", same_bits=True)


def test_a_model_is_opened_on_the_runtime_that_was_chosen_and_keeps_its_name(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "data"
    store = Converted(tmp_path)
    assert on_quickest(folder, store, MODEL) is MODEL  # nobody has measured
    remember(folder, on_onnx())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700  # it may be the first in it
    remember(tmp_path, on_onnx())
    found = on_quickest(tmp_path, store, MODEL)
    assert (found.name, found.runtime) == ("caller", "onnx")
    named = replace(MODEL, runtime="openvino")
    assert on_quickest(tmp_path, store, named) is named  # somebody named a runtime
    sees = replace(MODEL, projector=Path("eyes"))
    assert on_quickest(tmp_path, store, sees) is sees
    assert on_quickest(tmp_path, ModelStore(tmp_path), MODEL) is MODEL  # the copy was removed
    assert quickest.forget(tmp_path) == 1
    assert on_quickest(tmp_path, store, MODEL) is MODEL


def test_a_choice_ends_with_the_machine_the_weights_or_a_release(
    tmp_path: Path, released: dict[str, str]
) -> None:
    store = Converted(tmp_path)
    for changed, why in (
        ({"machine": "another one"}, "it was another machine"),
        ({"sha256": "abd"}, "the weights are others"),
        ({"releases": {"onnxruntime": "0"}}, "onnxruntime was 0, and is 1"),
    ):
        remember(tmp_path, on_onnx(**changed))
        assert on_quickest(tmp_path, store, MODEL) is MODEL
        assert quickest.why_outdated(tmp_path, MODEL) == why
    remember(tmp_path, on_onnx())
    assert quickest.why_outdated(tmp_path, MODEL) == ""
    del released["onnxruntime"]
    assert quickest.why_outdated(tmp_path, MODEL) == "onnxruntime was 1, and is gone"
    released["executorch"] = "2"  # a runtime that was not there may be quicker
    remember(tmp_path, on_onnx(releases={"executorch": ""}))
    assert quickest.why_outdated(tmp_path, MODEL) == "executorch was not here, and is 2"


def test_a_file_that_cannot_be_read_is_as_none(tmp_path: Path) -> None:
    for text in ("", "[]", '{"caller": {}}', "\udce4"):
        (tmp_path / quickest.FILE).write_text(text, "utf-8", "surrogateescape")
        assert read_choices(tmp_path) == {}


def test_an_engine_uses_the_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, default_function_model: InstalledModel
) -> None:
    opened: list[InstalledModel] = []

    def open_onnx(model: InstalledModel, *, threads: int, context_tokens: int) -> str:
        opened.append(model)
        return "on onnx"

    monkeypatch.setattr(plugins, "load", lambda group, name: open_onnx)
    settings = Settings.load(data_dir=tmp_path, cache_dir=default_function_model.path.parents[2])
    model, base = default_function_model, ModelStore.find

    def find(store: ModelStore, name: str | Path) -> InstalledModel:
        plain = base(store, str(name).removesuffix("@onnx"))
        return replace(plain, runtime="onnx") if str(name).endswith("@onnx") else plain

    monkeypatch.setattr(ModelStore, "find", find)
    remember(tmp_path, on_onnx(model=model.name, sha256=model.sha256))
    assert parts.open_function_model(settings) == "on onnx"  # type: ignore[comparison-overlap]
    assert [(one.name, one.runtime) for one in opened] == [(model.name, "onnx")]
    named = settings.with_changes(function_model=f"{model.name}@{LLAMA_CPP}")
    parts.open_function_model(named)
    assert opened[-1].runtime == ""
