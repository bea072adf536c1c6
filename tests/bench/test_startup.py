"""Starting is measured in processes of its own."""

from __future__ import annotations

from edgewise.bench.startup import measure_startup


def test_starting_takes_some_time() -> None:
    found = measure_startup(1)
    assert found["version_s"] > 0
    assert found["import_s"] < found["version_s"]
