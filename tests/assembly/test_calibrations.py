"""Which calibration a model gets."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from edgewise.assembly.calibrations import (
    find_calibration,
    own_path,
)
from edgewise.errors import SettingsError
from edgewise.local.backend import DeviceFacts
from edgewise.settings import Settings

SHIPPED = "smollm2-135m-instruct-q8_0"
FACTS = DeviceFacts(
    backend="llama_cpp", model="smollm2-135m-instruct", quantisation="Q8_0", context_tokens=2048
)


def document(**changes: Any) -> str:
    file = resources.files("edgewise.calibrations") / f"{SHIPPED}.json"
    return json.dumps(json.loads(file.read_text("utf-8")) | changes)


def test_the_shipped_one_is_found_by_model_and_quantisation(tmp_path: Path) -> None:
    assert find_calibration(Settings(data_dir=tmp_path), FACTS).name == SHIPPED


def test_one_that_was_fitted_here_comes_first_and_again_when_it_is_fitted_again(
    tmp_path: Path,
) -> None:
    settings = Settings(data_dir=tmp_path)
    assert find_calibration(settings, FACTS).threshold == 0.5
    path = own_path(settings, SHIPPED, "chat")
    path.parent.mkdir()
    path.write_text(document(threshold=0.61), "utf-8")
    assert find_calibration(settings, FACTS).threshold == 0.61
    path.unlink()
    assert find_calibration(settings, FACTS).threshold == 0.5


def test_the_file_that_the_settings_name_comes_before_both(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(document(threshold=0.7), "utf-8")
    settings = Settings(data_dir=tmp_path, calibration=str(path))
    assert find_calibration(settings, FACTS).threshold == 0.7


def test_a_file_that_cannot_be_read_is_an_error_and_not_passed_over(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    path = own_path(settings, SHIPPED, "chat")
    path.parent.mkdir()
    path.write_text("{", "utf-8")
    with pytest.raises(SettingsError, match=SHIPPED):
        find_calibration(settings, FACTS)
