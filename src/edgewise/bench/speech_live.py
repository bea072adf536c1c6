"""Live captions on this machine: how long after it was spoken a word is settled, and what changes.

Sound is fed in chunks of a tenth of a second. Nobody waits for real time: the clock is that of the
sound, plus what this machine took for each chunk, so that falling behind shows as delay.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgewise.assembly.speech import HURRY_S
from edgewise.bench.own_code import percentile
from edgewise.bench.speech_sets import Document
from edgewise.engine import Engine
from edgewise.flows.listen import LiveTranscriber
from edgewise.settings import Settings
from edgewise.speech.audio import RATE
from edgewise.speech.word_errors import WordErrors, word_errors
from edgewise.types.transcripts import LiveUpdate

if TYPE_CHECKING:
    from edgewise.bench.speech_sets import Samples

CHUNK = RATE // 10

Clock = Callable[[], float]


@dataclass(slots=True)
class LiveMeasures:
    """What was seen of one or several streams; `delays` in seconds, one for each settled word."""

    delays: list[float] = field(default_factory=list)
    revisions: int = 0
    seconds: float = 0.0
    worked_s: float = 0.0
    _shown: list[str] = field(default_factory=list)

    def follow(self, live: LiveTranscriber, samples: Samples, clock: Clock) -> str:
        """Caption a stream as if it were spoken now; its text."""
        self._shown = []
        now = 0.0
        for start in range(0, len(samples), CHUNK):
            chunk = samples[start : start + CHUNK]
            spoken = (start + len(chunk)) / RATE
            behind = max(0.0, now - spoken)
            begun = clock()
            update = live.process(chunk, hurry=behind > HURRY_S)
            took = clock() - begun
            now = max(now, spoken) + took
            self.worked_s += took
            self._note(update, now)
        begun = clock()
        transcript = live.stop()
        took = clock() - begun
        self.worked_s += took
        self._note(live.last_update, max(now, len(samples) / RATE) + took)
        self.seconds += len(samples) / RATE
        return transcript.text

    def _note(self, update: LiveUpdate, now: float) -> None:
        self.delays += [max(0.0, now - word.end) for word in update.new_words]
        shown = plain(f"{update.confirmed} {update.pending}")
        # Words that follow are no revision, and words that have gone are one.
        self.revisions += shown[: len(self._shown)] != self._shown
        self._shown = shown

    def metrics(self) -> dict[str, float]:
        return {
            "live_delay_ms_p50": 1000 * percentile(self.delays, 50),
            "live_delay_ms_p95": 1000 * percentile(self.delays, 95),
            "revisions_per_minute": 60 * self.revisions / self.seconds,
            "live_real_time_factor": self.worked_s / self.seconds,
        }


def plain(text: str) -> list[str]:
    """Words without case and punctuation: readers do not mind a comma."""
    return re.findall(r"[\w']+", text.casefold())


def measure_live(
    settings: Settings, chosen: Sequence[Document], step: Callable[[], None]
) -> dict[str, float]:
    """All documents, one after the other, on the device alone."""
    measures, errors = LiveMeasures(), WordErrors(0, 0)
    with (
        tempfile.TemporaryDirectory(prefix="edgewise-bench-") as folder,
        Engine(settings.with_changes(data_dir=folder)) as engine,
    ):
        _warm_up(engine, chosen[0])
        for document in chosen:
            with engine.listen(policy="local_only", language="en") as live:
                heard = measures.follow(live, document.samples, time.perf_counter)
            errors += word_errors(document.text, heard)
            step()
    return measures.metrics() | {"wer_live": errors.rate}


def _warm_up(engine: Engine, document: Document) -> None:
    """Loading a model is not delay."""
    engine._open_transcriber().hear(document.samples[: 2 * RATE], language="en")
