"""A reply on one line: what `print(reply)` shows."""

from __future__ import annotations

import pytest

from edgewise import Engine, Settings
from edgewise.testing import Answer, LoopbackCloud, ScriptedBackend, ScriptedEmbedder
from edgewise.types.embeddings import Embeddings
from edgewise.types.messages import ToolCall
from edgewise.types.replies import CallReply, Decision, Finished, Reply

DECISION = Decision(policy="prefer_local", handoff="automatic", code="kept_confident", reason="r")


def test_printing_a_reply_shows_its_source_its_confidence_and_its_first_words() -> None:
    answer = "Canberra.\n" + " ".join(map(str, range(99)))
    with Engine(backend=ScriptedBackend.confident(answer)) as engine:
        reply = engine.complete("Capital of Australia?")
        line = f"{reply}"
    assert line.startswith("<Reply local, confidence 0.")
    assert "(unverified): 'Canberra. 0 1 2 3" in line
    assert line.endswith("…'>") and len(line) < 160
    assert line in repr(Finished(reply)), "of events too"


def test_a_reply_from_the_cloud_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with LoopbackCloud() as cloud:
        cloud.always(Answer(text="Canberra."))
        monkeypatch.setenv("OPENAI_API_KEY", "test-key")
        monkeypatch.setenv("OPENAI_BASE_URL", cloud.openai_url)
        with Engine(Settings.load(), backend=ScriptedBackend(["x"])) as engine:
            assert str(engine.complete("?", policy="cloud_only")) == "<Reply cloud: 'Canberra.'>"


def test_doubt_and_degradation_are_on_the_line() -> None:
    with Engine(backend=ScriptedBackend.doubtful("Perhaps it is Sydney or so.")) as engine:
        line = str(engine.complete("?"))
        assert "in doubt, degraded: no_key: 'Perhaps" in line, line
        assert "to be handed off" in str(engine.complete("?", handoff="signal"))


def test_verified_confidence_is_not_called_unverified() -> None:
    from dataclasses import replace

    known = replace(DECISION, confidence=0.9, calibration="smollm2-135m-instruct-q8_0")
    reply = Reply(id="1", text="x", source="local", decision=known, confidence=0.9)
    assert reply.confidence_verified and str(reply) == "<Reply local, confidence 0.90: 'x'>"


def test_calls_and_vectors_are_on_one_line_too() -> None:
    calls = (ToolCall("alarm", {"hour": 6}), ToolCall("text", {"to": "Maria"}))
    reply = CallReply(id="1", text="", source="local", decision=DECISION, tool_calls=calls)
    assert str(reply) == "<CallReply local: alarm(hour=6), text(to='Maria')>"
    with Engine(embedder=ScriptedEmbedder()) as engine:
        found: Embeddings = engine.embed(["a", "b"])
    assert str(found) == "<Embeddings local: 2 vectors of scripted@none-32>"
