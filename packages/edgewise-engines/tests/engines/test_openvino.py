"""OpenVINO: the weights of the GGUF, logits like llama.cpp's, and a cache that is cut exactly."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from gguf import GGUFReader, quants
from tests.local.llama_logits import llama_logits, log_probabilities
from tests.local.tiny_qwen import write_tiny_qwen

from edgewise.errors import GenerationFailed, ModelNotFound, StoreError
from edgewise.local.store import InstalledModel
from edgewise_engines.openvino import (
    OpenVinoSteps,
    choose_device,
    convert,
    load_openvino,
    quantisation,
)

Floats = npt.NDArray[np.float32]
# "The capital of France is Paris. Once upon a time there was a small house at the edge of a wide
# forest, in which an old man lived with his dog. Water boils at one hundred degrees."
TOKENS = [
    504,
    3575,
    282,
    4649,
    314,
    7042,
    30,
    4027,
    1980,
    253,
    655,
    665,
    436,
    253,
    1165,
    2291,
    418,
    260,
    5595,
    282,
    253,
    3599,
    3150,
    28,
    281,
    527,
    354,
    1573,
    555,
    4161,
    351,
    650,
    2767,
    30,
    4643,
    36411,
    418,
    582,
    3822,
    5027,
    30,
]


def agreement(ours: Floats, theirs: Floats) -> tuple[float, float]:
    """Share of equal best tokens; mean distance of the log-probabilities of the ten likeliest."""
    one, other = log_probabilities(ours), log_probabilities(theirs)
    likeliest = np.argsort(-other, axis=-1)[:, :10]
    apart = np.take_along_axis(one, likeliest, -1) - np.take_along_axis(other, likeliest, -1)
    return float((one.argmax(-1) == other.argmax(-1)).mean()), float(np.abs(apart).mean())


def silent(done: int, total: int, label: str) -> None:
    assert done <= total and label


@pytest.fixture(scope="module")
def converted(default_model: InstalledModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("openvino")
    return folder / convert(default_model.path, folder, silent)


@pytest.fixture(scope="module")
def steps(converted: Path) -> Iterator[OpenVinoSteps]:
    steps = OpenVinoSteps(converted, threads=1, slots=2, gpu="off")
    yield steps
    steps.close()


@pytest.mark.real_model
def test_logits_are_those_of_llama_cpp(steps: OpenVinoSteps, default_model: InstalledModel) -> None:
    same, apart = agreement(
        steps.read(0, 0, TOKENS, len(TOKENS)), llama_logits(default_model.path, TOKENS)
    )
    assert same > 0.9 and apart < 0.15


@pytest.mark.real_model
def test_logits_of_the_function_model_are_those_of_llama_cpp(
    default_function_model: InstalledModel, tmp_path: Path
) -> None:
    converted = tmp_path / convert(default_function_model.path, tmp_path, silent)
    steps = OpenVinoSteps(converted, threads=1, gpu="off")
    ours = steps.read(0, 0, TOKENS, len(TOKENS)).copy()
    steps.close()
    same, apart = agreement(ours, llama_logits(default_function_model.path, TOKENS))
    assert same > 0.8 and apart < 0.2


@pytest.mark.real_model
def test_logits_do_not_depend_on_how_many_tokens_are_read_at_once(steps: OpenVinoSteps) -> None:
    """Otherwise an answer would depend on its drafts."""
    tokens = TOKENS
    whole = steps.read(0, 0, tokens, len(tokens)).copy()
    single = [steps.read(0, place, [token], 1).copy() for place, token in enumerate(tokens)]
    same, apart = agreement(np.concatenate(single), whole)
    assert same == 1 and apart < 0.01


@pytest.mark.real_model
def test_what_a_slot_held_after_a_position_is_forgotten(steps: OpenVinoSteps) -> None:
    tokens = TOKENS
    steps.read(0, 0, tokens[:20], 0)
    alone = steps.read(0, 20, tokens[20:24], 4).copy()
    steps.read(0, 10, tokens[30:40], 1)  # another end
    steps.read(0, 10, tokens[10:20], 0)
    same, apart = agreement(steps.read(0, 20, tokens[20:24], 4), alone)
    assert same == 1 and apart < 0.01
    assert steps.read(0, 0, tokens[:3], 2).shape == (2, alone.shape[1])


@pytest.mark.real_model
def test_cutting_leaves_the_rest_as_it_was(steps: OpenVinoSteps) -> None:
    tokens = TOKENS
    steps.read(0, 0, tokens[:20], 0)
    before = steps.read(0, 20, tokens[20:21], 1).copy()
    steps.read(0, 21, tokens[21:30], 0)
    assert np.array_equal(steps.read(0, 20, tokens[20:21], 1), before)


@pytest.mark.real_model
def test_slots_do_not_see_each_other(steps: OpenVinoSteps) -> None:
    tokens = TOKENS
    steps.read(0, 0, tokens[:20], 0)
    steps.read(1, 0, tokens[20:40], 0)
    beside = steps.read(0, 20, tokens[20:21], 1).copy()
    steps.read(0, 0, tokens[:20], 0)
    assert np.array_equal(steps.read(0, 20, tokens[20:21], 1), beside)


@pytest.mark.real_model
def test_a_position_that_was_never_read_is_an_error(steps: OpenVinoSteps) -> None:
    steps.read(0, 0, [1, 2, 3], 0)
    with pytest.raises(GenerationFailed, match="has read 3 tokens, not 9"):
        steps.read(0, 9, [4], 1)


@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        ("Q8_0", True),
        ("Q4_0", True),
        ("Q5_0", True),
        ("F16", True),
        ("BF16", True),
        ("Q4_1", False),
    ],
)
def test_the_name_says_whether_the_weights_are_those_of_the_gguf(
    kind: str, kept: bool, tmp_path: Path
) -> None:
    """Only the same weights can borrow a calibration."""
    source = tmp_path / "tiny.gguf"
    write_tiny_qwen(source, matrices=kind, embedding=kind)
    assert quantisation(source, kind) == (kind if kept else f"{kind}R")
    openvino = load_openvino()
    model = openvino.Core().read_model(tmp_path / convert(source, tmp_path, silent))
    nodes = {node.get_friendly_name(): node for node in model.get_ops()}
    same = []
    for tensor in GGUFReader(source).tensors:
        if len(tensor.shape) == 2:
            weights = nodes[f"weight.weight_{tensor.name}"].output(0)
            values = next(iter(_compute(openvino, weights).values()))
            said = quants.dequantize(tensor.data, tensor.tensor_type)
            same.append(np.array_equal(values.reshape(said.shape), said))
    assert len(same) == 16 and all(same) == kept


def _compute(openvino: Any, output: Any) -> Any:
    model = openvino.Model([output], [], "weights")
    precise = {"INFERENCE_PRECISION_HINT": "f32"}
    return openvino.Core().compile_model(model, "CPU", precise)([])


@pytest.mark.real_model
def test_the_default_models_keep_their_bits(
    default_model: InstalledModel, default_function_model: InstalledModel
) -> None:
    for model in (default_model, default_function_model):
        assert quantisation(model.path, model.quantisation) == model.quantisation


def test_qwen2_is_read_too(tmp_path: Path) -> None:
    source = tmp_path / "tiny.gguf"
    write_tiny_qwen(source)
    tokens = [7, 60, 61, 62, 80, 81, 82, 90]
    steps = OpenVinoSteps(tmp_path / convert(source, tmp_path, silent), threads=1)
    ours = steps.read(0, 0, tokens, len(tokens))
    same, apart = agreement(ours, llama_logits(source, tokens))
    steps.close()
    assert same > 0.8 and apart < 0.2


def test_a_file_that_is_no_model_is_named(tmp_path: Path) -> None:
    source = tmp_path / "broken.gguf"
    source.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(StoreError, match=r"OpenVINO cannot read broken\.gguf"):
        convert(source, tmp_path, silent)


def test_the_package_is_loaded_without_its_telemetry() -> None:
    load_openvino()
    assert sys.modules["openvino_telemetry"] is None
    assert "openvino.tools.ovc.telemetry_stub" in sys.modules


def test_the_device_follows_the_settings() -> None:
    both = ["CPU", "GPU.0", "GPU.1"]
    assert choose_device(both) == "GPU"
    assert choose_device(both, gpu="off") == choose_device(both, gpu="0") == "CPU"
    assert choose_device(["CPU"]) == "CPU"
    assert choose_device(["CPU", "NPU"], named="NPU") == "NPU"
    assert choose_device(both, gpu="off", named="AUTO") == "AUTO"
    with pytest.raises(ModelNotFound, match="finds no NPU here, only CPU"):
        choose_device(["CPU"], named="NPU")
