from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training.base_weights import GgufFile, read_shape, read_weights
from training.export import write_gguf
from training.rows import ANSWER, pack
from training.run_settings import RunSettings

from edgewise.local.convert import LEVELS, round_to_levels

torch = pytest.importorskip("torch", reason="training needs torch; serving does not")

WIDTH, LAYERS, WORDS = 64, 2, 50
# What an architecture's layers have that LLaMA's do not.
OWN: dict[str, dict[str, int]] = {
    "llama": {},
    "qwen2": {"attn_q.bias": 64, "attn_k.bias": 32, "attn_v.bias": 32},
    "gemma3": {
        "attn_q_norm.weight": 16,
        "attn_k_norm.weight": 16,
        "post_attention_norm.weight": WIDTH,
        "post_ffw_norm.weight": WIDTH,
    },
}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return write_base(tmp_path / "base.gguf", "llama")


def write_base(path: Path, architecture: str) -> Path:
    """A two-layer model of random numbers: four heads of 16, two of them for keys."""
    generator = np.random.default_rng(0)

    def draw(*shape: int) -> Any:
        return (generator.standard_normal(shape) / shape[-1] ** 0.5).astype(np.float32)

    tensors = {
        "token_embd.weight": draw(WORDS, WIDTH) * 4,
        "output_norm.weight": np.ones(WIDTH, "f4"),
    }
    for layer in range(LAYERS):
        for name, size in {
            "attn_q": (64, WIDTH),
            "attn_k": (32, WIDTH),
            "attn_v": (32, WIDTH),
            "attn_output": (WIDTH, 64),
            "ffn_gate": (96, WIDTH),
            "ffn_up": (96, WIDTH),
            "ffn_down": (WIDTH, 96),
        }.items():
            tensors[f"blk.{layer}.{name}.weight"] = draw(*size)
        for name in ("attn_norm", "ffn_norm"):
            tensors[f"blk.{layer}.{name}.weight"] = np.ones(WIDTH, "f4")
        for name, length in OWN[architecture].items():
            tensors[f"blk.{layer}.{name}"] = draw(length) * 8
    metadata = {
        "general.architecture": architecture,
        f"{architecture}.block_count": LAYERS,
        f"{architecture}.embedding_length": WIDTH,
        f"{architecture}.feed_forward_length": 96,
        f"{architecture}.attention.head_count": 4,
        f"{architecture}.attention.head_count_kv": 2,
        f"{architecture}.rope.freq_base": 10000.0,
        f"{architecture}.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.tokens": [f"w{number}" for number in range(WORDS)],
    }
    if architecture == "gemma3":
        metadata["gemma3.attention.sliding_window"] = 4
    write_gguf(path, metadata, tensors, dict.fromkeys(tensors, "F32"))
    return path


def repeated_words(count: int, seed: int) -> list[tuple[list[int], list[int]]]:
    """Examples whose answer is their third word, then the end: something to learn."""
    generator = np.random.default_rng(seed)
    examples = []
    for _ in range(count):
        prompt = [int(word) for word in generator.integers(5, 12, size=4)]
        examples.append(([*prompt, prompt[2], 2], [0] * 4 + [ANSWER] * 2))
    return examples


@pytest.mark.parametrize(
    "settings",
    [
        RunSettings("lora", rank=32, alpha=64, learning_rate=1e-2),
        RunSettings("full", method="full", learning_rate=3e-3, export_rank=64),
        RunSettings("aware", rank=32, learning_rate=1e-2, quantise_aware="Q8_0", norms=True),
        RunSettings("words", rank=32, learning_rate=1e-2, embedding_rank=32, value_weight=2.0),
    ],
    ids=lambda settings: settings.name,
)
def test_a_trained_and_written_run_answers_new_prompts(
    base: Path, tmp_path: Path, settings: RunSettings
) -> None:
    from dataclasses import replace

    from training.decode import decode
    from training.save_run import save_run, served_weights
    from training.train import Machine, train

    torch.manual_seed(0)
    machine = Machine(base, "cpu", 8, 64, compiled=False)
    rows = pack(repeated_words(600, seed=1), 64)
    outcome = train(machine, rows, replace(settings, rows=8, tokens=8 * 64 * 150, seconds=1e9))
    assert outcome.status == "finished"
    assert outcome.losses[-1][1] < 0.5 * outcome.losses[0][1]

    adapter = tmp_path / "adapter.gguf"
    save_run(adapter, outcome.trainable)
    weights = served_weights(machine.base, adapter, "Q8_0", torch.float32)
    prompts = [tokens[:4] for tokens, _ in repeated_words(40, seed=2)]
    answers = decode(weights, machine.shape, prompts, 2, batch=16, longest_answer=6)
    right = sum(a.tokens == [p[2]] for a, p in zip(answers, prompts, strict=True))
    before = decode(
        served_weights(machine.base, None, "none", torch.float32), machine.shape, prompts, 2,
        longest_answer=6,
    )  # fmt: skip
    assert right > 30 > sum(a.tokens == [p[2]] for a, p in zip(before, prompts, strict=True))


def test_packed_neighbours_do_not_see_each_other(base: Path) -> None:
    from training.train import Machine

    machine = Machine(base, "cpu", 1, 32, compiled=False)
    file = GgufFile(base)
    assert read_shape(file) == machine.shape and "output_norm.weight" in read_weights(file)
    stacks = machine.base.stacks
    weights = machine.base.assemble(
        stacks, machine.base.embedding, machine.base.output_norm, torch.float32
    )
    alone = torch.tensor([[7, 8, 9, 3]])
    packed = torch.tensor([[20, 21, 22, 7, 8, 9, 3, 30]])
    documents = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 2]], dtype=torch.int32)
    with torch.no_grad():
        one = machine.hidden(weights, alone, torch.zeros(1, 4, dtype=torch.int32))
        other = machine.hidden(weights, packed, documents)
    assert torch.allclose(one[0], other[0, 3:7], atol=1e-5)


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "gemma3"])
def test_decoding_with_a_cache_gives_what_reading_it_whole_gives(
    tmp_path: Path, architecture: str
) -> None:
    from training.decode import decode
    from training.train import Machine

    base = write_base(tmp_path / "base.gguf", architecture)
    machine = Machine(base, "cpu", 1, 64, compiled=False)
    weights = machine.base.assemble(
        machine.base.stacks, machine.base.embedding, machine.base.output_norm, torch.float32
    )
    prompts = [[5, 6, 7], [8, 9, 10, 11, 12, 13], [14]]
    answers = decode(weights, machine.shape, prompts, WORDS + 1, batch=3, longest_answer=8)
    for prompt, answer in zip(prompts, answers, strict=True):
        tokens = torch.tensor([[*prompt, *answer.tokens]])
        with torch.no_grad():
            x = machine.hidden(weights, tokens, torch.zeros_like(tokens, dtype=torch.int32))
            normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
            logs = (normed @ weights.embedding.T).log_softmax(-1)[0]
        for place, (token, logprob) in enumerate(zip(answer.tokens, answer.logprobs, strict=True)):
            at = logs[len(prompt) - 1 + place]
            assert int(at.argmax()) == token
            assert float(at[token]) == pytest.approx(logprob, abs=1e-3)


def test_the_blocks_of_a_mask_are_those_of_the_dense_one() -> None:
    from training.attention import BLOCK, flex_document_mask
    from training.model import dense_document_mask

    documents = torch.tensor([[0] * 300 + [1] * 600 + [2] * 124, [0] * 1024], dtype=torch.int32)
    for window in (0, 256, 300):
        dense = dense_document_mask(documents, window)[:, 0]
        cut = dense.unflatten(1, (-1, BLOCK)).unflatten(3, (-1, BLOCK)).transpose(2, 3)
        whole, some = cut.all(-1).all(-1), cut.any(-1).any(-1)
        blocks = flex_document_mask(documents, window)
        full = _listed(blocks.full_kv_num_blocks, blocks.full_kv_indices)
        partial = _listed(blocks.kv_num_blocks, blocks.kv_indices)
        assert not (full & ~whole).any() and not (full & partial).any()
        assert torch.equal(full | partial, some)
        number = torch.arange(1024)
        answered = blocks.mask_mod(1, 0, number[:, None], number[None, :])
        assert torch.equal(answered, dense[1])


def _listed(counts: Any, indices: Any) -> Any:
    """Which blocks the first `counts` of `indices` name."""
    named = torch.arange(indices.shape[-1]) < counts[..., None]
    marks = torch.zeros_like(indices).scatter(-1, indices.long(), named.to(indices.dtype))
    return marks[:, 0].bool()


def test_the_torch_rounding_is_the_one_files_have() -> None:
    from training.adapter import fake_quantise
    from training.quantise import round_trip

    values = np.random.default_rng(1).standard_normal((20, 64)).astype(np.float32)
    stored = {kind: round_trip(values, kind) for kind in ("Q8_0", "Q4_0")}
    stored["IQ4_NL"] = _levels(values)
    for kind, wanted in stored.items():
        ours = fake_quantise(torch.from_numpy(values), kind).numpy()
        assert np.mean(np.abs(ours - wanted) > 1e-6) < 0.01


def _levels(values: Any) -> Any:
    blocks = round_to_levels(values).reshape(-1, 18)
    scales = blocks[:, :2].copy().view("<f2").astype(np.float32)
    codes = np.concatenate([blocks[:, 2:] & 15, blocks[:, 2:] >> 4], axis=1)
    return (np.array(LEVELS, np.float32)[codes] * scales).reshape(values.shape)


def test_a_rounding_may_have_exceptions() -> None:
    from training.adapter import GROUPS, kinds_of

    assert kinds_of("Q8_0") == dict.fromkeys(GROUPS, "Q8_0")
    mixed = kinds_of("IQ4_NL,ffn_down=Q8_0")
    assert (mixed["ffn_down"], mixed["ffn_up"], mixed["attn_q"]) == ("Q8_0", "IQ4_NL", "IQ4_NL")
    with pytest.raises(ValueError, match="no group 'ffn'"):
        kinds_of("Q4_0,ffn=Q8_0")


def test_a_run_that_goes_on_through_its_rounding_comes_back_to_its_start(
    base: Path, tmp_path: Path
) -> None:
    """What rounding took away is won back, and the written file is what was trained."""
    from training.save_run import save_run, served_weights
    from training.train import Leader, Machine, make_batch, train

    torch.manual_seed(0)
    machine = Machine(base, "cpu", 8, 64, compiled=False)
    rows = pack(repeated_words(6000, seed=1), 64)  # all that can be asked: nothing to overfit
    first = RunSettings(
        "first", rank=32, alpha=32, learning_rate=1e-2, rows=8, tokens=8 * 64 * 150, seconds=1e9,
        export_kind="Q4_0",
    )  # fmt: skip
    start = tmp_path / "start.gguf"
    save_run(start, train(machine, rows, first).trainable)
    settings = RunSettings(
        "on", rank=32, alpha=32, learning_rate=5e-4, rows=8, tokens=8 * 64 * 150, seconds=1e9,
        start=str(start), follow_start=1.0, quantise_aware="IQ4_NL,ffn_down=Q8_0",
        round_adapter=True, export_kind="Q4_0", norms=True,
    )  # fmt: skip
    outcome = train(machine, rows, settings)
    written = tmp_path / "on.gguf"
    save_run(written, outcome.trainable)

    leader = Leader(served_weights(machine.base, start, "none", torch.float32), 1.0)
    batch = make_batch(pack(repeated_words(80, seed=2), 64), slice(0, 8), settings, machine.device)

    def apart(weights: Any) -> float:
        with torch.no_grad():
            return float(machine.loss(weights, batch, leader))

    served = settings.quantise_aware
    rounded_only = apart(served_weights(machine.base, start, served, torch.float32))
    went_on = apart(served_weights(machine.base, written, served, torch.float32))
    with torch.no_grad():
        trained = outcome.trainable.weights(torch.float32)
    assert apart(leader.weights) == pytest.approx(0, abs=1e-6)
    assert went_on < 0.5 * rounded_only
    for ours, read in zip(trained.layers[0], served_layer(machine, written, served), strict=True):
        assert ours is None or torch.allclose(ours, read, atol=1e-5)


def served_layer(machine: Any, adapter: Path, served: str) -> Any:
    from training.save_run import served_weights

    return served_weights(machine.base, adapter, served, torch.float32).layers[0]


def test_a_start_of_another_rank_is_refused(base: Path, tmp_path: Path) -> None:
    from training.adapter import Trainable
    from training.save_run import save_run
    from training.train import Machine

    machine = Machine(base, "cpu", 8, 64, compiled=False)
    start = tmp_path / "start.gguf"
    save_run(start, Trainable(machine.base, RunSettings("small", rank=32)))
    with pytest.raises(ValueError, match="the start has rank 32, not 64"):
        Trainable(machine.base, RunSettings("other", rank=64, start=str(start)))
