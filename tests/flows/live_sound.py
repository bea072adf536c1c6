"""Sound that encodes its words exactly; transcribers and clouds that decode them.

Each word is a third of a second at its own level: word 300 is 0.300. So a text in the wrong place
shows, whoever put it there.
"""

from __future__ import annotations

import io
import itertools
import threading
import wave
from collections.abc import Sequence

import numpy
from numpy.typing import NDArray

from edgewise.errors import GenerationFailed, LocalError
from edgewise.local.backend import SPEECH_RATE, DeviceFacts
from edgewise.testing.scripted import SCRIPTED_TRANSCRIBER_FACTS as SCRIPTED_EARS_FACTS
from edgewise.types.messages import Word
from edgewise.types.transcripts import Heard

Samples = NDArray[numpy.float32]

WORD = SPEECH_RATE // 3
LEAST = WORD // 8  # samples that make a word; the edges of a cut hold less
DOUBTFUL = 500  # words from here on are heard with little confidence


def spoken(*words: int) -> Samples:
    return numpy.repeat(numpy.array(words, "float32") / 1000, WORD)


def pause(seconds: float = 1.0) -> Samples:
    return numpy.zeros(int(seconds * SPEECH_RATE), "float32")


def words_in(samples: Samples) -> list[tuple[int, int, int]]:
    """Each word with its first and its last sample."""
    levels = numpy.rint(samples * 1000).astype(int)
    edges = numpy.flatnonzero(numpy.diff(levels)) + 1
    bounds = [0, *edges.tolist(), len(levels)]
    return [
        (int(levels[first]), first, last)
        for first, last in itertools.pairwise(bounds)
        if last - first >= LEAST and levels[first]
    ]


def said_in(wav: bytes) -> str:
    """What the cloud transcribes: the same words, in capitals."""
    with wave.open(io.BytesIO(wav)) as file:
        data = numpy.frombuffer(file.readframes(file.getnframes()), "<i2")
    samples = (data / 32767).astype("float32")
    return " ".join(f"W{level}" for level, _, _ in words_in(samples))


class LevelTranscriber:
    """Fulfils SpeechBackend. An incomplete last word is transcribed as "uh"."""

    def __init__(
        self, *, fails: Sequence[int] = (), error: type[LocalError] = GenerationFailed
    ) -> None:
        self._error = error
        self.listened: list[int] = []  # samples of each pass
        self._fails = set(fails)
        self._lock = threading.Lock()

    def facts(self) -> DeviceFacts:
        return SCRIPTED_EARS_FACTS

    def hear(
        self,
        samples: Samples,
        *,
        language: str = "",
        words: bool = True,
        hint: str = "",
        temperature: float = 0.0,
        translate: bool = False,
    ) -> list[Heard]:
        with self._lock:
            self.listened.append(len(samples))
            if len(self.listened) - 1 in self._fails:
                raise self._error("told to fail")
        found = []
        for level, first, last in words_in(samples):
            cut = last == len(samples) and last - first < WORD
            chance = 0.1 if level >= DOUBTFUL else 0.97
            start, end = first / SPEECH_RATE, last / SPEECH_RATE
            found.append(Word("uh" if cut else f"w{level}", start, end, chance))
        if not found:
            return []
        text = " ".join(word.text for word in found)
        return [
            Heard(
                start=found[0].start,
                end=found[-1].end,
                text=text,
                words=tuple(found),
                language="en",
            )
        ]

    def close(self) -> None:
        """Nothing to close."""


class LoudnessActivity:
    """Replaces voice activity: whatever is loud enough is a voice."""

    def __init__(self) -> None:
        self._rest: Samples = numpy.zeros(0, "float32")

    def feed(self, samples: Samples) -> list[float]:
        sound = numpy.concatenate((self._rest, samples))
        count = len(sound) // 512
        self._rest = sound[count * 512 :]
        loud = numpy.abs(sound[: count * 512].reshape(count, 512)).max(axis=1) > 0.01
        return [0.9 if each else 0.05 for each in loud]
