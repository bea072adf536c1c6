"""Weights converted once: re-quantised, or with an adapter merged in."""

from __future__ import annotations

import signal
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgewise.errors import StoreError
from edgewise.local.backend import CallToWrite
from edgewise.local.catalogue import Requantised, sha256_of
from edgewise.local.convert import merge_adapter, qwen2_as_llama, requantise
from edgewise.local.gguf import quantisation_of
from edgewise.local.llama_cpp import open_backend
from edgewise.local.store import InstalledModel
from edgewise.types.messages import Message, Request
from edgewise.types.replies import Finish, Token
from tests.local.fake_adapter import write_adapter
from tests.local.fake_packages import (
    default_row,
    real_default_weights,
    sha256,
    start_python,
    write_tiny_gguf,
)
from tests.local.tiny_qwen import ATTENTION, WIDTH, write_tiny_qwen


def tensors(path: Path) -> dict[str, Any]:
    from gguf import GGUFReader

    return {tensor.name: tensor for tensor in GGUFReader(path).tensors}


def plain_values(path: Path, name: str) -> Any:
    from gguf import quants

    tensor = tensors(path)[name]
    return quants.dequantize(tensor.data, tensor.tensor_type)


def test_slow_tensors_are_converted_and_all_others_kept_byte_for_byte(tmp_path: Path) -> None:
    source, made = tmp_path / "source.gguf", tmp_path / "made.gguf"
    write_tiny_gguf(source)

    requantise(source, made, "q8_0")

    before, after = tensors(source), tensors(made)
    assert list(after) == list(before)
    kinds = {name: tensor.tensor_type.name for name, tensor in after.items()}
    assert kinds == {
        "first.weight": "Q8_0",
        "second.weight": "Q8_0",
        "third.weight": "Q8_0",
        "norm.weight": "F32",
    }
    for name in ("second.weight", "norm.weight"):
        assert after[name].data.tobytes() == before[name].data.tobytes()
    assert [list(tensor.shape) for tensor in after.values()] == [
        list(tensor.shape) for tensor in before.values()
    ]


def test_q8_0_keeps_the_values_of_q4_1_and_q4_0_rounds_them_again(tmp_path: Path) -> None:
    source = tmp_path / "source.gguf"
    write_tiny_gguf(source)
    requantise(source, tmp_path / "q8.gguf", "q8_0")
    requantise(source, tmp_path / "q4.gguf", "q4_0")

    want = plain_values(source, "first.weight")
    error = {
        kind: float(abs(plain_values(tmp_path / f"{kind}.gguf", "first.weight") - want).max())
        for kind in ("q8", "q4")
    }
    assert 0 < error["q8"] < 0.02  # values reach about 4; half a step of Q8_0 is 4 / 127 / 2
    assert 0.02 < error["q4"] < 0.5


def test_the_header_is_kept_except_for_the_file_type(tmp_path: Path) -> None:
    from gguf import GGUFReader

    source, made = tmp_path / "source.gguf", tmp_path / "made.gguf"
    write_tiny_gguf(source)
    requantise(source, made, "q8_0")

    before = {name: field.contents() for name, field in GGUFReader(source).fields.items()}
    after = {name: field.contents() for name, field in GGUFReader(made).fields.items()}
    assert after.pop("general.file_type") == 7
    assert before.pop("general.file_type") == 3
    assert after == before
    assert after["tokenizer.ggml.tokens"] == ["<s>", "a", "é"]
    assert quantisation_of(made) == "Q8_0"


def test_an_unusual_alignment_is_kept(tmp_path: Path) -> None:
    import numpy
    from gguf import GGUFReader, GGUFWriter

    source, made = tmp_path / "source.gguf", tmp_path / "made.gguf"
    writer = GGUFWriter(source, "llama")
    writer.add_custom_alignment(256)
    writer.add_tensor("odd", numpy.arange(5, dtype=numpy.float32))
    writer.add_tensor("even", numpy.arange(8, dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    requantise(source, made, "q8_0")

    reader = GGUFReader(made)
    assert reader.alignment == 256
    assert [tensor.data.tolist() for tensor in reader.tensors] == [
        [0.0, 1.0, 2.0, 3.0, 4.0],
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0],
    ]


def test_progress_is_reported_for_every_tensor(tmp_path: Path) -> None:
    source = tmp_path / "source.gguf"
    write_tiny_gguf(source)
    seen: list[tuple[int, int, str]] = []
    requantise(source, tmp_path / "made.gguf", "q8_0", lambda *report: seen.append(report))
    assert len(seen) == 4
    assert {label for _, _, label in seen} == {"re-quantising"}
    assert seen[-1][0] == seen[-1][1]
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)


def test_a_killed_process_leaves_nothing_under_the_final_name(tmp_path: Path) -> None:
    source, made = tmp_path / "source.gguf", tmp_path / "made.gguf"
    write_tiny_gguf(source)
    script = """
        import os, signal, sys
        from pathlib import Path
        from edgewise.local.convert import requantise
        def die(done, total, label):
            os.kill(os.getpid(), signal.SIGKILL)
        requantise(Path(sys.argv[1]), Path(sys.argv[2]), "q8_0", die)
    """
    with start_python(script, source, made) as process:
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not made.exists()
    assert (tmp_path / "made.gguf.tmp").exists()  # it was really in the middle

    requantise(source, made, "q8_0")
    assert quantisation_of(made) == "Q8_0"
    assert not (tmp_path / "made.gguf.tmp").exists()


def test_a_file_that_is_not_gguf_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "source.gguf"
    source.write_bytes(b"no weights at all" * 10)
    with pytest.raises(StoreError, match="not a readable GGUF file"):
        requantise(source, tmp_path / "made.gguf", "q8_0")
    assert not (tmp_path / "made.gguf").exists()


def test_the_same_file_comes_out_the_same_every_time(tmp_path: Path) -> None:
    source = tmp_path / "source.gguf"
    write_tiny_gguf(source)
    requantise(source, tmp_path / "one.gguf", "q8_0")
    requantise(source, tmp_path / "two.gguf", "q8_0")
    one, two = ((tmp_path / f"{name}.gguf").read_bytes() for name in ("one", "two"))
    assert sha256(one) == sha256(two)


@pytest.mark.real_model
def test_the_default_model_becomes_the_file_its_row_names(tmp_path: Path) -> None:
    row = default_row()
    assert row.requantise_to == "q8_0"
    made = tmp_path / "made.gguf"
    requantise(real_default_weights(), made, row.requantise_to)
    assert made.stat().st_size == row.result_bytes
    assert sha256_of(made) == row.result_sha256


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
    for quant, name in (("q8_0", "Q8_0"), ("q4_0", "Q4_0"), ("iq4_nl", "IQ4_NL")):
        out = tmp_path / f"{quant}.gguf"
        merge_adapter(base, adapter, out, quant)  # type: ignore[arg-type]
        assert quantisation_of(out) == name
        fields = GGUFReader(out).fields
        assert fields["general.name"].contents() == "a base"
        assert fields["edgewise.adapter.sha256"].contents() == sha256_of(adapter)


def test_the_product_of_a_shipped_adapter_is_exact_in_any_order() -> None:
    """So the merged bytes depend on no machine's way of multiplying matrices."""
    from gguf import GGUFReader, quants

    for name in ("function-caller.gguf", "function-caller-large.gguf"):
        reader = GGUFReader(Path(str(files("edgewise.weights").joinpath(name))))
        pairs: dict[str, dict[str, Any]] = {}
        for tensor in reader.tensors:
            weight, _, role = tensor.name.rpartition(".")
            values = quants.dequantize(tensor.data, tensor.tensor_type).astype("f8")
            pairs.setdefault(weight, {})[role] = values
        for pair in pairs.values():
            a, b = pair["lora_a"], pair["lora_b"]
            most = len(a) * np.abs(a).max() * np.abs(b).max()
            assert most / (_unit(a) * _unit(b)) < 2**53


def _unit(values: Any) -> float:
    """A power of two that all values are whole multiples of."""
    fractions, exponents = np.frexp(values[values != 0])
    whole = (fractions * 2**53).astype(np.int64)
    trailing = np.log2(whole & -whole)
    return float(2.0 ** (exponents - 53 + trailing).min())


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
        items = list(
            backend.write_call(CallToWrite("<|im_start|>user\nnone<|im_end|>\n", max_tokens=12))
        )
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


def test_a_qwen2_file_as_llama_answers_the_same_and_shows_its_states(
    twice: Path, tmp_path: Path
) -> None:
    made = tmp_path / "made.gguf"
    qwen2_as_llama(twice, made)

    before, after = tensors(twice), tensors(made)
    assert list(after) == list(before)
    moved = [name for name in before if before[name].data.tobytes() != after[name].data.tobytes()]
    assert {name.split(".", 2)[2] for name in moved} == {
        "attn_q.weight",
        "attn_q.bias",
        "attn_k.weight",
        "attn_k.bias",
    }
    for name in moved:  # rows change places; no row changes
        assert sorted(map(bytes, after[name].data)) == sorted(map(bytes, before[name].data))

    written, again = answer(twice), answer(made)
    assert len(written) > 3
    assert [text for text, _ in again] == [text for text, _ in written]
    gaps = [one - other for (_, one), (_, other) in zip(written, again, strict=True)]
    assert max(map(abs, gaps)) < 1e-4
    assert states(made) and not states(twice)


def states(path: Path) -> int:
    """How many hidden states of its second layer come with an answer."""
    model = InstalledModel("tiny", path, "Q8_0", "", path.stat().st_size)
    backend = open_backend(model, threads=1, context_tokens=256)
    request = Request(messages=(Message("user", "none"),), max_tokens=6)
    try:
        items = list(backend.generate(request, layer=1))
    finally:
        backend.close()
    return sum(isinstance(item, (Token, Finish)) and item.state is not None for item in items)


def test_a_header_in_the_words_of_llama_keeps_its_values(twice: Path, tmp_path: Path) -> None:
    from gguf import GGUFReader

    made = tmp_path / "made.gguf"
    qwen2_as_llama(twice, made)
    before = {name: field.contents() for name, field in GGUFReader(twice).fields.items()}
    after = {name: field.contents() for name, field in GGUFReader(made).fields.items()}
    assert before.pop("general.architecture") == "qwen2"
    assert after.pop("general.architecture") == "llama"
    assert after == {name.replace("qwen2.", "llama.", 1): each for name, each in before.items()}


def test_only_a_qwen2_file_can_be_made_one_of_llama(base: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a qwen2 file"):
        qwen2_as_llama(base, tmp_path / "made.gguf")
    assert not (tmp_path / "made.gguf").exists()
