from __future__ import annotations

import math
from pathlib import Path

from edgewise.bench.frozen_routing import PAIRS, read_frozen
from edgewise.bench.frozen_study import measure_study, study_steps
from edgewise.testing import ScriptedEmbedder
from tests.bench.made_outcomes import write_outcomes


def test_every_variant_has_a_figure_and_only_files_tell_subjects(tmp_path: Path) -> None:
    data = read_frozen(write_outcomes(tmp_path / "data", rows=60))
    steps: list[None] = []
    found = measure_study(data, ScriptedEmbedder(), tmp_path / "cache", lambda: steps.append(None))
    assert len(steps) == study_steps(data)
    assert all(map(math.isfinite, found.values()))
    assert {f"{name}_apgr_same_rows_kept" for name in ("mmlu", "gsm8k", *PAIRS)} <= set(found)
    assert "mmlu_apgr_one_ridge_with_file_name" in found
    assert "gsm8k_apgr_one_ridge_with_file_name" not in found
