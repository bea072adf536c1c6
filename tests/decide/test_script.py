"""Telling scripts apart, as far as it goes."""

from __future__ import annotations

import pytest

from edgewise.decide.fit import outside_script


@pytest.mark.parametrize(
    "text",
    [
        "Where do penguins live?",
        "Où est la bibliothèque ? Đường Nguyễn Huệ",  # Latin letters: not told apart, as documented
        "The angle is θ, and cos θ = 0.5.",
        "1234 + 5678 = ?!",
        "",
    ],
)
def test_latin_letters_pass_for_an_english_model(text: str) -> None:
    assert not outside_script(text, ("en",))


@pytest.mark.parametrize(
    "text", ["Где живут пингвины?", "ペンギンはどこに住んでいますか", "أين تعيش البطاريق"]
)
def test_other_scripts_are_outside_an_english_model(text: str) -> None:
    assert outside_script(text, ("en",))


def test_nothing_is_said_of_models_that_know_many_languages_or_other_scripts() -> None:
    assert not outside_script("Где живут пингвины?", ())
    assert not outside_script("Где живут пингвины?", ("en", "ru"))
