"""Answers, evidence and states of a batch are those of each prompt on its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training.base_weights import GgufFile
from training.export import write_gguf
from training.trace_files import CLIP, STEPS, pack_states

from edgewise.local.convert import qwen2_as_llama

torch = pytest.importorskip("torch", reason="training needs torch; serving does not")

WIDTH, LAYERS, END = 64, 28, 49
TOKENS = [*(f"w{number}" for number in range(END)), "<|im_end|>"]
PROMPTS = [[1, 2, 3], [4, 5, 6, 7, 8, 9, 10], [11], [12, 13, 14, 15], [30, 31, 32, 33, 34]]


@pytest.fixture(params=["llama", "qwen2"])
def model(request: Any, tmp_path: Path) -> Path:
    """Layers of random numbers; words come in and go out by two different matrices."""
    generator = np.random.default_rng(1)

    def draw(*shape: int) -> Any:
        return (generator.standard_normal(shape) / shape[-1] ** 0.5).astype(np.float32)

    tensors = {"token_embd.weight": draw(len(TOKENS), WIDTH) * 4}
    tensors["output.weight"] = draw(len(TOKENS), WIDTH) * 3
    tensors["output_norm.weight"] = np.ones(WIDTH, "f4")
    sizes = {"attn_q": 64, "attn_k": 32, "attn_v": 32}
    for layer in range(LAYERS):
        for name, rows in sizes.items():
            tensors[f"blk.{layer}.{name}.weight"] = draw(rows, WIDTH)
            if request.param == "qwen2":
                tensors[f"blk.{layer}.{name}.bias"] = draw(rows)
        tensors[f"blk.{layer}.attn_output.weight"] = draw(WIDTH, 64)
        tensors[f"blk.{layer}.ffn_gate.weight"] = draw(96, WIDTH)
        tensors[f"blk.{layer}.ffn_up.weight"] = draw(96, WIDTH)
        tensors[f"blk.{layer}.ffn_down.weight"] = draw(WIDTH, 96)
        for name in ("attn_norm", "ffn_norm"):
            tensors[f"blk.{layer}.{name}.weight"] = np.ones(WIDTH, "f4")
    kind = request.param
    metadata = {
        "general.architecture": kind,
        f"{kind}.block_count": LAYERS,
        f"{kind}.embedding_length": WIDTH,
        f"{kind}.feed_forward_length": 96,
        f"{kind}.attention.head_count": 4,
        f"{kind}.attention.head_count_kv": 2,
        f"{kind}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{kind}.rope.freq_base": 10000.0,
        "tokenizer.ggml.tokens": TOKENS,
        "general.file_type": 0,
    }
    path = tmp_path / "model.gguf"
    write_gguf(path, metadata, tensors, dict.fromkeys(tensors, "F32"))
    return path


def test_a_batch_answers_like_each_prompt_alone(model: Path) -> None:
    from training.chat_traces import answer, end_tokens, load_model

    file = GgufFile(model)
    weights, shape = load_model(file, "cpu")
    ends = end_tokens(file.metadata)
    assert ends == [END]
    together = answer(weights, shape, PROMPTS, ends, longest=12)
    for number, prompt in enumerate(PROMPTS):
        alone = answer(weights, shape, [prompt], ends, longest=12)
        length = int(alone["lengths"][0])
        assert together["lengths"][number] == length
        assert together["ended"][number] == alone["ended"][0]
        assert (together["tokens"][number][:length] == alone["tokens"][0][:length]).all()
        for name in ("before", "mean", "early"):
            assert np.allclose(together[name][number], alone[name][0], atol=1e-3), name
        for name in ("logprobs", "margins", "entropies"):
            ours, theirs = together[name][number][:length], alone[name][0][:length]
            assert np.allclose(ours, theirs, atol=1e-3), name


@pytest.mark.parametrize("model", ["qwen2"], indirect=True)
def test_a_rearranged_file_answers_as_the_original(model: Path, tmp_path: Path) -> None:
    from training.chat_traces import answer, load_model

    rearranged = tmp_path / "rearranged.gguf"
    qwen2_as_llama(model, rearranged)
    one, other = (
        answer(*load_model(GgufFile(path), "cpu"), PROMPTS[:2], [END], longest=6)
        for path in (model, rearranged)
    )
    assert (one["tokens"] == other["tokens"]).all()
    assert np.allclose(one["mean"], other["mean"], atol=1e-3)


def test_states_and_evidence_are_those_of_one_pass_over_prompt_and_answer(model: Path) -> None:
    from training.chat_traces import GUESS, _Batch, answer, end_tokens, load_model

    file = GgufFile(model)
    weights, shape = load_model(file, "cpu")
    found = answer(weights, shape, [PROMPTS[1]], end_tokens(file.metadata), longest=10)
    said = [int(token) for token in found["tokens"][0][: found["lengths"][0]]]
    fed = said if found["ended"][0] else said[:-1]  # a last token that was cut off is never read
    with torch.inference_mode():
        # The state at the end of a longer prompt is the state at that token of the answer.
        states = [
            _Batch(weights, shape, [[*PROMPTS[1], *said[:end]]], 1)._read_prompts()[1][0]
            for end in range(len(fed) + 1)
        ]
    assert np.allclose(found["before"][0], states[0], atol=1e-3)
    mean = torch.stack(states[1:]).mean(dim=0)
    assert np.allclose(found["mean"][0], mean, atol=1e-3)
    early = torch.stack(states[1:5]).mean(dim=0)[GUESS]
    assert np.allclose(found["early"][0][1], early, atol=1e-3)
    assert (found["logprobs"][0][: len(said)] < 0).all()
    assert (found["margins"][0][: len(said)] >= 0).all()


def test_a_trace_leaves_a_folder_that_the_fit_can_read(model: Path, tmp_path: Path) -> None:
    import gzip

    from training.chat_traces import trace, watched_layers

    rows = tmp_path / "rows.jsonl.gz"
    with gzip.open(rows, "wt") as file:
        for prompt in PROMPTS:
            file.write(json.dumps({"tokens": prompt}) + "\n")
    trace(model, rows, tmp_path / "out", device="cpu", batch=2, longest=5)
    layers = watched_layers(LAYERS)
    with np.load(tmp_path / "out" / "answers.npz") as answers:
        texts, lengths = json.loads(str(answers["texts"])), answers["lengths"]
        assert answers["tokens"].shape == (len(PROMPTS), 5) and lengths.max() <= 5
    assert len(texts) == len(PROMPTS)
    assert texts[0].startswith("w") == bool(lengths[0])
    assert (tmp_path / "out" / f"mean-{layers[0]}.npz").exists()
    assert (tmp_path / "out" / f"early8-{layers[3]}.npz").exists()


def test_the_watched_layers_of_a_model_with_28_are_those_that_were_measured() -> None:
    from training.chat_traces import watched_layers

    assert watched_layers(28) == (12, 15, 17, 19, 21, 24)
    assert watched_layers(24) == (10, 13, 15, 16, 18, 21)


def test_a_packed_state_is_within_half_a_step() -> None:
    states = np.random.default_rng(0).normal(3.0, 20.0, (200, 5)).astype(np.float32)
    packed = pack_states(states)
    back = packed["z"] / STEPS * packed["spread"] + packed["centre"]
    assert np.abs((back - states) / packed["spread"]).max() <= 0.51 / STEPS
    assert np.abs(packed["z"]).max() <= CLIP * STEPS


def test_tokens_spell_bytes() -> None:
    from training.chat_traces import token_bytes

    spelt = token_bytes({"tokenizer.ggml.tokens": ["Ġthe", "Ã©", "Ċ", "<|im_end|>"]})
    assert spelt == [b" the", "é".encode(), b"\n", b"<|im_end|>"]
