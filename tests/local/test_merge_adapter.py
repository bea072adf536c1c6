from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgewise.errors import StoreError
from edgewise.local.llama_cpp import open_backend
from edgewise.local.store.catalogue import Requantised
from edgewise.local.store.convert import merge_adapter
from edgewise.local.store.gguf_header import quantisation_of
from edgewise.local.store.store import InstalledModel
from edgewise.local.store.verify import sha256_of
from edgewise.types.tokens import Token
from tests.local.fake_adapter import write_adapter
from tests.local.tiny_qwen import ATTENTION, WIDTH, write_tiny_qwen

OUTPUTS, INPUTS, RANK = 64, 96, 32


def write(
    path: Path, tensors: dict[str, tuple[Any, str]], architecture: str = "llama", **fields: Any
) -> None:
    from gguf import GGMLQuantizationType, GGUFWriter, quants

    writer = GGUFWriter(path, architecture)
    for name, value in fields.items():
        key = name.replace("__", ".")
        if isinstance(value, float):
            writer.add_float32(key, value)
        else:
            writer.add_string(key, value)
    for name, (values, kind) in tensors.items():
        quant = GGMLQuantizationType[kind]
        writer.add_tensor(name, quants.quantize(values, quant), raw_dtype=quant)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def read(path: Path) -> dict[str, Any]:
    from gguf import GGUFReader, quants

    reader = GGUFReader(path)
    return {t.name: quants.dequantize(t.data, t.tensor_type) for t in reader.tensors}


def draw(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "base.gguf"
    tensors = {
        "token_embd.weight": (draw(80, INPUTS, seed=1), "Q8_0"),
        "blk.0.attn_q.weight": (draw(OUTPUTS, INPUTS, seed=2), "Q4_1"),
        "blk.0.attn_k.weight": (draw(OUTPUTS, INPUTS, seed=3), "Q4_1"),
        "blk.0.attn_norm.weight": (draw(INPUTS, seed=4), "F32"),
    }
    write(path, tensors, general__name="a base")
    return path


def adapter_of(folder: Path, tensors: dict[str, tuple[Any, str]], **fields: Any) -> Path:
    path = folder / "adapter.gguf"
    defaults: dict[str, Any] = {"general__type": "adapter", "adapter__lora__alpha": 2.0 * RANK}
    write(path, tensors, **(defaults | fields))
    return path


def thin(seed: int = 5) -> dict[str, tuple[Any, str]]:
    return {
        "blk.0.attn_q.weight.lora_a": (draw(RANK, INPUTS, seed=seed) * 0.1, "F16"),
        "blk.0.attn_q.weight.lora_b": (draw(OUTPUTS, RANK, seed=seed + 1) * 0.1, "F16"),
    }


def test_merged_weights_are_the_base_plus_the_scaled_product(base: Path, tmp_path: Path) -> None:
    parts = thin()
    merge_adapter(base, adapter_of(tmp_path, parts), tmp_path / "out.gguf", "q8_0")

    before, after = read(base), read(tmp_path / "out.gguf")
    a, b = (value for value, _ in parts.values())
    wanted = before["blk.0.attn_q.weight"] + 2.0 * (b @ a)  # alpha is twice the rank
    assert np.abs(after["blk.0.attn_q.weight"] - wanted).max() < 0.03
    assert np.abs(before["blk.0.attn_q.weight"] - wanted).max() > 0.3
    assert np.abs(after["blk.0.attn_k.weight"] - before["blk.0.attn_k.weight"]).max() < 0.03
    for name in ("token_embd.weight", "blk.0.attn_norm.weight"):
        assert np.array_equal(after[name], before[name])


def test_the_result_names_its_quantisation_and_its_adapter(base: Path, tmp_path: Path) -> None:
    from gguf import GGUFReader

    adapter = adapter_of(tmp_path, thin())
    for quant, name in (("q8_0", "Q8_0"), ("q4_0", "Q4_0")):
        out = tmp_path / f"{quant}.gguf"
        merge_adapter(base, adapter, out, quant)  # type: ignore[arg-type]
        assert quantisation_of(out) == name
        fields = GGUFReader(out).fields
        assert fields["general.name"].contents() == "a base"
        assert fields["edgewise.adapter.sha256"].contents() == sha256_of(adapter)


def test_norms_and_embedding_may_change_too(base: Path, tmp_path: Path) -> None:
    parts = {
        "token_embd.weight.lora_a": (draw(RANK, INPUTS, seed=7), "Q8_0"),
        "token_embd.weight.lora_b": (draw(80, RANK, seed=8), "Q8_0"),
        "blk.0.attn_norm.weight.delta": (draw(INPUTS, seed=9), "F32"),
    }
    merge_adapter(base, adapter_of(tmp_path, parts), tmp_path / "out.gguf", "q8_0")

    before, after = read(base), read(tmp_path / "out.gguf")
    change = after["blk.0.attn_norm.weight"] - before["blk.0.attn_norm.weight"]
    assert np.allclose(change, draw(INPUTS, seed=9), atol=1e-6)
    moved = after["token_embd.weight"] - before["token_embd.weight"]
    wanted = 2.0 * draw(80, RANK, seed=8) @ draw(RANK, INPUTS, seed=7)
    assert np.linalg.norm(moved - wanted) < 0.03 * np.linalg.norm(wanted)


def test_the_same_inputs_give_the_same_bytes_and_progress_reaches_the_end(
    base: Path, tmp_path: Path
) -> None:
    adapter = adapter_of(tmp_path, thin())
    seen: list[tuple[int, int]] = []
    merge_adapter(
        base,
        adapter,
        tmp_path / "one.gguf",
        "q8_0",
        lambda done, all_, _: seen.append((done, all_)),
    )
    merge_adapter(base, adapter, tmp_path / "two.gguf", "q8_0")

    assert (tmp_path / "one.gguf").read_bytes() == (tmp_path / "two.gguf").read_bytes()
    assert len(seen) == 4 and seen[-1][0] == seen[-1][1]
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize(
    ("tensors", "fields", "words"),
    [
        (thin(), {"general__type": "model"}, "not an adapter"),
        (thin(), {"architecture": "qwen2"}, "it was made for qwen2, and the base is llama"),
        ({"blk.9.attn_q.weight.lora_a": (draw(RANK, INPUTS), "F16")}, {}, "does not fit"),
        ({"blk.0.attn_q.weight.surprise": (draw(RANK, INPUTS), "F16")}, {}, "does not fit"),
        ({"blk.0.attn_q.weight.lora_a": (draw(RANK, INPUTS), "F16")}, {}, "incomplete"),
        ({"blk.0.attn_q.weight.lora_b": (draw(OUTPUTS, RANK), "F16")}, {}, "incomplete"),
        (
            thin() | {"blk.0.attn_q.weight.lora_b": (draw(OUTPUTS, 2 * RANK), "F16")},
            {},
            "two ranks",
        ),
        ({"blk.0.attn_norm.weight.delta": (draw(INPUTS + 1), "F32")}, {}, "another shape"),
    ],
)
def test_an_adapter_that_does_not_fit_is_refused(
    base: Path, tmp_path: Path, tensors: Any, fields: dict[str, Any], words: str
) -> None:
    adapter = adapter_of(tmp_path, tensors, **fields)
    with pytest.raises(StoreError, match=words):
        merge_adapter(base, adapter, tmp_path / "out.gguf", "q8_0")
    assert not (tmp_path / "out.gguf").exists()


@pytest.fixture
def twice(tmp_path: Path) -> Path:
    """A base that holds its embedding twice, rounded to five bits and to eight."""
    write_tiny_qwen(tmp_path / "twice.gguf")
    return tmp_path / "twice.gguf"


def answer(path: Path) -> list[tuple[str, float]]:
    """What llama.cpp writes with these weights."""
    model = InstalledModel("tiny", path, "Q8_0", "", path.stat().st_size)
    backend = open_backend(model, threads=1, context_tokens=256)
    try:
        items = list(backend.write_call("<|im_start|>user\nnone<|im_end|>\n", max_tokens=12))
    finally:
        backend.close()
    return [(item.text, item.logprob) for item in items if isinstance(item, Token)]


@pytest.mark.parametrize("quant", ["q8_0", "q4_0"])
def test_of_an_embedding_held_twice_the_finer_one_serves_both_ends(
    twice: Path, tmp_path: Path, quant: Requantised
) -> None:
    write_adapter(tmp_path / "adapter.gguf", ATTENTION, architecture="qwen2")
    fine = tmp_path / "fine.gguf"
    write_tiny_qwen(fine, embedding="Q8_0")  # the same model, with the finer one in both places
    for source, name, as_one in (
        (twice, "coarse", False),
        (twice, "one", True),
        (fine, "two", False),
    ):
        out = tmp_path / f"{name}.gguf"
        merge_adapter(source, tmp_path / "adapter.gguf", out, quant, one_embedding=as_one)

    held = {name: read(tmp_path / f"{name}.gguf") for name in ("coarse", "one")}
    assert set(held["coarse"]) - set(held["one"]) == {"output.weight"}
    assert np.array_equal(held["one"]["token_embd.weight"], read(twice)["output.weight"])
    one, two, coarse = (answer(tmp_path / f"{name}.gguf") for name in ("one", "two", "coarse"))
    assert len(one) > 3
    if quant == "q8_0":  # otherwise the read-out of the second file has fewer bits
        assert one == two
    assert one != coarse


def test_an_adapters_change_to_the_one_embedding_is_a_change_to_the_finer_one(
    twice: Path, tmp_path: Path
) -> None:
    words = len(read(twice)["output.weight"])
    write_adapter(tmp_path / "a.gguf", {"token_embd.weight": (words, WIDTH)}, architecture="qwen2")
    merge_adapter(twice, tmp_path / "a.gguf", tmp_path / "out.gguf", "q8_0", one_embedding=True)
    parts = read(tmp_path / "a.gguf")
    change = parts["token_embd.weight.lora_b"] @ parts["token_embd.weight.lora_a"]
    moved = read(tmp_path / "out.gguf")["token_embd.weight"] - read(twice)["output.weight"]
    assert np.abs(change).max() > 0.04
    assert np.abs(moved - change).max() < 0.02  # half a step of eight bits


def test_an_embedding_that_is_not_held_twice_cannot_be_made_one(
    base: Path, twice: Path, tmp_path: Path
) -> None:
    with pytest.raises(StoreError, match="does not hold its embedding twice"):
        adapter = adapter_of(tmp_path, thin())
        merge_adapter(base, adapter, tmp_path / "out.gguf", "q8_0", one_embedding=True)
    write_adapter(tmp_path / "output.gguf", {"output.weight": (262, WIDTH)}, architecture="qwen2")
    with pytest.raises(StoreError, match=r"does not fit its base: it holds 'output.weight.lora_a'"):
        merge_adapter(
            twice, tmp_path / "output.gguf", tmp_path / "out.gguf", "q8_0", one_embedding=True
        )


def test_a_file_that_is_no_gguf_is_refused(base: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"nothing of the kind")
    with pytest.raises(StoreError, match="not a readable GGUF"):
        merge_adapter(base, broken, tmp_path / "out.gguf", "q8_0")
