"""ScriptedEmbedder: a local embedder without a model; the same text has the same vector."""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Sequence

from edgewise.errors import GenerationFailed
from edgewise.local.backend import DeviceFacts
from edgewise.types.embeddings import Embedded


class ScriptedEmbedder:
    """Fulfils `edgewise.local.backend.EmbedBackend`. A text is the sum of its words, in 32 numbers.

    So texts that share words are near each other. `fail` raises GenerationFailed instead; a text
    of more words than `window` counts as read in windows.
    """

    def __init__(
        self, space: str = "scripted@none-32", *, window: int = 256, fail: bool = False
    ) -> None:
        self._facts = DeviceFacts(
            backend="scripted",
            model=space.partition("@")[0],
            quantisation="none",
            context_tokens=window,
            languages=("en",),
            space=space,
        )
        self._fail = fail
        self.texts: list[str] = []
        self.closed = False

    def facts(self) -> DeviceFacts:
        return self._facts

    def embed(self, texts: Sequence[str]) -> Embedded:
        if self._fail:
            raise GenerationFailed("told to fail")
        self.texts += texts
        words = [text.split() for text in texts]
        windows = tuple(max(1, -(-len(each) // self._facts.context_tokens)) for each in words)
        return Embedded(tuple(map(_vector, words)), windows, sum(map(len, words)))

    def close(self) -> None:
        self.closed = True


def _vector(words: Sequence[str]) -> array[float]:
    total = [0.0] * 32
    for word in words or [""]:
        key = word.lower().strip(".,;:?!()[]\"'")
        for index, byte in enumerate(hashlib.sha256(key.encode()).digest()):
            total[index] += byte - 127.5
    length = math.sqrt(math.fsum(value * value for value in total))
    return array("f", (value / length for value in total))
