"""The models that hear and embed, behind turnstiles: each piece of work is a turn of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgewise.local.backend import DeviceFacts, EmbedBackend, SpeechBackend
from edgewise.server.turnstile import Turnstile
from edgewise.server.visit import Visit, current
from edgewise.types.embeddings import Embedded
from edgewise.types.transcripts import Heard

if TYPE_CHECKING:
    from edgewise.local.backend import Samples


class QueuedEars:
    """A long recording is heard in pieces, and others have their turns in between."""

    def __init__(self, ears: SpeechBackend, turnstile: Turnstile) -> None:
        self._ears = ears
        self.turnstile = turnstile

    def facts(self) -> DeviceFacts:
        return self._ears.facts()

    def hear(self, samples: Samples, *, language: str = "", words: bool = True) -> list[Heard]:
        with self.turnstile.turn(current.get() or Visit()):
            return self._ears.hear(samples, language=language, words=words)

    def close(self) -> None:
        self._ears.close()


class QueuedEmbedder:
    """All texts of a request are one turn: an embedder is fast, and batches are faster."""

    def __init__(self, embedder: EmbedBackend, turnstile: Turnstile) -> None:
        self._embedder = embedder
        self.turnstile = turnstile

    def facts(self) -> DeviceFacts:
        return self._embedder.facts()

    def embed(self, texts: Sequence[str]) -> Embedded:
        with self.turnstile.turn(current.get() or Visit()):
            return self._embedder.embed(texts)

    def close(self) -> None:
        self._embedder.close()
