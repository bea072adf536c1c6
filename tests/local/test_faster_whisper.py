from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest

from edgewise.errors import GenerationFailed, ModelNotFound
from edgewise.local import faster_whisper
from edgewise.local.catalogue import TRANSLATOR
from edgewise.local.faster_whisper import FasterWhisper, open_backend
from edgewise.local.store import InstalledModel, ModelStore
from edgewise.speech.words import word_errors
from tests.conftest import MODELS_DIR
from tests.recordings import BECKETT_WORDS, sound_of
from tests.speech.made_voice import silence

pytestmark = pytest.mark.real_model


@pytest.fixture(scope="module")
def transcriber(default_transcriber: InstalledModel) -> Iterator[FasterWhisper]:
    backend = open_backend(default_transcriber, threads=1)
    yield backend
    backend.close()


def test_it_transcribes_a_person_with_times_and_probabilities(
    transcriber: FasterWhisper, beckett: Path
) -> None:
    samples = sound_of(beckett)
    heard = transcriber.hear(samples)
    assert (transcriber.facts().real_time_factor or 0.0) > 0.0
    text = " ".join(each.text for each in heard)
    assert word_errors(BECKETT_WORDS, text).rate <= 0.1
    words = [word for each in heard for word in each.words]
    assert len(words) >= 10
    assert all(0.0 < (word.probability or 0.0) <= 1.0 for word in words)
    assert all(word.start <= word.end <= len(samples) / 16_000 + 0.1 for word in words)
    assert [word.start for word in words] == sorted(word.start for word in words)
    assert heard[0].language == "en"
    assert -1.0 < heard[0].mean_logprob < 0.0


def test_the_same_sound_is_heard_the_same_twice(transcriber: FasterWhisper, beckett: Path) -> None:
    samples = sound_of(beckett)[: 5 * 16_000]
    assert transcriber.hear(samples) == transcriber.hear(samples)


def test_noise_makes_it_less_sure(transcriber: FasterWhisper, beckett: Path) -> None:
    samples = sound_of(beckett)
    noise = numpy.random.default_rng(0).normal(size=len(samples))
    loud = numpy.asarray(samples + 1.5 * numpy.abs(samples).std() * noise, "float32")

    def mean(found: list[float]) -> float:
        return sum(found) / max(1, len(found))

    clean = [w.probability or 0.0 for each in transcriber.hear(samples) for w in each.words]
    noisy = [w.probability or 0.0 for each in transcriber.hear(loud) for w in each.words]
    assert mean(noisy) < mean(clean) - 0.1


def test_a_hint_shows_how_words_are_spelt_and_a_temperature_is_drawn_at(
    transcriber: FasterWhisper, beckett: Path
) -> None:
    samples = sound_of(beckett)
    told = transcriber.hear(samples, hint="Mr. Phail fails. Phail again. Phail better.")
    assert "Phail again" in " ".join(each.text for each in told)
    assert {each.temperature for each in transcriber.hear(samples)} == {0.0}
    drawn = transcriber.hear(samples, temperature=0.6)
    assert [each.temperature for each in drawn] == pytest.approx([0.6] * len(drawn))


def test_a_model_of_english_alone_does_not_pretend_to_translate(
    default_transcriber: InstalledModel, beckett: Path
) -> None:
    unknown = FasterWhisper(replace(default_transcriber, row=None), threads=1)
    assert unknown.facts().translates  # nobody knows before it is loaded
    with pytest.raises(GenerationFailed, match="cannot translate"):
        unknown.hear(sound_of(beckett), translate=True)
    unknown.close()


@pytest.mark.usefixtures("system_voice")
def test_german_is_put_into_english(tmp_path: Path) -> None:
    spoken = tmp_path / "de.wav"
    words = "Guten Morgen. Guten Morgen, meine Freunde."
    subprocess.run(["espeak-ng", "-v", "de", "-w", str(spoken), words], check=True)
    model = open_backend(ModelStore(MODELS_DIR).find(TRANSLATOR), threads=1)
    assert model.facts().translates
    heard = model.hear(sound_of(spoken), language="de", translate=True)
    assert "good morning" in " ".join(each.text for each in heard).lower()
    assert "guten" in " ".join(each.text for each in model.hear(sound_of(spoken))).lower()
    model.close()


def test_words_can_be_left_out(transcriber: FasterWhisper, beckett: Path) -> None:
    found = transcriber.hear(sound_of(beckett), words=False)
    assert found and not any(each.words for each in found)


def test_silence_does_not_break_it(transcriber: FasterWhisper) -> None:
    for each in transcriber.hear(silence(2.0)):
        assert each.no_speech > 0.1


def test_facts_are_known_before_anything_is_loaded(default_transcriber: InstalledModel) -> None:
    facts = open_backend(default_transcriber, threads=1).facts()
    assert (facts.backend, facts.model, facts.quantisation) == (
        "faster_whisper",
        "whisper-tiny.en",
        "INT8",
    )
    assert facts.languages == ("en",) and facts.word_times


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(b"not a model")
    (tmp_path / "tokenizer.json").write_text("{}")
    backend = open_backend(InstalledModel("mine", path, "INT8", "", 1), threads=1)
    with pytest.raises((ModelNotFound, GenerationFailed)):
        backend.hear(silence(1.0))


def test_closing_and_using_it_again_starts_over(
    default_transcriber: InstalledModel, beckett: Path
) -> None:
    backend = open_backend(default_transcriber, threads=1)
    samples = sound_of(beckett)[: 3 * 16_000]
    before = backend.hear(samples)
    backend.close()
    assert backend.hear(samples) == before
    backend.close()


def test_a_word_that_follows_without_a_space_says_so() -> None:
    """As Whisper reports them: "ill-disposed" is two words, the second without a space."""
    pieces = [
        SimpleNamespace(word=word, start=0.0, end=0.1, probability=0.9)
        for word in (" ill", "-disposed", " man")
    ]
    segment = SimpleNamespace(
        start=0.0, end=0.3, text=" ill-disposed man", words=pieces, avg_logprob=-0.1,
        no_speech_prob=0.0, compression_ratio=1.0, temperature=0.0,
    )  # fmt: skip
    heard = faster_whisper._heard(segment, "en")
    assert [(word.text, word.glued) for word in heard.words] == [
        ("ill", False),
        ("-disposed", True),
        ("man", False),
    ]


def test_a_seldom_language_needs_more_than_a_noisy_guess() -> None:
    def told(**chances: float) -> SimpleNamespace:
        return SimpleNamespace(
            language=max(chances, key=lambda name: chances[name]),
            all_language_probs=list(chances.items()),
        )

    assert faster_whisper.other_languages(told(cy=0.4, en=0.3, de=0.1)) == ["en", "de"]
    assert faster_whisper.other_languages(told(de=0.95, en=0.02)) == []
    assert faster_whisper.other_languages(told(de=0.5, en=0.4)) == ["en"]
    assert faster_whisper.other_languages(told(cy=0.999, en=0.0001)) == []
    assert faster_whisper.other_languages(SimpleNamespace(all_language_probs=None)) == []
