"""The routers on made-up outcomes, as a guard against getting worse; on the real ones if here."""

from __future__ import annotations

import math
import os
import tarfile
from functools import partial
from pathlib import Path

import numpy
import pytest

from edgewise.errors import SettingsError
from edgewise.testing import ScriptedEmbedder
from edgewise_bench.routing.frozen import (
    PAIRS,
    SEED,
    Outcomes,
    describe,
    dollars,
    figures,
    measure_frozen,
    measure_study,
    open_data,
    read_frozen,
    read_gsm8k,
    read_mmlu,
    read_pair,
    read_prices,
    score_folds,
    score_pair,
    study_steps,
)
from edgewise_bench.routing.metrics import apgr
from edgewise_bench.routing.router import Prompts, out_of_fold, predict, shapes_of, terms_of
from routing.made_outcomes import expected_gain, made_rows, write_outcomes

DATA = os.environ.get("EDGEWISE_ROUTING_DATA")  # read before tests clear the environment


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
    with pytest.raises(SettingsError, match=r"no folder 'routellm'.*docs/notes/routing\.md"):
        open_data(tmp_path).__enter__()


def made_outcomes(count: int, seed: int) -> Outcomes:
    prompts, weak, strong = zip(*made_rows(count, seed), strict=True)
    return Outcomes(prompts, numpy.array(weak, dtype=float), numpy.array(strong, dtype=float))


def test_the_router_finds_what_there_is_to_find_and_no_more(tmp_path: Path) -> None:
    outcomes = made_outcomes(1500, seed=0)
    prompts = describe(outcomes.prompts, ScriptedEmbedder(), tmp_path, lambda: None)
    found = figures("set", score_folds(outcomes, prompts, SEED, lambda: None), outcomes)
    best = [expected_gain(prompt) for prompt in outcomes.prompts]
    assert found["set_apgr"] >= apgr(best, outcomes.weak, outcomes.strong) - 0.03
    assert found["set_apgr_low"] < found["set_apgr"] < found["set_apgr_high"]
    assert found["set_apgr"] < found["set_apgr_oracle"]
    assert found["set_cpt50"] < 0.3 < found["set_cpt80"] < 0.6
    assert found["set_auroc_gain"] > 0.6
    # Outcomes that have nothing to do with the prompts cannot be foretold.
    order = numpy.random.default_rng(0).permutation(len(outcomes))
    mixed = Outcomes(outcomes.prompts, outcomes.weak[order], outcomes.strong[order])
    nothing = score_folds(mixed, prompts, SEED, lambda: None)
    assert apgr(nothing, mixed.weak, mixed.strong) == pytest.approx(0.5, abs=0.1)


def test_a_training_row_that_is_tested_too_is_left_out(tmp_path: Path) -> None:
    train, test = made_outcomes(200, seed=1), made_outcomes(50, seed=2)
    both = Outcomes(
        train.prompts + test.prompts[:3],
        numpy.concatenate([train.weak, test.weak[:3]]),
        numpy.concatenate([train.strong, test.strong[:3]]),
    )
    embedder = ScriptedEmbedder()
    clean = describe(train.prompts + test.prompts, embedder, tmp_path, lambda: None)
    leaking = describe(both.prompts + test.prompts, embedder, tmp_path, lambda: None)
    score, left_out = score_pair(both, test, leaking)
    assert left_out == 3
    assert score == pytest.approx(score_pair(train, test, clean)[0], abs=1e-3)


def test_the_price_is_that_of_the_share_sent() -> None:
    outcomes = Outcomes(
        ("a", "b", "c", "d"), numpy.array([0.0, 0, 1, 1]), numpy.array([1.0, 0, 1, 1])
    )
    found = dollars("pair", numpy.array([4.0, 3, 2, 1]), outcomes, [0.2, 1.0])
    assert found["pair_cpt100"] == pytest.approx(0.25)
    assert found["pair_dollars_at_strong_quality"] == pytest.approx(0.75 * 0.2 + 0.25 * 1.0)


def test_every_set_is_measured_and_progress_ends_at_its_end(tmp_path: Path) -> None:
    data = read_frozen(write_outcomes(tmp_path / "data", rows=60))
    steps: list[None] = []
    found, routed = measure_frozen(
        data, ScriptedEmbedder(), tmp_path / "cache", lambda: steps.append(None)
    )
    assert len(steps) == data.steps
    assert len(routed) == 2 + len(PAIRS)
    for name in ("mmlu", "gsm8k", *PAIRS):
        for key in ("apgr", "apgr_low", "apgr_high", "cpt50", "cpt80", "auroc_weak", "auroc_gain"):
            assert math.isfinite(found[f"{name}_{key}"]), f"{name}_{key}"
    assert found["mmlu_rows"] == 119
    assert found["llmrouter_training_rows_left_out"] == 1


@pytest.mark.skipif(
    DATA is None,
    reason="EDGEWISE_ROUTING_DATA names no folder with RouteLLM's outcomes (docs/notes/routing.md)",
)
def test_the_published_best_is_beaten_without_vectors() -> None:
    """Words and shape alone: seconds. The bench itself adds vectors."""
    with open_data(Path(str(DATA))) as folder:
        outcomes = read_gsm8k(folder)
    prompts = Prompts(terms_of(outcomes.prompts), (shapes_of(outcomes.prompts),))
    score = out_of_fold(outcomes.prompts, SEED, partial(predict, prompts, outcomes.gain))
    assert len(outcomes) == 1307
    assert apgr(score, outcomes.weak, outcomes.strong) >= 0.64


def test_every_variant_has_a_figure_and_only_files_tell_subjects(tmp_path: Path) -> None:
    data = read_frozen(write_outcomes(tmp_path / "data", rows=60))
    steps: list[None] = []
    found = measure_study(data, ScriptedEmbedder(), tmp_path / "cache", lambda: steps.append(None))
    assert len(steps) == study_steps(data)
    assert all(map(math.isfinite, found.values()))
    assert {f"{name}_apgr_same_rows_kept" for name in ("mmlu", "gsm8k", *PAIRS)} <= set(found)
    assert "mmlu_apgr_one_ridge_with_file_name" in found
    assert "gsm8k_apgr_one_ridge_with_file_name" not in found
