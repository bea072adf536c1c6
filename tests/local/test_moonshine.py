from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest

from edgewise.errors import ModelNotFound
from edgewise.local.moonshine import Moonshine, open_backend
from edgewise.local.store import InstalledModel, ModelStore
from edgewise.speech.words import word_errors
from tests.conftest import MODELS_DIR
from tests.recordings import BECKETT_WORDS, sound_of
from tests.speech.made_voice import silence

pytestmark = pytest.mark.real_model


@pytest.fixture(scope="module")
def transcriber() -> Iterator[Moonshine]:
    """Not a default, so `make test` does not pull it."""
    try:
        model = ModelStore(MODELS_DIR).find("moonshine-tiny")
    except ModelNotFound as error:
        pytest.skip(str(error))
    backend = open_backend(model, threads=1)
    yield backend
    backend.close()


def test_it_transcribes_a_person_with_probabilities(transcriber: Moonshine, beckett: Path) -> None:
    samples = sound_of(beckett)
    (heard,) = transcriber.hear(samples)
    assert (transcriber.facts().real_time_factor or 0.0) > 0.0
    assert word_errors(BECKETT_WORDS, heard.text).rate <= 0.1
    assert [word.text for word in heard.words] == heard.text.split()
    assert all(0.0 < (word.probability or 0.0) <= 1.0 for word in heard.words)
    assert heard.words[-1].end == pytest.approx(len(samples) / 16_000, abs=0.01)
    assert transcriber.hear(samples) == [heard], "the same sound is heard the same"


def test_noise_makes_it_less_sure(transcriber: Moonshine, beckett: Path) -> None:
    samples = sound_of(beckett)
    noise = numpy.random.default_rng(0).normal(size=len(samples))
    loud = numpy.asarray(samples + 1.5 * numpy.abs(samples).std() * noise, "float32")
    clean, noisy = transcriber.hear(samples), transcriber.hear(loud)
    assert not noisy or noisy[0].mean_logprob < clean[0].mean_logprob


def test_too_little_sound_is_nothing(transcriber: Moonshine) -> None:
    assert transcriber.hear(silence(0.05)) == []


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    path = tmp_path / "decoder_model_merged.ort"
    path.write_bytes(b"not a model")
    backend = open_backend(InstalledModel("mine", path, "INT8", "", 1), threads=1)
    with pytest.raises(ModelNotFound, match="no Moonshine"):
        backend.hear(silence(1.0))
