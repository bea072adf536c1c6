"""Recordings with their words: read from a list or fetched, joined into documents, made noisy."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy
from numpy.typing import NDArray

from edgewise.errors import InvalidRequest
from edgewise.local.catalogue import PackagePart, SideFile, sha256_of
from edgewise.local.fetch import fetch_side_files
from edgewise.speech.audio import RATE, open_sound

Samples = NDArray[numpy.float32]
# Decibels between speech and noise; None is the recording as it is.
LEVELS: tuple[float | None, ...] = (None, 20.0, 10.0, 5.0, 0.0)
DOCUMENT_S = 35.0
VOICES_IN_BABBLE = 5
_LOUDNESS = 0.06  # root mean square that every clip is brought to
BECKETT_WORDS = "Ever tried, ever failed. No matter. Try again. Fail again. Fail better."
TWO_CITIES_WORDS = (
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was "
    "the age of foolishness, it was the epoch of belief, it was the epoch of incredulity, it "
    "was the season of light, it was the season of darkness, it was the spring of hope, it "
    "was the winter of despair, we had everything before us, we had nothing before us, we "
    "were all going direct to heaven, we were all going direct the other way. In short, the "
    "period was so far like the present period that some of its noisiest authorities insisted "
    "on its being received, for good or for evil, in the superlative degree of comparison "
    "only."
)


@dataclass(frozen=True, slots=True)
class Clip:
    """A recording and what is said in it. `kind` is "human" or "made"."""

    path: Path
    text: str
    voice: str
    kind: str


@dataclass(frozen=True, slots=True)
class Document:
    """Clips of one voice after one another, with pauses; `level` is None where none was added."""

    voice: str
    number: int
    kind: str
    text: str
    samples: Samples = field(repr=False)
    level: float | None = None
    noise: str = ""

    @property
    def name(self) -> str:
        return f"{self.voice}-{self.number}"

    @property
    def seconds(self) -> float:
        return len(self.samples) / RATE


def read_clips(path: Path) -> list[Clip]:
    """A file with one JSON object per line: path, text, voice, kind; paths from its folder."""
    try:
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
        return [
            Clip(path.parent / row["path"], row["text"], row["voice"], row["kind"]) for row in rows
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidRequest(f"{path}: not a list of recordings: {error!r}") from error


def read_samples(path: Path) -> Samples:
    """A whole recording, at one loudness."""
    with open_sound(path) as sound:
        samples = numpy.concatenate(list(sound.blocks()))
    loudness = float(numpy.sqrt(numpy.square(samples).mean())) or 1.0
    return (samples * (_LOUDNESS / loudness)).astype("float32")


def documents(clips: Sequence[Clip], seed: int = 0) -> Iterator[Document]:
    """Clips of the same voice, joined until a document is about DOCUMENT_S long."""
    random = numpy.random.default_rng(seed)
    by_voice = itertools.groupby(sorted(clips, key=lambda clip: (clip.kind, clip.voice)),
                                 key=lambda clip: (clip.kind, clip.voice))  # fmt: skip
    for (kind, voice), members in by_voice:
        texts: list[str] = []
        parts: list[Samples] = [_pause(random)]
        number = 0
        for clip in members:
            texts.append(clip.text)
            parts += [read_samples(clip.path), _pause(random)]
            if sum(map(len, parts)) >= DOCUMENT_S * RATE:
                yield _document(voice, kind, number, texts, parts)
                texts, parts, number = [], [_pause(random)], number + 1
        if texts:
            yield _document(voice, kind, number, texts, parts)


def _pause(random: numpy.random.Generator) -> Samples:
    return numpy.zeros(int(RATE * random.uniform(0.4, 1.2)), "float32")


def _document(
    voice: str, kind: str, number: int, texts: Sequence[str], parts: Sequence[Samples]
) -> Document:
    return Document(voice, number, kind, " ".join(texts), numpy.concatenate(parts))


def with_noise(
    document: Document, level: float | None, noise: str, others: Sequence[Document], seed: int
) -> Document:
    """The same with noise under it: "white", "pink", or "babble" of other voices."""
    if level is None:
        return document
    random = numpy.random.default_rng(seed)
    length = len(document.samples)
    sound = _babble(others, length, random) if noise == "babble" else random.normal(size=length)
    if noise == "pink":
        spectrum = numpy.fft.rfft(sound)
        sound = numpy.fft.irfft(spectrum / numpy.sqrt(numpy.arange(len(spectrum)) + 1.0), length)
    power = numpy.square(sound).mean() or 1.0
    wanted = _active_power(document.samples) / 10 ** (level / 10)
    mixed = document.samples + sound * numpy.sqrt(wanted / power)
    samples = (mixed / max(1.0, float(numpy.abs(mixed).max()))).astype("float32")
    return replace(document, samples=samples, level=level, noise=noise)


def _active_power(samples: Samples) -> float:
    """Of the moments in which somebody speaks: pauses would make every noise look small."""
    frames = samples[: len(samples) // 512 * 512].reshape(-1, 512)
    energy = numpy.square(frames).mean(axis=1)
    return float(energy[energy > 0.05 * energy.max()].mean())


def _babble(
    others: Sequence[Document], length: int, random: numpy.random.Generator
) -> NDArray[numpy.float64]:
    sound = numpy.zeros(length)
    for index in random.choice(len(others), size=VOICES_IN_BABBLE):
        other = others[int(index)].samples
        sound += numpy.resize(numpy.roll(other, int(random.integers(len(other)))), length)
    return sound


def _recording(name: str, requirement: str, member: str, size: int, sha256: str) -> SideFile:
    return SideFile(name, size, PackagePart(requirement, member, size), sha256)


# Worstward Ho, read aloud: ten seconds.
BECKETT = _recording(
    "beckett.wav",
    "useful-moonshine-onnx==20251121",
    "moonshine_onnx/assets/beckett.wav",
    318_978,
    "e5a26b3d29e5b0bc8dbd72c11d16a3808a4ec0ac45b21f12a27d2a2fe5c5ae61",
)

# The beginning of A Tale of Two Cities: three quarters of a minute.
TWO_CITIES = _recording(
    "two_cities.wav",
    "moonshine-voice==0.1.0",
    "moonshine_voice/assets/two_cities.wav",
    4_260_326,
    "f3348494d77cb74a02862f5e685ed09faf3e75832c5cc5c80703282c2cd8b52e",
)


def fetch_recordings(folder: Path, *files: SideFile) -> list[Path]:
    """Recordings in `folder`, verified; those that are there are not fetched again.

    Raises StoreError where the index cannot be reached.
    """
    folder.mkdir(parents=True, exist_ok=True)
    missing = [
        file
        for file in files
        if not (folder / file.name).is_file() or sha256_of(folder / file.name) != file.sha256
    ]
    fetch_side_files(missing, folder)
    return [folder / file.name for file in files]


def usual_clips(folder: Path) -> list[Clip]:
    """Two readers, for those who bring no list of recordings."""
    beckett, cities = fetch_recordings(folder, BECKETT, TWO_CITIES)
    return [
        Clip(beckett, BECKETT_WORDS, "beckett", "human"),
        Clip(cities, TWO_CITIES_WORDS, "two_cities", "human"),
    ]
