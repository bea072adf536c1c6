"""Read sound from any common file: one channel, 16,000 samples a second, a block at a time."""

from __future__ import annotations

import errno
import io
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from edgewise.errors import ExtraMissing, InvalidRequest
from edgewise.speech.sound_files import HEAD_BYTES, OPTIONS, what_it_points_with
from edgewise.types.messages import Audio, AudioLike

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Samples = NDArray[numpy.float32]

RATE = 16_000
BLOCK_S = 4.0  # of sound decoded at a time
# A file that ends this much earlier than it says is one that was cut off. Those without an index
# have their length guessed from how they begin.
LOST_S, LOST_SHARE, LOST_GUESS = 1.0, 0.02, 0.1


class Sound:
    """One open file. `seconds` is what it says of itself, 0 where it does not say."""

    def __init__(self, container: Any, name: str, *, shorter: bool = False) -> None:
        self._shorter = shorter
        self._container = container
        self._stream = container.streams.audio[0]
        self._name = name
        self.seconds = _declared_seconds(container, self._stream)
        self.read_seconds = 0.0
        self.damaged = False

    @property
    def codes(self) -> tuple[str, ...]:
        """What turned out to be wrong with it, once it was read to its end."""
        guessed = self._container.format.name in ("mp3", "aac", "ac3")
        lost = self.seconds - self.read_seconds
        cut = lost > max(LOST_S, self.seconds * (LOST_GUESS if guessed else LOST_SHARE))
        return ("truncated_audio",) * (cut or self._shorter) + ("damaged_audio",) * self.damaged

    def blocks(self) -> Iterator[Samples]:
        """All of it, about BLOCK_S at a time. Damaged places are passed over."""
        held: list[Any] = []
        count = 0
        for samples in self._resampled():
            held.append(samples)
            count += len(samples)
            if count >= BLOCK_S * RATE:
                yield self._joined(held)
                held, count = [], 0
        if held:
            yield self._joined(held)
        if not self.read_seconds:
            raise InvalidRequest(f"{self._name} holds no sound that can be read")

    def _joined(self, held: list[Any]) -> Samples:
        import numpy  # noqa: PLC0415  # speech is an extra

        samples: Samples = numpy.concatenate(held)
        self.read_seconds += len(samples) / RATE
        return numpy.nan_to_num(samples, copy=False, nan=0.0, posinf=1.0, neginf=-1.0)

    def _resampled(self) -> Iterator[Samples]:
        import av  # noqa: PLC0415  # speech is an extra

        resampler = av.AudioResampler(format="flt", layout="mono", rate=RATE)
        for frame in self._frames():
            frame.pts = None  # gaps in the numbering are not gaps in the sound
            try:
                for part in resampler.resample(frame):
                    yield _samples(part)
            except (av.FFmpegError, ValueError):
                # The layout changed on the way: what follows needs a resampler of its own.
                self.damaged = True
                resampler = av.AudioResampler(format="flt", layout="mono", rate=RATE)
        for part in resampler.resample(None):
            yield _samples(part)

    def _frames(self) -> Iterator[Any]:
        import av  # noqa: PLC0415

        packets = self._container.demux(self._stream)
        while True:
            try:
                packet = next(packets, None)
                if packet is None:
                    return
                yield from packet.decode()
            except av.error.EOFError:
                return
            except av.error.InvalidDataError:
                self.damaged = True
            except (av.FFmpegError, OSError):  # the latter: of the file itself
                self.damaged = True
                return


def _samples(frame: Any) -> Samples:
    samples: Samples = frame.to_ndarray().reshape(-1)
    return samples


@contextmanager
def open_sound(audio: AudioLike) -> Iterator[Sound]:
    """Open sound for reading. Raises InvalidRequest where there is none, and says why."""
    try:
        import av  # noqa: PLC0415  # speech is an extra, and this is where it is first needed
    except ImportError as error:
        raise ExtraMissing("speech", "PyAV") from error
    name = name_of(audio)
    with _source(audio, name) as source:
        try:
            container = av.open(
                source.file, mode="r", metadata_errors="ignore", options=dict(OPTIONS)
            )
        except (av.FFmpegError, OSError, ValueError) as error:
            raise InvalidRequest(
                f"{name} is not sound that can be read: {_why(error, source.head)}"
            ) from error
        with container:
            if not container.streams.audio:
                raise InvalidRequest(f"{name} has no sound in it")
            yield Sound(container, name, shorter=_wav_is_cut(source))


def name_of(audio: AudioLike) -> str:
    """What sound is called in messages and in the record."""
    if isinstance(audio, bytes | Audio):
        data = audio.data if isinstance(audio, Audio) else audio
        return f"sound of {len(data):,} bytes"
    return Path(audio).name or str(audio)


@dataclass(frozen=True, slots=True)
class _Source:
    """Sound that we have opened ourselves: FFmpeg may open nothing."""

    file: BinaryIO
    head: bytes
    size: int


@contextmanager
def _source(audio: AudioLike, name: str) -> Iterator[_Source]:
    if isinstance(audio, bytes | Audio):
        data = audio.data if isinstance(audio, Audio) else audio
        if not data:
            raise InvalidRequest(f"{name} is empty")
        yield _Source(io.BytesIO(data), data[:HEAD_BYTES], len(data))
        return
    path = Path(audio).expanduser()
    if path.is_dir():
        raise InvalidRequest(f"{name} is a folder")
    try:
        file = path.open("rb")
    except FileNotFoundError as error:
        raise InvalidRequest(f"there is no file {str(path)!r}") from error
    except OSError as error:
        raise InvalidRequest(f"{name} cannot be read: {error.strerror}") from error
    with file:
        yield _Source(file, _head(file, name), os.fstat(file.fileno()).st_size)


def _head(file: io.BufferedReader, name: str) -> bytes:
    try:
        head = file.peek(HEAD_BYTES)[:HEAD_BYTES]
    except OSError as error:
        raise InvalidRequest(f"{name} cannot be read: {error.strerror}") from error
    if not head:
        raise InvalidRequest(f"{name} is empty: it has 0 bytes")
    return head


def _wav_is_cut(source: _Source) -> bool:
    """FFmpeg takes a WAV's length from the file, so that it never misses anything."""
    head = source.head
    said = int.from_bytes(head[4:8], "little") + 8
    # One that was written to a pipe says 0, or as much as the field holds.
    return head[:4] == b"RIFF" and 44 < said < 0xFFFF_FF00 and said > source.size + RATE


def _declared_seconds(container: Any, stream: Any) -> float:
    if stream.duration is not None and stream.time_base is not None:
        return float(stream.duration * stream.time_base)
    return container.duration / 1_000_000 if container.duration else 0.0


def _why(error: Exception, head: bytes) -> str:
    if what := what_it_points_with(head):
        return f"it is {what}, and what refers to other files or to the network is not read"
    # What FFmpeg knows, and may not open. What it does not know is "invalid data" to it.
    if getattr(error, "errno", None) == errno.EINVAL:
        return "it is a kind of file that is not taken for sound"
    return getattr(error, "strerror", None) or str(error)


def as_wav(samples: Samples) -> bytes:
    """A WAV file of 16-bit samples."""
    import numpy  # noqa: PLC0415

    data = (numpy.clip(samples, -1.0, 1.0) * 32767).astype("<i2").tobytes()
    head = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 1, 1,
                       RATE, 2 * RATE, 2, 16, b"data", len(data))  # fmt: skip
    return head + data
