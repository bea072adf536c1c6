from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from edgewise.bench.frozen_outcomes import (
    open_data,
    read_gsm8k,
    read_mmlu,
    read_pair,
    read_prices,
)
from edgewise.bench.frozen_routing import PAIRS
from edgewise.errors import SettingsError
from tests.bench.made_outcomes import made_rows, write_outcomes


def test_rows_come_with_their_outcomes_and_without_contaminated_prompts(tmp_path: Path) -> None:
    folder = write_outcomes(tmp_path, rows=10)
    outcomes = read_gsm8k(folder)
    wanted = made_rows(10, 0)[1:]  # the first one is listed as contaminated
    assert list(outcomes.prompts) == [prompt for prompt, _, _ in wanted]
    assert outcomes.weak.tolist() == [float(weak) for _, weak, _ in wanted]
    assert outcomes.strong.tolist() == [float(strong) for _, _, strong in wanted]
    assert outcomes.gain.tolist() == [float(strong) - weak for _, weak, strong in wanted]


def test_the_file_of_a_row_is_kept_apart_from_its_prompt(tmp_path: Path) -> None:
    outcomes = read_mmlu(write_outcomes(tmp_path, rows=10))
    assert outcomes.files == ("first",) * 9 + ("second",) * 10
    chosen = outcomes.rows([0, 18])
    assert chosen.files == ("first", "second")
    assert chosen.prompts == (outcomes.prompts[0], outcomes.prompts[18])


def test_a_pair_is_read_as_it_was_split_and_with_its_prices(tmp_path: Path) -> None:
    folder = write_outcomes(tmp_path, rows=10)
    train, test = read_pair(folder, *PAIRS["llmrouter"])
    assert (len(train), len(test)) == (11, 5)
    prices = read_prices(folder)
    assert [prices[name] for name in PAIRS["llmrouter"]] == [0.2, 0.9]


def test_an_archive_is_as_good_as_its_folder(tmp_path: Path) -> None:
    folder = write_outcomes(tmp_path / "data", rows=10)
    archive = tmp_path / "data.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        for child in folder.iterdir():
            file.add(child, child.name)
    with open_data(folder) as here, open_data(archive) as unpacked:
        assert here == folder
        assert unpacked != folder
        assert read_gsm8k(unpacked).prompts == read_gsm8k(here).prompts
    assert not unpacked.exists()


def test_a_folder_without_the_data_is_told_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"no folder 'routellm'.*docs/routing\.md"):
        open_data(tmp_path).__enter__()
