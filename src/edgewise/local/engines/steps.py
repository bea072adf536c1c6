"""What an engine must be able to do: read tokens, and say what may come next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Floats = NDArray[numpy.float32]


class Steps(Protocol):
    """One model that a runtime has loaded. The loop calls it from one thread at a time."""

    # Whether the logits hardly depend on how many tokens are read at once.
    repeatable: bool

    def read(self, slot: int, position: int, tokens: Sequence[int], answers: int) -> Floats:
        """Read tokens of a sequence from `position` on, where the slot forgets what it held.

        Returns the logits after each of the last `answers` tokens, as float32 of the shape
        [answers, vocabulary]. `answers` may be 0. The next `read` may write over them.
        A slot is a sequence with a cache of its own; they count from 0. There are never more than
        128 tokens at a time, and never more in a slot than the context has room for.
        """
        ...

    def close(self) -> None: ...
