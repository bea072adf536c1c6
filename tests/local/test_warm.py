"""A model that stays loaded between two commands: who may have it, and what stays as it was."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from edgewise.cli import models
from edgewise.engine import Engine
from edgewise.errors import ContextExceeded, RuntimeCrashed
from edgewise.local import warm
from edgewise.local.isolated import IsolatedModel
from edgewise.local.llama_cpp import open_backend
from edgewise.local.store import InstalledModel
from edgewise.settings import Settings
from edgewise.types.messages import Message, Request
from tests.cli.conftest import SCRIPT
from tests.local.crashing_model import open_crashing

LONG_S = 90.0  # far longer than anything here takes
GOLD = "What is the chemical symbol for gold?"


def wait_until(so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONG_S
    while not so():
        assert time.monotonic() < deadline, "it did not come to be so"
        time.sleep(0.02)


def lenders_of(home: Path) -> list[tuple[Path, dict[str, Any]]]:
    mark = warm.home_mark(home / "data")
    return [each for each in warm.lenders() if each[0].name.endswith(mark)]


@pytest.fixture
def home(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home whose commands keep their models, and whose helper ends with the test."""
    monkeypatch.setenv("EDGEWISE_KEEP_WARM_S", "300")
    yield own_home
    for place, told in lenders_of(own_home):
        warm.stop_helper(place)
        wait_until(lambda pid=told["pid"]: not _runs(pid))  # type: ignore[misc]


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# -- for a person at a terminal --------------------------------------------------------------------


def asked(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONG_S,
        env={**os.environ, **variables},
    )


@pytest.mark.real_model
def test_the_second_ask_finds_the_model_loaded_and_the_ledger_has_each_once(home: Path) -> None:
    first, second = (asked("ask", "--local", "--json", GOLD) for _ in range(2))
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    alone = asked("ask", "--local", "--json", "--no-warm", GOLD)
    answers = [json.loads(each.stdout) for each in (first, second, alone)]
    assert len({each["response"] for each in answers}) == 1
    # Without numpy, sums are of longer numbers.
    same = pytest.approx(answers[0]["confidence"])
    assert [each["confidence"] for each in answers] == [same] * 3
    ((_, told),) = lenders_of(home)
    (kept,) = told["models"]
    assert (kept["model"], kept["users"]) == ("smollm2-135m-instruct", 0)
    assert 0 < kept["ends_in_s"] <= 300
    listed = json.loads(asked("warm", "--json").stdout)
    assert [each["model"] for each in listed if each["pid"] == told["pid"]] == [kept["model"]]
    with Engine(Settings.load()) as engine:
        assert engine.ledger.report().requests == 3


@pytest.mark.real_model
def test_who_switches_it_off_leaves_nothing_behind(home: Path) -> None:
    assert asked("ask", "--local", "--no-warm", GOLD).returncode == 0
    assert asked("ask", "--local", GOLD, EDGEWISE_KEEP_WARM_S="0").returncode == 0
    assert not lenders_of(home)


@pytest.mark.real_model
def test_ctrl_c_ends_the_answer_and_not_the_helper(home: Path) -> None:
    story = ["ask", "--local", "--max-tokens", "900", "Tell me a very long story about a ship."]
    process = subprocess.Popen(
        [SCRIPT, *story], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with process:
        assert process.stdout is not None
        process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LONG_S)
    assert process.returncode == 130
    wait_until(lambda: not lenders_of(home)[0][1]["models"][0]["users"])
    pid = lenders_of(home)[0][1]["pid"]
    assert asked("ask", "--local", GOLD).returncode == 0
    assert lenders_of(home)[0][1]["pid"] == pid


@pytest.mark.real_model
def test_a_running_server_lends_its_model(home: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "edgewise", "serve", "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with server:
        assert server.stdout is not None
        server.stdout.readline()
        ran = asked("ask", "--local", "--json", GOLD)
        calls = asked("call", "--local", "--json", "Set an alarm for 6:30", "--tools", "examples")
        assert (ran.returncode, calls.returncode) == (0, 0), ran.stderr + calls.stderr
        ((place, told),) = lenders_of(home)
        assert (told["kind"], told["pid"]) == ("serve", server.pid)
        assert {"smollm2-135m-instruct", "edgewise-caller"} == {
            each["model"] for each in told["models"]
        }
        assert not warm.stop_helper(place), "a server is stopped by whoever started it"
        server.terminate()
        server.communicate(timeout=LONG_S)
    assert not lenders_of(home)


# -- who may have it -------------------------------------------------------------------------------


WEIGHTS = b"weights"


@pytest.fixture
def weights(tmp_path: Path) -> InstalledModel:
    path = tmp_path / "model.gguf"
    path.write_bytes(WEIGHTS)
    return InstalledModel("scripted", path, "Q8_0", "", len(WEIGHTS))


def open_scripted(model: InstalledModel, **options: Any) -> Any:
    """An opener whose model says who it is; found by its name, as openers are."""
    return open_crashing()


OPTIONS: dict[str, Any] = {"context_tokens": 256, "threads": 1}


@contextmanager
def lender_in(folder: Path, shelf: warm.Shelf) -> Iterator[warm.Lender]:
    """A helper on a thread."""
    over = threading.Event()
    lender = warm.Lender(folder / "helper-here", "helper", shelf.lend, lambda _: True, shelf.status)
    lender.open()
    thread = threading.Thread(target=lender.serve, args=(over.is_set,))
    thread.start()
    try:
        yield lender
    finally:
        over.set()
        thread.join()
        lender.close()


def borrowed(folder: Path, weights: InstalledModel, keep_s: float = 60.0) -> IsolatedModel:
    def start() -> warm.Borrowed:
        return warm.borrow(folder, "here", keep_s, weights, OPTIONS)

    return IsolatedModel(open_scripted, weights, start=start, **OPTIONS)


@pytest.fixture
def sockets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("s")  # a short path: that of a socket has a limit


@pytest.fixture(params=["a Unix socket", "loopback with a token"])
def door(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param != "a Unix socket":
        monkeypatch.setattr(warm, "_has_unix_sockets", lambda: False)
    return str(request.param)


def test_two_commands_have_one_model_and_the_shelf_lets_it_go_in_time(
    door: str, sockets: Path, weights: InstalledModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = warm.Shelf()
    with lender_in(sockets, shelf):
        with closing(borrowed(sockets, weights)) as one, closing(borrowed(sockets, weights)):
            assert one.facts().model == "crashing-1"
            wait_until(lambda: [each["users"] for each in shelf.status()] == [2])
        wait_until(lambda: [each["users"] for each in shelf.status()] == [0])
        assert not shelf.is_over()
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + 61.0)
        assert shelf.is_over() and not shelf.status()


def test_other_weights_are_another_model(sockets: Path, weights: InstalledModel) -> None:
    shelf = warm.Shelf()
    with lender_in(sockets, shelf):
        with closing(borrowed(sockets, weights)):
            other = replace(weights, name="other", path=weights.path.with_name("other.gguf"))
            other.path.write_bytes(WEIGHTS)
            with closing(borrowed(sockets, other)):
                assert [each["model"] for each in shelf.status()] == ["scripted", "other"]
        weights.path.write_bytes(WEIGHTS + b" anew")
        with closing(borrowed(sockets, weights)):
            assert [each["users"] for each in shelf.status()] == [0, 1]


def test_only_the_user_can_open_it(sockets: Path) -> None:
    with lender_in(sockets, warm.Shelf()) as lender:
        mode = lender.place.stat().st_mode
        assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600
    assert stat.S_IMODE(warm.folder().stat().st_mode) == 0o700


def test_nobody_is_heard_without_the_token(sockets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "_has_unix_sockets", lambda: False)
    with lender_in(sockets, warm.Shelf()) as lender:
        assert stat.S_IMODE(lender.place.stat().st_mode) == 0o600
        told = json.loads(lender.place.read_text("ascii"))
        lender.place.write_text(json.dumps({**told, "token": "0" * 64}), "ascii")
        with pytest.raises(OSError, match="ended"):
            warm._ask(lender.place, {"want": "status"})
        lender.place.write_text(json.dumps(told), "ascii")
        line, told = warm._ask(lender.place, {"want": "status"})
        line.close()
        assert told["kind"] == "helper"


LIST = b"\x02" + b"\0" * 7 + b"[]"


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, LIST])
def test_nonsense_ends_its_connection_alone(sockets: Path, said: bytes) -> None:
    with lender_in(sockets, warm.Shelf()) as lender:
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(lender.place))
            line.sendall(said)
            line.shutdown(socket.SHUT_WR)
            assert not line.recv(1)
        answer = warm._ask(lender.place, {"want": "status"})
        answer[0].close()
        assert answer[1]["models"] == []


def test_a_folder_that_others_can_open_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weights: InstalledModel
) -> None:
    def open_to_others() -> Path:
        raise PermissionError("open to others")

    monkeypatch.setattr(warm, "folder", open_to_others)
    opened = warm.warming(open_scripted, tmp_path, 300.0)(weights, **OPTIONS)
    assert not isinstance(opened, IsolatedModel), "it is opened here, as without"


def test_nobody_waits_for_a_helper_that_is_stopped(
    sockets: Path, weights: InstalledModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It listens and does not answer: the command loads its model, and leaves the other alone."""
    monkeypatch.setattr(warm, "ANSWER_S", 0.2)
    monkeypatch.setattr(warm, "folder", lambda: sockets)
    place = sockets / f"helper-{warm.home_mark(sockets)}"
    with socket.socket(socket.AF_UNIX) as stopped:
        stopped.bind(str(place))
        stopped.listen(16)
        opened = warm.warming(open_scripted, sockets, 300.0)(weights, **OPTIONS)
        assert not isinstance(opened, IsolatedModel)
        assert list(warm.lenders()) == [(place, {"kind": "helper"})]
        shown = CliRunner().invoke(models.warm, ["--stop"])
        assert "does not answer" in shown.output
    assert list(warm.lenders()) == [] and not place.exists(), "now nobody listens there"


def test_a_helper_is_heard_while_it_opens_a_model(sockets: Path, weights: InstalledModel) -> None:
    shelf = warm.Shelf()
    with lender_in(sockets, shelf) as lender, closing(borrowed(sockets, weights)):
        with shelf._lock:  # as whoever opens one has it
            assert not shelf.is_over()
            line, told = warm._ask(lender.place, {"want": "status"})
            line.close()
        assert [each["model"] for each in told["models"]] == ["scripted"]


def test_a_helper_whose_address_is_gone_ends(sockets: Path) -> None:
    """A cleaner of temporary files took it: nobody could ask it, and no other one could start."""
    place = sockets / "helper-here"
    process = warm._start_helper(place)
    wait_until(place.exists)
    place.unlink()
    assert process.wait(LONG_S) == 0


def test_an_answer_whose_helper_was_killed_says_so(sockets: Path, weights: InstalledModel) -> None:
    lines: list[warm.Borrowed] = []

    def start() -> warm.Borrowed:
        lines.append(warm.borrow(sockets, "here", 60.0, weights, OPTIONS))
        return lines[-1]

    going_on = sockets / "go-on"
    with (
        lender_in(sockets, warm.Shelf()),
        closing(IsolatedModel(open_scripted, weights, start=start, **OPTIONS)) as model,
        pytest.raises(RuntimeCrashed, match="its connection ended"),
    ):
        try:
            for _ in model.generate(Request(messages=(Message("user", f"one @wait:{going_on}"),))):
                lines[0].kill()
        finally:
            going_on.touch()


def test_what_the_model_raises_is_raised_here(sockets: Path, default_model: InstalledModel) -> None:
    options: dict[str, Any] = {"context_tokens": 256, "threads": 1}
    with lender_in(sockets, warm.Shelf()):
        model = IsolatedModel(
            open_backend,
            default_model,
            start=lambda: warm.borrow(sockets, "here", 60.0, default_model, options),
            **options,
        )
        with closing(model), pytest.raises(ContextExceeded):
            list(model.generate(Request(messages=(Message("user", "word " * 400),))))
