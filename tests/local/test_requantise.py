from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from edgewise.errors import StoreError
from edgewise.local.store.convert import requantise
from edgewise.local.store.gguf_header import quantisation_of
from edgewise.local.store.verify import sha256_of
from tests.local.fake_packages import (
    default_row,
    real_default_weights,
    sha256,
    start_python,
    write_tiny_gguf,
)


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
        from edgewise.local.store.convert import requantise
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
