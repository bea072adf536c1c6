"""The calibration that is shipped, and the file a new one is written to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgewise.calibrate.fit import SAME_KEPT, THRESHOLD
from edgewise.calibrate.own import calibration_name
from edgewise.calibrations import find_calibration, model_key, shipped_document
from edgewise.decide.calibration import CHAT, parse_calibration
from edgewise.local.backend import DeviceFacts
from edgewise.local.catalogue import SMALLEST_MODEL, row_named
from edgewise.local.store import InstalledModel
from edgewise.settings import Settings
from edgewise.types.replies import Token
from edgewise_bench.chat.calibration import MEASURING, measures, split_rows, traces_path
from edgewise_bench.chat.traces import Recorded, own_reference
from edgewise_bench.questions.make import make_questions


@pytest.fixture
def shipped() -> dict[str, Any]:
    row = row_named(SMALLEST_MODEL)
    assert row is not None
    name = f"{row.name}-{row.installed_quantisation}".lower()
    return dict(shipped_document(name, "chat") or {})


def test_the_default_model_has_a_calibration_for_its_weights(shipped: dict[str, Any]) -> None:
    row = row_named(SMALLEST_MODEL)
    assert row is not None
    assert shipped["model"] == row.name
    assert shipped["quantisation"] == row.installed_quantisation
    assert shipped["sha256"] == row.result_sha256
    assert shipped["data"]["system"] == row.default_system, "fit it again: the prompt changed"
    facts = DeviceFacts(
        backend="llama_cpp",
        model=row.name,
        quantisation=row.installed_quantisation,
        context_tokens=row.context_tokens,
    )
    found = find_calibration(Settings.load(), model_key(facts), CHAT)
    assert found.name == shipped["name"]
    assert found.fitted
    assert found.threshold == THRESHOLD
    assert found.drop_below < found.threshold < found.keep_above


def test_its_report_is_out_of_fold_and_better_than_chance(shipped: dict[str, Any]) -> None:
    report = shipped["report"]
    assert report["questions"] == shipped["data"]["questions"] > 2 * len(make_questions(0))
    assert report["auroc"] > max(0.65, report["auroc_mean_logprob"])
    assert report["ece"] < 0.03
    assert report["kinds_auroc"] < report["auroc"], "unseen kinds are harder"
    assert report["kept_accuracy"] > report["accuracy"] > report["handed_off_accuracy"]
    assert report["same_kept"] >= SAME_KEPT
    assert sum(each["count"] for each in shipped["bins"]) == report["questions"]


def test_the_file_of_a_fit_is_one_the_engine_reads(shipped: dict[str, Any]) -> None:
    again = parse_calibration(shipped, "shipped")
    assert dict(again.final.weights) == shipped["final"]["weights"]
    assert again.report == shipped["report"]


def test_traces_of_other_weights_are_other_files(tmp_path: Path) -> None:
    settings = Settings.load(cache_dir=tmp_path)
    models = [InstalledModel("m", tmp_path, "Q8_0", digest, 1) for digest in ("aa", "bb")]
    assert calibration_name(models[0]) == "m-q8_0"
    paths = {traces_path(settings, model) for model in models}
    assert len(paths) == 2
    assert all(path.is_relative_to(tmp_path) for path in paths)


def test_a_row_is_told_by_its_name_alone() -> None:
    names = [own_reference(str(number)) for number in range(2000)]
    assert abs(sum(map(measures, names)) / len(names) - MEASURING) < 0.05
    rows = [Recorded(name, "kind", True, True, (Token("a", -0.5),)) for name in names[:100]]
    silent = Recorded("own:silent", "kind", True, True, ())
    fitting, measuring = split_rows([*rows, silent])
    assert len(measuring) == sum(map(measures, names[:100]))
    assert len(fitting) + len(measuring) == 100, "an answer without evidence does neither"
