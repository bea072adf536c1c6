"""The `tokenizers` object that splits text exactly as llama.cpp does for a base."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

END_OF_TURN = "<|im_end|>"

_CONTROL, _USER_DEFINED = 3, 4  # kinds of token that stand for themselves wherever they occur
# llama.cpp's pattern for qwen2; like it, and unlike the model's own files, no normalising.
_QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def build_tokenizer(metadata: Mapping[str, Any]) -> Any:
    # Only preparing data needs the library.
    from tokenizers import AddedToken, Tokenizer, decoders, models  # noqa: PLC0415

    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(pair.split(" ", 1)) for pair in metadata["tokenizer.ggml.merges"]]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = _pre_tokenizer(metadata["tokenizer.ggml.pre"])
    tokenizer.decoder = decoders.ByteLevel()
    kinds = metadata["tokenizer.ggml.token_type"]
    whole = [
        token
        for token, kind in zip(tokens, kinds, strict=True)
        if kind in (_CONTROL, _USER_DEFINED)
    ]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in whole])
    return tokenizer


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
    number: int = tokenizer.token_to_id(END_OF_TURN)
    return number
