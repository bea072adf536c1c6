"""Recordings of people that package indexes hold: fetched when they are needed, never shipped."""

from __future__ import annotations

from pathlib import Path

from edgewise.bench.speech_sets import Clip
from edgewise.local.store.catalogue import (
    PackagePart,
    SideFile,
)
from edgewise.local.store.packages import fetch_side_files
from edgewise.local.store.verify import sha256_of


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
BECKETT_WORDS = "Ever tried, ever failed. No matter. Try again. Fail again. Fail better."

# The beginning of A Tale of Two Cities: three quarters of a minute.
TWO_CITIES = _recording(
    "two_cities.wav",
    "moonshine-voice==0.1.0",
    "moonshine_voice/assets/two_cities.wav",
    4_260_326,
    "f3348494d77cb74a02862f5e685ed09faf3e75832c5cc5c80703282c2cd8b52e",
)
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
