"""Reads a whole answer of a backend."""

from __future__ import annotations

from edgewise.local.backend import TokenStream
from edgewise.types.replies import Finish, Token


def read_all(stream: TokenStream) -> tuple[list[Token], Finish]:
    *tokens, end = stream
    assert isinstance(end, Finish)
    return [each for each in tokens if isinstance(each, Token)], end
