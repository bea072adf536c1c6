"""`edgewise demo`: real requests on the real model, with a cloud and without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewise.cli.demo import CALLS, QUESTIONS
from edgewise.testing import Answer, LoopbackCloud
from tests.cli.conftest import Run


@pytest.mark.real_model
def test_without_a_key_everything_stays_on_the_device_and_says_so(
    script: Run, default_model: object, default_function_model: object
) -> None:
    ran = script("demo")
    assert ran.code == 0
    assert "smollm2-135m-instruct (Q8_0) on this machine · cloud: no key" in ran.out
    assert ran.out.count("\n> ") == len(QUESTIONS) + len(CALLS)
    assert "refused: " in ran.out
    assert "[does_not_fit]" in ran.out
    assert f"\n{len(QUESTIONS) + len(CALLS)} requests · " in ran.out
    assert '\nset_alarm {"hour":6,"minute":30}\nsend_message {"recipient":"Maria",' in ran.out
    assert "\n(no call)\n" in ran.out
    assert " 0 by the cloud · " in ran.out
    assert "$0 spent" in ran.out
    assert "Next: edgewise ask" in ran.out


@pytest.mark.real_model
def test_with_a_key_the_long_request_goes_to_the_cloud(
    run: Run, cloud: LoopbackCloud, default_model: object, default_function_model: object
) -> None:
    cloud.always(Answer(text="It was decided to meet again."))
    ran = run("demo", "--json")
    assert (ran.code, ran.err) == (0, "")
    replies = ran.json
    assert len(replies) == len(QUESTIONS) + len(CALLS)
    assert all(reply["success"] for reply in replies)
    (long,) = [reply for reply in replies if "longer" in reply["title"]]
    assert (long["response"], long["source"]) == ("It was decided to meet again.", "cloud")
    assert [len(reply["tool_calls"]) for reply in replies[-2:]] == [2, 0]
    private = [reply for reply in replies if "private" in reply["title"]]
    assert [reply["source"] for reply in private] == ["local"]


def test_without_a_model_the_demo_says_how_to_get_one(run: Run, no_model: Path) -> None:
    ran = run("demo", "--json")
    assert ran.code == 5
    assert ran.json["code"] == "no_local_model"
    assert "edgewise pull smollm2-135m-instruct" in ran.json["error"]
