from __future__ import annotations

import inspect
import time
from pathlib import Path

import pytest

from edgewise.calls.tools import as_toolbox
from edgewise.cli import act as tools


def test_every_example_describes_itself_and_its_arguments() -> None:
    box = as_toolbox(tools.EXAMPLES)
    for tool in box.tools:
        assert tool.description.endswith("."), tool.name
        for name, field in tool.parameters.get("properties", {}).items():
            assert field.get("description"), f"{tool.name}.{name}"
    assert all(inspect.isfunction(each) for each in tools.EXAMPLES)


def test_notes_are_kept_listed_and_found(own_home: Path) -> None:
    assert tools.list_notes() == []
    tools.add_note("the milk\nis empty")
    tools.add_note("call Zoë")
    first, second = tools.list_notes()
    assert first.endswith("the milk is empty") and second.endswith("call Zoë")
    assert tools.find_notes("MILK") == [first]
    assert (own_home / "data" / "notes.txt").is_file()


def test_a_timer_rings_when_it_is_up_and_nobody_waits_for_it(own_home: Path) -> None:
    begun = time.monotonic()
    assert tools.set_timer(seconds=0.2).startswith("rings at ")
    log = own_home / "data" / "timers.txt"
    while not (log.is_file() and log.read_text()):
        assert time.monotonic() < begun + 30, "it never rang"
        time.sleep(0.02)
    assert "the timer of 0.2 s is up" in log.read_text()
    assert tools._TIMERS[-1].wait(30) == 0


@pytest.mark.parametrize("minutes", [0, -1, 100_000, float("nan")])
def test_a_timer_of_no_length_or_of_days_is_refused(minutes: float) -> None:
    with pytest.raises(ValueError, match="at most a day"):
        tools.set_timer(minutes=minutes)


def test_the_machine_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "GB free of" in tools.get_disk_space()
    assert str(time.localtime().tm_year) in tools.get_time()
    monkeypatch.setattr(tools, "POWER", tmp_path)
    assert tools.get_battery_level() == "no battery was found"
    (tmp_path / "BAT0").mkdir()
    (tmp_path / "BAT0" / "capacity").write_text("87\n")
    assert tools.get_battery_level() == "87 %"
