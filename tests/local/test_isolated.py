"""A local model in a process of its own: what it says is the same, and it may die at any time."""

from __future__ import annotations

import gc
import io
import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgewise.errors import (
    ContextExceeded,
    CrashedBefore,
    GenerationFailed,
    ModelNotFound,
    RuntimeCrashed,
    RuntimeDown,
    SchemaUnsupported,
)
from edgewise.local import isolated, model_process
from edgewise.local.backend import CallToWrite, ChatBackend, TokenStream
from edgewise.local.isolated import (
    CrashMemory,
    IsolatedEmbedder,
    IsolatedModel,
    IsolatedSkill,
    IsolatedTranscriber,
)
from edgewise.local.llama_cpp import LlamaLoop
from edgewise.local.llama_cpp import open_backend as open_llama
from edgewise.local.store import InstalledModel
from edgewise.parts import open_backend
from edgewise.settings import Settings
from edgewise.types.messages import Choice, Message, Request, ResponseFormat, RunnableTool
from edgewise.types.replies import Finish, Token
from tests.local.crashing_model import CrashingSenses, open_crashing, open_senses

LONG_S = 90.0  # far longer than anything here takes


def asked(text: str, **options: Any) -> Request:
    return Request(messages=(Message("user", text),), **options)


def said(stream: TokenStream) -> str:
    with closing(stream):
        return "".join(item.text for item in stream if isinstance(item, Token))


def _all(stream: TokenStream) -> list[Token | Finish]:
    return list(stream)


def wait_until(so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONG_S
    while not so():
        assert time.monotonic() < deadline, "it did not come to be so"
        time.sleep(0.005)


@pytest.fixture
def model() -> Iterator[IsolatedModel]:
    with closing(IsolatedModel(open_crashing, memory=CrashMemory())) as opened:
        yield opened


# -- the same as in this process -------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair(default_model: InstalledModel) -> Iterator[tuple[LlamaLoop, IsolatedModel]]:
    options: dict[str, Any] = {"threads": 1, "context_tokens": 512, "slots": 4}
    here = LlamaLoop(default_model, threads=1, context_tokens=512, slots=4)
    there = IsolatedModel(open_llama, default_model, **options, memory=CrashMemory())
    yield here, there
    here.close()
    there.close()


def test_tokens_evidence_states_and_counts_are_those_of_the_model_in_process(
    pair: tuple[LlamaLoop, IsolatedModel],
) -> None:
    request = asked("What is the capital of France?", max_tokens=12, evidence=True)
    for _ in range(2):  # the second time from the cache
        here, there = (list(one.generate(request, layer=10, prompt_layer=20)) for one in pair)
        assert here == there
        assert all(
            (a.state is None and b.state is None) or np.array_equal(a.state, b.state)
            for a, b in zip(here, there, strict=True)
        )
        assert here[0].state is not None
    finish = there[-1]
    assert isinstance(finish, Finish) and finish.cached_tokens > 20
    assert pair[0].count_tokens(request) == pair[1].count_tokens(request)
    assert pair[1].facts().output_tokens_per_second
    assert pair[1].facts().layers == pair[0].facts().layers > 0


def test_labels_have_the_chances_that_they_have_in_process(
    pair: tuple[LlamaLoop, IsolatedModel],
) -> None:
    questions = {"q": Choice(["a", "b"], "Which?")}
    request = asked("A or B?", labels=("A", "B"), questions=questions)
    here, there = (next(one.generate(request)) for one in pair)
    assert isinstance(here, Token) and here == there
    assert [name for name, _ in here.alternatives] == ["A", "B"]


def test_one_that_is_called_off_tells_how_fast_it_read(
    pair: tuple[LlamaLoop, IsolatedModel],
) -> None:
    """Who is always called off would else be waited for at every turn."""
    here, there = pair
    unknown = replace(here.facts(), prompt_tokens_per_second=None)
    here._facts = there.supervisor.facts = unknown
    both: tuple[ChatBackend, ...] = pair
    for number, one in enumerate(both):
        stream = one.generate(asked(f"{number} " + "Tell me more. " * 50, max_tokens=100))
        next(stream)
        stream.close()
    # The process tells it a moment later.
    wait_until(lambda: all(one.facts().prompt_tokens_per_second for one in both))


def test_calls_and_schemas_are_those_of_the_model_in_process(
    pair: tuple[LlamaLoop, IsolatedModel],
) -> None:
    grammar = 'root ::= "yes" | "no"'
    here, there = (list(one.write_call(CallToWrite("Is it? ", grammar=grammar))) for one in pair)
    assert here == there
    assert "".join(item.text for item in there if isinstance(item, Token)) in ("yes", "no")
    wanted = ResponseFormat({"enum": ["red", "blue"]}, parse=lambda text: text)
    request = asked("A colour?", response_format=wanted)
    assert said(pair[0].generate(request)) == said(pair[1].generate(request)) in ('"red"', '"blue"')


def test_errors_are_those_of_the_model_in_process(pair: tuple[LlamaLoop, IsolatedModel]) -> None:
    found: list[Any] = []
    for one in pair:
        with pytest.raises(ContextExceeded) as error:
            list(one.generate(asked("word " * 600)))
        found.append((error.value.prompt_tokens, error.value.context_tokens, str(error.value)))
        schema = ResponseFormat({"type": "string", "pattern": "(?=a)b"})
        with pytest.raises(SchemaUnsupported) as unsupported:
            list(one.generate(asked("A colour?", response_format=schema)))
        found.append(str(unsupported.value))
    assert found[:2] == found[2:]


def test_a_killed_process_loses_none_of_four_streams(
    pair: tuple[LlamaLoop, IsolatedModel],
) -> None:
    there = pair[1]
    requests = [asked(f"Tell me a story with {n} dogs.", max_tokens=24) for n in range(4)]
    schema = ResponseFormat({"type": "array", "items": {"type": "integer"}, "minItems": 12})
    requests[3] = asked("Numbers?", max_tokens=24, response_format=schema)
    whole = [said(pair[0].generate(request)) for request in requests]
    streams = [there.generate(request) for request in requests]
    process, restarts = there.supervisor.pid, there.supervisor.restarts
    assert process is not None
    with ThreadPoolExecutor(4) as pool:
        begun = list(pool.map(next, streams))
        os.kill(process, signal.SIGKILL)
        rest = list(pool.map(_all, streams))
    for number, (first, items) in enumerate(zip(begun, rest, strict=True)):
        finish = items[-1]
        assert isinstance(finish, Finish) and isinstance(first, Token)
        assert (finish.reason, finish.output_tokens) == ("length", 24)
        text = "".join(item.text for item in (first, *items) if isinstance(item, Token))
        assert text[:8] == whole[number][:8]
    assert there.supervisor.restarts == restarts + 1
    assert there.supervisor.pid != process


def test_a_killed_process_with_one_stream_fails_that_one_only(
    pair: tuple[LlamaLoop, IsolatedModel],
) -> None:
    there = pair[1]
    request = asked("Count from 1 to 30.", max_tokens=40)
    stream = there.generate(request)
    next(stream)
    assert there.supervisor.pid is not None
    os.kill(there.supervisor.pid, signal.SIGKILL)
    with pytest.raises(RuntimeCrashed, match="SIGKILL"):
        list(stream)
    with pytest.raises(CrashedBefore):
        list(there.generate(request))
    assert said(there.generate(asked("Count from 2 to 30.", max_tokens=4)))


def test_weights_that_are_cut_while_loaded_only_end_the_models_process(
    default_model: InstalledModel, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.gguf"
    shutil.copy(default_model.path, copy)
    model = InstalledModel("copy", copy, "Q8_0", sha256="", bytes=0)
    there = IsolatedModel(open_llama, model, threads=1, context_tokens=256, memory=CrashMemory())
    with closing(there):
        assert said(there.generate(asked("Hello", max_tokens=2)))
        whole = copy.read_bytes()
        os.truncate(copy, 65_536)
        with pytest.raises(RuntimeCrashed, match="SIGBUS"):
            list(there.generate(asked("What is it?", max_tokens=8)))
        with pytest.raises(GenerationFailed):  # the damaged file is not loaded
            list(there.generate(asked("And now?", max_tokens=8)))
        copy.write_bytes(whole)
        assert said(there.generate(asked("And now?", max_tokens=2)))


# -- one request kills it --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "words"),
    [("@segv", "SIGSEGV"), ("@abort", "SIGABRT"), ("@exit", "exit code 3")],
)
def test_the_request_that_killed_it_fails_and_is_refused_when_it_comes_again(
    model: IsolatedModel, how: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    poison = asked(f"confidential {how} never")
    with pytest.raises(RuntimeCrashed, match=words):
        list(model.generate(poison))
    with pytest.raises(CrashedBefore, match="for another 10 min"):
        list(model.generate(poison))
    with pytest.raises(CrashedBefore):
        model.count_tokens(poison)
    assert said(model.generate(asked("another one"))) == "another one "
    assert model.supervisor.restarts == 1
    assert "confidential" not in caplog.text
    assert words in caplog.text


def test_the_log_says_where_it_crashed(
    model: IsolatedModel, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(RuntimeCrashed):
        list(model.generate(asked("@print:secret @segv")))
    assert "Segmentation fault" in caplog.text
    assert "crashing_model.py" in caplog.text and "in _obey" in caplog.text
    assert "secret" not in caplog.text


def test_of_eight_at_once_only_the_one_to_blame_fails(model: IsolatedModel, tmp_path: Path) -> None:
    go = tmp_path / "go"
    poison = model.generate(asked(f"bad @wait:{go} @segv"))
    chats = [model.generate(asked(f"begin{n} @wait:{go} @slow end{n}")) for n in range(5)]
    call = model.write_call(CallToWrite(f"call @wait:{go} @slow done"))
    schema = ResponseFormat({"type": "string"})
    bound = model.generate(asked(f"json @wait:{go} @slow done", response_format=schema))
    streams = [*chats, call, bound]
    begun = [next(stream) for stream in (poison, *streams)]
    go.touch()
    with ThreadPoolExecutor(8) as pool:
        culprit = pool.submit(list, poison)
        others = list(pool.map(_all, streams))
    assert isinstance(culprit.exception(), RuntimeCrashed)
    for number, items in enumerate(others):
        first = begun[number + 1]
        text = "".join(item.text for item in (first, *items) if isinstance(item, Token))
        expected = f"begin{number} end{number} " if number < 5 else None
        assert text == (expected or ("call done " if number == 5 else "json done "))
        finish = items[-1]
        assert isinstance(finish, Finish) and finish.output_tokens == 2
    assert said(model.generate(asked("all well"))) == "all well "
    assert 1 <= model.supervisor.restarts <= 2


def test_requests_that_come_while_suspects_run_alone_wait_and_are_served(
    model: IsolatedModel, tmp_path: Path
) -> None:
    go, once = tmp_path / "go", tmp_path / "once"
    two = [model.generate(asked(f"a{n} @wait:{go} @once:{once} b{n}")) for n in range(2)]
    begun = [next(stream) for stream in two]
    with ThreadPoolExecutor(3) as pool:
        rest = [pool.submit(said, stream) for stream in two]
        go.touch()
        wait_until(lambda: model.supervisor.restarts == 1)
        assert said(model.generate(asked("late"))) == "late "
        assert [each.result(LONG_S) for each in rest] == ["b0 ", "b1 "]  # nobody was to blame
    assert len(begun) == 2


def test_an_answer_that_comes_out_differently_is_a_clean_failure(
    model: IsolatedModel, tmp_path: Path
) -> None:
    go, once, other = (tmp_path / name for name in ("go", "once", "other"))
    call = model.write_call(CallToWrite(f"@other:{other} @wait:{go} @slow end"))
    chat = model.generate(asked(f"a @wait:{go} @once:{once} b"))
    assert next(call).text == "first "  # type: ignore[union-attr]
    next(chat)
    with ThreadPoolExecutor(2) as pool:
        failed, kept = pool.submit(list, call), pool.submit(said, chat)
        go.touch()
        assert kept.result(LONG_S) == "b "
        with pytest.raises(GenerationFailed, match="differently"):
            failed.result(LONG_S)
    assert said(model.generate(asked("go on"))) == "go on "


def test_somebody_who_left_is_still_to_blame(model: IsolatedModel, tmp_path: Path) -> None:
    go = tmp_path / "go"
    poison = asked(f"a @wait:{go} @segv")
    stream = model.generate(poison)
    next(stream)
    stream.close()
    go.touch()
    wait_until(lambda: model.supervisor.restarts == 1)
    with pytest.raises(CrashedBefore):
        list(model.generate(poison))


def test_who_leaves_others_alone_with_a_crash_is_to_blame_the_second_time(
    model: IsolatedModel, tmp_path: Path
) -> None:
    now, later = tmp_path / "now", tmp_path / "later"
    bad = asked(f"bad @wait:{now} @segv")
    for crashes in (1, 2):
        now.unlink(missing_ok=True)
        later.unlink(missing_ok=True)
        good, leaving = model.generate(asked(f"good @wait:{later} news")), model.generate(bad)
        next(good)
        next(leaving)
        leaving.close()
        now.touch()
        wait_until(lambda: model.supervisor.restarts == crashes)  # noqa: B023
        later.touch()
        assert said(good).strip() == "news"
    with pytest.raises(CrashedBefore):
        said(model.generate(bad))


def test_counting_tokens_can_crash_it_too(model: IsolatedModel) -> None:
    assert model.count_tokens(asked("one two")) == 2
    with pytest.raises(RuntimeCrashed):
        model.count_tokens(asked("@exit"))
    assert model.count_tokens(asked("one two")) == 2


def test_a_request_that_the_process_never_saw_is_not_to_blame(model: IsolatedModel) -> None:
    """The process is killed while it is idle, or before it has read the request."""
    for number in range(5):
        assert said(model.generate(asked(f"fine {number}"))) == f"fine {number} "
        assert model.supervisor.pid is not None
        os.kill(model.supervisor.pid, signal.SIGKILL)
    assert said(model.generate(asked("fine"))) == "fine "


# -- hanging, looping, loading ---------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals there")
def test_a_process_that_is_killed_again_and_again_answers_in_between(
    model: IsolatedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolated, "FIRST_PAUSE_S", 600.0)
    monkeypatch.setattr(isolated, "LONGEST_PAUSE_S", 600.0)
    for _ in range(4):
        process = model.supervisor.pid
        assert process is not None
        wait_until(lambda: model.supervisor.ready)
        os.kill(process, signal.SIGKILL)
        wait_until(lambda before=process: model.supervisor.pid not in (None, before))  # type: ignore[misc]
    assert said(model.generate(asked("hello"))) == "hello "


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals there")
@pytest.mark.parametrize("lacks_memory", [False, True])
def test_one_that_is_killed_while_it_loads_is_started_at_once_unless_memory_is_short(
    model: IsolatedModel, monkeypatch: pytest.MonkeyPatch, lacks_memory: bool
) -> None:
    """Somebody asks all the time, so that each new process has a request to load for."""
    counted = itertools.count()
    monkeypatch.setattr(
        isolated, "_killed_for_memory", lambda: next(counted) if lacks_memory else 7
    )
    monkeypatch.setattr(isolated, "FIRST_PAUSE_S", 600.0)
    monkeypatch.setattr(isolated, "LONGEST_PAUSE_S", 600.0)
    supervisor, readers = model.supervisor, []
    for number in range(4):
        process = supervisor.pid
        assert process is not None
        wait_until(lambda: supervisor.ready)
        os.kill(process, signal.SIGSTOP)  # so that it has begun nothing
        readers.append(model.generate(asked(f"hello{number}")))
        os.kill(process, signal.SIGKILL)
        if lacks_memory and number == 3:
            with pytest.raises(RuntimeDown):
                list(readers[-1])
            return
        wait_until(lambda before=process: supervisor.pid not in (None, before))  # type: ignore[misc]
    assert [said(each) for each in readers] == [f"hello{number} " for number in range(4)]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells it without a trace")
def test_a_process_that_somebody_stopped_goes_on(
    model: IsolatedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolated, "LOOK_S", 0.2)
    monkeypatch.setattr(isolated, "HANGS_AFTER", 10_000)  # it is not ended for it
    process = model.supervisor.pid
    assert process is not None
    os.kill(process, signal.SIGSTOP)
    assert said(model.generate(asked("hello"))) == "hello "
    assert model.supervisor.pid == process


def test_a_process_without_progress_is_ended(
    model: IsolatedModel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(isolated, "LOOK_S", 0.05)
    monkeypatch.setattr(isolated, "HANGS_AFTER", 10)
    with pytest.raises(RuntimeCrashed, match="no progress"):
        list(model.generate(asked("a @hang")))
    assert "crashing_model.py" in caplog.text
    monkeypatch.undo()
    assert said(model.generate(asked("well"))) == "well "


def test_a_process_tells_its_progress_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_process, "BEAT_S", 0.001)
    passes = iter((1, 2, 2, 2, 3))

    class Busy:
        def passes(self) -> int:
            return next(passes)

    output = io.BytesIO()
    with pytest.raises(StopIteration):  # where the script ends
        model_process.ModelService(Busy(), output)._beat()
    assert len(output.getvalue()) == 3 * (model_process.HEADER.size + len("{}"))


def test_a_crash_while_loading_is_no_requests_fault(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.touch()
    memory = CrashMemory()
    model = IsolatedModel(open_crashing, dies_loading=str(broken), memory=memory)
    with closing(model), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(said, model.generate(asked("patient")))
        wait_until(lambda: model.supervisor.restarts >= 1)
        broken.unlink()
        assert waiting.result(LONG_S) == "patient "
        assert not len(memory)


def test_a_process_that_keeps_crashing_is_left_alone_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(isolated, "FREE_RESTARTS", 0)
    monkeypatch.setattr(isolated, "FIRST_PAUSE_S", 0.9)  # 1.8 after the second crash
    monkeypatch.setattr(isolated, "LONGEST_PAUSE_S", 1.8)
    memory = CrashMemory()
    with closing(IsolatedModel(open_crashing, memory=memory)) as model:
        for number in range(2):
            with pytest.raises(RuntimeCrashed):
                list(model.generate(asked(f"{number} @exit")))
            if number == 0:
                assert len(memory) == 1
        wait_until(lambda: bool(model.supervisor.trouble))
        assert not len(memory)  # it is the model, not the requests
        with pytest.raises(RuntimeDown, match="keeps crashing") as down:
            list(model.generate(asked("well")))
        assert 0 < down.value.retry_after_s <= 1.8
        time.sleep(down.value.retry_after_s)
        assert said(model.generate(asked("well"))) == "well "
        assert not model.supervisor.trouble


def test_a_model_that_loads_and_then_crashes_keeps_crashing_too(
    model: IsolatedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new process loads the model by itself. That is no answer."""
    monkeypatch.setattr(isolated, "FREE_RESTARTS", 1)
    monkeypatch.setattr(isolated, "FIRST_PAUSE_S", 600.0)
    monkeypatch.setattr(isolated, "LONGEST_PAUSE_S", 600.0)
    for number in range(2):
        with pytest.raises(RuntimeCrashed):
            list(model.generate(asked(f"{number} @exit")))
        if number == 0:
            wait_until(lambda: model.supervisor.restarts == 1 and model.supervisor.ready)
            wait_until(lambda: not model.supervisor._running)
    wait_until(lambda: bool(model.supervisor.trouble))
    with pytest.raises(RuntimeDown):
        list(model.generate(asked("well")))


def test_without_a_thread_to_spare_there_is_no_model_and_nobody_waits(
    model: IsolatedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.close()

    def exhausted(_: Any) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(isolated.Supervisor, "_spawn", exhausted)
        with pytest.raises(ModelNotFound, match="can't start new thread"):
            list(model.generate(asked("well")))
    assert said(model.generate(asked("well"))) == "well "


@pytest.mark.parametrize("told", [b"[]", b"{}", b'{"facts": [1]}', b"no json", b'"\\ud800"'])
@pytest.mark.parametrize("kind", [model_process.OPENED, model_process.ERROR])
def test_a_process_that_makes_no_sense_is_ended_and_another_started(
    model: IsolatedModel, monkeypatch: pytest.MonkeyPatch, told: bytes, kind: int
) -> None:
    usual, frames = isolated.Supervisor._hear, [(kind, told, b"")]

    def hear(self: Any, child: Any, number: int, frame: Any) -> None:
        usual(self, child, 0, frames.pop()) if frames else usual(self, child, number, frame)

    monkeypatch.setattr(isolated.Supervisor, "_hear", hear)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(said, model.generate(asked("a @slow b")))
        wait_until(first.done)
    monkeypatch.undo()
    assert said(model.generate(asked("well"))) == "well "


def test_what_opening_the_model_raises_is_raised_here() -> None:
    with pytest.raises(GenerationFailed, match=r"ValueError in crashing_model.py"):
        IsolatedModel(open_crashing, dies_opening="words of its own")


def test_a_process_that_does_not_start_is_no_local_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_process, "__name__", "edgewise.no_such_module")
    with pytest.raises(ModelNotFound, match=r"did not start: .*No module named"):
        IsolatedModel(open_crashing)
    monkeypatch.undo()
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(ModelNotFound, match="did not start"):
        IsolatedModel(open_crashing)


def test_an_error_of_the_runtime_is_told_without_its_words(model: IsolatedModel) -> None:
    with pytest.raises(GenerationFailed, match=r"^ValueError in crashing_model.py:\d+$"):
        list(model.generate(asked("a @raise")))
    assert model.supervisor.restarts == 0


# -- its life --------------------------------------------------------------------------------------


def test_calling_off_frees_the_reader_at_once_and_nobody_else(
    model: IsolatedModel, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    stream = model.generate(asked(f"a @wait:{go} b"))
    next(stream)
    threading.Timer(0.05, stream.abort).start()
    with pytest.raises(GenerationFailed, match="called off"):
        next(stream)
    assert said(model.generate(asked("others"))) == "others "
    go.touch()
    wait_until(lambda: not model.supervisor._running)
    assert model.supervisor.restarts == 0


def test_a_reader_that_is_slow_does_not_hold_up_the_others(model: IsolatedModel) -> None:
    words = " ".join(["word"] * 60)
    slow = model.generate(asked(words))
    next(slow)
    for _ in range(40):
        assert len(said(model.generate(asked(words)))) == 300
    assert len(said(slow)) == 295


def test_a_closed_model_leaves_no_process_and_opens_again(model: IsolatedModel) -> None:
    process = model.supervisor.pid
    assert process is not None and model.supervisor.resident_bytes > 0
    model.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)  # not even a zombie
    assert said(model.generate(asked("again"))) == "again "
    assert model.supervisor.restarts == 0


def test_a_model_that_nobody_closes_ends_with_its_last_user() -> None:
    model = IsolatedModel(open_crashing)
    supervisor, process = model.supervisor, model.supervisor.pid
    assert process is not None
    del model
    gc.collect()
    wait_until(lambda: supervisor.pid is None)
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_signals_to_stop_are_not_for_the_models_process(
    model: IsolatedModel, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    stream = model.generate(asked(f"a @wait:{go} b"))
    next(stream)
    assert model.supervisor.pid is not None
    assert os.getpgid(model.supervisor.pid) != os.getpgid(0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(model.supervisor.pid, number)
    go.touch()
    assert said(stream) == "b "


SCRIPT = """
import time
from edgewise.local.isolated import IsolatedModel
from tests.local.crashing_model import open_crashing
model = IsolatedModel(open_crashing)
print(model.supervisor.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only there an environment can be read")
def test_keys_of_the_environment_stay_here(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "EDGEWISE_SERVER_KEY", "APP", "DATABASE_URL"):
        monkeypatch.setenv(name, "secret-value")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with closing(IsolatedModel(open_crashing, memory=CrashMemory())) as model:
        environment = Path(f"/proc/{model.supervisor.pid}/environ").read_bytes()
        assert said(model.generate(asked("hello"))) == "hello "
    assert b"OMP_NUM_THREADS=1" in environment and b"PATH=" in environment
    assert b"secret-value" not in environment


def test_the_models_process_dies_with_the_one_that_started_it() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    with parent:
        assert parent.stdout is not None
        process = int(parent.stdout.readline())
        parent.kill()
    wait_until(lambda: not _runs(process))


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/stat")
    return not status.exists() or ") Z " not in status.read_text()


# -- what is remembered, what is sent --------------------------------------------------------------


def test_crashes_are_remembered_for_a_while_and_only_so_many() -> None:
    now = 0.0
    memory = CrashMemory(most=2, seconds=60, clock=lambda: now)
    keys = [memory.key([name]) for name in (b"one", b"two", b"three")]
    for key in keys:
        memory.remember(key)
    assert [memory.left_s(key) for key in keys] == [0.0, 60.0, 60.0]
    now = 59.0
    assert memory.left_s(keys[2]) == 1.0
    now = 60.0
    assert memory.left_s(keys[2]) == 0.0
    assert len(memory) == 1
    assert CrashMemory().key([b"one"]) != CrashMemory().key([b"one"])  # salted
    assert memory.key([b"a", b"bc"]) != memory.key([b"ab", b"c"])


def test_functions_of_the_users_program_stay_there(model: IsolatedModel) -> None:
    tool = RunnableTool(name="f", run=lambda: None)
    wanted = ResponseFormat({}, parse=lambda text: text)
    request = asked("fine", tools=(tool,), response_format=wanted, context={"now": threading.Lock})
    assert said(model.generate(request)) == "fine "
    odd = ResponseFormat({"enum": threading.Lock()})
    with pytest.raises(GenerationFailed, match="cannot be handed"):
        list(model.generate(asked("odd", response_format=odd)))


def test_a_prompt_that_was_not_counted_is_not_said_to_be() -> None:
    met = ContextExceeded(129, 128, counted=False)
    assert str(isolated.as_error(model_process.told_error(met))) == str(met)


def test_what_the_process_says_is_never_trusted_to_be_code() -> None:
    error = isolated.as_error({"error": "os.system", "words": "no"})
    assert type(error) is GenerationFailed
    source = Path(isolated.__file__).read_text("utf-8")
    assert "pickle.load" not in source


def test_the_setting_isolates_llama_cpp(default_model: InstalledModel) -> None:
    settings = Settings.load(isolate=True)
    backend = open_backend(settings)
    assert isinstance(backend, IsolatedModel)
    backend.close()
    assert isinstance(open_backend(settings.with_changes(isolate=False)), LlamaLoop)


# -- what hears, embeds and sees -------------------------------------------------------------------


def test_what_is_heard_embedded_and_seen_is_that_of_the_model_in_process() -> None:
    here, texts = CrashingSenses(), ("a boat", "", "a much longer text")
    sound, picture = np.zeros(1600, "float32"), np.zeros((3, 5, 3), "uint8")
    with closing(IsolatedTranscriber(open_senses, memory=CrashMemory())) as ears:
        assert ears.facts().real_time_factor is None
        assert ears.hear(sound, language="en") == here.hear(sound)
        assert ears.facts().real_time_factor == 0.5, "policies go by how fast it was"
    with closing(IsolatedSkill(open_senses, memory=CrashMemory())) as eyes:
        assert eyes.look(picture) == here.look(picture)
    pauses: list[None] = []
    with closing(IsolatedEmbedder(open_senses, memory=CrashMemory())) as embedder:
        made = embedder.embed(texts, pause=lambda: pauses.append(None))
    assert made == here.embed(texts, pause=lambda: None)
    assert len(pauses) == 3, "others have their turns between batches"


def test_a_sound_that_kills_its_model_kills_nothing_else() -> None:
    sound = np.ones(1600, "float32")
    with closing(IsolatedTranscriber(open_senses, memory=CrashMemory())) as ears:
        with pytest.raises(RuntimeCrashed, match="SIGSEGV"):
            ears.hear(sound, hint="@segv")
        with pytest.raises(CrashedBefore):
            ears.hear(sound)
        assert ears.hear(sound[:800])[0].text == "800 samples"


def test_whoever_leaves_between_two_batches_ends_the_work(tmp_path: Path) -> None:
    class Left(Exception):
        pass

    def leave() -> None:
        raise Left

    go, begun = tmp_path / "go", tmp_path / "begun"
    texts = ["first", f"@wait:{go}", f"@other:{begun}"]
    with closing(IsolatedEmbedder(open_senses, memory=CrashMemory())) as embedder:
        with pytest.raises(Left):
            embedder.embed(texts, pause=leave)
        go.touch()
        wait_until(lambda: not embedder.supervisor._running)
        assert not begun.exists(), "the third text was not read any more"
        assert embedder.embed(["next"]).tokens == 7


def test_nonsense_from_the_process_is_an_error_of_ours() -> None:
    for told in ({}, {"windows": [1], "tokens": 1}, {"windows": "x", "tokens": 1}):
        with pytest.raises(isolated.NONSENSE):
            isolated.as_embedded(told, bytes(12), 2)
    for read in (isolated.as_heard, isolated.as_sight):
        with pytest.raises(isolated.NONSENSE):
            read({"lines": [{"box": [1]}]})
