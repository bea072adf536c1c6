"""`edgewise calibrate`: from labelled rows or audits to a file that the engine uses."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from edgewise import parts
from edgewise.calibrate.rows import builtin_calls, builtin_questions
from edgewise.calls.formats import FunctionGemma
from edgewise.calls.prompt import render_answer
from edgewise.cli import calibrate
from edgewise.engine import Engine
from edgewise.local.backend import CallToWrite, DeviceFacts, TokenStream
from edgewise.record.ledger import Book
from edgewise.settings import Settings
from edgewise.testing import (
    ScriptedBackend,
    ScriptedFunctionModel,
    ScriptedTranscriber,
    heard,
    word_tokens,
)
from edgewise.testing.scripted import SCRIPTED_FACTS
from edgewise.types.messages import Request, ToolCall
from edgewise.types.replies import Finish
from tests.cli.conftest import SCRIPT, Run
from tests.local.tiny_qwen import write_tiny_qwen
from tests.record.test_audits import AUDIT
from tests.speech.made_voice import silence, voice, wav

KEY = "smollm2-135m-instruct-q8_0"


def rows_file(folder: Path, count: int = 60) -> Path:
    path = folder / "rows.jsonl"
    rows = [{"prompt": f"Say {n}.", "answer": f"word{n}"} for n in range(count)]
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return path


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch, default_model: object) -> ScriptedBackend:
    """A model that is right when it is sure, and often when it is not."""
    answers = [
        word_tokens(f"word{n}" if n % 3 else "something", logprob=-0.05 if n % 3 else -1.5)
        for n in range(60)
    ]
    backend = ScriptedBackend(answers)
    monkeypatch.setattr(parts, "open_backend", lambda settings: backend)
    return backend


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Answers of scripted models must not mix with those of real ones."""
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "models").symlink_to(Settings.load().models_dir)
    monkeypatch.setenv("EDGEWISE_CACHE_DIR", str(cache))
    return cache


@pytest.mark.usefixtures("own_cache")
def test_labelled_rows_become_a_file_that_the_engine_uses(
    run: Run, tmp_path: Path, answering: ScriptedBackend
) -> None:
    ran = run("calibrate", str(rows_file(tmp_path)), "--yes", "--json")
    assert ran.code == 0, ran.err
    path = Path(ran.json["path"])
    assert path == Settings.load().calibrations_dir / f"{KEY}.json"
    report = json.loads(path.read_text("utf-8"))["report"]
    assert report == ran.json["report"]
    assert (report["rows"], report["measured_on"]) == (60, 30)
    with Engine(backend=answering) as engine:
        facts = replace(answering.facts(), model="smollm2-135m-instruct", quantisation="q8_0")
        answering._facts = facts
        assert engine.parts.calibration(answering).name == ran.json["name"]
    assert ran.json["name"].startswith(f"{KEY}+own.")


@pytest.mark.usefixtures("own_cache")
def test_the_report_is_readable_and_a_dry_run_writes_nothing(
    run: Run, tmp_path: Path, answering: ScriptedBackend
) -> None:
    ran = run("calibrate", str(rows_file(tmp_path)), "--dry-run")
    assert ran.code == 0, ran.err
    assert "60 rows" in ran.out and "max_error 5%" in ran.out
    assert "nothing written" in ran.out
    assert not Settings.load().calibrations_dir.exists()


@pytest.mark.usefixtures("own_cache", "answering")
def test_before_overwriting_a_file_the_user_is_asked(run: Run, tmp_path: Path) -> None:
    rows, out = rows_file(tmp_path), tmp_path / "mine.json"
    out.write_text("kept", "utf-8")
    no = run("calibrate", str(rows), "--out", str(out), stdin="n\n")
    assert no.code == 130
    assert out.read_text("utf-8") == "kept"
    assert run("calibrate", str(rows), "--out", str(out), "--yes").code == 0
    assert json.loads(out.read_text("utf-8"))["format"] == 1


@pytest.mark.usefixtures("own_cache")
def test_an_interrupted_run_goes_on_where_it_stopped(
    run: Run, tmp_path: Path, answering: ScriptedBackend
) -> None:
    rows = str(rows_file(tmp_path))
    assert run("calibrate", rows, "--dry-run").code == 0
    assert answering.started == 60
    assert run("calibrate", rows, "--dry-run").code == 0
    assert answering.started == 60, "all of it was known"


def test_a_dozen_rows_are_refused_before_any_model_runs(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    ran = run("calibrate", str(rows_file(tmp_path, 12)), "--json")
    assert ran.code == 2
    assert "12 rows are too few" in ran.json["error"] and "5%: 86" in ran.json["error"]


@pytest.mark.parametrize("words", [(), ("--show", "--from-ledger"), ("x.jsonl", "--builtin")])
def test_one_of_the_ways_must_be_given(run: Run, words: tuple[str, ...]) -> None:
    ran = run("calibrate", *words)
    assert ran.code == 2
    assert "FILE" in ran.err


@pytest.mark.usefixtures("own_cache", "default_function_model")
def test_labelled_calls_fit_the_function_model(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = {
        "type": "function",
        "function": {
            "name": "set_timer",
            "parameters": {
                "type": "object",
                "properties": {"minutes": {"type": "integer"}},
                "required": ["minutes"],
            },
        },
    }
    function_model = ScriptedFunctionModel([f'set_timer {{"minutes":{n}}}' for n in range(1, 41)])
    monkeypatch.setattr(parts, "open_function_model", lambda settings: function_model)
    path = tmp_path / "calls.jsonl"
    rows = [
        {
            "prompt": f"Set a timer for {n} minutes",
            "tools": [tool],
            "calls": [{"name": "set_timer", "arguments": {"minutes": n if n % 4 else n + 1}}],
        }
        for n in range(1, 41)
    ]
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    ran = run("calibrate", str(path), "--yes", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["kind"] == "calls"
    assert ran.json["path"].endswith("edgewise-caller-q8_0.calls.json")
    right = ran.json["report"]["accuracy"]
    assert 0.5 < right < 1.0


@pytest.mark.usefixtures("own_cache", "default_transcriber")
def test_labelled_sound_fits_the_transcriber(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = []
    for number in range(40):
        sound = tmp_path / f"{number}.wav"
        sound.write_bytes(wav(silence(0.3), voice(1.0 + number / 100), silence(0.3)))
        said = "the first part" if number % 2 else "quite another thing"
        lines.append(json.dumps({"audio": sound.name, "text": said}))
    path = tmp_path / "speech.jsonl"
    path.write_text("\n".join(lines), "utf-8")
    transcriber = ScriptedTranscriber([[heard("the first part", 0.3, 1.2, 0.9)]])
    monkeypatch.setattr(parts, "open_transcriber", lambda settings: transcriber)
    ran = run("calibrate", str(path), "--yes", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["kind"] == "speech"
    assert ran.json["path"].endswith("whisper-tiny.en-int8.speech.json")
    assert 0.3 < ran.json["report"]["accuracy"] < 0.7


# -- from the ledger -------------------------------------------------------------------------------


def fill(ledger: Book, count: int, calibration: str = KEY) -> None:
    random = Random(4)
    for number in range(count):
        sure = 0.5 + random.random() / 2
        ledger.record_audit(
            replace(
                AUDIT,
                id=f"r{number}",
                request_id=f"r{number}",
                calibration=calibration,
                confidence=sure,
                agree=float(random.random() < sure - 0.4),
            )
        )
    ledger.close()


@pytest.mark.usefixtures("default_model")
def test_audits_become_a_calibration(run: Run) -> None:
    fill(parts.open_ledger(Settings.load()), 200)
    ran = run("calibrate", "--from-ledger", "--yes", "--json")
    assert ran.code == 0, ran.err
    document = json.loads(Path(ran.json["path"]).read_text("utf-8"))
    assert document["report"]["ece"] < document["report"]["in_use"]["ece"]
    assert document["data"]["from_confidence"] == 0.5
    shown = run("calibrate", "--show", "--json").json
    assert shown[0]["name"] == document["name"]
    assert shown[0]["from"] == ran.json["path"]


@pytest.mark.usefixtures("default_model")
def test_audits_of_answers_that_a_head_judged_correct_the_head(run: Run) -> None:
    fill(parts.open_ledger(Settings.load()), 200, f"{KEY}:state")
    ran = run("calibrate", "--from-ledger", "--yes", "--json")
    assert ran.code == 0, ran.err
    document = json.loads(Path(ran.json["path"]).read_text("utf-8"))
    part = document["with_state"]
    assert part["report"] == ran.json["report"] and part["map"]["final"]
    assert part["heads"], "the head itself stays"
    assert "families" not in part, "what proved them was another confidence"
    assert document["name"] == ran.json["name"]


@pytest.mark.usefixtures("default_model")
def test_audits_under_another_calibration_do_not_count(run: Run) -> None:
    fill(parts.open_ledger(Settings.load()), 200, "another")
    ran = run("calibrate", "--from-ledger", "--task", "chat")
    assert ran.code == 2
    assert "0 rows are too few" in ran.err


def test_show_says_what_is_in_use_and_from_where(run: Run, default_model: object) -> None:
    shown: list[dict[str, Any]] = run("calibrate", "--show", "--json").json
    assert [each["kind"] for each in shown] == ["chat", "calls", "speech"]
    assert (shown[0]["name"], shown[0]["from"]) == (KEY, "shipped")
    page = run("calibrate", "--show").out
    assert f"chat: {KEY}" in page


@pytest.mark.usefixtures("own_cache", "answering")
def test_show_tells_what_the_risk_table_of_a_file_proves(run: Run, tmp_path: Path) -> None:
    path = run("calibrate", str(rows_file(tmp_path)), "--yes", "--json").json["path"]
    document = json.loads(Path(path).read_text("utf-8"))
    document |= {"risk": {"whole": [[0.9, 100, 0], [0.5, 200, 30]]}, "risk_rows": 400}
    Path(path).write_text(json.dumps(document), "utf-8")
    told = run("calibrate", "--show", "--json").json[0]["promises"]
    assert "max_error 1% (with 90% probability): cannot be promised" in told[0]
    assert told[1].endswith("max_error 5% (with 90% probability): keeps 25%, from confidence 0.90")


# -- what is in use is not replaced unasked -------------------------------------------------------


@pytest.mark.usefixtures("own_cache", "answering")
def test_a_few_rows_do_not_replace_the_shipped_calibration_unasked(
    run: Run, tmp_path: Path
) -> None:
    ran = run("calibrate", str(rows_file(tmp_path)), "--json")
    assert ran.code == 1
    assert ran.json["path"] is None and ran.json["report"]["rows"] == 60
    assert f"In use is {KEY}. On the same 30 answers the new one is" in ran.err
    assert "better: " in ran.err or "worse: " in ran.err or "neither" in ran.err
    assert "Nothing is written" in ran.err and "--yes" in ran.err
    assert not Settings.load().calibrations_dir.exists()


@pytest.mark.usefixtures("own_cache", "answering")
def test_at_a_terminal_the_user_decides(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrate, "at_a_terminal", lambda: True)
    rows = str(rows_file(tmp_path))
    no = run("calibrate", rows, stdin="n\n")
    assert no.code == 130 and "Replace it?" in no.err
    assert "AUROC" in no.out, "the report comes before the question"
    assert not Settings.load().calibrations_dir.exists()
    yes = run("calibrate", rows, stdin="y\n")
    assert yes.code == 0 and "written to " in yes.out


@pytest.mark.usefixtures("own_cache", "answering")
def test_undo_brings_the_previous_one_back_and_then_the_shipped_one(
    run: Run, tmp_path: Path
) -> None:
    rows = str(rows_file(tmp_path))
    first = run("calibrate", rows, "--yes", "--json").json
    document = json.loads(Path(first["path"]).read_text("utf-8"))
    run("calibrate", rows, "--yes", "--seed", "1")
    assert json.loads(Path(first["path"]).read_text("utf-8")) != document
    assert run("calibrate", "--undo", "--json").json["from"] == first["path"]
    assert json.loads(Path(first["path"]).read_text("utf-8")) == document
    assert run("calibrate", "--undo", "--json").json == {
        "kind": "chat",
        "name": KEY,
        "from": "shipped",
    }
    assert run("calibrate", "--show", "--json").json[0]["from"] == "shipped"
    nothing = run("calibrate", "--undo")
    assert nothing.code == 1 and "nothing to undo" in nothing.err


# -- our own questions ----------------------------------------------------------------------------


class Pupil:
    """Answers our own questions: rightly when it is sure, mostly."""

    def __init__(self) -> None:
        self._known = {question.prompt: question for question in builtin_questions(200)}
        self.asked = 0

    def facts(self) -> DeviceFacts:
        return SCRIPTED_FACTS

    def close(self) -> None: ...

    def generate(
        self, request: Request, *, already: str = "", layer: int = 0, prompt_layer: int = 0
    ) -> TokenStream:
        question = self._known[request.messages[-1].content]
        self.asked += 1
        sure = self.asked % 3 > 0
        text = " ".join(question.accepted) if sure else "I could not say, sorry."
        yield from word_tokens(text, logprob=-0.1 if sure else -2.0 + self.asked % 7 / 10)
        yield Finish()


@pytest.fixture
def pupil(monkeypatch: pytest.MonkeyPatch, default_model: object) -> Pupil:
    backend = Pupil()
    monkeypatch.setattr(parts, "open_backend", lambda settings: backend)
    return backend


@pytest.mark.usefixtures("own_cache")
def test_a_model_nobody_knows_is_calibrated_with_our_questions(run: Run, pupil: Pupil) -> None:
    ran = run("calibrate", "--builtin", "--questions", "120", "--json")
    assert ran.code == 0, ran.err
    told = ran.json
    assert (told["questions"], pupil.asked, told["score"]) == (120, 120, "words")
    assert 0.2 < told["right_share"] < 0.8 and told["auroc"] > 0.7 and told["ece"] < 0.2
    assert [each["max_error"] for each in told["risk"]] == [0.05, 0.1, 0.2]
    assert "In use is transfer. On the same 120 answers the new one is" in ran.err
    path = Path(told["file"])
    assert path == Settings.load().calibrations_dir / "scripted-1-none.json"
    with Engine(backend=ScriptedBackend.confident("Paris.")) as engine:
        reply = engine.complete("Where?", policy="local_only")
    assert reply.decision.calibration == told["name"]
    assert reply.confidence_verified, "from now on"


@pytest.mark.usefixtures("own_cache")
def test_the_report_of_our_questions_is_readable(run: Run, pupil: Pupil) -> None:
    ran = run("calibrate", "--builtin", "--questions", "80", "--dry-run")
    assert ran.code == 0, ran.err
    assert "80 questions of " in ran.out and "on kinds that were held out: AUROC" in ran.out
    assert "family" in ran.out and "running code" in ran.out
    assert "by words alone" in ran.out and "max_error 20%" in ran.out
    assert "Ctrl-C stops; the same command goes on" in ran.err
    again = run("calibrate", "--builtin", "--questions", "80", "--dry-run")
    assert pupil.asked == 80 and "80 answers of " in again.err
    assert run("calibrate", "--builtin", "--minutes", "0", "--dry-run").code == 0
    assert pupil.asked == 80, "its time was spent before"


class CallPupil:
    """Answers our own requests in FunctionGemma's format: rightly when it is sure, mostly."""

    def __init__(self, facts: DeviceFacts) -> None:
        self._facts = facts
        self._rows = list(builtin_calls(80))

    def facts(self) -> DeviceFacts:
        return self._facts

    def close(self) -> None: ...

    def write_call(self, call: CallToWrite) -> TokenStream:
        place = next((at for at, row in enumerate(self._rows) if row.prompt in call.prompt), 0)
        calls = [ToolCall(name, arguments) for name, arguments in self._rows[place].calls]
        answer = FunctionGemma().draft(render_answer(calls)) or "I cannot do that."
        sure = place % 3 > 0
        text = answer if sure or place % 2 else answer.replace("{", "{nothing:1,")[:60]
        yield from word_tokens(text, logprob=-0.001 if sure else -0.2 - place % 7 / 10)
        yield Finish()


@pytest.mark.usefixtures("own_cache")
def test_a_function_model_nobody_knows_is_calibrated_with_our_requests(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tiny_qwen(tmp_path / "strange.gguf")
    facts = DeviceFacts(
        backend="scripted",
        model="strange",
        quantisation="Q5_0",
        context_tokens=4096,
        call_format="functiongemma",
    )
    monkeypatch.setattr(parts, "open_function_model", lambda settings: CallPupil(facts))
    words = ["--builtin", "--task", "call", "--model", str(tmp_path / "strange.gguf")]
    ran = run("calibrate", *words, "--questions", "80", "--yes", "--json")
    assert ran.code == 0, ran.err
    assert (ran.json["kind"], ran.json["data"]["rows"]) == ("calls", 80)
    assert 0.3 < ran.json["report"]["accuracy"] < 1.0
    assert "strange-q5_0.calls.json" in ran.json["path"]
    with Engine(function_model=CallPupil(facts)) as engine:
        row = builtin_calls(80)[1]
        reply = engine.call(row.prompt, row.tools, policy="local_only")
    assert [(call.name, dict(call.arguments)) for call in reply.calls] == list(row.calls)
    assert reply.decision.calibration == ran.json["name"]
    assert reply.confidence_verified, "from now on"


@pytest.mark.parametrize("words", [("--task", "transcribe"), ("--task", "call", "--minutes", "3")])
def test_our_own_questions_are_for_chat_and_calls(run: Run, words: tuple[str, ...]) -> None:
    ran = run("calibrate", "--builtin", *words)
    assert ran.code == 2 and "--builtin is for chat" in ran.err


def test_minutes_and_questions_are_for_our_questions_only(run: Run, tmp_path: Path) -> None:
    ran = run("calibrate", str(rows_file(tmp_path)), "--minutes", "3")
    assert ran.code == 2 and "--builtin" in ran.err


# -- the real thing --------------------------------------------------------------------------------


@pytest.mark.usefixtures("own_cache", "default_model")
def test_the_default_model_is_calibrated_end_to_end(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "sums.jsonl"
    rows = [{"prompt": f"What is {n} + 1?", "answer": str(n + 1)} for n in range(1, 29)]
    cities = {"France": "Paris", "Japan": "Tokyo", "Italy": "Rome", "Peru": "Lima"}
    cities |= {"Egypt": "Cairo", "Cuba": "Havana", "Kenya": "Nairobi", "Norway": "Oslo"}
    cities |= {"Spain": "Madrid", "Greece": "Athens", "Iran": "Tehran", "Chile": "Santiago"}
    asked = [{"prompt": f"What is the capital of {n}?", "answer": c} for n, c in cities.items()]
    path.write_text("\n".join(map(json.dumps, rows + asked)), "utf-8")
    ran = run("calibrate", str(path), "--yes", "--json")
    assert ran.code == 0, ran.err
    report = ran.json["report"]
    assert (report["rows"], report["measured_on"]) == (40, 20)
    assert 0.2 < report["accuracy"] < 1.0
    with Engine() as engine:
        reply = engine.complete("What is the capital of France?", policy="local_only")
    assert reply.decision.calibration == f"{ran.json['name']}:state", "it keeps its head"


@pytest.mark.real_model
@pytest.mark.usefixtures("default_model")
def test_a_killed_run_over_our_questions_goes_on_with_the_real_model(
    run: Run, own_cache: Path
) -> None:
    words = ["calibrate", "--builtin", "--questions", "40", "--yes", "--json"]
    killed = subprocess.Popen([SCRIPT, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while answers_known(own_cache) < 4:
        assert killed.poll() is None, killed.communicate()
        time.sleep(0.05)
    killed.kill()
    killed.communicate()
    known = answers_known(own_cache)
    ran = run(*words)
    assert ran.code == 0, ran.err
    assert f"{known} answers of smollm2-135m-instruct are known" in ran.err
    assert ran.json["questions"] == answers_known(own_cache) == 40
    assert 0.1 < ran.json["right_share"] < 0.6
    assert ran.json["in_force"]["auroc"] > 0.5, "read by the head in use, too"
    assert run("calibrate", "--undo", "--json").json["from"] == "shipped"


def answers_known(cache: Path) -> int:
    return sum(
        line.endswith("}")
        for path in (cache / "calibrate").glob("builtin-*.jsonl")
        for line in path.read_text("utf-8").splitlines()
    )
