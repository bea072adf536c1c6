"""Orders to switch something on or off."""

from __future__ import annotations

import pytest

from edgewise.calls.values.words import switch_said


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("turn on the fan", True),
        ("please switch the garage fan on", True),
        ("could you enable the fan for an hour", True),
        ("start the fan", True),
        ("turn the fan off please", False),
        ("switch off the fan in the garage", False),
        ("deactivate the fan", False),
        ("stop the fan", False),
        ("don't turn on the fan", None),
        ("never enable the fan", None),
        ("turn the fan off and then turn on the fan", None),
        ("turn the volume up on the fan", None),
        ("is the fan on", None),
    ],
)
def test_the_verb_says_which_way(text: str, state: bool | None) -> None:
    assert switch_said(text) is state
