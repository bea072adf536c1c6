"""A voice made of nothing: pulses through the resonances of vowels. Nobody would take it for words,
but voice activity does take it for a voice, so that tests need no recording."""

from __future__ import annotations

import io
import wave

import numpy
from numpy.typing import NDArray

from edgewise.speech.audio import (
    RATE,
    as_wav,
)

Samples = NDArray[numpy.float32]

# Resonances of a, e, i, o, u in hertz.
VOWELS = (
    (730, 1090, 2440),
    (530, 1840, 2480),
    (270, 2290, 3010),
    (570, 840, 2410),
    (300, 870, 2240),
)
SYLLABLE_S = 0.18


def voice(seconds: float, seed: int = 0) -> Samples:
    """Syllables for this many seconds."""
    random = numpy.random.default_rng(seed)
    parts: list[NDArray[numpy.float64]] = []
    while sum(map(len, parts)) < seconds * RATE:
        parts.append(_syllable(random))
    sound = numpy.concatenate(parts)[: int(seconds * RATE)]
    return numpy.asarray(0.3 * sound / numpy.abs(sound).max(), "float32")


def silence(seconds: float) -> Samples:
    return numpy.zeros(int(seconds * RATE), "float32")


def noise(seconds: float, loudness: float = 0.05, seed: int = 0) -> Samples:
    random = numpy.random.default_rng(seed)
    return numpy.asarray(loudness * random.normal(size=int(seconds * RATE)), "float32")


def wav(*parts: Samples) -> bytes:
    return as_wav(numpy.concatenate(parts))


def stereo(left: Samples, right: Samples) -> bytes:
    """A WAV with two channels, as of a recorded call."""
    both = numpy.stack([left, right], axis=1)
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((both * 32767).astype("<i2").tobytes())
    return out.getvalue()


def _syllable(random: numpy.random.Generator) -> NDArray[numpy.float64]:
    length = int(RATE * SYLLABLE_S * random.uniform(0.7, 1.4))
    pitch = 110 * random.uniform(0.85, 1.3) * numpy.linspace(1.05, 0.92, length)
    phase = numpy.cumsum(pitch / RATE)
    pulses = numpy.diff(numpy.floor(phase), prepend=0.0) + 0.01 * random.normal(size=length)
    sound = sum(_resonance(pulses, hertz) for hertz in VOWELS[random.integers(len(VOWELS))])
    envelope = numpy.sin(numpy.linspace(0, numpy.pi, length)) ** 0.5
    return numpy.asarray(sound * envelope)


def _resonance(pulses: NDArray[numpy.float64], hertz: float) -> NDArray[numpy.float64]:
    """Each pulse rings at a frequency and dies away."""
    times = numpy.arange(int(0.02 * RATE)) / RATE
    ring = numpy.exp(-90 * numpy.pi * times) * numpy.sin(2 * numpy.pi * hertz * times)
    return numpy.convolve(pulses, ring)[: len(pulses)]
