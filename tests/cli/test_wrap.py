"""Word wrap: the same words, on lines that fit, however the text came in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from edgewise.cli.render import WordWrap

WORDS = st.text(alphabet="abcdefghij.,-", min_size=1, max_size=30)
GAPS = st.sampled_from([" ", "  ", "\n", "\n\n", " \n"])
TEXTS = st.lists(st.tuples(WORDS, GAPS)).map(lambda pairs: "".join(a + b for a, b in pairs))


def wrapped(text: str, width: int, piece: int = 10_000) -> str:
    wrap = WordWrap(width)
    pieces = [text[i : i + piece] for i in range(0, len(text), piece)]
    return "".join(map(wrap.feed, pieces)) + wrap.flush()


def test_a_word_that_does_not_fit_goes_to_the_next_line() -> None:
    assert wrapped("one two three four", 10) == "one two\nthree four"


def test_a_line_that_is_exactly_full_is_not_broken_twice() -> None:
    assert wrapped("abcde fghij klm", 11) == "abcde fghij\nklm"


def test_indentation_and_tabs_are_kept() -> None:
    text = "def f():\n\treturn 1\n    x = 2"
    assert wrapped(text, 40) == text


def test_a_word_longer_than_the_line_is_left_to_the_terminal() -> None:
    assert wrapped("see https://example.org/a/very/long/path now", 20) == (
        "see\nhttps://example.org/a/very/long/path now"
    )


def test_a_script_without_spaces_flows_and_is_broken_where_the_line_ends() -> None:
    wrap = WordWrap(6)
    assert wrap.feed("日本語の文") == "日本語\nの文"


@given(TEXTS, st.integers(5, 60), st.integers(1, 9))
def test_the_pieces_do_not_matter_and_no_word_is_lost(text: str, width: int, piece: int) -> None:
    whole = wrapped(text, width)
    assert wrapped(text, width, piece) == whole
    assert whole.split() == text.split()
    assert whole.count("\n") >= text.count("\n")
    for line in whole.splitlines():
        assert (
            cell_len(line) <= width or len(line.split()) == 1 or cell_len(line.split()[0]) > width
        )
