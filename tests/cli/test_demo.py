"""`edgewise demo`: real requests on the real model; the cloud is a stand-in on this machine."""

from __future__ import annotations

import shlex
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from edgewise.cli.demo import HEARD, SAMPLE, SCENES, STAND_IN
from edgewise.cli.main import COMMANDS
from edgewise.cli.setup import Beside
from edgewise.errors import StoreError
from edgewise.local.store import ModelStore
from edgewise.settings import Settings
from edgewise.testing import LoopbackCloud
from tests.cli.conftest import SCRIPT, Run
from tests.conftest import MODELS_DIR


@pytest.fixture(autouse=True)
def nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEWISE_FETCH_DEFAULT_MODEL", "false")


@pytest.mark.real_model
def test_somebody_is_heard_before_the_chat_model_is_needed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beckett: Path
) -> None:
    (tmp_path / "samples").mkdir()
    shutil.copy(beckett, tmp_path / "samples" / SAMPLE.name)
    (tmp_path / "models").symlink_to(MODELS_DIR)
    monkeypatch.setenv("EDGEWISE_CACHE_DIR", str(tmp_path))
    ran = run("demo", "--json")
    heard = next(each for each in ran.json if each["title"] == HEARD)
    assert ran.json.index(heard) == 2, "after the calls"
    assert (heard["source"], heard["success"]) == ("local", True)
    assert "fail better" in heard["response"].lower()


def test_what_is_fetched_beside_ends_with_whoever_wanted_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = threading.Event(), threading.Event()

    def pull(store: ModelStore, name: str, progress: Callable[[int, int, str], None]) -> None:
        try:
            while True:
                progress(1, 9, "downloading")
                begun.set()
        finally:
            ended.set()  # where pip is ended, too

    monkeypatch.setattr(ModelStore, "pull", pull)
    with Beside(Settings(cache_dir=tmp_path, model="standard")):
        begun.wait()
    assert ended.is_set()


def test_a_chat_model_that_cannot_be_fetched_beside_is_told_after_the_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pull(*_: object) -> None:
        raise StoreError("no network")

    monkeypatch.setattr(ModelStore, "pull", pull)
    with (
        Beside(Settings(cache_dir=tmp_path, model="standard")) as coming,
        pytest.raises(StoreError, match="no network"),
    ):
        coming.wait()


@pytest.mark.real_model
def test_the_demo_shows_calls_first_then_every_way_an_answer_can_go(
    script: Run, default_model: object, default_function_model: object
) -> None:
    ran = script("demo")
    assert ran.code == 0
    assert ran.out.startswith(
        "edgewise · device: smollm2-135m-instruct (Q8_0) · cloud: a stand-in on this machine"
    )
    scenes = ran.out.split("\n\n")[1:]
    assert [scene.splitlines()[0] for scene in scenes[:7]] == [each.title for each in SCENES]
    calls, none, kept, handed_off, private, budget, offline = scenes[:7]
    assert '\nset_alarm {"hour":6,"minute":30}\nsend_message {"recipient":"Maria",' in calls
    assert "\n(no call)\n" in none
    assert "\nThe chemical symbol for gold is Au.\n└ device · " in kept
    assert (
        f"Bobby Fischer, who beat Boris Spassky in Reykjavik.\n└ cloud · {STAND_IN} · "
        in handed_off
    )
    for scene, code in ((private, "private"), (budget, "budget_spent"), (offline, "cloud_refused")):
        assert "\nThe capital of France is Paris.\n└ device · " in scene
        assert f" · in doubt · degraded: {code}" in scene
    assert "7 requests · 6 answered on the device · 1 by the stand-in cloud" in ran.out
    offered = [line.partition("   # ")[0] for line in ran.out.splitlines() if "   # " in line]
    assert len(offered) == 5
    for line in offered:  # each can be pasted
        program, name, *_ = shlex.split(line)
        assert shutil.which(program) and name in COMMANDS


@pytest.mark.real_model
def test_neither_the_users_key_nor_the_users_ledger_is_touched(
    run: Run, cloud: LoopbackCloud, default_model: object, default_function_model: object
) -> None:
    ran = run("demo", "--json")
    assert (ran.code, ran.err) == (0, "")
    assert all(reply["success"] for reply in ran.json)
    assert [reply["source"] for reply in ran.json].count("cloud") == 1
    assert cloud.requests == []
    assert run("ledger", "--json").json["requests"] == 0


@pytest.mark.real_model
def test_the_first_line_can_be_pasted_into_a_shell(
    run: Run, script: Run, default_model: object, default_function_model: object
) -> None:
    first = run("demo", "--json").json[0]
    program, *arguments = shlex.split(first["command"])
    assert program in ("edgewise", str(SCRIPT)) or Path(program).samefile(SCRIPT)
    ran = script(*arguments)
    assert ran.code == 0
    assert ran.out.startswith('set_alarm {"hour":6,"minute":30}\n')


def test_without_a_model_the_demo_says_how_to_get_one(run: Run, no_model: Path) -> None:
    ran = run("demo", "--json")
    assert ran.code == 5
    assert ran.json["code"] == "no_local_model"
    assert "edgewise pull smollm2-135m-instruct" in ran.json["error"]
