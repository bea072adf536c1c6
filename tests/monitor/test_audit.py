"""Audits through the engine: real HTTP to a loopback cloud, the ledger, budgets, faults."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as given_settings
from hypothesis import strategies as st

from edgewise import Engine, Settings
from edgewise.engine import run
from edgewise.flows.transcribe import CONTEXT_S
from edgewise.monitor.audit import (
    open_auditor,
    similarity,
)
from edgewise.record.report import Audit
from edgewise.testing import (
    Answer,
    LoopbackCloud,
    ScriptedBackend,
    ScriptedEmbedder,
    ScriptedTranscriber,
    Silence,
    Status,
    heard,
)
from edgewise.types.messages import Image
from tests.flows.calling import LONDON, TOOLS, calls, function_model
from tests.speech.made_voice import silence, voice, wav

ENOUGH_S = 30.0  # for any audit of these tests, on a busy machine
QUESTION = "What is the capital of France?"


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as running:
        running.always(Answer(text="Paris"))
        yield running


def settings_for(cloud: LoopbackCloud, **changes: Any) -> Settings:
    environment = {"OPENAI_API_KEY": "a-key", "OPENAI_BASE_URL": cloud.openai_url}
    environment |= {"EDGEWISE_HOME": os.environ["EDGEWISE_HOME"]}
    environment |= {"EDGEWISE_CACHE_DIR": os.environ["EDGEWISE_CACHE_DIR"]}
    return Settings.load(environment, **({"audit_share": 1.0} | changes))


def engine_for(cloud: LoopbackCloud, text: str = "It is Paris.", **changes: Any) -> Engine:
    parts = {
        name: changes.pop(name)
        for name in ("embedder", "transcriber", "function_model")
        if name in changes
    }
    backend = ScriptedBackend.confident(text)
    return Engine(settings_for(cloud, **changes), backend=backend, **parts)


def finished(engine: Engine) -> list[Audit]:
    assert engine.parts.auditor is not None
    assert engine.parts.auditor.wait(ENOUGH_S), "an audit hangs"
    return engine.ledger.audits()


def attempts(engine: Engine) -> list[tuple[str, str, str, str]]:
    """Cloud attempts: id, state, outcome, budget key."""
    engine.ledger.close()
    with sqlite3.connect(engine.ledger.path) as connection:
        rows = connection.execute(
            "SELECT id, state, outcome, budget_key FROM attempts WHERE place = 'cloud' ORDER BY id"
        ).fetchall()
    connection.close()
    return rows


# -- what is audited, and what comes of it ---------------------------------------------------------


def test_a_kept_answer_is_compared_with_the_clouds_and_written_down(cloud: LoopbackCloud) -> None:
    with engine_for(cloud) as engine:
        reply = engine.complete(QUESTION)
        (audit,) = finished(engine)
        row = engine.ledger.get(reply.id)
    assert (reply.source, reply.usage.cost_microdollars) == ("local", 0)
    assert (audit.id, audit.task, audit.agree, audit.judged_by) == (reply.id, "chat", 1.0, "exact")
    assert audit.confidence == reply.confidence
    assert audit.threshold == reply.decision.threshold
    assert audit.features == pytest.approx(dict(reply.decision.features))
    assert audit.cost_microdollars > 0
    assert audit.cloud_text is None
    assert row is not None and row["cost_microdollars"] == 0, "the answer itself cost nothing"
    assert [each["budget_key"] for each in row["attempts"] if each["place"] == "cloud"] == ["audit"]
    assert cloud.requests[0].body["messages"][-1]["content"] == QUESTION


def test_another_answer_of_the_cloud_counts_as_disagreement(cloud: LoopbackCloud) -> None:
    cloud.always(Answer(text="It is 42."))
    with engine_for(cloud, "41") as engine:
        engine.complete("How many?")
        (audit,) = finished(engine)
        report = engine.ledger.report().audits
    assert audit.agree == 0.0
    assert (report.all.count, report.all.wrong, report.kept) == (1, 1, 1)
    assert report.spent_microdollars == audit.cost_microdollars


def test_without_a_share_nothing_is_asked_and_no_auditor_made(cloud: LoopbackCloud) -> None:
    with engine_for(cloud, audit_share=0.0) as engine:
        assert engine.parts.auditor is None
        engine.complete(QUESTION)
    assert cloud.requests == []


def test_a_share_is_chosen_at_random(cloud: LoopbackCloud) -> None:
    with engine_for(cloud, audit_share=0.25) as engine:
        engine.parts.auditor = open_auditor(
            engine.settings,
            engine.ledger,
            engine.parts.cloud,
            engine.parts.embedder,
            engine.parts.verdicts,
            Random(3).random,
        )
        assert engine.parts.auditor is not None
        engine.parts.recorder.watchers = [engine.parts.auditor.watch]
        for _ in range(40):
            engine.complete(QUESTION)
            assert engine.parts.auditor.wait(ENOUGH_S)
        found = engine.ledger.audits()
    expected = Random(3)
    assert len(found) == sum(expected.random() < 0.25 for _ in range(40)) > 0
    assert {audit.share for audit in found} == {0.25}


def test_free_text_is_judged_by_the_cloud_where_vectors_do_not_tell(cloud: LoopbackCloud) -> None:
    cloud.script(Answer(text="Because air scatters blue light the most."), Answer(text="Yes."))
    ours = "Blue light is scattered most by the air around us."
    with engine_for(cloud, ours, embedder=ScriptedEmbedder()) as engine:
        engine.complete("Why is the sky blue?")
        (audit,) = finished(engine)
    assert (audit.agree, audit.judged_by) == (1.0, "judge")
    asked = cloud.requests[1].body["messages"][-1]["content"]
    assert ours in asked and "Why is the sky blue?" in asked and "yes or no" in asked
    ids = [each.headers["x-client-request-id"] for each in cloud.requests]
    assert ["/audit.0" in ids[0], "/audit.judge.1" in ids[1]] == [True, True]


def test_texts_without_a_word_in_common_are_told_apart_by_vectors(
    cloud: LoopbackCloud, default_embedder: object
) -> None:
    cloud.script(Answer(text="Their smell reminds the brain of sad memories."))
    ours = "Cutting them releases a gas that forms an acid in the eyes, and tears wash it away."
    with engine_for(cloud, ours) as engine:
        engine.complete("Why do onions make you cry?")
        (audit,) = finished(engine)
        assert similarity(engine.settings, engine.parts.embedder, ours, ours) == pytest.approx(
            1.0, abs=1e-3
        )
    assert (audit.agree, audit.judged_by) == (0.0, "embedding")
    assert len(cloud.requests) == 1, "no judge was paid"


def test_a_judge_that_says_neither_yes_nor_no_loses_the_audit(cloud: LoopbackCloud) -> None:
    cloud.script(Answer(text="Lyon"), Answer(text="Perhaps."))
    with engine_for(cloud, "Paris", embedder=ScriptedEmbedder()) as engine:
        engine.complete(QUESTION)
        assert finished(engine) == []
        assert engine.parts.auditor is not None and engine.parts.auditor.lost == 1
        assert {state for _, state, _, _ in attempts(engine)} == {"settled"}


def test_calls_are_audited_as_calls(cloud: LoopbackCloud) -> None:
    cloud.always(calls(LONDON))
    device = function_model('get_weather {"location":"London"}')
    with engine_for(cloud, function_model=device) as engine:
        reply = engine.call("What is the weather in London?", TOOLS)
        (audit,) = finished(engine)
    assert (reply.source, audit.task) == ("local", "call")
    assert (audit.agree, audit.judged_by) == (1.0, "calls")


def test_no_fitting_tool_is_an_answer_too(cloud: LoopbackCloud) -> None:
    cloud.script(Answer(text="I know no joke."), calls(LONDON))
    device = function_model("none", "none")
    with engine_for(cloud, function_model=device) as engine:
        for _ in range(2):
            reply = engine.call("Tell me a joke", TOOLS, threshold=0.0)
            assert (reply.source, reply.calls) == ("local", ())
            assert engine.parts.auditor is not None and engine.parts.auditor.wait(ENOUGH_S)
        audits = engine.ledger.audits(task="call")
    assert sorted(audit.agree for audit in audits) == [0.0, 1.0]


def test_what_chat_answers_in_words_is_asked_without_the_tools(cloud: LoopbackCloud) -> None:
    with engine_for(cloud, function_model=function_model("none")) as engine:
        reply = engine.complete(QUESTION, tools=TOOLS, threshold=0.0)
        (audit,) = finished(engine)
    assert (reply.source, reply.text) == ("local", "It is Paris.")
    assert (audit.task, audit.agree) == ("chat", 1.0)
    assert "tools" not in cloud.requests[0].body


def test_a_segment_of_speech_is_audited_by_its_words(cloud: LoopbackCloud) -> None:
    cloud.always(Answer(text="the first bit"))
    transcriber = ScriptedTranscriber([[heard("the first part", 0.7, 2.0, 0.99)]])
    talk = wav(silence(0.5), voice(3.0), silence(0.5))
    with engine_for(cloud, transcriber=transcriber) as engine:
        result = engine.transcribe(talk)
        (audit,) = finished(engine)
    assert result.source == "local"
    assert audit.id == f"{result.id}/s0"
    assert audit.judged_by == "word_error"
    assert audit.agree == pytest.approx(2 / 3)
    assert not audit.right
    assert audit.features == pytest.approx(dict(result.segments[0].features))
    (seen,) = cloud.requests
    seconds = (len(seen.audio) - 44) / 2 / 16_000
    assert seconds == pytest.approx(1.3 + 2 * CONTEXT_S, abs=0.01), "as much as corrections send"


def test_the_clouds_text_is_kept_only_where_texts_are_stored(cloud: LoopbackCloud) -> None:
    with engine_for(cloud) as engine:
        engine.complete(QUESTION, store_text=True)
        (audit,) = finished(engine)
    assert audit.cloud_text == "Paris"


# -- never delaying, never leaking -----------------------------------------------------------------


def test_the_answer_does_not_wait_for_its_audit(cloud: LoopbackCloud) -> None:
    answered = threading.Event()

    def late(_: object) -> Answer:
        assert answered.wait(ENOUGH_S), "the answer waited for the audit"
        return Answer(text="Paris")

    cloud.always(late)
    with engine_for(cloud) as engine:
        assert engine.complete(QUESTION).text == "It is Paris."
        answered.set()
        assert len(finished(engine)) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"private": True},
        {"policy": "local_only"},
        {"handoff": "signal"},
        {"images": [Image.from_bytes(b"")]},
    ],
    ids=["private", "local_only", "signal", "images"],
)
def test_what_may_not_leave_is_never_audited(cloud: LoopbackCloud, options: dict[str, Any]) -> None:
    with engine_for(cloud) as engine:
        assert engine.parts.auditor is not None
        request = engine.parts.request(QUESTION, **options)
        reply = engine.complete(QUESTION, policy="local_only")
        engine.parts.auditor.watch(request, reply)
        assert finished(engine) == []
    assert cloud.requests == []


def test_a_policy_of_somebodys_own_is_not_audited(
    cloud: LoopbackCloud,
) -> None:
    with engine_for(cloud) as engine:
        assert engine.parts.auditor is not None
        reply = engine.complete(QUESTION, policy="local_only")
        request = replace(engine.parts.request(QUESTION), policy="stays_in_the_house")
        engine.parts.auditor.watch(request, reply)
        assert finished(engine) == []
    assert cloud.requests == []


@given(
    private=st.booleans(),
    policy=st.sampled_from(["local_only", "prefer_local", "prefer_cloud"]),
    handoff=st.sampled_from(["automatic", "signal"]),
    threshold=st.sampled_from([0.0, 0.3, 0.99]),
    live=st.booleans(),
)
@given_settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_nothing_of_a_private_request_reaches_a_socket_with_audits_on(
    tmp_path_factory: pytest.TempPathFactory,
    private: bool,
    policy: str,
    handoff: str,
    threshold: float,
    live: bool,
) -> None:
    secret = "the cellar door code"
    with LoopbackCloud() as cloud:
        cloud.always(Answer(text="Paris"))
        folder = tmp_path_factory.mktemp("audited")
        with engine_for(cloud, data_dir=folder) as engine:
            options: dict[str, Any] = {"policy": policy, "handoff": handoff, "private": private}
            events = run(
                engine.parts,
                engine.parts.request(secret, threshold=threshold, **options),
                live=live,
            )
            list(events)
            assert engine.parts.auditor is not None and engine.parts.auditor.wait(ENOUGH_S)
        if private or policy == "local_only" or handoff == "signal":
            assert cloud.requests == []
        for seen in cloud.requests:
            assert secret in json.dumps(dict(seen.body))


# -- faults ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [Status(500), Status(401)], ids=["broken", "no_right"])
def test_a_cloud_that_fails_costs_the_audit_and_nothing_else(
    cloud: LoopbackCloud, fault: Status
) -> None:
    cloud.always(fault)
    with engine_for(cloud) as engine:
        assert engine.complete(QUESTION).text == "It is Paris."
        assert finished(engine) == []
        assert engine.parts.auditor is not None and engine.parts.auditor.lost == 1
        assert {state for _, state, _, _ in attempts(engine)} == {"settled"}


def test_an_audit_that_its_budget_does_not_cover_is_not_sent(cloud: LoopbackCloud) -> None:
    with engine_for(cloud, audit_budget="$0.000001/day") as engine:
        assert engine.complete(QUESTION).source == "local"
        assert finished(engine) == []
        assert engine.parts.auditor is not None and engine.parts.auditor.lost == 1
        (state,) = engine.ledger.remaining()
    assert cloud.requests == []
    assert (state.budget.key, state.spent) == ("audit", 0)


def test_the_overall_budget_bounds_audits_too(cloud: LoopbackCloud) -> None:
    with engine_for(cloud, budgets=("$0.000001/day",)) as engine:
        engine.complete(QUESTION)
        assert finished(engine) == []
    assert cloud.requests == []


def test_what_an_audit_costs_is_charged_to_its_budget(cloud: LoopbackCloud) -> None:
    with engine_for(cloud, audit_budget="$1/day", budgets=("$2/day",)) as engine:
        engine.complete(QUESTION, budget_key="app")
        (audit,) = finished(engine)
        overall, own = engine.ledger.remaining()
    assert own.spent == overall.spent == audit.cost_microdollars > 0


def test_closing_aborts_a_hanging_audit_and_settles_it(cloud: LoopbackCloud) -> None:
    cloud.always(Silence())
    engine = engine_for(cloud)
    for _ in range(3):
        engine.complete(QUESTION)
    assert cloud.wait_for(lambda seen: bool(seen.requests), ENOUGH_S)
    assert engine.parts.auditor is not None
    engine.parts.auditor.close(drain_s=0.1)
    engine.close()
    assert engine.parts.auditor.wait(ENOUGH_S)
    assert engine.parts.auditor.lost == 3
    rows = attempts(engine)
    assert [(state, outcome) for _, state, outcome, _ in rows] == [("settled", "cancelled")]


def test_closing_waits_a_moment_for_audits_under_way(cloud: LoopbackCloud) -> None:
    cloud.always(Answer(text="Paris", delay_first_s=0.3))
    engine = engine_for(cloud)
    engine.complete(QUESTION)
    engine.close()
    assert len(engine.ledger.audits()) == 1
    engine.ledger.close()


def test_an_engine_that_was_closed_audits_again_when_it_is_used_again(
    cloud: LoopbackCloud,
) -> None:
    engine = engine_for(cloud)
    engine.complete(QUESTION)
    engine.close()
    engine.parts._backend = ScriptedBackend.confident("It is Paris.")
    engine.complete(QUESTION)
    assert len(finished(engine)) == 2
    engine.close()


def test_more_than_the_queue_holds_is_lost(cloud: LoopbackCloud) -> None:
    go_on = threading.Event()

    def held(_: object) -> Answer:
        assert go_on.wait(ENOUGH_S)
        return Answer(text="Paris")

    cloud.always(held)
    with engine_for(cloud) as engine:
        for _ in range(40):
            engine.complete(QUESTION)
        go_on.set()
        found = finished(engine)
        assert engine.parts.auditor is not None
        assert len(found) + engine.parts.auditor.lost == 40
        assert engine.parts.auditor.lost >= 7


KILLED = """
import sys, time
from edgewise import Engine, Settings
from edgewise.testing import ScriptedBackend

settings = Settings.load(
    {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": sys.argv[1]}, data_dir=sys.argv[2], audit_share=1.0
)
engine = Engine(settings, backend=ScriptedBackend.confident("Paris."))
engine.complete("What is the capital of France?")
time.sleep(60)
"""


def test_a_process_killed_in_an_audit_leaves_no_reservation_for_ever(
    cloud: LoopbackCloud, tmp_path: Path
) -> None:
    cloud.always(Silence())
    with subprocess.Popen([sys.executable, "-c", KILLED, cloud.openai_url, tmp_path]) as process:
        assert cloud.wait_for(lambda seen: bool(seen.requests), ENOUGH_S)
        process.send_signal(signal.SIGKILL)
    with Engine(Settings.load({}, data_dir=tmp_path), backend=ScriptedBackend(["x"])) as engine:
        ((name, state, _, key),) = attempts(engine)
        assert (name.endswith("/audit.0"), state, key) == (True, "reserved", "audit")
        engine.ledger.sweep(now=time.time() + 3600)
        assert engine.ledger.verify() == []
        assert [row[1:3] for row in attempts(engine)] == [("settled", "abandoned")]
        assert engine.ledger.audits() == []


def test_a_mistake_of_ours_costs_one_audit_and_not_those_that_follow(
    cloud: LoopbackCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mistaken(audit: Audit) -> None:
        raise KeyError("nothing")

    seen: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda told: seen.append(str(told.exc_value)))
    with engine_for(cloud) as engine:
        with monkeypatch.context() as broken:
            broken.setattr(engine.ledger, "record_audit", mistaken)
            engine.complete(QUESTION)
            assert finished(engine) == []
        engine.complete(QUESTION)
        assert len(finished(engine)) == 1
    assert seen == ["'nothing'"]
