"""The models that hear, embed and see, behind turnstiles: each piece of work is a turn."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Unpack

from typing_extensions import override

from edgewise.local.backend import (
    DeviceFacts,
    EmbedBackend,
    Eyes,
    Guide,
    SpeechBackend,
    VisionBackend,
)
from edgewise.server.turnstile import Turnstile
from edgewise.server.visit import Visit, current
from edgewise.types.embeddings import Embedded
from edgewise.types.sights import Sight
from edgewise.types.transcripts import Heard

if TYPE_CHECKING:
    from edgewise.local.backend import PictureArray, Samples


class QueuedEars:
    """A long recording is heard in pieces, and others have their turns in between."""

    def __init__(self, ears: SpeechBackend, turnstile: Turnstile) -> None:
        self._ears = ears
        self.turnstile = turnstile

    def facts(self) -> DeviceFacts:
        return self._ears.facts()

    def hear(
        self,
        samples: Samples,
        *,
        language: str = "",
        words: bool = True,
        **guide: Unpack[Guide],
    ) -> list[Heard]:
        with self.turnstile.turn(current.get() or Visit()):
            return self._ears.hear(samples, language=language, words=words, **guide)

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


class QueuedEye:
    """A skill with pictures: each picture is a turn, and others have theirs in between."""

    def __init__(self, eye: VisionBackend, turnstile: Turnstile) -> None:
        self._eye = eye
        self.turnstile = turnstile

    def facts(self) -> DeviceFacts:
        return self._eye.facts()

    def look(self, pixels: PictureArray) -> Sight:
        with self.turnstile.turn(current.get() or Visit()):
            return self._eye.look(pixels)

    def close(self) -> None:
        self._eye.close()


class QueuedEyes(Eyes):
    """The skills of an engine, each put behind its turnstile when it is first needed."""

    def __init__(self, share: Callable[[VisionBackend], VisionBackend]) -> None:
        super().__init__()
        self._share = share
        self._opening = threading.Lock()

    @override
    def __setitem__(self, name: str, eye: VisionBackend) -> None:
        with self._opening:
            if name not in self:  # two requests may open it at once: the first one stays
                super().__setitem__(name, self._share(eye))
