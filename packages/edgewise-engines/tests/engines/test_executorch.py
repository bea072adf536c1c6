"""ExecuTorch computes what llama.cpp computes, but for the rounding to int8."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.local.llama_logits import llama_logits
from tests.local.tiny_qwen import write_tiny_qwen

from edgewise.errors import ContextExceeded, ExtraMissing, GenerationFailed, StoreError
from edgewise.local.store import InstalledModel, ModelStore
from edgewise.types.messages import Message, Request
from edgewise.types.replies import Finish
from edgewise_engines import executorch
from edgewise_engines.executorch import EXPORTED, ExecuTorchSteps, convert, open_backend
from edgewise_engines.vocabulary import write_vocabulary

TOKENS = list(range(20, 60))
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A model of two layers with biases, exported once: about twenty seconds of work."""
    folder = tmp_path_factory.mktemp("executorch")
    source = folder / "tiny.gguf"
    write_tiny_qwen(source, matrices="Q8_0", embedding="Q8_0", template=TEMPLATE)
    said: list[tuple[int, int, str]] = []
    name = convert(source, folder, lambda *step: said.append(step))
    write_vocabulary(source, folder)
    return SimpleNamespace(source=source, program=folder / name, said=said)


@pytest.fixture(scope="module")
def steps(exported: SimpleNamespace) -> Iterator[ExecuTorchSteps]:
    opened = ExecuTorchSteps(exported.program, threads=1, slots=2)
    yield opened
    opened.close()


def test_it_says_what_llama_cpp_says(exported: SimpleNamespace, steps: ExecuTorchSteps) -> None:
    ours = steps.read(0, 0, TOKENS, len(TOKENS)).copy()
    theirs = llama_logits(exported.source, TOKENS)
    assert ours.shape == theirs.shape
    assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > 0.99
    assert (ours.argmax(axis=1) == theirs.argmax(axis=1)).mean() >= 0.9


def test_a_sequence_can_be_read_in_pieces_cut_and_read_again(steps: ExecuTorchSteps) -> None:
    whole = steps.read(0, 0, TOKENS, 4).copy()
    assert steps.read(0, 0, TOKENS[:5], 0).shape == (0, whole.shape[1])
    steps.read(0, 5, [1, 2, 3, 4, 5, 6, 7], 2)  # a draft that was wrong
    steps.read(0, 5, TOKENS[5:30], 0)
    assert np.allclose(steps.read(0, 30, TOKENS[30:], 4), whole, atol=1e-3)


def test_slots_do_not_see_each_other(steps: ExecuTorchSteps) -> None:
    steps.read(0, 0, TOKENS[:-1], 0)
    alone = steps.read(0, len(TOKENS) - 1, TOKENS[-1:], 1).copy()
    steps.read(0, 0, TOKENS[:-1], 0)
    steps.read(1, 0, TOKENS[::-1], 1)
    assert np.array_equal(steps.read(0, len(TOKENS) - 1, TOKENS[-1:], 1), alone)


def test_a_read_past_the_end_of_the_context_is_an_error_and_no_crash(
    steps: ExecuTorchSteps, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(GenerationFailed, match="ExecuTorch"):
        steps.read(0, steps.exported.context_tokens - 3, TOKENS, 1)
    capfd.readouterr()  # the runtime says why, too
    steps.read(0, 0, TOKENS, 1)


def test_the_runtime_says_nothing_on_standard_error(
    exported: SimpleNamespace, capfd: pytest.CaptureFixture[str]
) -> None:
    opened = ExecuTorchSteps(exported.program, threads=1)
    opened.read(0, 0, TOKENS, 1)
    opened.close()
    assert capfd.readouterr() == ("", "")


def test_an_export_says_first_how_long_it_takes_and_then_how_far_it_is(
    exported: SimpleNamespace,
) -> None:
    labels = list(dict.fromkeys(label for _, _, label in exported.said))
    assert labels[0] == "exporting for ExecuTorch, about 1 min"
    assert [label.rpartition(": ")[2] for label in labels[1:]] == [
        "reading the weights",
        "tracing the model",
        "lowering it to XNNPACK",
        "writing the program",
        "done",
    ]
    shares = [done / total for done, total, _ in exported.said]
    assert shares == sorted(shares) and shares[-1] == 1.0


def test_the_loop_answers_with_it_within_the_context_of_the_program(
    exported: SimpleNamespace,
) -> None:
    model = InstalledModel("tiny@executorch", exported.program, "int8", "", 1, runtime="executorch")
    backend = open_backend(model, threads=1, context_tokens=1 << 20)
    try:
        facts = backend.facts()
        assert (facts.backend, facts.quantisation) == ("executorch", "int8")
        assert facts.context_tokens == 2048
        request = Request(messages=(Message("user", "one two"),), max_tokens=5)
        *tokens, finish = backend.generate(request)
        assert isinstance(finish, Finish)
        assert len(tokens) == finish.output_tokens == 5
        long = Request(messages=(Message("user", "no " * 2048),), max_tokens=5)
        with pytest.raises(ContextExceeded):
            list(backend.generate(long))
    finally:
        backend.close()


def test_a_ready_program_is_checked_and_taken(exported: SimpleNamespace, tmp_path: Path) -> None:
    labels: list[str] = []
    store = ModelStore(tmp_path / "models")
    name = f"{exported.source}@executorch"
    model = store.pull(name, lambda *step: labels.append(step[2]), given=exported.program)
    assert model.path.read_bytes() == exported.program.read_bytes()
    # Not int8, for which a calibration may be shipped: nobody knows how this one was rounded.
    assert (model.runtime, model.quantisation, model.same_bits) == ("executorch", "own", False)
    assert json.loads((model.path.parent / EXPORTED).read_text()) == {
        "context_tokens": 2048,
        "vocabulary": 262,
    }
    assert not any("exporting" in label for label in labels)
    assert store.find(name) == model


def test_a_program_of_another_vocabulary_is_refused(
    exported: SimpleNamespace, tmp_path: Path
) -> None:
    other = tmp_path / "other.gguf"
    write_tiny_qwen(other, special=["<|tool|>"])
    with pytest.raises(StoreError, match=r"262 tokens and other\.gguf has 263"):
        convert(other, tmp_path, given=exported.program)


def test_what_is_no_program_is_refused(exported: SimpleNamespace, tmp_path: Path) -> None:
    fake = tmp_path / "fake.pte"
    fake.write_bytes(b"no program" * 100)
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoreError, match="is not an ExecuTorch program"):
        convert(exported.source, tmp_path / "folder", given=fake)


def test_only_executorch_takes_a_program(exported: SimpleNamespace, tmp_path: Path) -> None:
    store = ModelStore(tmp_path / "models")
    with pytest.raises(StoreError, match=r"cannot be taken for onnx: only \.pte for executorch"):
        store.pull(f"{exported.source}@onnx", given=exported.program)


def program(methods: dict[str, int], inputs: list[tuple[int, ...]]) -> Any:
    """What the runtime says about a program that was exported elsewhere."""
    sizes = [SimpleNamespace(sizes=lambda each=each: each) for each in inputs]
    names = ["forward", *methods]
    meta = SimpleNamespace(
        num_inputs=lambda: len(sizes),
        input_tensor_meta=lambda number: sizes[number],
        num_outputs=lambda: 0,
    )
    return SimpleNamespace(
        num_methods=lambda: len(names),
        get_method_name=lambda number: names[number],
        load_method=lambda name: SimpleNamespace(call=lambda _: [methods[name]]),
        method_meta=lambda name: meta,
    )


@pytest.mark.parametrize(
    ("methods", "inputs", "why"),
    [
        ({}, [(1, 128), (1,)], "no method 'context_tokens'"),
        ({"context_tokens": 9, "vocabulary": 7}, [(1, 128), (1,)], r"takes \[\(1, 128\), \(1,\)\]"),
    ],
)
def test_a_program_that_the_loop_cannot_drive_is_refused_with_what_it_needs(
    methods: dict[str, int], inputs: list[tuple[int, ...]], why: str
) -> None:
    with pytest.raises(Exception, match=why) as refused:
        executorch._checked(program(methods, inputs), Path("theirs.pte"))
    assert "edgewise drives forward(tokens" in str(refused.value)


def test_a_model_of_another_family_is_refused_before_torch_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "tiny.gguf"
    write_tiny_qwen(source, family="gemma3")
    monkeypatch.setattr(subprocess, "Popen", None)
    with pytest.raises(StoreError, match=r"tiny\.gguf is a gemma3 model; .* llama and qwen2"):
        convert(source, tmp_path)


def test_what_the_export_does_not_know_is_not_left_out_in_silence(tmp_path: Path) -> None:
    source = tmp_path / "tiny.gguf"
    write_tiny_qwen(source, more={"blk.0.attn_q_norm.weight": 32})
    with pytest.raises(StoreError, match=r"^the model holds 'blk\.0\.attn_q_norm\.weight'"):
        convert(source, tmp_path)


def test_without_the_extra_the_message_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    model = InstalledModel("tiny@executorch", tmp_path / "model.pte", "int8", "", 1)
    with pytest.raises(ExtraMissing, match=r"\[executorch\]"):
        open_backend(model, threads=1, context_tokens=512)
    with pytest.raises(ExtraMissing, match=r"\[executorch\]"):
        convert(tmp_path / "tiny.gguf", tmp_path)
