"""Streams: encodings, closed and full pipes, and what is piped in beside a question."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import time
from pathlib import Path

import pytest

from edgewise.cli.streams import (
    PATIENCE_S,
    command,
    json_text,
    printable,
    warnings_last,
    without_surrogates,
)
from edgewise.testing import Answer, LoopbackCloud
from tests.cli.conftest import SCRIPT, Run


def asked(cloud: LoopbackCloud) -> str:
    """The last question the cloud got."""
    return str(cloud.requests[-1].body["text"])


def test_escape_sequences_are_taken_out_and_line_ends_and_tabs_stay() -> None:
    text = "a\x1b]0;title\x07b\tc\nd\r\x9b31me\x7f"
    assert printable(text) == "a]0;titleb\tc\nd31me"


def test_json_spells_out_what_a_terminal_would_obey() -> None:
    value = {"a\x9b2Jb": "\x1b[2J\x7f\u202e é"}
    assert json.loads(json_text(value)) == value
    assert json_text(value).isprintable()


def test_a_line_to_type_names_the_script_as_the_user_has_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(SCRIPT.parent))
    assert command("ask") == "edgewise ask"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert command() == str(SCRIPT)
    monkeypatch.chdir(SCRIPT.parents[2])
    assert command("ask") == f"{SCRIPT.parts[-3]}/bin/edgewise ask"
    other = tmp_path / "edgewise"  # another installation is not this one
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    assert command("ask") == f"{SCRIPT.parts[-3]}/bin/edgewise ask"


def test_bytes_that_are_no_text_become_question_marks() -> None:
    assert without_surrogates("h\udcffi") == "h?i"


# -- output -------------------------------------------------------------------------------------


def test_a_stream_without_unicode_gets_something_readable(
    monkeypatch: pytest.MonkeyPatch, script: Run, plain_cloud: LoopbackCloud
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    plain_cloud.always(Answer(text="Café \u2013 \u201cSofía\u201d … 日"))
    ran = script("ask", "--cloud", "hi")
    assert ran.code == 0
    assert ran.out == 'Cafe - "Sofia" ... ?\n'
    assert ran.err.startswith("`- cloud - ")
    assert "+ edgewise" in script("doctor", "--quick").out


def test_json_loses_nothing_where_there_is_no_unicode(
    monkeypatch: pytest.MonkeyPatch, script: Run, plain_cloud: LoopbackCloud
) -> None:
    plain_cloud.always(Answer(text="日本 — é"))
    assert "日本 — é" in script("ask", "--cloud", "--json", "hi").out
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    ran = script("ask", "--cloud", "--json", "hi")
    assert ran.out.isascii()
    assert ran.json["response"] == "日本 — é"


def test_a_reader_that_leaves_is_no_failure() -> None:
    for words in (["models"], ["models", "--json"], ["--help"], ["auth", "status"]):
        process = subprocess.Popen([SCRIPT, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.close()  # before anything was printed
        _, err = process.communicate(timeout=30)
        assert (process.returncode, err) == (0, b""), words


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has a device that is full")
@pytest.mark.parametrize("words", [["models"], ["models", "--json"], ["ledger"]])
def test_a_full_disk_is_said_in_one_line(words: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        ran = subprocess.run([SCRIPT, *words], stdout=full, stderr=subprocess.PIPE, timeout=30)
    assert ran.returncode == 1
    assert ran.stderr.decode() == "edgewise: [Errno 28] No space left on device [system]\n"


def test_closed_streams_do_not_matter(plain_cloud: LoopbackCloud) -> None:
    command = f'exec "{SCRIPT}" ask --cloud hi'
    for closing in (">&-", "2>&-", "<&- >&- 2>&-"):
        ran = subprocess.run(["sh", "-c", f"{command} {closing}"], capture_output=True, timeout=30)
        assert ran.returncode == 0, ran.stderr
        assert b"Traceback" not in ran.stderr
    assert len(plain_cloud.requests) == 3


# -- input --------------------------------------------------------------------------------------


def test_standard_input_is_the_question_where_there_is_no_other(
    run: Run, plain_cloud: LoopbackCloud
) -> None:
    assert run("ask", "--cloud", stdin="\ufeffWho?\n").code == 0
    assert asked(plain_cloud) == "Who?"


def test_what_is_piped_in_follows_the_question(script: Run, plain_cloud: LoopbackCloud) -> None:
    assert script("ask", "--cloud", "Summarise", "this.", stdin="A text.\n").code == 0
    assert asked(plain_cloud) == "Summarise this.\n\nA text."


def test_a_file_as_standard_input_follows_the_question(
    plain_cloud: LoopbackCloud, tmp_path: os.PathLike[str]
) -> None:
    path = os.path.join(tmp_path, "text")
    with open(path, "w", encoding="utf-8") as file:
        file.write("From a file.")
    with open(path, encoding="utf-8") as file:
        subprocess.run([SCRIPT, "ask", "--cloud", "Read:"], stdin=file, check=True, timeout=30)
    assert asked(plain_cloud) == "Read:\n\nFrom a file."


def test_an_empty_input_beside_a_question_is_nothing(
    script: Run, plain_cloud: LoopbackCloud
) -> None:
    ran = script("ask", "--cloud", "Who?", stdin="")
    assert asked(plain_cloud) == "Who?"
    assert "standard input" not in ran.err


@pytest.mark.parametrize("words", [[], [""], ["  "], ["-"]])
def test_an_empty_question_is_wrong_usage(run: Run, words: list[str]) -> None:
    ran = run("ask", *words, stdin=" \n")
    assert ran.code == 2
    assert "nothing to ask" in ran.err


def test_a_pipe_that_nobody_closes_does_not_hang_a_question(plain_cloud: LoopbackCloud) -> None:
    reading, writing = os.pipe()
    try:
        ran = subprocess.run(
            [SCRIPT, "ask", "--cloud", "Who?"], stdin=reading, capture_output=True, timeout=30
        )
    finally:
        os.close(reading)
        os.close(writing)
    assert ran.returncode == 0
    assert asked(plain_cloud) == "Who?"
    assert b"asking without it" in ran.stderr


def test_a_dash_waits_for_what_comes_late(plain_cloud: LoopbackCloud) -> None:
    process = subprocess.Popen(
        [SCRIPT, "ask", "--cloud", "Read:", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    time.sleep(PATIENCE_S + 0.7)  # longer than it would wait without the dash
    _, err = process.communicate(b"Late.", timeout=30)
    assert process.returncode == 0, err
    assert asked(plain_cloud) == "Read:\n\nLate."


def test_bytes_that_are_no_text_do_not_stop_a_question(
    script: Run, plain_cloud: LoopbackCloud
) -> None:
    assert script("ask", "--cloud", stdin=b"\xff\xfe hi\x00there").code == 0
    assert asked(plain_cloud).endswith("hi\x00there")
    ran = subprocess.run(
        [os.fsencode(SCRIPT), b"ask", b"--cloud", b"--json", b"\xff hi"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
    )
    assert json.loads(ran.stdout)["success"] is True


def test_what_the_engine_warns_of_is_said_when_the_command_is_over(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with warnings_last():
        logging.getLogger("edgewise").warning("the %s moved", "ground")
        assert capsys.readouterr().err == ""
    assert capsys.readouterr().err == "warning: the ground moved\n"
