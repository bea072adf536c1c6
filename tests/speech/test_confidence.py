from __future__ import annotations

import json
from importlib import resources
from typing import Any

import numpy
import pytest

from edgewise.decide.calibration import parse_calibration
from edgewise.errors import SettingsError
from edgewise.speech.words import (
    MOST_CONFIDENT,
    SPEECH,
    features_of,
    judge_features,
    signal_to_noise,
    sounds_foreign,
)
from edgewise.testing import heard
from edgewise.types.transcripts import Heard
from tests.speech.made_voice import noise, silence, voice

SHIPPED = [
    path
    for path in (resources.files("edgewise.calibrations")).iterdir()
    if path.name.endswith(".speech.json")
]


def read(path: Any) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return data


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_confidence_falls_and_expected_error_grows_as_words_get_less_likely(path: Any) -> None:
    calibration = parse_calibration(read(path), path.name, SPEECH)
    chances, errors = [], []
    for chance in (0.99, 0.9, 0.7, 0.5, 0.3, 0.1):
        said = heard("what people say to one another", 0.0, 2.0, chance)
        said = Heard(start=0.0, end=2.0, text=said.text, words=said.words,
                     mean_logprob=float(numpy.log(chance)))  # fmt: skip
        confidence, error = judge_features(calibration, features_of(said, [0.9] * 60, 30.0))
        chances.append(confidence)
        errors.append(error)
    assert chances == sorted(chances, reverse=True)
    assert errors == sorted(errors)
    assert chances[0] > 0.8 and chances[-1] < 0.2
    assert max(chances) <= MOST_CONFIDENT < 1.0


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_what_ships_was_judged_on_voices_it_had_not_heard(path: Any) -> None:
    report = read(path)["report"]
    assert report["held_out_by"] == "voice"
    assert report["segment_error_auroc"] >= 0.75
    assert report["calibration_error"] < 0.1
    assert len(report["fitted_on"]["human_voices"]) > 3 < len(report["fitted_on"]["made_voices"])


def test_a_loop_is_never_believed() -> None:
    features = features_of(heard("on and on", 0.0, 1.0, 0.99), [0.9] * 30, 40.0)
    confidence, error = judge_features(SPEECH.uncalibrated, features, looping=True)
    assert confidence <= 0.05 and error >= 0.95


def test_features_stand_for_what_they_say() -> None:
    mixed = Heard(
        start=0.0,
        end=2.0,
        text="one two three four",
        words=tuple(
            word
            for part, chance in (("one", 0.9), ("two", 0.8), ("three", 0.2), ("four", 0.7))
            for word in heard(part, 0.0, 0.5, chance).words
        ),
        no_speech=0.3,
        temperature=0.4,
    )
    features = features_of(mixed, [0.5, 0.7], 30.0)
    assert features["mean_word"] == pytest.approx(0.65)
    assert features["low_word"] == pytest.approx(0.2)
    assert features["lower_half"] == pytest.approx(0.45)
    assert features["unsure_words"] == pytest.approx(0.25)
    assert (features["no_speech"], features["temperature"]) == (0.3, 0.4)
    assert features["voice"] == pytest.approx(0.6)
    assert features["rate"] == pytest.approx(0.5)


def test_noise_lowers_the_signal_to_noise_ratio() -> None:
    speech = numpy.concatenate((voice(2.0), silence(0.5)))
    clean, noisy = signal_to_noise(speech), signal_to_noise(speech + noise(2.5, 0.1))
    assert 0.0 <= signal_to_noise(noise(2.0)) < noisy < clean <= 60.0
    assert signal_to_noise(silence(0.001)) == 0.0


@pytest.mark.parametrize(
    "change",
    [{"format": 99}, {"chance": 3}, {"threshold": "high"}, {"error": {"weights": {}}}],
)
def test_a_file_that_is_no_calibration_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="mine"):
        parse_calibration(read(SHIPPED[0]) | change, "mine", SPEECH)


def test_a_map_comes_after_the_score_and_nobody_is_ever_sure() -> None:
    maps = {"final": [[0.0, 1.0], [1.0, 1.0]]}
    risk = {"whole": [[0.9, 10, 1]]}
    calibration = parse_calibration(
        read(SHIPPED[0]) | {"map": maps, "risk": risk, "risk_rows": 20}, "mine", SPEECH
    )
    assert judge_features(calibration, {})[0] == MOST_CONFIDENT
    assert judge_features(calibration, {}, looping=True)[0] < 0.5
    assert calibration.measured.risk["whole"][0].wrong == 1
    with pytest.raises(SettingsError, match="mine"):
        parse_calibration(read(SHIPPED[0]) | {"map": {"final": [[2, 0]]}}, "mine", SPEECH)


@pytest.mark.parametrize(
    ("changed", "foreign"),
    [({}, True), ({"mean_word": 0.5}, False), ({"voice": 0.4}, False), ({"snr_db": 0.2}, False),
     ({"short": 0.3}, False)],
)  # fmt: skip
def test_a_clear_voice_of_unlikely_words_speaks_another_language(
    changed: dict[str, float], foreign: bool
) -> None:
    features = {"mean_word": 0.25, "voice": 0.9, "snr_db": 0.5, "short": 0.1}
    assert sounds_foreign({**features, **changed}) == foreign
