"""Chat and function calls on any engine that gives logits: `Steps`, and the decode loop."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from edgewise.errors import EdgewiseError, ExtraMissing, GenerationFailed
from edgewise.local.engines.steps import Steps
from edgewise.local.loop_backend import LoopBackend
from edgewise.local.store.store import InstalledModel

if TYPE_CHECKING:  # bring numpy, which loads slowly: with the first model
    from edgewise.local.decoder import Part, Runtime, Saver
    from edgewise.local.engines.steps import Floats
    from edgewise.local.engines.vocabulary import Vocabulary


_PACKAGES = ("tokenizers", "llguidance")  # for the vocabulary and its grammars


def require_packages(engine: str, *packages: str) -> None:
    """Raises ExtraMissing unless all are installed; the extra is named like the engine."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise ExtraMissing(engine, package)


class LogitsLoop(LoopBackend):
    """One model of an engine, loaded when first used."""

    def __init__(
        self,
        model: InstalledModel,
        *,
        engine: str,
        load: Callable[[], Steps],
        vocabulary: Path,
        threads: int,
        context_tokens: int,
        slots: int = 1,
        packages: tuple[str, ...] = (),
    ) -> None:
        """`load` loads the weights; `vocabulary` is the folder of what `write_vocabulary` wrote.

        `packages` are those that the engine imports: its extra, named like it, brings them. Raises
        ExtraMissing.
        """
        require_packages(engine, *packages, *_PACKAGES)
        super().__init__(
            model, engine=engine, threads=threads, context_tokens=context_tokens, slots=slots
        )
        self._load = load
        self._folder = vocabulary
        self._file = model.path.name

    @override
    def _open(self) -> Runtime:
        from edgewise.local.engines.vocabulary import Vocabulary  # noqa: PLC0415

        facts = self._facts
        words = Vocabulary(self._folder, engine=facts.backend)
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
    """An engine's side of the decode loop: a pass reads one slot after the other."""

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

    def read(self, parts: Sequence[Part], layers: set[int]) -> Iterator[SteppedRows]:
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
