"""Finds speech, and cuts sound there: chunks of a file, utterances of live speech."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.errors import ExtraMissing
from edgewise.speech.audio import RATE

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Samples = NDArray[numpy.float32]


FRAME = 512  # samples per voice probability
FRAME_S = FRAME / RATE
_CONTEXT = 64  # samples of the previous frame that the network sees again
_STATE = (1, 1, 128)


VOICED, QUIET = 0.35, 0.2  # from this probability on a voice, below this one none
PAD = int(0.4 / FRAME_S)  # frames kept around speech: its soft edges look like silence
LONG_SILENCE = int(4.0 / FRAME_S)  # ends a chunk; shorter silences are inside it
LEAST_VOICE = 3  # voiced frames; fewer mean nobody spoke
LONGEST_S = 30.0
TICK = 4  # frames processed together
PAUSE = int(0.6 / FRAME_S)  # frames of silence that end an utterance
LONGEST_UTTERANCE_S = 12.0  # every hypothesis transcribes all of it again
_COVERED = 3  # frames after the last voice that a hypothesis must have heard
_MOSTLY = 0.4  # of a full utterance
_NEAR = int(0.25 / FRAME_S)  # frames in which the quietest is sought


class VoiceActivity:
    """Takes sound in pieces of any length; returns the voice probability of each whole frame.

    Each stream of sound needs its own: the network has a memory.
    """

    def __init__(self) -> None:
        import numpy  # noqa: PLC0415  # speech is an extra

        self._network = _network()
        self._hidden = numpy.zeros(_STATE, "float32")
        self._cell = numpy.zeros(_STATE, "float32")
        self._context = numpy.zeros(_CONTEXT, "float32")
        self._rest = numpy.zeros(0, "float32")

    def feed(self, samples: Samples) -> list[float]:
        """The probabilities of the frames that this completes."""
        import numpy  # noqa: PLC0415

        sound = numpy.concatenate((self._rest, samples.astype("float32", copy=False)))
        count = len(sound) // FRAME
        frames, self._rest = sound[: count * FRAME].reshape(count, FRAME), sound[count * FRAME :]
        if not count:
            return []
        tails = frames[:, -_CONTEXT:]
        before = numpy.concatenate((self._context[None, :], tails[:-1]))
        self._context = tails[-1].copy()
        chances, self._hidden, self._cell = self._network.run(
            None,
            {
                "input": numpy.concatenate((before, frames), axis=1),
                "h": self._hidden,
                "c": self._cell,
            },
        )
        return [float(chance) for chance in chances.reshape(-1)]


@cache
def _network() -> Any:
    """Loaded once for all streams: its memory is passed in and out."""
    try:
        import onnxruntime  # noqa: PLC0415  # speech is an extra
        from faster_whisper.utils import get_assets_path  # noqa: PLC0415
    except ImportError as error:
        raise ExtraMissing("speech", "faster-whisper") from error
    options = onnxruntime.SessionOptions()
    options.inter_op_num_threads = options.intra_op_num_threads = 1
    options.log_severity_level = 4
    path = Path(get_assets_path()) / "silero_vad_v6.onnx"
    return onnxruntime.InferenceSession(
        str(path), providers=["CPUExecutionProvider"], sess_options=options
    )


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stretch of sound with speech. `voice` has one probability per frame."""

    start: float
    samples: Samples = field(repr=False)
    voice: tuple[float, ...] = field(repr=False)

    @property
    def seconds(self) -> float:
        return len(self.samples) / RATE

    def cut(self, start: float, end: float) -> Samples:
        """The samples between two times. Times count from the start of the whole sound."""
        first = max(0, round((start - self.start) * RATE))
        return self.samples[first : max(first, round((end - self.start) * RATE))]

    def voice_between(self, start: float, end: float) -> tuple[float, ...]:
        """The voice probabilities of the frames that touch this time span."""
        first = max(0, int((start - self.start) / FRAME_S))
        return self.voice[first : max(first + 1, int((end - self.start) / FRAME_S) + 1)]

    def speaking(self, start: float, end: float) -> bool:
        """Whether there is a voice all the time between two moments."""
        return min(self.voice_between(start, end), default=1.0) >= QUIET


def cut_into_chunks(blocks: Iterable[Samples], *, longest_s: float = LONGEST_S) -> Iterator[Chunk]:
    """Holds at most one chunk and one block in memory, however long the sound is."""
    import numpy  # noqa: PLC0415  # speech is an extra

    activity, voice = VoiceActivity(), list[float]()
    sound, base, read = numpy.zeros(0, "float32"), 0, 0
    longest = int(longest_s / FRAME_S)
    last = numpy.zeros(FRAME - 1, "float32")  # completes the last frame
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
    """The next chunk: first frame, end, and where to continue; None: more sound is needed."""
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


class LiveUtterances:
    """Keeps only the sound of the open utterance. Times count from the start of the whole sound."""

    def __init__(self, longest_s: float = LONGEST_UTTERANCE_S) -> None:
        import numpy  # noqa: PLC0415  # speech is an extra

        self._activity = VoiceActivity()
        self._longest = int(min(longest_s, LONGEST_UTTERANCE_S) / FRAME_S)
        self._rest: Samples = numpy.zeros(0, "float32")  # less than a tick
        self._sound: Samples = numpy.zeros(0, "float32")
        self._voice: list[float] = []
        self._base = 0  # frames already dropped
        self._first: int | None = None  # first frame of the open utterance
        self._heard = 0  # frames in the last hypothesis
        self._read = 0  # samples received

    @property
    def seconds(self) -> float:
        return self._read / RATE

    @property
    def is_open(self) -> bool:
        """Whether somebody is speaking, or was a moment ago."""
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
        """Yields after each tick, so that the flow can look."""
        import numpy  # noqa: PLC0415

        self._read += len(samples)
        sound, size = numpy.concatenate((self._rest, samples)), TICK * FRAME
        whole = len(sound) // size * size
        self._rest = sound[whole:].copy()
        for start in range(0, whole, size):
            self._listen(sound[start : start + size])
            yield

    def flush(self) -> Iterator[None]:
        """The last, incomplete tick, filled with silence."""
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
        """End the open utterance; None if it has too little voice.

        A full utterance is cut at `after_s`, where its confirmed words end.
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
        """The frame after the last one that was not quiet."""
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
        """Just after the confirmed words, if those are most of it: no word is cut there."""
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
        self._sound = self._sound[frames * FRAME :].copy()  # a view would keep all of it in memory
        del self._voice[:frames]
        self._base += frames
