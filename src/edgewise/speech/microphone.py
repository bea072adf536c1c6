"""The microphone: chunks of sound as they come, at the rate that models need. And the other way."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from edgewise.errors import ExtraMissing, NoMicrophone
from edgewise.speech.audio import RATE, in_wave

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
