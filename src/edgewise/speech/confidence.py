"""From a segment's evidence to the chance that it is right, and its expected error.

A calibration belongs to one model and quantisation. docs/speech-models.md says how
the shipped ones were fitted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from edgewise.decide.calibration import Calibration, Kind
from edgewise.decide.score import Score
from edgewise.speech.words import compression
from edgewise.types.transcripts import Heard

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Samples = NDArray[numpy.float32]


LOW_ERROR = 0.15  # up to this word error rate a segment counts as right
MOST_CONFIDENT = 0.99  # nothing is certain
LOOPING = 0.05  # the most for a loop: loops look sure of themselves
_FRAME = 512  # samples per energy measurement
_QUIET_DB, _LOUD_DB = 0.0, 60.0


def signal_to_noise(samples: Samples) -> float:
    """Decibels between the loud and the quiet moments of a stretch of sound, 0 to 60."""
    import numpy  # noqa: PLC0415  # speech is an extra

    count = len(samples) // _FRAME
    if not count:
        return _QUIET_DB
    energy = numpy.square(samples[: count * _FRAME].reshape(count, _FRAME)).mean(axis=1) + 1e-10
    loud, quiet = numpy.percentile(energy, 95), numpy.percentile(energy, 10)
    return float(min(_LOUD_DB, max(_QUIET_DB, 10 * math.log10(loud / quiet))))


def features_of(heard: Heard, voice: Sequence[float], snr_db: float) -> dict[str, float]:
    """All features of a segment."""
    chances = sorted(word.probability for word in heard.words if word.probability is not None) or [
        math.exp(heard.mean_logprob)
    ]
    count = len(chances)
    seconds = max(0.1, heard.end - heard.start)
    return {
        "mean_word": sum(chances) / count,
        "low_word": chances[count // 10],
        "lower_half": sum(chances[: (count + 1) // 2]) / ((count + 1) // 2),
        "unsure_words": sum(chance < 0.5 for chance in chances) / count,
        "mean_logprob": max(-3.0, heard.mean_logprob),
        "compression": min(4.0, max(compression(heard.text), heard.compression_ratio)),
        "no_speech": heard.no_speech,
        "temperature": heard.temperature,
        "voice": sum(voice) / len(voice) if voice else 1.0,
        "snr_db": snr_db / _LOUD_DB,
        "rate": min(8.0, len(heard.text.split()) / seconds) / 4.0,
        "short": 1.0 / (1 + len(heard.text.split())),
    }


def judge_features(
    calibration: Calibration, features: Mapping[str, float], *, looping: bool = False
) -> tuple[float, float]:
    """Confidence, and the expected word error rate."""
    chance = min(MOST_CONFIDENT, calibration.chance("chance", features))
    error = calibration.chance("error", features)
    if looping:
        return min(LOOPING, chance), max(1 - LOOPING, error)
    return chance, error


# `chance`: that the word error rate is at most LOW_ERROR. `error`: the expected rate.
SPEECH = Kind(
    name="speech",
    scores={"chance": "final", "error": ""},
    # Orders segments by the probabilities of their words.
    uncalibrated=Calibration(
        name="uncalibrated",
        scores={
            "chance": Score({"mean_word": 8.0, "low_word": 2.0}, -6.0),
            "error": Score({"mean_word": -6.0}, 3.0),
        },
    ),
)
