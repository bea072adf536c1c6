"""The engine: its parts together, over real HTTP, with a real ledger and, below, the real model."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typing_extensions import override

from edgewise import Conversation, DoesNotFit, EdgewiseError, Engine, Message, Settings
from edgewise import parts as assembly
from edgewise.cloud.providers import LibraryPrices
from edgewise.decide.gate import HELD_TOKENS
from edgewise.errors import CloudClosed, InvalidRequest, ModelNotFound, SettingsError
from edgewise.local.backend import TokenStream
from edgewise.local.store import InstalledModel
from edgewise.testing import Answer, LoopbackCloud, ScriptedBackend, Status
from edgewise.types.replies import Finished, Reply, TextDelta

DOUBT = "I am not at all sure but perhaps it is over there somewhere"


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as server:
        server.always(Answer(text="The cloud knows.", input_tokens=20, output_tokens=5))
        yield server


def settings_for(cloud: LoopbackCloud, **overrides: Any) -> Settings:
    import os

    environment = {
        **os.environ,
        "OPENAI_API_KEY": "test-key",
        "OPENAI_BASE_URL": cloud.openai_url,
    }
    return Settings.load(environment, **overrides)


def rows(engine: Engine) -> list[dict[str, Any]]:
    return engine.ledger.recent(50)


def test_prices_are_read_after_the_first_word_of_a_stream(
    cloud: LoopbackCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are needed at its end, and reading them would keep the first word waiting."""
    read, before = threading.Event(), []

    class Looking(ScriptedBackend):
        @override
        def generate(self, *given: Any, **options: Any) -> TokenStream:
            before.append(read.wait(0.2))
            return super().generate(*given, **options)

    def rates(*_: object) -> tuple[int, int]:
        read.set()
        return 1, 1

    monkeypatch.setattr(assembly, "cloud_rates", rates)
    with Engine(settings_for(cloud), backend=Looking.confident("In Paris.")) as engine:
        assert isinstance([*engine.stream("Where is it?")][-1], Finished)
        assert before == [False]
        assert read.is_set()


def test_the_whole_walk_is_in_the_ledger(cloud: LoopbackCloud) -> None:
    with Engine(settings_for(cloud), backend=ScriptedBackend.doubtful(DOUBT)) as engine:
        reply = engine.complete("Where is it?")
        assert (reply.text, reply.source) == ("The cloud knows.", "cloud")
        assert reply.usage.cost_microdollars > 0
        entry = engine.ledger.get(reply.id)
        assert entry is not None
        assert entry["source"] == "cloud"
        assert entry["cost_microdollars"] == reply.usage.cost_microdollars
        outcomes = [attempt["outcome"] for attempt in entry["attempts"]]
        assert sorted(outcomes) == ["answered", "handed_off"]
        assert entry["prompt_text"] is None, "prompts are not stored unless asked for"
        stored = engine.complete("Where?", store_text=True)
        kept = engine.ledger.get(stored.id)
        assert kept is not None and kept["reply_text"] == "The cloud knows."


def test_a_local_answer_says_what_it_saved(cloud: LoopbackCloud) -> None:
    with Engine(settings_for(cloud), backend=ScriptedBackend.confident("In Paris.")) as engine:
        reply = engine.complete("Where is it?")
        assert (reply.usage.cost_microdollars, cloud.requests) == (0, [])
        report = engine.ledger.report()
        assert report.avoided_microdollars > 0
        assert report.share_on_device == 1.0


def test_the_price_list_is_read_once_a_day(
    cloud: LoopbackCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading it takes a command longer than all that it does besides an answer."""
    paid = settings_for(cloud, cache_dir=tmp_path / "cache", data_dir=tmp_path)
    asked = []
    real = LibraryPrices.cost

    def cost(self: LibraryPrices, *given: Any, **options: Any) -> int:
        asked.append(given)
        return real(self, *given, **options)

    def rates(settings: Settings) -> tuple[int, int]:
        with Engine(settings, backend=ScriptedBackend.confident("In Paris.")) as engine:
            engine.complete("Where is it?")
            return engine.parts.rates()

    monkeypatch.setattr(LibraryPrices, "cost", cost)
    first = rates(paid)
    assert rates(paid) == first and len(asked) == 2
    with Engine(paid, backend=ScriptedBackend.confident("In Paris.")) as engine:
        [*engine.stream("Where is it?")]
        assert engine.parts.rates() == first, "of the cloud that was named, streamed or not"
    other = paid.with_changes(providers={"openai": {"model": "gpt-4.1"}})
    assert rates(other) != first, "they are kept for one model"
    (tmp_path / "cache" / assembly.RATES_FILE).write_text("{", "utf-8")
    assert rates(paid) == first
    (tmp_path / "cache" / assembly.RATES_FILE).unlink()
    (tmp_path / "cache").rmdir()
    (tmp_path / "cache").write_text("no folder", "utf-8")
    assert rates(paid) == first


def test_failures_and_departures_are_recorded_too(cloud: LoopbackCloud) -> None:
    cloud.script(Status(401))
    with Engine(settings_for(cloud), backend=ScriptedBackend.confident("a b c d")) as engine:
        with pytest.raises(EdgewiseError):
            engine.complete("Where is it?", policy="cloud_only")
        stream = engine.stream("Where is it?")
        next(stream)
        stream.close()
        assert {row["error_code"] for row in rows(engine)} == {"cloud_auth_failed", "cancelled"}


def test_an_answer_stopped_from_the_keyboard_is_recorded(cloud: LoopbackCloud) -> None:
    class Interrupted(ScriptedBackend):
        @override
        def generate(self, request: Any, *, already: str = "", **layers: int) -> TokenStream:
            raise KeyboardInterrupt
            yield

    with Engine(settings_for(cloud), backend=Interrupted(["x"])) as engine:
        with pytest.raises(KeyboardInterrupt):
            engine.complete("Where is it?")
        assert [row["error_code"] for row in rows(engine)] == ["cancelled"]


def test_a_budget_that_is_spent_keeps_the_answer_on_the_device(cloud: LoopbackCloud) -> None:
    chosen = settings_for(cloud, budgets=("$0.000001/day",))
    with Engine(chosen, backend=ScriptedBackend.doubtful(DOUBT)) as engine:
        reply = engine.complete("Where is it?")
        assert (reply.source, reply.decision.degraded_code) == ("local", "budget_spent")
        assert cloud.requests == []


def test_what_comes_too_soon_after_a_handoff_stays_on_the_device(cloud: LoopbackCloud) -> None:
    chosen = settings_for(cloud, cloud_every_s=3600)
    with Engine(chosen, backend=ScriptedBackend.doubtful(DOUBT)) as engine:
        assert engine.complete("Where is it?").source == "cloud"
        soon = engine.complete("And now?")
        assert (soon.text, soon.decision.degraded_code) == (DOUBT, "cooldown")
        assert soon.decision.code == "kept_in_doubt"
        with pytest.raises(CloudClosed, match="cloud_every_s") as shut:
            engine.complete("And now?", policy="cloud_only")
        assert shut.value.code == "cooldown"
    sure = ScriptedBackend.confident("In Paris.")
    with Engine(chosen, backend=sure) as engine:  # a new engine, the same ledger
        assert not engine.complete("Where is it?").degraded
        late = engine.complete("Where is it?", policy="prefer_cloud")
        assert (late.source, late.decision.degraded_code) == ("local", "cooldown")
    assert len(cloud.requests) == 1


def test_threads_never_hand_off_twice_in_an_interval(cloud: LoopbackCloud) -> None:
    chosen = settings_for(cloud, cloud_every_s=3600)
    with Engine(chosen, backend=ScriptedBackend.doubtful(DOUBT)) as engine:
        replies: list[Reply] = []

        def ask() -> None:
            for _ in range(15):
                replies.append(engine.complete("Where is it?", policy="prefer_cloud"))

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(cloud.requests) == 1
        assert [reply.source for reply in replies].count("cloud") == 1
        codes = {reply.decision.degraded_code for reply in replies if reply.source == "local"}
        assert codes == {"cooldown"}


def test_a_cloud_that_refuses_does_not_use_up_the_interval(cloud: LoopbackCloud) -> None:
    cloud.script(Status(400))
    with Engine(
        settings_for(cloud, cloud_every_s=3600), backend=ScriptedBackend.doubtful(DOUBT)
    ) as engine:
        assert engine.complete("Where is it?").decision.degraded_code == "cloud_rejected"
        assert engine.complete("Where is it?").source == "cloud"


def test_an_unwritable_ledger_keeps_the_money_in_and_the_answers_coming(
    cloud: LoopbackCloud, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    chosen = settings_for(cloud, data_dir=blocked / "data")
    with Engine(chosen, backend=ScriptedBackend.doubtful(DOUBT)) as engine:
        reply = engine.complete("Where is it?")
    assert (reply.text, reply.decision.degraded_code) == (DOUBT, "ledger_unavailable")
    assert cloud.requests == []
    assert "not in the ledger" in caplog.text


def test_a_request_id_is_used_once(cloud: LoopbackCloud) -> None:
    with Engine(settings_for(cloud), backend=ScriptedBackend.confident("Yes.")) as engine:
        assert engine.complete("?", request_id="order-1").id == "order-1"
        with pytest.raises(InvalidRequest, match="used before"):
            engine.complete("?", request_id="order-1")


def test_of_many_with_one_id_at_once_one_is_answered_and_paid(cloud: LoopbackCloud) -> None:
    """In two engines on one ledger, as two processes have it."""
    cloud.always(Answer(text="Yes.", input_tokens=1000, output_tokens=100, delay_first_s=0.3))
    budget = {"budgets": ("$1/day",), "chain": ("openai",)}
    replies, refusals, start = list[Reply](), list[str](), threading.Barrier(20)

    def ask(engine: Engine) -> None:
        start.wait()
        try:
            replies.append(engine.complete("?", request_id="order-1", policy="cloud_only"))
        except InvalidRequest as error:
            refusals.append(str(error))

    with Engine(settings_for(cloud, **budget)) as one, Engine(settings_for(cloud, **budget)) as two:
        engines = [one, two] * 10
        threads = [threading.Thread(target=ask, args=(engine,)) for engine in engines]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        spent = one.ledger.report().spent_microdollars
    assert len(replies) == 1 == len(cloud.requests)
    assert refusals == ["request id 'order-1' was used before"] * 19
    assert spent == replies[0].usage.cost_microdollars > 0


def test_an_id_of_a_request_that_was_refused_can_be_used(cloud: LoopbackCloud) -> None:
    with Engine(settings_for(cloud), backend=ScriptedBackend.confident("Yes.")) as engine:
        for wrong in ({"max_tokens": 0}, {"model": "no-such-model"}):
            with pytest.raises(EdgewiseError):
                engine.complete("?", request_id="order-1", **wrong)
        assert engine.complete("?", request_id="order-1").id == "order-1"


@pytest.mark.parametrize(
    ("prompt", "options", "complaint"),
    [
        ("", {}, "empty"),
        ([], {}, "no message"),
        ("hi", {"max_tokens": 0}, "max_tokens"),
        ("hi", {"temperature": -1}, "temperature"),
        ("hi", {"threshold": 7}, "threshold"),
        ("hi", {"handoff": "maybe"}, "handoff"),
        ("hi", {"deadline_ms": -5}, "deadline"),
        ("hi", {"request_id": "a/b"}, "request id"),
        ([Message("robot", "hi")], {}, "role"),  # type: ignore[arg-type]
    ],
)
def test_a_bad_request_is_refused_in_words(
    cloud: LoopbackCloud, prompt: Any, options: dict[str, Any], complaint: str
) -> None:
    with (
        Engine(settings_for(cloud), backend=ScriptedBackend.confident("x")) as engine,
        pytest.raises(InvalidRequest, match=complaint),
    ):
        engine.complete(prompt, **options)


def test_an_unknown_policy_gets_a_hint(cloud: LoopbackCloud) -> None:
    with (
        Engine(settings_for(cloud), backend=ScriptedBackend.confident("x")) as engine,
        pytest.raises(SettingsError, match="prefer_local"),
    ):
        engine.complete("hi", policy="prefer_locl")


def test_a_conversation_is_one_history_across_both_sides(cloud: LoopbackCloud) -> None:
    backend = ScriptedBackend.confident("Goethe wrote it.", "Yes, in Weimar.")
    with Engine(settings_for(cloud), backend=backend) as engine:
        talk = Conversation(engine, system="Be brief.")
        assert talk.ask("Who wrote Faust?").source == "local"
        assert talk.ask("When was he born?", policy="cloud_only").source == "cloud"
        assert talk.ask("Did he live in Weimar?").source == "local"
    told_cloud = cloud.requests[0].body["messages"]
    assert [turn["role"] for turn in told_cloud] == ["system", "user", "assistant", "user"]
    assert told_cloud[2]["content"] == "Goethe wrote it."
    told_device = backend.requests[-1].messages
    assert [(turn.role, turn.source) for turn in told_device] == [
        ("system", "none"),
        ("user", "none"),
        ("assistant", "local"),
        ("user", "none"),
        ("assistant", "cloud"),
        ("user", "none"),
    ]


def test_a_conversation_remembers_what_was_shown_of_a_turn_that_was_left(
    cloud: LoopbackCloud,
) -> None:
    with Engine(settings_for(cloud), backend=ScriptedBackend.confident("one two three")) as engine:
        talk = Conversation(engine)
        stream = talk.stream("Count.")
        shown = next(stream)
        stream.close()
        assert isinstance(shown, TextDelta)
        assert talk.messages[-1].content == shown.text


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    policy=st.sampled_from(["local_only", "prefer_local", "prefer_cloud", "cloud_only"]),
    handoff=st.sampled_from(["automatic", "signal"]),
    threshold=st.none() | st.floats(0, 1),
    doubtful=st.booleans(),
    live=st.booleans(),
    long=st.booleans(),
)
def test_a_private_request_never_reaches_a_socket(
    tmp_path_factory: pytest.TempPathFactory,
    policy: str,
    handoff: Any,
    threshold: float | None,
    doubtful: bool,
    live: bool,
    long: bool,
) -> None:
    make = ScriptedBackend.doubtful if doubtful else ScriptedBackend.confident
    options: dict[str, Any] = {"policy": policy, "handoff": handoff, "private": True}
    if threshold is not None:
        options["threshold"] = threshold
    with LoopbackCloud() as cloud, pytest.MonkeyPatch.context() as patch:
        chosen = settings_for(cloud, data_dir=tmp_path_factory.mktemp("data"))
        touched: list[str] = []
        patch.setattr(socket.socket, "connect", lambda *_: touched.append("connect"))
        patch.setattr(socket, "getaddrinfo", lambda *_, **__: touched.append("lookup"))
        with Engine(chosen, backend=make(DOUBT)) as engine:
            prompt = "word " * 40_000 if long else "Where is it?"
            try:
                if live:
                    list(engine.stream(prompt, **options))
                else:
                    engine.complete(prompt, **options)
            except EdgewiseError:
                assert policy == "cloud_only" or long
        assert touched == []
        assert cloud.connections == 0


@pytest.mark.real_model
def test_the_real_model_answers_with_a_confidence(default_model: InstalledModel) -> None:
    with Engine() as engine:
        reply = engine.complete("What is the chemical symbol for gold?", max_tokens=24)
        assert "Au" in reply.text
        assert (reply.source, reply.model) == ("local", default_model.name)
        assert reply.confidence is not None and 0 < reply.confidence < 1
        assert reply.attempts[0].first_token_ms is not None
        assert reply.usage.output_tokens > 3
        again = engine.complete("What is the chemical symbol for gold?", max_tokens=24)
        assert again.text == reply.text, "temperature 0 is repeatable"
        assert again.attempts[0].cached_tokens > 20, "the prompt's prefix is reused"


@pytest.mark.real_model
def test_the_real_model_is_surer_of_what_it_knows(default_model: InstalledModel) -> None:
    with Engine() as engine:
        known = engine.complete("What is the chemical symbol for gold?", max_tokens=24)
        unknown = engine.complete(
            "Who was the second violinist at the premiere of Brahms' first string sextet?",
            max_tokens=24,
        )
    assert known.confidence is not None and unknown.confidence is not None
    assert known.confidence > unknown.confidence


@pytest.mark.real_model
def test_the_real_model_hands_off_in_the_same_call(
    default_model: InstalledModel, cloud: LoopbackCloud
) -> None:
    with Engine(settings_for(cloud)) as engine:
        events = list(engine.stream("Who designed the Sydney Opera House?", threshold=0.99))
    assert isinstance(events[-1], Finished)
    reply = events[-1].reply
    assert (reply.text, reply.source) == ("The cloud knows.", "cloud")
    assert reply.attempts[0].outcome == "handed_off"
    assert 0 < reply.attempts[0].output_tokens <= HELD_TOKENS


@pytest.mark.real_model
def test_the_real_model_continues_a_cut_answer(default_model: InstalledModel) -> None:
    from edgewise.testing import Cut

    with LoopbackCloud() as cloud:
        cloud.always(Cut(after_chunks=2, text="The capital of Australia is Canberra."))
        with Engine(settings_for(cloud)) as engine:
            events = list(engine.stream("Capital of Australia?", threshold=1.0, max_tokens=24))
    assert isinstance(events[-1], Finished)
    reply = events[-1].reply
    assert (reply.source, reply.degraded) == ("mixed", True)
    assert reply.text == "".join(e.text for e in events if isinstance(e, TextDelta))


@pytest.mark.real_model
def test_the_real_model_refuses_what_does_not_fit_and_truncates_when_told(
    default_model: InstalledModel,
) -> None:
    sentence = "The weather was fine and nothing happened. "  # 8 tokens
    with Engine(Settings.load(context_tokens=256)) as engine:
        with pytest.raises(DoesNotFit, match="256 tokens of the context window"):
            engine.complete(sentence * 60)
        with pytest.raises(DoesNotFit, match="the context window holds 256"):
            engine.complete(sentence * 32)
        reply = engine.complete(sentence * 60, truncate=True, max_tokens=8)
        assert reply.decision.truncated and reply.text


@pytest.mark.real_model
def test_a_program_may_end_in_the_middle_of_an_answer(
    default_model: InstalledModel, tmp_path: Path
) -> None:
    """The runtime's thread must not outlive the interpreter: that aborts the process."""
    import subprocess
    import sys

    script = (
        "from edgewise import Engine\n"
        "stream = Engine().stream('Tell me a very long story.', max_tokens=400)\n"
        "next(stream)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    with Engine() as engine:
        assert [row["error_code"] for row in rows(engine)] == ["cancelled"]


def test_a_default_model_that_cannot_be_fetched_leaves_the_cloud_or_a_clear_error(
    cloud: LoopbackCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with Engine(settings_for(cloud, cache_dir=tmp_path / "cache")) as engine:
        reply = engine.complete("Where is it?")
        assert (reply.source, reply.decision.code) == ("cloud", "handoff_no_local_model")
        with pytest.raises(ModelNotFound, match="edgewise pull"):
            engine.complete("Where is it?", policy="local_only")
