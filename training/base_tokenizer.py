"""The `tokenizers` object that splits text exactly as llama.cpp does for a base."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

END_OF_TURN = ("<|im_end|>", "<end_of_turn>")  # Gemma has no ChatML: its markers are text

_CONTROL, _USER_DEFINED = 3, 4  # kinds of token that stand for themselves wherever they occur
# llama.cpp's pattern for qwen2; like it, and unlike the model's own files, no normalising.
_QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def build_tokenizer(metadata: Mapping[str, Any]) -> Any:
    """Prompts are encoded with special tokens (a beginning, where the base wants one)."""
    # Only preparing data needs the library.
    from tokenizers import AddedToken  # noqa: PLC0415

    pieces = metadata["tokenizer.ggml.model"] == "llama"
    tokenizer = _from_scores(metadata) if pieces else _from_merges(metadata)
    kinds = zip(
        metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"], strict=True
    )
    whole = [token for token, kind in kinds if kind in (_CONTROL, _USER_DEFINED)]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in whole])
    return tokenizer


def _from_merges(metadata: Mapping[str, Any]) -> Any:
    from tokenizers import Tokenizer, decoders, models  # noqa: PLC0415

    merges = [tuple(pair.split(" ", 1)) for pair in metadata["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=_vocabulary(metadata), merges=merges))
    tokenizer.pre_tokenizer = _pre_tokenizer(metadata["tokenizer.ggml.pre"])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _from_scores(metadata: Mapping[str, Any]) -> Any:
    """SentencePiece's pairs: any two pieces that make a third, the best made first."""
    from tokenizers import Tokenizer, decoders, models, normalizers, processors  # noqa: PLC0415

    vocabulary = _vocabulary(metadata)
    scores = metadata["tokenizer.ggml.scores"]
    ordinary = (
        number for number, kind in enumerate(metadata["tokenizer.ggml.token_type"]) if kind == 1
    )
    tokens = metadata["tokenizer.ggml.tokens"]
    merges = []
    for number in sorted(ordinary, key=lambda number: -scores[number]):
        token = tokens[number]
        halves = ((token[:cut], token[cut:]) for cut in range(1, len(token)))
        merges += [pair for pair in halves if pair[0] in vocabulary and pair[1] in vocabulary]
    unknown = tokens[metadata["tokenizer.ggml.unknown_token_id"]]
    model = models.BPE(
        vocab=vocabulary, merges=merges, byte_fallback=True, unk_token=unknown, fuse_unk=True
    )
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    begin = metadata["tokenizer.ggml.bos_token_id"]
    if metadata.get("tokenizer.ggml.add_bos_token"):
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{tokens[begin]} $A", special_tokens=[(tokens[begin], begin)]
        )
    return tokenizer


def _vocabulary(metadata: Mapping[str, Any]) -> dict[str, int]:
    return {token: number for number, token in enumerate(metadata["tokenizer.ggml.tokens"])}


def _pre_tokenizer(name: str) -> Any:
    from tokenizers import Regex, pre_tokenizers  # noqa: PLC0415

    if name == "smollm":
        first: Any = pre_tokenizers.Digits(individual_digits=True)
    elif name == "qwen2":
        first = pre_tokenizers.Split(Regex(_QWEN2), "isolated")
    else:
        raise ValueError(f"unknown pre-tokenizer {name}")
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=name == "smollm")
    return pre_tokenizers.Sequence([first, bytes_])


def end_of_turn(tokenizer: Any) -> int:
    """The token that ends an answer."""
    found = (tokenizer.token_to_id(token) for token in END_OF_TURN)
    number: int = next(number for number in found if number is not None)
    return number
