"""Chat and function calls on any runtime that gives logits: `Steps`, and the decode loop."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from typing_extensions import override

from edgewise.errors import EdgewiseError, ExtraMissing, GenerationFailed
from edgewise.local.llama_cpp import LoopBackend
from edgewise.local.store import InstalledModel

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Floats = NDArray[numpy.float32]
    from edgewise.local.decoder import Runtime, Saver, SlotPart
    from edgewise_engines.vocabulary import Vocabulary


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


# -- the loop --------------------------------------------------------------------------------------


PACKAGES = ("tokenizers", "llguidance")  # for the vocabulary and its grammars


def require_packages(runtime: str, *packages: str) -> None:
    """Raises ExtraMissing unless all are installed; the extra is named like the runtime."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise ExtraMissing(runtime, package)


class LogitsLoop(LoopBackend):
    """One model of a runtime, loaded when first used."""

    def __init__(
        self,
        model: InstalledModel,
        *,
        runtime: str,
        load: Callable[[], Steps],
        vocabulary: Path,
        threads: int,
        context_tokens: int,
        slots: int = 1,
        packages: tuple[str, ...] = (),
    ) -> None:
        """`load` loads the weights; `vocabulary` is the folder of what `write_vocabulary` wrote.

        `packages` are those that the runtime imports: its extra, named like it, brings them. Raises
        ExtraMissing.
        """
        require_packages(runtime, *packages, *PACKAGES)
        super().__init__(
            model, backend=runtime, threads=threads, context_tokens=context_tokens, slots=slots
        )
        self._load = load
        self._folder = vocabulary
        self._file = model.path.name

    @override
    def _open(self) -> Runtime:
        from edgewise_engines.vocabulary import Vocabulary  # noqa: PLC0415

        facts = self._facts
        words = Vocabulary(self._folder, runtime=facts.backend)
        try:
            steps = self._load()
        except EdgewiseError:
            raise
        except Exception as error:  # each runtime has its own kinds
            told = f"{facts.backend} could not load {self._file}: {error}"
            raise GenerationFailed(told) from error
        return SteppedRuntime(
            facts.backend, steps, words, slots=facts.slots, room=facts.context_tokens
        )

    @override
    def _spelt_bytes(self) -> frozenset[int]:
        words: Any = self.load().vocabulary
        spelt: frozenset[int] = words.spelt_bytes
        return spelt


class SteppedRuntime:
    """A runtime's side of the decode loop: a pass reads one slot after the other."""

    saver: Saver | None = None  # nothing is kept but what the slots hold

    def __init__(
        self, name: str, steps: Steps, vocabulary: Vocabulary, *, slots: int, room: int
    ) -> None:
        self.name = name
        self.vocabulary = vocabulary
        self.slots = slots
        self.room = room
        self.repeatable = steps.repeatable
        self._steps = steps
        self._stopped = threading.Event()

    def read(self, parts: Sequence[SlotPart], layers: set[int]) -> Iterator[SteppedRows]:
        for part in parts:
            if self._stopped.is_set():
                return
            logits = self._steps.read(part.slot, part.position, part.tokens, part.answers)
            yield SteppedRows(logits)

    def interrupt(self) -> None:
        self._stopped.set()

    def resume(self) -> None:
        self._stopped.clear()

    def cut(self, slot: int, length: int) -> int:
        return length  # the next read says from where on

    def close(self) -> None:
        self._steps.close()


@dataclass(frozen=True, slots=True)
class SteppedRows:
    """The logits of one part."""

    rows: Floats

    def logits(self, number: int) -> Floats:
        row: Floats = self.rows[number]
        return row

    def state(self, number: int, layer: int) -> Floats | None:
        return None
