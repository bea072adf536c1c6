"""Cut live sound into utterances, at pauses. Looks at it in steps that chunks cannot shift."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from edgewise.speech.audio import RATE
from edgewise.speech.chunks import LEAST_VOICE, PAD, QUIET, VOICED, Chunk, best_cut
from edgewise.speech.voice_activity import FRAME, FRAME_S, VoiceActivity

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Samples = NDArray[numpy.float32]

TICK = 4  # frames that are looked at together
PAUSE = int(0.6 / FRAME_S)  # frames of silence that end an utterance
LONGEST_S = 12.0  # every hypothesis hears all of it again
_COVERED = 3  # frames after the last voice, and a hypothesis has heard all of it
_MOSTLY = 0.4  # of a full utterance
_NEAR = int(0.25 / FRAME_S)  # frames among which the quietest is sought


class LiveUtterances:
    """Keeps the sound of the open utterance and no other. Times are those of the whole sound."""

    def __init__(self, longest_s: float = LONGEST_S) -> None:
        import numpy  # noqa: PLC0415  # speech is an extra

        self._activity = VoiceActivity()
        self._longest = int(min(longest_s, LONGEST_S) / FRAME_S)
        self._rest: Samples = numpy.zeros(0, "float32")  # less than a tick
        self._sound: Samples = numpy.zeros(0, "float32")
        self._voice: list[float] = []
        self._base = 0  # frames that were let go
        self._first: int | None = None  # frame at which the open utterance begins
        self._heard = 0  # frames that the last hypothesis heard
        self._read = 0  # samples that came

    @property
    def seconds(self) -> float:
        return self._read / RATE

    @property
    def is_open(self) -> bool:
        """Whether somebody speaks, or did a moment ago."""
        if self._first is None:
            return False
        return sum(chance >= VOICED for chance in self._voice[self._first :]) >= LEAST_VOICE

    @property
    def open_since(self) -> float | None:
        """When the open utterance began; None while nobody speaks."""
        if self._first is None or not self.is_open:
            return None
        return (self._base + self._first) * FRAME / RATE

    @property
    def ended(self) -> bool:
        return self._first is not None and len(self._voice) - self._spoken_to >= PAUSE

    @property
    def full(self) -> bool:
        return self._first is not None and len(self._voice) - self._first >= self._longest

    @property
    def covered(self) -> bool:
        """Whether nobody has spoken since the last hypothesis."""
        return self._heard >= self._spoken_to + _COVERED

    def due(self, step_s: float) -> bool:
        """Whether there is enough new speech for another hypothesis."""
        begun = max(self._heard, self._first or 0)
        enough = (len(self._voice) - begun) * FRAME_S >= step_s
        return enough and self.is_open and self._spoken_to > self._heard

    def feed(self, samples: Samples) -> Iterator[None]:
        """Stops after each tick, for the caller to look."""
        import numpy  # noqa: PLC0415

        self._read += len(samples)
        sound, size = numpy.concatenate((self._rest, samples)), TICK * FRAME
        whole = len(sound) // size * size
        self._rest = sound[whole:].copy()
        for start in range(0, whole, size):
            self._listen(sound[start : start + size])
            yield

    def flush(self) -> Iterator[None]:
        """The last, unfinished tick, filled up with silence."""
        import numpy  # noqa: PLC0415

        missing = -len(self._rest) % (TICK * FRAME)
        read = self._read
        for _ in self.feed(numpy.zeros(missing, "float32")):
            self._read = read
            yield
        self._read = read

    def so_far(self) -> Chunk:
        """The open utterance up to now, for a hypothesis."""
        self._heard = len(self._voice)
        return self._chunk(len(self._voice))

    def take(self, *, after_s: float | None = None) -> Chunk | None:
        """End the open utterance; None where too little of it was voice.

        One that is full is cut `after_s`, up to which its words are settled.
        """
        if self._first is None:
            return None
        spoken = self.is_open
        if after_s is None:
            end = min(len(self._voice), self._spoken_to + PAD)
        else:
            end = self._cut_after(after_s)
        chunk = self._chunk(end) if spoken else None
        self._let_go(end)
        return chunk

    @property
    def _spoken_to(self) -> int:
        """The frame after the last that was not quiet."""
        for index in range(len(self._voice) - 1, -1, -1):
            if self._voice[index] >= QUIET:
                return index + 1
        return 0

    def _listen(self, tick: Samples) -> None:
        import numpy  # noqa: PLC0415

        self._sound = numpy.concatenate((self._sound, tick))
        self._voice += self._activity.feed(tick)
        if self._first is None:
            self._open()

    def _open(self) -> None:
        voiced = (index for index, chance in enumerate(self._voice) if chance >= VOICED)
        spoken = next(voiced, None)
        if spoken is not None:
            self._first = max(0, spoken - PAD)
        elif len(self._voice) > PAD:
            self._drop(len(self._voice) - PAD)

    def _cut_after(self, after_s: float) -> int:
        """Just after what is settled, where that is most of it: no word is cut in two there."""
        assert self._first is not None
        settled, end = int(after_s / FRAME_S) + 1 - self._base, len(self._voice)
        if settled < self._first + _MOSTLY * (end - self._first):
            return best_cut(self._voice, self._first, end)
        near = range(min(settled, end), min(settled + _NEAR, end) + 1)
        return min(near, key=lambda index: self._voice[min(index, end - 1)])

    def _chunk(self, end: int) -> Chunk:
        assert self._first is not None
        last = min(end * FRAME, self._read - self._base * FRAME)
        start = (self._base + self._first) * FRAME / RATE
        samples = self._sound[self._first * FRAME : last]
        return Chunk(start, samples, tuple(self._voice[self._first : end]))

    def _let_go(self, end: int) -> None:
        self._drop(end)
        self._first, self._heard = None, 0
        self._open()

    def _drop(self, frames: int) -> None:
        self._sound = self._sound[frames * FRAME :].copy()  # a view would keep all of it
        del self._voice[:frames]
        self._base += frames
