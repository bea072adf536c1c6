"""`edgewise embed` with the real model, and its handoff to a loopback cloud."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewise.local.store import InstalledModel
from edgewise.testing import Answer, LoopbackCloud
from tests.cli.conftest import Run


@pytest.mark.real_model
def test_texts_files_and_lines_become_vectors(
    run: Run, tmp_path: Path, default_embedder: InstalledModel
) -> None:
    (tmp_path / "a.txt").write_text("From a file.\nAs one text.")
    ran = run("embed", "A text", "--file", str(tmp_path / "a.txt"), "--json")
    assert ran.json["space"] == "all-minilm-l6-v2@int8-384"
    assert [len(vector) for vector in ran.json["vectors"]] == [384, 384]
    ran = run("embed", "--lines", "--int8", "--json", stdin="one\n\ntwo\n")
    assert len(ran.json["vectors"]) == len(ran.json["scales"]) == 2
    assert all(isinstance(value, int) for value in ran.json["vectors"][0])


@pytest.mark.real_model
def test_people_see_the_space_and_what_to_doubt(run: Run, default_embedder: InstalledModel) -> None:
    ran = run("embed", "Где живут пингвины?")
    assert ran.code == 0
    assert "Где живут пингвины?" in ran.out
    assert "text 1 · language_outside_model" in ran.err
    assert "384 numbers in the space all-minilm-l6-v2@int8-384" in ran.err


@pytest.mark.real_model
def test_another_space_is_refused_with_exit_code_3(
    run: Run, default_embedder: InstalledModel
) -> None:
    ran = run("embed", "hello", "--space", "gte-small@fp32-384", "--json")
    assert ran.code == 3
    assert ran.json["code"] == "space_mismatch"
    assert "edgewise pull gte-small" in ran.json["error"]


def test_the_cloud_embeds_where_it_is_told_to(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with LoopbackCloud() as cloud:
        cloud.always(Answer(vectors=((0.0, 1.0),)))
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        monkeypatch.setenv("OPENAI_BASE_URL", cloud.openai_url)
        ran = run("embed", "hello", "--cloud", "--json")
    assert ran.json["space"] == "openai/text-embedding-3-small-2"
    assert ran.json["source"] == "cloud"


def test_nothing_to_embed_is_a_usage_error(run: Run) -> None:
    assert run("embed", stdin=" \n").code == 2
