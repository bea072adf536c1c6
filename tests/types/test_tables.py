"""Tables of a TOML file as rows."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from edgewise.types.tables import Table, read_row


@dataclass(frozen=True)
class Wheel:
    size: float
    spokes: int | None = None


@dataclass(frozen=True)
class Bicycle:
    name: str
    wheels: tuple[Wheel, ...] = ()


def read(table: dict[str, Any], where: str) -> Bicycle:
    return read_row(Bicycle, table, where)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of a package that can be imported."""
    package = tmp_path / "package_with_a_table"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, package.name, raising=False)
    return package / "bicycles.toml"


def rows_of(file: Path) -> Table[Bicycle]:
    return Table(file.parent.name, file.name, "bicycle", read)


def test_tables_are_rows_by_name_in_their_order(file: Path) -> None:
    file.write_text(
        '[[bicycle]]\nname = "b"\nwheels = [{ size = 28.0, spokes = 32 }, { size = 26.0 }]\n'
        '[[bicycle]]\nname = "a"\n'
    )
    found = rows_of(file)
    assert list(found) == ["b", "a"] and len(found) == 2
    assert found["b"].wheels == (Wheel(28.0, 32), Wheel(26.0))
    assert found.get("c") is None


def test_nothing_is_read_before_it_is_needed_and_then_once(file: Path) -> None:
    found = rows_of(file)
    file.write_text('[[bicycle]]\nname = "a"\n')
    assert "a" in found
    file.unlink()
    assert found["a"] is found["a"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[bicycle]]\n", "bicycles.toml, bicycle 1: the field 'name' is missing"),
        ('[[bicycle]]\nname = "a"\nbell = 1\n', "bicycle 'a': there is no field 'bell'"),
        ('[[bicycle]]\nname = "a"\n' * 2, "bicycle 'a': there are two of this name"),
        (
            '[[bicycle]]\nname = "a"\nwheels = [{ size = 28 }]\n',
            "bicycle 'a', wheels, size: 28 is not a number with a point",
        ),
        (
            '[[bicycle]]\nname = "a"\nwheels = [28.0]\n',
            "bicycle 'a', wheels: 28.0 is not a table",
        ),
    ],
)
def test_an_error_names_the_file_the_row_and_the_field(file: Path, text: str, words: str) -> None:
    file.write_text(text)
    with pytest.raises(ValueError, match=words):
        list(rows_of(file))
