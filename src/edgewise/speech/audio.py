"""Reads sound from files and from live chunks: one channel, 16,000 samples per second."""

from __future__ import annotations

import errno
import io
import os
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from edgewise.errors import ExtraMissing, InvalidRequest
from edgewise.types.messages import Audio, AudioLike

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Samples = NDArray[numpy.float32]


SOUND = (
    "aac", "aa", "ac3", "aiff", "alaw", "amr", "amrnb", "amrwb", "ape", "aptx", "aptx_hd", "ast",
    "au", "caf", "codec2", "dsf", "dss", "dts", "dtshd", "eac3", "flac", "g722", "g723_1", "g726",
    "g726le", "g729", "gsm", "iff", "ilbc", "ircam", "lc3", "loas", "mlp", "mp3", "mpc", "mpc8",
    "mulaw", "nistsphere", "ogg", "oma", "pvf", "qcp", "sbc", "shn", "sln", "sox", "spdif", "tak",
    "truehd", "tta", "voc", "w64", "wav", "wsd", "wv", "wve", "xwma",
)  # fmt: skip
FILMS = (
    "asf", "avi", "dv", "flv", "gxf", "matroska", "mov", "mpeg", "mpegts", "mxf", "nut", "rm",
    "swf", "webm", "wtv",
)  # fmt: skip

# For `av.open`. Both also hold for files inside files, and each alone would be enough.
OPTIONS = {"format_whitelist": ",".join((*SOUND, *FILMS)), "protocol_whitelist": ""}

HEAD_BYTES = 2_000  # of a file, to find out what it is

_POINTING = (
    (rb"ffconcat version", "a list of other files (ffconcat)"),
    (rb"#EXTM3U", "a playlist (M3U)"),
    (rb"\[playlist\]", "a playlist (PLS)"),
    (rb"(?s:.*)<MPD[\s>]", "a playlist (DASH)"),
    (rb"(?s:.*)<(?i:asx|smil|playlist)[\s>]", "a playlist (XML)"),
    (rb"v=0\s|(?s:.*)^c=IN IP", "a description of a stream (SDP)"),
)


RATE = 16_000
BLOCK_S = 4.0  # of sound decoded at a time
# A file that ends this much earlier than it says was cut off. If a file has no index, its length
# is only guessed from its beginning.
LOST_S, LOST_SHARE, LOST_GUESS = 1.0, 0.02, 0.1
SAMPLE_BYTES = 2
LOWEST_RATE, HIGHEST_RATE = 4_000, 384_000


def what_it_points_with(head: bytes) -> str:
    """What kind of file refers to other files, in words; empty if it is of no known kind."""
    head = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    for pattern, words in _POINTING:
        if re.match(pattern, head, re.MULTILINE):
            return words
    return ""


class Sound:
    """One open file. `seconds` is its stated length; 0 if it states none."""

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
        """What is wrong with it, once it was read to its end."""
        guessed = self._container.format.name in ("mp3", "aac", "ac3")
        lost = self.seconds - self.read_seconds
        cut = lost > max(LOST_S, self.seconds * (LOST_GUESS if guessed else LOST_SHARE))
        return ("truncated_audio",) * (cut or self._shorter) + ("damaged_audio",) * self.damaged

    def blocks(self) -> Iterator[Samples]:
        """All of it, about BLOCK_S at a time. Damaged parts are skipped."""
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
            self._check_rate(frame.sample_rate)
            frame.pts = None  # gaps in the numbering are not gaps in the sound
            try:
                for part in resampler.resample(frame):
                    yield _samples(part)
            except (av.FFmpegError, ValueError):
                # The layout changed: the rest needs a new resampler.
                self.damaged = True
                resampler = av.AudioResampler(format="flt", layout="mono", rate=RATE)
        for part in resampler.resample(None):
            yield _samples(part)

    def _check_rate(self, rate: int) -> None:
        """At a sample per second, a frame of 8 KB would become a day of sound: 5 GB."""
        if not LOWEST_RATE <= rate <= HIGHEST_RATE:
            words = f"{rate:,} samples per second; {LOWEST_RATE:,} to {HIGHEST_RATE:,} are read"
            raise InvalidRequest(f"{self._name} has {words}")

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
            except (av.FFmpegError, OSError):  # OSError: from the file itself
                self.damaged = True
                return


def _samples(frame: Any) -> Samples:
    samples: Samples = frame.to_ndarray().reshape(-1)
    return samples


@contextmanager
def open_sound(audio: AudioLike) -> Iterator[Sound]:
    """Open sound for reading. Raises InvalidRequest with the reason if it cannot be read."""
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
    """The name of sound in messages and in the ledger."""
    if isinstance(audio, bytes | Audio):
        data = audio.data if isinstance(audio, Audio) else audio
        return f"sound of {len(data):,} bytes"
    return Path(audio).name or str(audio)


@dataclass(frozen=True, slots=True)
class _Source:
    """Sound that we opened ourselves: FFmpeg may open nothing."""

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
    """FFmpeg takes a WAV's length from the file, so it never notices a missing part."""
    head = source.head
    said = int.from_bytes(head[4:8], "little") + 8
    # A WAV written to a pipe states 0, or the largest possible length.
    return head[:4] == b"RIFF" and 44 < said < 0xFFFF_FF00 and said > source.size + RATE


def _declared_seconds(container: Any, stream: Any) -> float:
    if stream.duration is not None and stream.time_base is not None:
        return float(stream.duration * stream.time_base)
    return container.duration / 1_000_000 if container.duration else 0.0


def _why(error: Exception, head: bytes) -> str:
    if what := what_it_points_with(head):
        return f"it is {what}, and what refers to other files or to the network is not read"
    # FFmpeg knows the format but may not open it. Unknown formats are "invalid data".
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


class PcmReader:
    """One channel: arrays of float32 (-1 to 1) or int16, or bytes of 16-bit little-endian samples.

    If a chunk ends within a sample, that sample waits for its other half.
    """

    def __init__(self, rate: int = RATE) -> None:
        if not LOWEST_RATE <= rate <= HIGHEST_RATE:
            raise InvalidRequest(f"rate = {rate!r}: samples per second, as 16000 or 48000")
        self._half = b""
        self._resampler = _Resampler(rate) if rate != RATE else None

    def read(self, chunk: Any) -> Samples:
        """A chunk as samples at RATE."""
        samples = self._from_bytes(bytes(chunk)) if _is_bytes(chunk) else _from_array(chunk)
        return samples if self._resampler is None else self._resampler.feed(samples)

    def rest(self) -> Samples:
        """What was held back. Nothing may be read after it."""
        import numpy  # noqa: PLC0415  # speech is an extra

        return numpy.zeros(0, "float32") if self._resampler is None else self._resampler.rest()

    def _from_bytes(self, data: bytes) -> Samples:
        import numpy  # noqa: PLC0415

        data = self._half + data
        whole = len(data) - len(data) % SAMPLE_BYTES
        self._half = data[whole:]
        return _scaled(numpy.frombuffer(data[:whole], "<i2"))


def _is_bytes(chunk: Any) -> bool:
    return isinstance(chunk, bytes | bytearray | memoryview)


def _from_array(chunk: Any) -> Samples:
    import numpy  # noqa: PLC0415

    array = numpy.asarray(chunk)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InvalidRequest(f"a chunk of shape {array.shape}: one channel is heard")
    if array.dtype == numpy.int16:
        return _scaled(array)
    if not len(array):
        return numpy.zeros(0, "float32")
    if array.dtype.kind != "f":
        raise InvalidRequest(f"a chunk of {array.dtype}: give float32 or int16 samples, or bytes")
    samples: Samples = numpy.nan_to_num(array.astype("float32"), nan=0.0, posinf=1.0, neginf=-1.0)
    return numpy.clip(samples, -1.0, 1.0)


def _scaled(array: NDArray[numpy.int16]) -> Samples:
    samples: Samples = array.astype("float32")
    samples /= 32768
    return samples


class _Resampler:
    def __init__(self, rate: int) -> None:
        try:
            import av  # noqa: PLC0415  # speech is an extra
        except ImportError as error:
            raise ExtraMissing("speech", "PyAV") from error
        self._rate = rate
        self._resampler = av.AudioResampler(format="flt", layout="mono", rate=RATE)

    def feed(self, samples: Samples) -> Samples:
        import av  # noqa: PLC0415

        if not len(samples):
            return samples
        frame = av.AudioFrame.from_ndarray(samples[None, :], format="flt", layout="mono")
        frame.sample_rate = self._rate
        return self._joined(frame)

    def rest(self) -> Samples:
        return self._joined(None)

    def _joined(self, frame: Any) -> Samples:
        import numpy  # noqa: PLC0415

        try:
            parts = [part.to_ndarray().reshape(-1) for part in self._resampler.resample(frame)]
        except ValueError:  # flushed before anything was fed
            parts = []
        return numpy.concatenate(parts) if parts else numpy.zeros(0, "float32")
