"""ONNX Runtime computes what llama.cpp computes, with the same bits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from gguf import GGUFReader, quants
from tests.local.llama_logits import llama_logits, log_probabilities
from tests.local.tiny_qwen import write_tiny_qwen

from edgewise.errors import ModelNotFound, StoreError
from edgewise.local.store import InstalledModel
from edgewise_engines.onnx import OnnxSteps
from edgewise_engines.onnx_graph import quantisation_after, write_graph

# "The capital of France is Paris. The capital of Italy is Rome. Two plus two is four."
TOKENS = [504, 3575, 282, 4649, 314, 7042, 30, 378, 3575, 282, 8209, 314, 10896, 30]


def silent(done: int, total: int, label: str) -> None:
    assert 0 <= done <= total


def converted(source: Path, folder: Path) -> Path:
    folder.mkdir()
    return folder / write_graph(source, folder, silent)


def agreement(ours: Any, theirs: Any) -> tuple[float, float]:
    """Share of equal best tokens; mean difference of the chosen tokens' log-probabilities."""
    best = theirs.argmax(axis=-1)
    ours_best, rows = ours.argmax(axis=-1), np.arange(len(best))
    apart = log_probabilities(ours)[rows, best] - log_probabilities(theirs)[rows, best]
    return float((best == ours_best).mean()), float(abs(apart).mean())


def matrix_of(graph: Path, name: str) -> Any:
    """A matrix as the graph's numbers and scales say it."""
    model = onnx.load(str(graph))
    constants = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    numbers = constants[f"{name}.numbers"]
    scales = constants[f"{name}.scales"][..., None]
    middle = 128
    if numbers.shape[-1] == 16:
        numbers = np.stack([numbers & 15, numbers >> 4], axis=-1).reshape(*numbers.shape[:2], 32)
        middle = 8
    return ((numbers.astype(np.float32) - middle) * scales).reshape(len(numbers), -1)


@pytest.fixture(scope="module")
def chat_graph(default_model: InstalledModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return converted(default_model.path, tmp_path_factory.mktemp("onnx") / "chat")


@pytest.fixture(scope="module")
def chat_steps(chat_graph: Path) -> Iterator[OnnxSteps]:
    steps = OnnxSteps(chat_graph, threads=1, context_tokens=256, slots=2)
    yield steps
    steps.close()


@pytest.mark.real_model
def test_the_matrices_of_the_chat_model_keep_their_bits(
    default_model: InstalledModel, chat_graph: Path
) -> None:
    graph = onnx.load(str(chat_graph))
    arrays = {each.name: each for each in graph.graph.initializer}
    for tensor in GGUFReader(default_model.path).tensors:
        if len(tensor.shape) < 2 or not tensor.name.startswith(("blk.0.", "blk.29.", "token")):
            continue  # all of them would take ten seconds
        numbers = onnx.numpy_helper.to_array(arrays[f"{tensor.name}.numbers"])
        scales = onnx.numpy_helper.to_array(arrays[f"{tensor.name}.scales"])
        ours = (numbers.astype(np.float32) - 128) * scales[..., None]
        theirs = quants.dequantize(tensor.data, tensor.tensor_type)
        assert np.array_equal(ours.reshape(theirs.shape), theirs), tensor.name
    assert quantisation_after(default_model.path, "Q8_0") == "Q8_0"


@pytest.mark.real_model
def test_the_chat_model_says_what_llama_cpp_says(
    default_model: InstalledModel, chat_steps: OnnxSteps
) -> None:
    ours = chat_steps.read(0, 0, TOKENS, len(TOKENS)).copy()
    same, apart = agreement(ours, llama_logits(default_model.path, TOKENS))
    assert same >= 0.9
    assert apart < 0.1


@pytest.mark.real_model
def test_the_function_model_says_what_llama_cpp_says(
    default_function_model: InstalledModel, tmp_path: Path
) -> None:
    graph = converted(default_function_model.path, tmp_path / "calls")
    steps = OnnxSteps(graph, threads=1, context_tokens=256)
    ours = steps.read(0, 0, TOKENS, len(TOKENS)).copy()
    steps.close()
    same, apart = agreement(ours, llama_logits(default_function_model.path, TOKENS))
    assert same >= 0.85
    assert apart < 0.1


@pytest.mark.real_model
def test_a_sequence_can_be_read_in_pieces_cut_and_read_again(chat_steps: OnnxSteps) -> None:
    whole = chat_steps.read(0, 0, TOKENS, 4).copy()
    nothing = chat_steps.read(0, 0, TOKENS[:5], 0)
    assert nothing.shape == (0, whole.shape[1])
    chat_steps.read(0, 5, [1, 2, 3, 4, 5, 6, 7], 2)  # a draft that was wrong
    chat_steps.read(0, 5, TOKENS[5:10], 0)
    pieces = chat_steps.read(0, 10, TOKENS[10:], 4)
    assert np.allclose(pieces, whole, atol=1e-3)


@pytest.mark.real_model
def test_a_token_weighs_the_same_alone_and_in_a_draft(chat_steps: OnnxSteps) -> None:
    chat_steps.read(0, 0, TOKENS[:10], 0)
    draft = chat_steps.read(0, 10, TOKENS[10:], 4).copy()
    alone = [chat_steps.read(0, at, [TOKENS[at]], 1)[0].copy() for at in range(10, 14)]
    assert np.allclose(draft, np.stack(alone), atol=1e-3)


@pytest.mark.real_model
def test_slots_do_not_see_each_other(chat_steps: OnnxSteps) -> None:
    chat_steps.read(0, 0, TOKENS[:-1], 0)
    alone = chat_steps.read(0, len(TOKENS) - 1, TOKENS[-1:], 1).copy()
    chat_steps.read(0, 0, TOKENS[:-1], 0)
    chat_steps.read(1, 0, list(range(100, 140)), 1)
    between = chat_steps.read(0, len(TOKENS) - 1, TOKENS[-1:], 1)
    assert np.array_equal(between, alone)


@pytest.mark.parametrize("family", ["llama", "qwen2"])
@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0"])
def test_both_families_say_what_llama_cpp_says(family: str, kind: str, tmp_path: Path) -> None:
    source = tmp_path / "tiny.gguf"
    write_tiny_qwen(source, family=family, matrices=kind, embedding=kind)
    graph = converted(source, tmp_path / "tiny")
    for tensor in GGUFReader(source).tensors:
        if len(tensor.shape) > 1:
            theirs = quants.dequantize(tensor.data, tensor.tensor_type)
            assert np.array_equal(matrix_of(graph, tensor.name), theirs), tensor.name
    steps = OnnxSteps(graph, threads=1, context_tokens=64)
    tokens = list(range(20, 60))
    ours = steps.read(0, 0, tokens, len(tokens)).copy()
    theirs = llama_logits(source, tokens)
    assert ours.shape == theirs.shape
    assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > 0.999
    assert quantisation_after(source, kind) == kind
    steps.close()


def test_other_quantisations_are_rounded_to_eight_bits_and_called_so(tmp_path: Path) -> None:
    source = tmp_path / "tiny.gguf"
    write_tiny_qwen(source, matrices="Q5_0", embedding="F16")
    graph = converted(source, tmp_path / "tiny")
    steps = OnnxSteps(graph, threads=1, context_tokens=64)
    tokens = list(range(20, 60))
    ours, theirs = steps.read(0, 0, tokens, len(tokens)).copy(), llama_logits(source, tokens)
    steps.close()
    assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > 0.99
    assert quantisation_after(source, "Q5_0") == "Q8_0"
    assert quantisation_after(source, "Q8_0") == "Q8_0R"  # the same name, other bits


def test_a_model_of_another_family_is_refused_in_one_line(tmp_path: Path) -> None:
    source = tmp_path / "tiny.gguf"
    write_tiny_qwen(source, family="gemma3")
    with pytest.raises(StoreError, match=r"tiny.gguf is a gemma3 model; .* llama and qwen2"):
        converted(source, tmp_path / "tiny")


def test_what_the_conversion_does_not_know_is_not_left_out_in_silence(tmp_path: Path) -> None:
    source = tmp_path / "tiny.gguf"
    write_tiny_qwen(source, family="llama", more={"blk.0.attn_q_norm.weight": 32})
    with pytest.raises(StoreError, match=r"blk\.0\.attn_q_norm\.weight"):
        converted(source, tmp_path / "tiny")


def test_a_damaged_graph_is_a_missing_model(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"no graph")
    with pytest.raises(ModelNotFound, match="does not load"):
        OnnxSteps(tmp_path / "model.onnx", threads=1, context_tokens=64)
