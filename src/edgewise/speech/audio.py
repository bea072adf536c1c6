"""Reads sound from files and live: one channel, 16,000 samples a second; cuts it at silences."""

from __future__ import annotations

import errno
import io
import os
import queue
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from edgewise.errors import ExtraMissing, InvalidRequest, NoMicrophone
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
PIPE_S = 10.0  # to wait for the first byte of a named pipe

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
MOST_CHANNELS = 8  # that are heard one by one
LOWEST_RATE, HIGHEST_RATE = 4_000, 384_000


def what_it_points_with(head: bytes) -> str:
    """What kind of file refers to other files, in words; empty if it is of no known kind."""
    head = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    for pattern, words in _POINTING:
        if re.match(pattern, head, re.MULTILINE):
            return words
    return ""


class Sound:
    """One open file. `seconds` is its stated length; 0 if it states none.

    All `channels` become one, or only the one numbered `channel` is read.
    """

    def __init__(
        self, container: Any, name: str, *, shorter: bool = False, channel: int | None = None
    ) -> None:
        self._shorter = shorter
        self._channel = channel
        self._container = container
        self._stream = container.streams.audio[0]
        self._name = name
        self.channels = int(self._stream.codec_context.channels)
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

        layout, channel = "mono" if self._channel is None else None, self._channel or 0
        resampler = av.AudioResampler(format="fltp", layout=layout, rate=RATE)
        for frame in self._frames():
            self._check_rate(frame.sample_rate)
            frame.pts = None  # gaps in the numbering are not gaps in the sound
            try:
                for part in resampler.resample(frame):
                    yield part.to_ndarray()[channel]
            except (av.FFmpegError, ValueError, IndexError):
                # The layout changed: the rest needs a new resampler.
                self.damaged = True
                resampler = av.AudioResampler(format="fltp", layout=layout, rate=RATE)
        for part in resampler.resample(None):
            yield part.to_ndarray()[channel]

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


@contextmanager
def open_channels(audio: AudioLike) -> Iterator[list[Sound]]:
    """The same sound once for each of its channels. Each is read at its own pace."""
    name = name_of(audio)
    if not isinstance(audio, bytes | Audio) and Path(os.path.expanduser(audio)).is_fifo():
        raise InvalidRequest(f"{name} is a pipe, which is read once: it cannot be split")
    with ExitStack() as opened:
        first = opened.enter_context(open_sound(audio, channel=0))
        if first.channels > MOST_CHANNELS:
            words = f"{first.channels} channels; at most {MOST_CHANNELS} are heard one by one"
            raise InvalidRequest(f"{name} has {words}")
        others = [open_sound(audio, channel=number) for number in range(1, first.channels)]
        yield [first, *map(opened.enter_context, others)]


@contextmanager
def open_sound(audio: AudioLike, *, channel: int | None = None) -> Iterator[Sound]:
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
            yield Sound(container, name, shorter=_wav_is_cut(source), channel=channel)


def name_of(audio: AudioLike) -> str:
    """The name of sound in messages and in the ledger."""
    if isinstance(audio, bytes | Audio):
        data = audio.data if isinstance(audio, Audio) else audio
        if not isinstance(data, bytes):
            raise InvalidRequest(f"audio.data: expected bytes, got a {type(data).__name__}")
        return f"sound of {len(data):,} bytes"
    if not isinstance(audio, str | os.PathLike):
        raise InvalidRequest(
            f"audio: expected a path, bytes or Audio, got a {type(audio).__name__}"
        )
    name = Path(audio).name or str(audio)
    return name.encode("utf-8", "replace").decode()  # a file's name may hold bytes that are no text


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
    try:
        path = Path(audio).expanduser()
        if path.is_dir():
            raise InvalidRequest(f"{name} is a folder")
        file = _open_pipe(path, name) if path.is_fifo() else path.open("rb")
    except FileNotFoundError as error:
        raise InvalidRequest(f"there is no file {str(path)!r}") from error
    except OSError as error:
        raise InvalidRequest(f"{name} cannot be read: {error.strerror}") from error
    except (ValueError, RuntimeError) as error:  # a zero byte; a user that there is not
        raise InvalidRequest(f"audio: no path of a file: {error}") from error
    with file:
        yield _Source(file, _head(file, name), os.fstat(file.fileno()).st_size)


def _open_pipe(path: Path, name: str) -> io.BufferedReader:
    """A named pipe, once somebody writes to it: to open it plainly would wait for that forever."""
    import select  # noqa: PLC0415  # its `poll` is there where named pipes are

    pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        waiting = select.poll()
        waiting.register(pipe, select.POLLIN)
        if not waiting.poll(1000 * PIPE_S):
            raise InvalidRequest(f"{name} is a pipe, and nobody has written to it for {PIPE_S:g} s")
        os.set_blocking(pipe, True)
        return os.fdopen(pipe, "rb")
    except BaseException:
        os.close(pipe)
        raise


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

    return as_wave((numpy.clip(samples, -1.0, 1.0) * 32767).astype("<i2").tobytes(), RATE)


def as_wave(pcm: bytes, rate: int) -> bytes:
    """The same of samples that are 16-bit already, at any rate."""
    head = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(pcm), b"WAVE", b"fmt ", 16, 1, 1,
                       rate, 2 * rate, 2, 16, b"data", len(pcm))  # fmt: skip
    return head + pcm


def in_wave(data: bytes) -> tuple[bytes, int]:
    """The 16-bit samples of one channel in a WAV, and their rate. The length that it states is not
    believed: who writes while it speaks does not know it. Raises InvalidRequest."""
    place, rate = 12, 0
    while data[:4] == b"RIFF" and place + 8 <= len(data):
        name, size = data[place : place + 4], int.from_bytes(data[place + 4 : place + 8], "little")
        inside = data[place + 8 :]
        if name == b"fmt ":
            kind, channels, rate = struct.unpack_from("<HHI", inside.ljust(16))
            bits = int.from_bytes(inside[14:16], "little")
            if (channels, bits) != (1, 16) or kind not in (1, 0xFFFE) or not _is_rate(rate):
                break
        if name == b"data" and rate:
            pcm = inside[: min(size, len(inside)) if size else None]
            return pcm[: len(pcm) // SAMPLE_BYTES * SAMPLE_BYTES], rate
        place += 8 + size + size % 2
    raise InvalidRequest("it is no WAV of 16-bit samples of one channel")


def _is_rate(rate: int) -> bool:
    return LOWEST_RATE <= rate <= HIGHEST_RATE


# What spoken words come as, as clients name it; of what PyAV writes, the container and the codec.
SOUND_TYPES: Mapping[str, str] = {
    "wav": "audio/wav",
    "pcm": "audio/pcm",
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "flac": "audio/flac",
}
_WRITERS = {
    "mp3": ("mp3", "libmp3lame"),
    "opus": ("ogg", "libopus"),
    "aac": ("adts", "aac"),
    "flac": ("flac", "flac"),
}
SPOKEN_RATE = 24_000  # of all but WAV


def require_writer(kind: str) -> None:
    """Raises ExtraMissing if sound cannot be written so."""
    if kind != "wav" and find_spec("av") is None:
        raise ExtraMissing("speech", "PyAV")


def as_sound(pcm: bytes, rate: int, kind: str) -> bytes:
    """16-bit samples of one channel as a file of this kind."""
    if kind == "wav":
        return as_wave(pcm, rate)
    if kind == "pcm" and rate == SPOKEN_RATE:
        return pcm
    import av  # noqa: PLC0415  # speech is an extra
    import numpy  # noqa: PLC0415

    frame = av.AudioFrame.from_ndarray(
        numpy.frombuffer(pcm, "<i2")[None, :], format="s16", layout="mono"
    )
    frame.sample_rate = rate
    resampler = av.AudioResampler(format="s16", layout="mono", rate=SPOKEN_RATE)
    frames = [*resampler.resample(frame), *resampler.resample(None)]
    if kind == "pcm":
        return b"".join(each.to_ndarray().astype("<i2").tobytes() for each in frames)
    container, codec = _WRITERS[kind]
    out = io.BytesIO()
    with av.open(out, "w", format=container) as file:
        stream: Any = file.add_stream(codec, rate=SPOKEN_RATE, layout="mono")
        for each in [*frames, None]:
            file.mux(stream.encode(each))
    return out.getvalue()


def recorded(chunks: Iterable[Any]) -> Audio:
    """Chunks of one channel at RATE, as a microphone gives them, as a WAV."""
    import numpy  # noqa: PLC0415

    read = PcmReader()
    samples = numpy.concatenate([numpy.zeros(0, "float32"), *map(read.read, chunks)])
    return Audio(as_wav(samples), "audio/wav", len(samples) / RATE)


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

    try:
        array = numpy.asarray(chunk)
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"chunk: expected an array of samples, or bytes: {error}") from error
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


# -- where speech is: chunks of a file, utterances of live speech ----------------------------------

LOUD = 0.01  # of full scale, the mean of a second that is no silence
LEAST_UNVOICED_S = 5.0  # of sound without a voice that is worth a word


class Unvoiced:
    """Notes where there is sound and nobody speaks: music, a song, noise. Second by second."""

    def __init__(self) -> None:
        self._loud: list[bool] = []
        self._rest: list[Samples] = []

    def read(self, block: Samples) -> None:
        import numpy  # noqa: PLC0415  # speech is an extra

        sound = numpy.concatenate([*self._rest, block])
        count = len(sound) // RATE
        seconds = sound[: count * RATE].reshape(count, RATE)
        self._loud += (numpy.sqrt(numpy.square(seconds).mean(axis=1)) >= LOUD).tolist()
        self._rest = [sound[count * RATE :]]

    def voiced(self, start: float, end: float) -> None:
        for second in range(int(start), min(len(self._loud), int(end) + 1)):
            self._loud[second] = False

    def stretches(self) -> Iterator[tuple[float, float]]:
        start = 0
        for second in range(len(self._loud) + 1):
            if second == len(self._loud) or not self._loud[second]:
                if second - start >= LEAST_UNVOICED_S:
                    yield float(start), float(second)
                start = second + 1


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
    channel: int = 0  # of those that are heard one by one

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


# -- the microphone: chunks of sound as they come --------------------------------------------------


CHUNK_S = 0.1
MOST_WAITING = 600  # chunks, one minute; more are dropped and counted


class Microphone:
    """An open microphone. `lost` counts chunks that nobody took in time."""

    def __init__(self) -> None:
        self._chunks: queue.Queue[bytes] = queue.Queue(MOST_WAITING)
        self.lost = 0
        self.begin: Callable[[], object] = lambda: None  # recording

    def put(self, data: Any, *_: object) -> None:
        """Called by the sound system on its own thread."""
        try:
            self._chunks.put_nowait(bytes(data))
        except queue.Full:
            self.lost += 1

    def chunks(self) -> Iterator[tuple[bytes, float]]:
        """Each chunk of 16-bit samples, and how many seconds of sound wait behind it."""
        self.begin()
        while True:
            # An endless wait would not notice Ctrl-C on Windows.
            try:
                chunk = self._chunks.get(timeout=0.5)
            except queue.Empty:
                continue
            yield chunk, self._chunks.qsize() * CHUNK_S


@contextmanager
def open_microphone(device: str | None = None) -> Iterator[Microphone]:
    """Open until the end of the block. Recording starts when the first chunk is requested.

    Raises ExtraMissing, or NoMicrophone if there is none.
    """
    try:
        import sounddevice  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise ExtraMissing("microphone", "sounddevice") from error
    except OSError as error:  # the package is installed, but its library is missing
        raise NoMicrophone(
            "the PortAudio library is missing (on Debian and Ubuntu: apt install libportaudio2); "
            "sound from a file: --file FILE"
        ) from error
    microphone = Microphone()
    chosen: str | int | None = int(device) if device and device.isdigit() else device
    try:
        stream = sounddevice.RawInputStream(
            samplerate=RATE,
            blocksize=int(RATE * CHUNK_S),
            device=chosen,
            channels=1,
            dtype="int16",
            callback=microphone.put,
        )
    except (sounddevice.PortAudioError, ValueError) as error:
        raise NoMicrophone(
            f"no microphone could be opened: {error}; sound from a file: --file FILE"
        ) from error
    microphone.begin = stream.start
    try:
        yield microphone
    finally:
        stream.abort()
        stream.close()


def open_player() -> Callable[[bytes], None]:
    """What plays a WAV and comes back when it has ended. Raises ExtraMissing, or NoMicrophone."""
    try:
        import sounddevice  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise ExtraMissing("microphone", "sounddevice") from error
    except OSError as error:
        raise NoMicrophone(
            "the PortAudio library is missing (on Debian and Ubuntu: apt install libportaudio2); "
            "write the sound to a file: --output FILE"
        ) from error

    def play(data: bytes) -> None:
        pcm, rate = in_wave(data)
        try:
            with sounddevice.RawOutputStream(samplerate=rate, channels=1, dtype="int16") as stream:
                stream.write(pcm)
        except sounddevice.PortAudioError as error:
            raise NoMicrophone(f"no sound can be played: {error}; --output FILE") from error

    return play
