"""A missing model: fetched once, never secretly, never for a typo."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("smollm2-135", "did you mean smollm2-135m-instruct"),
        ("xyzzy", "`edgewise models` lists them"),
        ("./missing.gguf", "there is no file 'missing.gguf'"),
        ("folder/model", "there is no file 'folder/model'"),
    ],
)
def test_a_name_nobody_knows_is_not_looked_for_elsewhere(
    run: Run, no_model: Path, name: str, hint: str
) -> None:
    ran = run("ask", "--model", name, "hi")
    assert ran.code == 5
    assert hint in ran.err
    assert "Getting" not in ran.err


def test_without_model_and_cloud_the_error_says_what_to_do(run: Run, no_model: Path) -> None:
    ran = run("ask", "--json", "hi")
    assert ran.code == 5
    assert "edgewise pull smollm2-135m-instruct" in ran.json["error"]
    assert "edgewise auth set" in ran.json["error"]


def test_a_user_who_wants_no_downloads_gets_none(
    run: Run, no_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEWISE_FETCH_DEFAULT_MODEL", "false")
    ran = run("ask", "hi")
    assert ran.code == 5
    assert "Getting" not in ran.err
    assert not no_model.exists()


def test_a_question_for_the_cloud_fetches_nothing(run: Run, no_model: Path) -> None:
    assert run("ask", "--cloud", "hi").code == 4
    assert not no_model.exists()
