"""The three styles of docstrings, read for their words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.tools import read_docstring

GOOGLE = """Ring the bell
    of the tower.

    Loud, so think twice.

    Args:
        times (int): How often,
            at the least.
        bell: Which bell: the big one or the small one.
        *rest: Ignored.

    Returns:
        result: Not a parameter.
    """
NUMPY = """Ring the bell of the tower.

    Parameters
    ----------
    times : int, optional
        How often,
        at the least.
    bell, other : str
        Which bell.

    Returns
    -------
    int
        Not a parameter.
    """
SPHINX = """Ring the bell of the tower.

    :param int times: How often,
        at the least.
    :param bell: Which bell.
    :type bell: str
    :returns: nothing
    """


@pytest.mark.parametrize(
    ("text", "described"),
    [
        (
            GOOGLE,
            {
                "times": "How often, at the least.",
                "bell": "Which bell: the big one or the small one.",
                "rest": "Ignored.",
            },
        ),
        (
            NUMPY,
            {"times": "How often, at the least.", "bell": "Which bell.", "other": "Which bell."},
        ),
        (SPHINX, {"times": "How often, at the least.", "bell": "Which bell."}),
    ],
)
def test_each_style_gives_summary_and_parameters(text: str, described: dict[str, str]) -> None:
    assert read_docstring(text) == ("Ring the bell of the tower.", described)


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        (None, ""),
        ("", ""),
        ("One line.", "One line."),
        ("Do it.\nArgs:\n  x: y", "Do it."),
        ("Args:\n  x: y", ""),
        ("Do it.\n:param x: y", "Do it."),
        ("Notes on the weather of a day", "Notes on the weather of a day"),
    ],
)
def test_the_summary_ends_where_the_parameters_begin(text: str | None, summary: str) -> None:
    assert read_docstring(text)[0] == summary


LINES = st.sampled_from(
    ["Args:", "Parameters", "----", "  x: y", "x : int", "    deep", "", ":param x: y", "Returns:"]
)


@given(st.lists(LINES | st.text(max_size=10), max_size=12).map("\n".join))
def test_any_text_is_read(text: str) -> None:
    summary, described = read_docstring(text)
    assert "\n" not in summary
    assert all(name and words for name, words in described.items())
