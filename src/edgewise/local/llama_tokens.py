"""Reads tokens and their evidence out of the chunks llama.cpp's server sends."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from edgewise.types.tokens import Token


def read_tokens(choice: Mapping[str, Any], *, alternatives: bool = False) -> Iterator[Token]:
    """The tokens of one chunk. The runtime holds back incomplete UTF-8, so text can lag behind."""
    # Chat puts text into a delta, raw completion beside it; the evidence has one form.
    text = (choice.get("delta") or {}).get("content") or choice.get("text") or ""
    entries = (choice.get("logprobs") or {}).get("content") or ()
    if not entries:
        if text:
            yield Token(text, has_evidence=False)
        return
    for entry in entries[:-1]:
        yield _token("", entry, alternatives)
    yield _token(text, entries[-1], alternatives)


def _token(text: str, entry: Mapping[str, Any], alternatives: bool) -> Token:
    best = [float(alternative["logprob"]) for alternative in entry["top_logprobs"]]
    margin = best[0] - best[1] if len(best) > 1 else 0.0
    rest, entropy = 1.0, 0.0
    for logprob in best:
        probability = math.exp(logprob)
        rest -= probability
        entropy -= probability * logprob
    if rest > 1e-9:
        entropy -= rest * math.log(rest)
    named = (
        tuple((one["token"], float(one["logprob"])) for one in entry["top_logprobs"])
        if alternatives
        else ()
    )
    return Token(text, float(entry["logprob"]), margin, entropy, alternatives=named)
