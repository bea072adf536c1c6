"""How things look: money, times, summaries; and text from elsewhere, which is only text."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from edgewise.cli.render import (
    WordWrap,
    confidence,
    console,
    dollars,
    milliseconds,
    summary,
    why,
)
from edgewise.testing import Answer, Cut, LoopbackCloud, Status
from edgewise.types.replies import Attempt, Decision, Reply, Usage
from tests.cli.conftest import Open, Run

DECISION = Decision(
    policy="prefer_local",
    handoff="automatic",
    code="kept_in_doubt",
    reason="confidence 0.40 is below 0.50",
    threshold=0.5,
    calibration="smollm2",
    degraded_code="no_key",
)
ATTEMPT = Attempt(
    place="local", backend="llama_cpp", model="tiny", outcome="answered", output_tokens=1
)
REPLY = Reply(
    id="1",
    text="Lyon.",
    source="local",
    decision=DECISION,
    confidence=0.4,
    attempts=(ATTEMPT,),
    usage=Usage(12, 3, 0),
    total_ms=1234.4,
)


@pytest.mark.parametrize(
    ("amount", "words"), [(0, "$0"), (6, "$0.000006"), (999_999, "$0.999999"), (3_000_000, "$3.00")]
)
def test_money_keeps_the_digits_that_matter(amount: int, words: str) -> None:
    assert dollars(amount) == words


@pytest.mark.parametrize(
    ("value", "words"), [(None, "-"), (0.4, "0 ms"), (1234.4, "1,234 ms"), (12_340, "12.3 s")]
)
def test_times_are_readable(value: float | None, words: str) -> None:
    assert milliseconds(value) == words


def test_an_unknown_confidence_is_a_dash() -> None:
    assert (confidence(None), confidence(0.456)) == ("-", "0.46")


def test_the_line_under_an_answer_says_where_from_how_sure_how_long_and_what_it_cost() -> None:
    assert summary(REPLY).plain == (
        "└ device · tiny · confidence 0.40 · 1,234 ms · 12+3 tokens · $0"
    )


def test_the_line_under_an_answer_says_what_is_wrong_with_it() -> None:
    reply = replace(REPLY, finish_reason="length", needs_cloud_handoff=True, degraded=True)
    assert summary(reply).plain.endswith(" · cut off (--max-tokens) · in doubt · degraded: no_key")


def test_an_answer_that_was_stopped_because_it_repeats_itself_is_not_said_to_be_too_long() -> None:
    decision = replace(REPLY.decision, reason="the answer repeats itself")
    line = summary(replace(REPLY, finish_reason="length", decision=decision)).plain
    assert "stopped: it repeated itself" in line and "--max-tokens" not in line
    cloud = replace(REPLY, source="cloud", decision=decision)
    assert "repeated" not in summary(cloud).plain, "that was the device's answer"


def test_the_confidence_beside_a_cloud_answer_is_the_devices() -> None:
    assert " · device's confidence 0.40 · " in summary(replace(REPLY, source="cloud")).plain


def test_the_reasons_name_every_attempt_and_its_error() -> None:
    failed = replace(
        ATTEMPT, place="cloud", outcome="cloud_timeout", error="[bold]no\x1b[2J[/bold]"
    )
    words = why(replace(REPLY, attempts=(ATTEMPT, failed))).plain
    assert words.splitlines() == [
        "kept_in_doubt: confidence 0.40 is below 0.50",
        "policy prefer_local, handoff automatic, threshold 0.50, calibration smollm2",
        "  local: llama_cpp/tiny answered, 0 ms, 1 token, $0",
        "  cloud: llama_cpp/tiny cloud_timeout, 0 ms, 1 token, $0",
        "    [bold]no[2J[/bold]",
    ]


def test_nothing_is_taken_for_markup(capsys: pytest.CaptureFixture[str]) -> None:
    console().say("[bold]x[/bold] :smile: [/]", ("[red]", "dim"))
    console().print("[bold]x[/bold] :smile:")
    assert capsys.readouterr().out == ("[bold]x[/bold] :smile: [/][red]\n[bold]x[/bold] :smile:\n")


def test_no_escape_of_a_text_reaches_the_terminal_however_the_line_was_built(
    capsys: pytest.CaptureFixture[str],
) -> None:
    evil = "a\x1b]0;owned\x07b\x1b[2J\x9b31mc\u202ed"
    table = Table(evil)
    table.add_row(evil)
    for shown in (evil, Text(evil), Text("x").append(evil, style="bold"), table):
        console().print(shown)
    console().say(evil, (evil, "red"))
    out = capsys.readouterr().out
    assert out.count("a]0;ownedb[2J31mcd") == 7
    assert not set("\x1b\x07\x9b\u202e") & set(out)


def test_a_long_line_in_a_pipe_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    console().say("word " * 100)
    assert capsys.readouterr().out.count("\n") == 1


ANSWER = "[bold]Not bold[/bold] :smile: [/]\n\tall:\n\t\tmake\x1b]0;owned\x07"


def test_a_piped_answer_is_the_answer_to_the_byte(run: Run, cloud: LoopbackCloud) -> None:
    cloud.always(Answer(text=ANSWER, chunk_size=3))
    assert run("ask", "--cloud", "hi").out == f"{ANSWER}\n"


def test_an_answer_that_ends_its_line_gets_no_second_end(run: Run, cloud: LoopbackCloud) -> None:
    cloud.always(Answer(text="One.\n"))
    assert run("ask", "--cloud", "hi").out == "One.\n"


def test_a_terminal_gets_whole_words_and_no_escape_sequences(
    plain_cloud: LoopbackCloud, terminal: Open
) -> None:
    plain_cloud.always(
        Answer(text=f"{ANSWER} and eleven more words that need another line or two.")
    )
    shown = terminal("ask", "--cloud", "hi", columns=40)
    assert shown.finish() == 0
    assert "\x1b]0;" not in shown.raw
    assert "[bold]Not bold[/bold] :smile: [/]\n" in shown.text
    assert "that need another line or two." in shown.text.replace("\n", " ")
    assert all(len(line.split("\r")[-1]) <= 40 for line in shown.text.splitlines())


def test_no_color_is_respected(
    plain_cloud: LoopbackCloud, monkeypatch: pytest.MonkeyPatch, terminal: Open
) -> None:
    coloured = terminal("ask", "--cloud", "hi")
    assert coloured.finish() == 0
    assert "\x1b[36m" in coloured.raw  # the cloud's colour
    monkeypatch.setenv("NO_COLOR", "1")
    plain = terminal("ask", "--cloud", "hi")
    assert plain.finish() == 0
    assert "\x1b[3" not in plain.raw


def test_an_error_of_a_server_is_printed_as_it_is(run: Run, cloud: LoopbackCloud) -> None:
    cloud.always(Status(400, message="[red]bad[/red] \x1b[2Jrequest"))
    ran = run("ask", "--cloud", "hi")
    assert ran.code == 4
    assert "[red]bad[/red] " in ran.err
    assert "\x1b" not in ran.err


@pytest.mark.real_model
def test_an_answer_that_changes_sides_says_so_and_goes_on(
    run: Run, cloud: LoopbackCloud, default_model: object
) -> None:
    cloud.always(Cut(after_chunks=2, text="The capital of France is Paris.", chunk_size=8))
    ran = run("ask", "--policy", "prefer_cloud", "--max-tokens", "12", "Capital of France?")
    assert ran.code == 0
    assert ran.out.startswith("The capital of F"[:16])
    assert "→ device: " in ran.err
    assert "└ cloud, then device · " in ran.err
    assert "degraded: cloud_cut" in ran.err


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


def test_a_line_to_copy_is_never_broken() -> None:
    screen = console()
    screen.width = 20
    command = "edgewise ask 'a question that is longer than the line'"
    with screen.capture() as seen:
        screen.say(("$ ", "dim"), command, to_copy=True)
    assert seen.get() == f"$ {command}\n"
