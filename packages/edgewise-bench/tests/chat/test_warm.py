"""The bench of a command that borrows its model, on the real model, as briefly as it goes."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from edgewise.local.store import InstalledModel
from edgewise_bench.commands import bench
from edgewise_bench.commands.warm import TARGETS


@pytest.mark.real_model
def test_measures_the_first_word_of_the_second_ask(default_model: InstalledModel) -> None:
    result = CliRunner().invoke(bench, ["warm", "--rounds", "1", "--json"], catch_exceptions=False)
    card = json.loads(result.stdout)
    assert card["command"] == "edgewise bench warm --rounds 1"
    assert set(TARGETS) <= set(card["metrics"])
    assert all(value > 0 for value in card["metrics"].values())
