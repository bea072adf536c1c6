from __future__ import annotations

from pathlib import Path

import pytest

from tests.local.fake_packages import quick_pip


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where pip finds its packages, and nowhere else."""
    quick_pip(monkeypatch, tmp_path / "wheels")
    return tmp_path / "wheels"
