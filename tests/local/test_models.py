"""Several chat models in one engine: loaded when asked, within a limit of memory."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from edgewise import (
    Conversation,
    DeviceBusy,
    Engine,
    GenerationFailed,
    InvalidRequest,
    Settings,
    parts,
)
from edgewise.calibrations import shipped_document
from edgewise.errors import ModelNotFound
from edgewise.local import models
from edgewise.local.models import BUFFERS, needed_bytes
from edgewise.local.store import InstalledModel, ModelStore
from edgewise.testing import ScriptedBackend
from edgewise.types.messages import Message, Request
from edgewise.types.replies import Token
from tests.pulled import Opened, pull

OWN, CODER, LARGER = (
    "smollm2-135m-instruct",
    "qwen2.5-coder-0.5b-instruct",
    "qwen2.5-coder-1.5b-instruct",
)
EACH = BUFFERS + 10  # what one of these models takes


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    root = tmp_path / "cache" / "models"
    pull(root, OWN, quantisation="Q8_0")
    pull(root, CODER)
    pull(root, LARGER)
    pull(root, "whisper-tiny.en")
    monkeypatch.setenv("EDGEWISE_CACHE_DIR", str(root.parent))
    yield Opened(monkeypatch)


def engine_with(**settings: Any) -> Engine:
    return Engine(Settings.load(model=OWN, **settings))


def test_a_request_may_name_a_pulled_model(opened: Opened) -> None:
    with engine_with() as engine:
        assert engine.complete("Who are you?").text == f"I am {OWN}."
        reply = engine.complete("Who are you?", model=CODER)
        assert (reply.text, reply.model) == (f"I am {CODER}.", CODER)
        assert reply.decision.calibration.startswith(CODER), "its own, which ships"
        assert reply.confidence_verified
        assert engine.complete("Who are you?").model == OWN
        *_, last = engine.stream("Who are you?", model=LARGER)
        assert last.reply.model == LARGER  # type: ignore[union-attr]
        assert Conversation(engine, model=CODER).ask("Who are you?").model == CODER
    assert len(opened.backends) == 3, "each was opened once"
    assert all(each.closed for each in opened.backends)


def test_local_and_a_name_means_only_the_device(opened: Opened) -> None:
    with engine_with() as engine:
        reply = engine.complete("Who are you?", model=f"local/{CODER}")
        assert (reply.model, reply.decision.policy) == (CODER, "local_only")
        assert engine.complete("Who are you?", model="local").decision.policy == "local_only"
        assert engine.complete("Who are you?", model="auto").model == OWN
        assert engine.complete("Who are you?", model="tiny").model == OWN, "its rung"
    assert len(opened.backends) == 2, "the engine's own was not opened twice"


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("qwen2.5-coder", ModelNotFound, f"did you mean {CODER}"),
        ("gemma-3-1b-it", ModelNotFound, "run `edgewise pull gemma-3-1b-it`"),
        ("whisper-tiny.en", InvalidRequest, "model: whisper-tiny.en cannot chat"),
        ("cloud/openai/gpt-6-luna", InvalidRequest, "model: names a local model"),
        ("/nowhere/a.gguf", ModelNotFound, "there is no file '/nowhere/a.gguf'"),
    ],
)
def test_a_model_that_cannot_answer_is_refused_before_anything_runs(
    opened: Opened, name: str, error: type[Exception], words: str
) -> None:
    with engine_with() as engine:
        with pytest.raises(error) as refused:
            engine.complete("Who are you?", model=name)
        assert words in str(refused.value)
        assert engine.ledger.recent(5) == []


def test_the_least_recently_used_leaves_and_comes_back(opened: Opened) -> None:
    with engine_with(model_memory_bytes=2 * EACH) as engine:
        for name in (OWN, CODER, OWN, LARGER):
            engine.complete("Who are you?", model=name)
        assert engine.parts.models.loaded == (OWN, LARGER)
        (left,) = opened.named(CODER)
        assert left.closed and not opened.named(OWN)[0].closed
        assert engine.complete("Who are you?", model=CODER).model == CODER
        assert engine.parts.models.loaded == (LARGER, CODER), "the engine's own leaves, too"
        assert engine.complete("Who are you?").model == OWN
    assert [len(opened.named(name)) for name in (OWN, CODER, LARGER)] == [2, 2, 1]


def test_a_model_at_work_never_leaves(opened: Opened) -> None:
    with engine_with(model_memory_bytes=EACH) as engine:
        stream = engine.stream("Who are you?", model=CODER)
        first = next(stream)
        with pytest.raises(DeviceBusy, match=f"{LARGER} needs about 0.1 GB .* {CODER} is at work"):
            engine.complete("Who are you?", model=f"local/{LARGER}")
        assert not opened.named(CODER)[0].closed
        assert first and [*stream], "it goes on to its end"
        assert engine.complete("Who are you?", model=f"local/{LARGER}").model == LARGER
        assert opened.named(CODER)[0].closed, "now it may leave"


def test_nothing_leaves_for_a_model_that_cannot_come_in(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {OWN: EACH, CODER: EACH, LARGER: 2 * EACH}
    monkeypatch.setattr(models, "needed_bytes", lambda model, *_: sizes[model.name])
    with engine_with(model_memory_bytes=2 * EACH) as engine:
        engine.complete("Who are you?")
        stream = engine.stream("Who are you?", model=CODER)
        next(stream)
        with pytest.raises(DeviceBusy, match=f"{CODER} is at work"):
            engine.complete("Who are you?", model=f"local/{LARGER}")
        assert engine.parts.models.loaded == (OWN, CODER), "both are still here"
        assert [*stream]
        assert engine.complete("Who are you?", model=f"local/{LARGER}").model == LARGER


def test_a_stream_that_is_left_frees_its_model(opened: Opened) -> None:
    with engine_with(model_memory_bytes=EACH) as engine:
        stream = engine.stream("Who are you?", model=CODER)
        next(stream)
        stream.close()
        assert engine.complete("Who are you?", model=f"local/{LARGER}").model == LARGER


def test_a_model_larger_than_the_limit_says_which_setting(opened: Opened) -> None:
    with engine_with(model_memory_bytes=1000) as engine:
        assert engine.complete("Who are you?").model == OWN, "the engine's own is always tried"
        with pytest.raises(GenerationFailed, match=r"0\.0 GB may be used \(model_memory_bytes\)"):
            engine.complete("Who are you?", model=f"local/{CODER}")


def test_without_a_setting_most_of_the_free_memory_is_the_limit(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "free_memory", lambda: 3 * EACH)
    with engine_with() as engine:  # 80 % of it hold two
        for name in (OWN, CODER, LARGER):
            engine.complete("Who are you?", model=name)
        assert engine.parts.models.loaded == (CODER, LARGER)


def test_where_nobody_knows_how_much_is_free_there_is_no_limit(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "free_memory", lambda: None)
    with engine_with() as engine:
        assert engine.complete("Who are you?", model=f"local/{CODER}").model == CODER


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only some systems fork")
def test_a_fork_while_a_model_is_loaded_leaves_the_child_able_to_load(opened: Opened) -> None:
    with engine_with(model_memory_bytes=EACH) as engine:
        engine.parts.rates()  # no import must be under way: Python itself would hang in the child
        stream = engine.stream("Who are you?", model=CODER)
        next(stream)
        with engine.parts.models._lock:  # as another thread that loads a model at this moment
            child = os.fork()
            if child == 0:
                signal.alarm(30)
                reply = engine.complete("Who are you?", model=f"local/{LARGER}")
                os._exit(0 if reply.model == LARGER else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert [*stream], "the parent goes on"


def test_a_calibration_file_of_the_settings_is_for_the_engines_own_model(
    opened: Opened, tmp_path: Path
) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(shipped_document(f"{OWN}-q8_0", "chat")), "utf-8")
    with engine_with(calibration=str(file)) as engine:
        other = engine.complete("Who are you?", model=CODER).decision.calibration
        assert other.startswith(CODER)


def test_an_engine_with_its_own_part_asks_others_too(opened: Opened) -> None:
    own = ScriptedBackend.confident("I am a part.")
    with Engine(Settings.load(model=OWN), backend=own) as engine:
        assert engine.complete("Who are you?", model="scripted-1").text == "I am a part."
        assert engine.complete("Who are you?", model=OWN).text == f"I am {OWN}."


def test_threads_may_ask_for_different_models_at_once(opened: Opened) -> None:
    said: list[str] = []
    with engine_with(model_memory_bytes=4 * EACH) as engine:

        def ask(name: str) -> None:
            said.append(engine.complete("Who are you?", model=name).model)

        threads = [threading.Thread(target=ask, args=(name,)) for name in (OWN, CODER, LARGER) * 4]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(said) == sorted((OWN, CODER, LARGER) * 4)
    assert len(opened.backends) == 3


def test_while_a_model_is_opened_others_answer(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening one may start a process, and bringing one back may wait for another to end."""
    begun, go = threading.Event(), threading.Event()
    usual = parts.open_backend

    def slowly(settings: Settings) -> Any:
        if settings.model == CODER:
            begun.set()
            go.wait(60)
        return usual(settings)

    monkeypatch.setattr(parts, "open_backend", slowly)
    with engine_with(model_memory_bytes=2 * EACH) as engine, ThreadPoolExecutor(2) as pool:
        for _ in range(2):  # a new one, and one that had left
            begun.clear()
            go.clear()
            engine.complete("Who are you?")
            slow = pool.submit(engine.complete, "Who are you?", model=CODER)
            assert begun.wait(60)
            other = pool.submit(lambda: (engine.parts.cloud("chat"), engine.complete("Who?")))
            try:
                assert other.result(60)[1].model == OWN
            finally:
                go.set()
            assert slow.result(60).model == CODER
            for name in (LARGER, OWN):
                engine.complete("Who are you?", model=name)
            assert engine.parts.models.loaded == (LARGER, OWN)


def test_nobody_leaves_for_a_model_that_does_not_fit_anyway(opened: Opened) -> None:
    with engine_with(model_memory_bytes=EACH) as engine:
        engine.complete("Who are you?")
        larger: Any = engine.parts.backend(LARGER)
        larger.needed = 5 * EACH
        with pytest.raises(GenerationFailed, match="may be used"):
            engine.complete("Who are you?", model=f"local/{LARGER}")
        assert engine.parts.models.loaded == (OWN,)


def test_a_model_that_cannot_be_opened_again_is_not_counted(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    with engine_with(model_memory_bytes=EACH) as engine:
        for name in (CODER, OWN):
            engine.complete("Who are you?", model=name)

        def missing(_: Settings) -> Any:
            raise ModelNotFound("its file is gone")

        with monkeypatch.context() as patched:
            patched.setattr(parts, "open_backend", missing)
            with pytest.raises(ModelNotFound):
                engine.complete("Who are you?", model=f"local/{CODER}")
        assert engine.parts.models.loaded == ()
        assert engine.complete("Who are you?").model == OWN


@pytest.mark.real_model
def test_the_memory_that_a_model_needs_is_estimated_from_its_file(
    default_model: InstalledModel,
) -> None:
    small = needed_bytes(default_model, 2048, 1)
    # 30 layers with 3 heads of 64 numbers for keys and as many for values, each of 2 bytes
    assert small == default_model.bytes + 30 * 3 * (64 + 64) * 2 * 2048 + BUFFERS
    assert needed_bytes(default_model, 2048, 4) > small
    assert ModelStore(default_model.path.parents[1]).find(default_model.name) == default_model


def test_a_model_without_an_abort_is_left_at_its_next_token(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A generator that runs cannot be closed from another thread, which may be an event loop."""
    inside, go, ended = threading.Event(), threading.Event(), threading.Event()

    def tokens(*_: Any, **__: Any) -> Any:
        try:
            inside.set()
            assert go.wait(60)
            yield Token("one")
            yield Token("two")
        finally:
            ended.set()

    with engine_with() as engine:
        backend = engine.parts.backend()
        monkeypatch.setattr(ScriptedBackend, "generate", tokens)
        stream: Any = backend.generate(Request(messages=(Message("user", "Who?"),)))
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(list, stream)
            assert inside.wait(60)
            stream.abort()
            go.set()
            with pytest.raises(GenerationFailed, match="called off"):
                reading.result(60)
        assert ended.is_set()


def test_a_pinned_model_stays_whatever_others_need(opened: Opened) -> None:
    with engine_with(model_memory_bytes=EACH) as engine:
        engine.complete("Who are you?", model=CODER)
        coder = engine.parts.models.known(CODER)
        assert coder is not None
        coder.pin()
        with pytest.raises(GenerationFailed, match=f"{LARGER} needs .* {CODER} is pinned"):
            engine.complete("Who are you?", model=f"local/{LARGER}")
        assert engine.complete("Who are you?").model == OWN, "the engine's own is always tried"
        coder.pin(pinned=False)
        assert engine.complete("Who are you?", model=f"local/{LARGER}").model == LARGER


def test_a_model_that_is_kept_for_no_time_leaves_when_its_work_is_done(opened: Opened) -> None:
    with engine_with() as engine:
        stream = engine.stream("Who are you?", model=CODER)
        next(stream)
        coder = engine.parts.models.known(CODER)
        assert coder is not None
        coder.keep(0.0)
        (backend,) = opened.named(CODER)
        assert not backend.closed, "it is at work"
        assert [*stream] and backend.closed
        assert engine.complete("Who are you?", model=CODER).model == CODER
        assert not opened.named(CODER)[1].closed, "that was said once"


def test_a_model_leaves_when_nobody_has_asked_it_for_so_long(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers: list[tuple[float, Any, Any]] = []

    class Timer:
        daemon = False

        def __init__(self, seconds: float, work: Any, given: Any) -> None:
            timers.append((seconds, work, given))

        def start(self) -> None: ...
        def cancel(self) -> None: ...

    with engine_with() as engine:
        engine.complete("Who are you?", model=CODER)
        coder = engine.parts.models.known(CODER)
        assert coder is not None
        monkeypatch.setattr(threading, "Timer", Timer)
        coder.keep(300.0)
        engine.complete("Who are you?", model=CODER)
        (first, work, given), *_, (_, again, last) = timers
        assert first == 300.0
        work(*given)
        assert not opened.named(CODER)[0].closed, "it was asked since"
        again(*last)
        assert opened.named(CODER)[0].closed and not coder.is_loaded
