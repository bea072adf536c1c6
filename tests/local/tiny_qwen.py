"""A qwen2 model of 86 kilobytes that llama.cpp loads: random weights, real shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

WIDTH, INNER, HEADS, LAYERS = 64, 96, 2, 2
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
ATTENTION = {f"blk.{layer}.attn_q.weight": (WIDTH, WIDTH) for layer in range(LAYERS)}


def write_tiny_qwen(
    path: Path,
    *,
    embedding: str = "Q5_0",
    template: str = "",
    adapter: str = "",
    special: Sequence[str] = (),
    family: str = "qwen2",
    matrices: str = "Q5_0",
    more: Mapping[str, int] | None = None,
) -> bytes:
    """It holds one matrix twice: to enter words as `embedding`, to choose them in Q8_0.

    `template` is its chat template, `adapter` what was merged into it, and `special` are tokens
    that its text shows only where they are asked for. `family` is its architecture (only qwen2
    has biases), and `matrices` the quantisation of its layers. `more` are vectors
    that it holds besides, with their lengths.
    """
    import numpy
    from gguf import GGMLQuantizationType, GGUFWriter, quants

    writer = GGUFWriter(path, family)
    words = _describe(writer, [*SPECIAL, *special])
    if template:
        writer.add_chat_template(template)
    if adapter:
        writer.add_string("edgewise.adapter.sha256", adapter)
    draw = numpy.random.default_rng(0)

    def add(name: str, kind: str, values: Any) -> None:
        quant = GGMLQuantizationType[kind]
        data = quants.quantize(values.astype(numpy.float32), quant)
        writer.add_tensor(name, data, raw_dtype=quant)

    matrix = draw.standard_normal((words, WIDTH)).astype(numpy.float32)
    # What was rounded to eight bits and is read back is rounded to the same bits again.
    rounded = quants.quantize(matrix, GGMLQuantizationType.Q8_0)
    matrix = quants.dequantize(rounded, GGMLQuantizationType.Q8_0)
    add("output.weight", "Q8_0", matrix)
    add("token_embd.weight", embedding, matrix)
    add("output_norm.weight", "F32", numpy.ones(WIDTH))
    for layer in range(LAYERS):
        for norm in ("attn_norm", "ffn_norm"):
            add(f"blk.{layer}.{norm}.weight", "F32", numpy.ones(WIDTH))
        for part in ("q", "k", "v") if family == "qwen2" else ():
            add(f"blk.{layer}.attn_{part}.bias", "F32", draw.standard_normal(WIDTH))
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{layer}.{part}.weight", matrices, draw.standard_normal((WIDTH, WIDTH)) / 4)
        for part in ("ffn_gate", "ffn_up"):
            add(f"blk.{layer}.{part}.weight", matrices, draw.standard_normal((INNER, WIDTH)) / 4)
        add(f"blk.{layer}.ffn_down.weight", matrices, draw.standard_normal((WIDTH, INNER)) / 4)
    for name, length in (more or {}).items():
        add(name, "F32", numpy.ones(length))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def _describe(writer: Any, special: Sequence[str]) -> int:
    """Shape and vocabulary; returns how many tokens there are."""
    tokens = [*_bytes_as_letters(), "no", "ne", "none", *special]
    writer.add_file_type(8)
    writer.add_context_length(2048)
    writer.add_block_count(LAYERS)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * (len(tokens) - len(special)) + [3] * len(special))
    writer.add_token_merges(["n o", "n e", "no ne"])
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_add_bos_token(False)
    return len(tokens)


def _bytes_as_letters() -> list[str]:
    """The printable letter that stands for each byte in vocabularies of this kind."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(byte) for byte in plain] + [chr(256 + number) for number in range(len(others))]
