from __future__ import annotations

from pathlib import Path

from edgewise_bench.scale.gateway import measure_overflow


def test_what_the_device_cannot_do_leaves_and_is_counted(tmp_path: Path) -> None:
    found = measure_overflow(tmp_path, 2.0)
    assert found["overflow_refused"] == found["overflow_with_doubt_refused"] == 0
    assert found["cloud_kept_share"] == 0 and found["no_overflow_kept_share"] == 1
    assert 0 < found["overflow_kept_share"] < 1
    assert found["wasted_cloud_share"] == 0, "nothing is started in parallel"
