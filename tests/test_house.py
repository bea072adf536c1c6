"""The tables of docs/architecture.md, and the script that writes them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from scripts import house
from scripts.house import KINDS, OUTSIDE_ROOMS, SOURCE, Size

# A room may differ so much from the page before somebody has to say why.
MOST_MODULES = 2
MOST_SHARE = 0.03
MOST_LINES = 50  # which of a small room is more


@pytest.fixture(scope="module")
def walks() -> dict[str, list[str]]:
    return house.walks()


def differing(said: Mapping[str, Size], found: Mapping[str, Size]) -> list[str]:
    """The rooms that are not as large as is said, and those that one side lacks."""
    wrong = []
    for room in sorted({*said, *found}):
        old, new = said.get(room, Size(0, 0)), found.get(room, Size(0, 0))
        most_lines = max(MOST_LINES, MOST_SHARE * old.lines)
        grown = abs(new.modules - old.modules) > MOST_MODULES
        if grown or abs(new.lines - old.lines) > most_lines or not (old.modules and new.modules):
            wrong.append(f"{room}: {old.modules}, {old.lines} → {new.modules}, {new.lines}")
    return wrong


def test_every_room_is_as_large_as_the_page_says() -> None:
    wrong = differing(house.sizes_on_the_page(), house.sizes())
    assert not wrong, f"{wrong}: run `python -m scripts.house --write`, and say in the commit why"


def test_a_room_that_grows_shrinks_comes_or_goes_is_seen() -> None:
    said = {"flows/": Size(10, 4000), "search/": Size(3, 400)}
    assert differing(said, {"flows/": Size(12, 4120), "search/": Size(1, 450)}) == []
    assert differing(said, {**said, "flows/": Size(13, 4000)})
    assert differing(said, {**said, "flows/": Size(10, 3879)})
    assert differing(said, {**said, "search/": Size(3, 451)})
    assert differing(said, {**said, "ears/": Size(1, 10)})
    assert differing(said, {"flows/": Size(10, 4000)})


def test_every_module_is_counted_once() -> None:
    sizes = house.sizes()
    rooms = {path.name + "/" for path in SOURCE.iterdir() if list(path.rglob("*.py"))}
    assert rooms | {OUTSIDE_ROOMS, "src/edgewise"} <= set(sizes)
    assert sizes["src/edgewise"].modules == len(list(SOURCE.rglob("*.py")))
    assert sizes["src/edgewise"].lines == sum(sizes[room].lines for room in rooms | {OUTSIDE_ROOMS})
    assert any(name.endswith("/edgewise_bench") for name in sizes), "other distributions count too"


@pytest.mark.parametrize(
    ("kind", "crossed"),
    [
        ("chat kept", {"engine", "flows.chat", "flows.route", "decide.gate", "types.replies"}),
        ("chat handed off", {"flows.chat", "cloud.door", "cloud.openai", "cloud.http"}),
        ("call kept", {"flows.call", "grammar.tools", "calls.parse", "types.replies"}),
        ("call rescued", {"flows.call", "cloud.door", "cloud.openai"}),
        ("POST kept", {"server.app", "bridge", "engine", "flows.chat", "decide.gate"}),
        ("POST handed off", {"server.app", "bridge", "flows.chat", "cloud.openai"}),
        ("transcribe kept", {"flows.transcribe", "speech.audio", "speech.words"}),
    ],
)
def test_a_walk_crosses_what_its_request_needs(
    kind: str, crossed: set[str], walks: dict[str, list[str]]
) -> None:
    """`bridge` uses threads again, and the device's part of a POST runs on them."""
    assert set(walks) == set(KINDS)
    assert {f"edgewise.{name}" for name in crossed} <= set(walks[kind])
    assert 0 < house.of_values(walks[kind]) < len(walks[kind])
    assert not any("testing" in module for module in walks[kind]), "what measures does not count"


def test_only_a_walk_that_leaves_crosses_the_adapter_of_a_cloud(
    walks: dict[str, list[str]],
) -> None:
    away = {kind for kind, modules in walks.items() if "edgewise.cloud.openai" in modules}
    assert away == {"chat handed off", "call rescued", "POST handed off"}


def test_only_a_walk_with_a_schema_crosses_what_knows_schemas(walks: dict[str, list[str]]) -> None:
    knows = {kind for kind, modules in walks.items() if any(".grammar." in one for one in modules)}
    assert knows == {"call kept", "call rescued"}


def test_a_process_with_threads_cannot_be_walked() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        with pytest.raises(AssertionError):
            house.Walk().start()
    finally:
        done.set()
        thread.join()


def test_private_names_are_counted_where_another_uses_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.py").write_text(
        "import os\n"
        "class Engine:\n"
        "    def __init__(self): self._cloud = super()._cloud\n"
        "    def _exit(self): return self._cloud, os._exit(1), self.__class__\n"
    )
    (tmp_path / "b.py").write_text(
        "from edgewise.a import _hidden\n"
        "def _hidden(engine, pair): engine._exit(); self.engine._cloud; pair._replace()\n"
    )
    monkeypatch.setattr(house, "SOURCE", tmp_path)
    monkeypatch.setattr(house, "ROOT", tmp_path)
    assert [(use.path, use.words) for use in house.private_uses()] == [
        ("b.py", "from edgewise.a import _hidden"),
        ("b.py", "self.engine._cloud"),
        ("b.py", "engine._exit"),
    ]


def test_the_tables_are_written_between_their_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "architecture.md"
    page.write_text(f"before\n{house.BEGIN}old\n{house.END}after\n", "utf-8")
    monkeypatch.setattr(house, "PAGE", page)
    for _ in range(2):
        house.write(house.tables({"chat kept": ["edgewise.engine", "edgewise.types.replies"]}))
    text = page.read_text("utf-8")
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert text.count("| chat kept | 1 | 2 |") == 1
    assert house.sizes_on_the_page() == house.sizes()
