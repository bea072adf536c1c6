"""`edgewise demo`: real requests on the real model; the cloud is a stand-in on this machine."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from edgewise.cli.demo import SCENES, STAND_IN
from edgewise.cli.main import COMMANDS
from edgewise.testing import LoopbackCloud
from tests.cli.conftest import SCRIPT, Run


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
