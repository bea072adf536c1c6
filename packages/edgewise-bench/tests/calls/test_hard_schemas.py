"""Requests with nested tools: which they are, and what becomes of them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from edgewise.errors import SettingsError
from edgewise.local.store import InstalledModel
from edgewise.settings import Settings
from edgewise_bench.calls.hard_schemas import (
    is_nested,
    measure_hard_schemas,
    read_hard_requests,
)

TEXT = {"type": "string"}
FLAT = {"type": "object", "properties": {"name": TEXT, "tags": {"type": "array", "items": TEXT}}}
IN_OBJECT = {"type": "object", "properties": {"owner": FLAT}}
IN_LIST = {"type": "object", "properties": {"owners": {"type": "array", "items": FLAT}}}


def row(query: str, *parameters: dict[str, Any]) -> dict[str, Any]:
    tools = [
        {"name": f"tool_{number}", "description": "Does it", "parameters": each}
        for number, each in enumerate(parameters)
    ]
    return {"query": query, "tools": tools}


ROWS = [row("flat", FLAT), row("one", FLAT, IN_OBJECT), row("two", IN_LIST), row("three", IN_LIST)]


def test_an_object_in_an_object_or_in_a_list_is_nested() -> None:
    assert [is_nested(each) for each in (FLAT, IN_OBJECT, IN_LIST, {}, None)] == [
        False, True, True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["cases.json", "cases.jsonl", "cases.jsonl.gz"])
def test_requests_with_nested_tools_are_read_from_every_kind_of_file(
    name: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    lines = "\n".join(map(json.dumps, ROWS))
    text = json.dumps({"cases": ROWS}) if name == "cases.json" else lines
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    assert [each.query for each in read_hard_requests(path)] == ["one", "two", "three"]
    assert [each.query for each in read_hard_requests(path, 2)] == ["one", "two"]


@pytest.mark.parametrize(
    ("text", "why"), [("{}", "not a file"), (json.dumps({"cases": ROWS[:1]}), "no request")]
)
def test_a_file_without_such_requests_is_refused(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "cases.json"
    path.write_text(text)
    with pytest.raises(SettingsError, match=why):
        read_hard_requests(path)
    with pytest.raises(SettingsError, match="no file"):
        read_hard_requests(tmp_path / "missing.json")


@pytest.mark.real_model
def test_every_request_is_kept_or_handed_off(
    default_function_model: InstalledModel, tmp_path: Path
) -> None:
    path = tmp_path / "cases.json"
    path.write_text(json.dumps({"cases": ROWS}))
    steps: list[None] = []
    settings = Settings.load(threads=1)
    requests = read_hard_requests(path)
    found = measure_hard_schemas(settings, requests, lambda: steps.append(None))
    assert (found["hard_requests"], len(steps)) == (3, 3)
    assert 0 < found["hard_ms_p50"] <= found["hard_ms_p95"]
    assert found["hard_kept_share"] + found["hard_cut_share"] <= 1
