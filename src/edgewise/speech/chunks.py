"""Cut sound into chunks that a model can hear: at most 30 s, at silences, without long silences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgewise.speech.audio import RATE
from edgewise.speech.voice_activity import FRAME, FRAME_S, VoiceActivity

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Samples = NDArray[numpy.float32]

VOICED, QUIET = 0.35, 0.2  # chance of a voice from which there is one, and below which none
PAD = int(0.4 / FRAME_S)  # frames kept around speech: its soft edges look like silence
LONG_SILENCE = int(4.0 / FRAME_S)  # ends a chunk; shorter ones are inside it
LEAST_VOICE = 3  # voiced frames, or nobody spoke
LONGEST_S = 30.0


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stretch of sound with speech in it. `voice` has one chance for each frame."""

    start: float
    samples: Samples = field(repr=False)
    voice: tuple[float, ...] = field(repr=False)

    @property
    def seconds(self) -> float:
        return len(self.samples) / RATE

    def cut(self, start: float, end: float) -> Samples:
        """The samples between two times of the whole sound."""
        first = max(0, round((start - self.start) * RATE))
        return self.samples[first : max(first, round((end - self.start) * RATE))]

    def voice_between(self, start: float, end: float) -> tuple[float, ...]:
        """The chances of the frames that touch a stretch of the whole sound."""
        first = max(0, int((start - self.start) / FRAME_S))
        return self.voice[first : max(first + 1, int((end - self.start) / FRAME_S) + 1)]

    def speaking(self, start: float, end: float) -> bool:
        """Whether a voice is heard all the time between two moments."""
        return min(self.voice_between(start, end), default=1.0) >= QUIET


def cut_into_chunks(blocks: Iterable[Samples], *, longest_s: float = LONGEST_S) -> Iterator[Chunk]:
    """Holds back no more than one chunk and one block, however long the sound is."""
    import numpy  # noqa: PLC0415  # speech is an extra

    activity, voice = VoiceActivity(), list[float]()
    sound, base, read = numpy.zeros(0, "float32"), 0, 0
    longest = int(longest_s / FRAME_S)
    last = numpy.zeros(FRAME - 1, "float32")  # fills up the last frame
    for block, ended in _with_end(blocks, last):
        sound = numpy.concatenate((sound, block))
        read += 0 if ended else len(block)
        voice += activity.feed(block)
        while (found := _find(voice, longest, ended)) is not None:
            first, end, following = found
            if end > first:
                samples = sound[first * FRAME : min(end * FRAME, read - base)]
                chances = tuple(voice[first:end])
                if sum(chance >= VOICED for chance in chances) >= LEAST_VOICE:
                    yield Chunk((base + first * FRAME) / RATE, samples, chances)
            sound, base = sound[following * FRAME :], base + following * FRAME
            del voice[:following]


def _with_end(blocks: Iterable[Samples], last: Samples) -> Iterator[tuple[Samples, bool]]:
    for block in blocks:
        yield block, False
    yield last, True


def _find(voice: Sequence[float], longest: int, ended: bool) -> tuple[int, int, int] | None:
    """Frames of the next chunk, first and end, and where to go on; None: more sound is needed."""
    spoken = next((index for index, chance in enumerate(voice) if chance >= VOICED), None)
    if spoken is None:
        silent = len(voice) - PAD
        return (0, 0, silent) if silent > 0 else None
    first = max(0, spoken - PAD)
    limit = first + longest
    for begin, end in _silences(voice, spoken, min(limit, len(voice))):
        if end - begin >= LONG_SILENCE:
            return first, begin + PAD, end - PAD
    if len(voice) >= limit:
        cut = best_cut(voice, first, limit)
        return first, cut, cut
    if ended:
        return first, len(voice), len(voice)
    return None


def _silences(voice: Sequence[float], start: int, end: int) -> Iterator[tuple[int, int]]:
    begin = None
    for index in range(start, end):
        if voice[index] < QUIET:
            begin = index if begin is None else begin
        elif begin is not None:
            yield begin, index
            begin = None
    if begin is not None:
        yield begin, end


def best_cut(voice: Sequence[float], first: int, limit: int) -> int:
    """The middle of the longest silence, late in the chunk; else where a voice is least likely."""
    length = limit - first
    for share in (0.7, 0.4):
        runs = list(_silences(voice, first + int(share * length), limit))
        if runs:
            begin, end = max(runs, key=lambda run: (run[1] - run[0], run[1]))
            return (begin + end + 1) // 2
    late = range(first + int(0.8 * length), limit)
    return min(late, key=lambda index: voice[index]) + 1
