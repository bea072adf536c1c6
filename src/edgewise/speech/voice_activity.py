"""Where somebody speaks: Silero's small network, fed with sound as it comes."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.errors import ExtraMissing
from edgewise.speech.audio import RATE

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Samples = NDArray[numpy.float32]

FRAME = 512  # samples that get one probability
FRAME_S = FRAME / RATE
_CONTEXT = 64  # samples of the frame before that the network sees again
_STATE = (1, 1, 128)


class VoiceActivity:
    """Sound in, in pieces of any length; out, for each whole frame, the chance of a voice in it.

    Each stream of sound has its own: the network remembers what it heard.
    """

    def __init__(self) -> None:
        import numpy  # noqa: PLC0415  # speech is an extra

        self._network = _network()
        self._hidden = numpy.zeros(_STATE, "float32")
        self._cell = numpy.zeros(_STATE, "float32")
        self._context = numpy.zeros(_CONTEXT, "float32")
        self._rest = numpy.zeros(0, "float32")

    def feed(self, samples: Samples) -> list[float]:
        """The chances for the frames that this completes."""
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
    """Loaded once for all streams: its memory is passed in and out of it."""
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
