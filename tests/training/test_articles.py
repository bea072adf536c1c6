"""Articles before copied values."""

from __future__ import annotations

from random import Random

import pytest
from training.articles import without_article
from training.frame_types import Choice, Choices, Parameter
from training.values import sample_value


@pytest.mark.parametrize(
    ("said", "copied"),
    [
        ("the passport renewal", "passport renewal"),
        ("a birthday card for Noor", "birthday card for Noor"),
        ("on Easter Monday", "Easter Monday"),
        ("The Who", "The Who"),
        ("the parcel arrived", "the parcel arrived"),
        ("the 14th", "the 14th"),
        ("a week", "a week"),
        ("the soup is in the fridge and the bread is on the table",) * 2,
        ("on my way", "on my way"),
    ],
)
def test_things_lose_their_article_and_sentences_times_and_names_keep_it(
    said: str, copied: str
) -> None:
    assert without_article(said) == copied


def test_the_value_follows_its_words_into_lower_case() -> None:
    choice = Choice("Zeiss refractor", ("the Zeiss refractor",))
    said = sample_value(Parameter("scope", True, "str", Choices((choice,))), Random(1))
    assert (said.text, said.value) == ("the Zeiss refractor", "Zeiss refractor")
    assert said.lowered().value == "zeiss refractor"
