"""Live sound as it comes: arrays or raw bytes, of any length and rate, into what models hear."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgewise.errors import ExtraMissing, InvalidRequest
from edgewise.speech.audio import RATE

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Samples = NDArray[numpy.float32]

SAMPLE_BYTES = 2
LOWEST_RATE, HIGHEST_RATE = 4_000, 384_000


class PcmReader:
    """One channel: arrays of float32 (-1 to 1) or int16, or bytes of 16-bit little-endian samples.

    A sample that is cut in two by the end of a chunk waits for its other half.
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
        """What was held back; nothing may be read after it."""
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
