"""A request that kills the local model's process: the server and all other requests live on."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from edgewise.local import isolated
from edgewise.local.isolated import CrashMemory, IsolatedModel
from edgewise.testing import Answer, LoopbackCloud
from tests.local.crashing_model import open_crashing
from tests.server.conftest import Serving
from tests.server.served import wait_until


@pytest.fixture
def model() -> Iterator[IsolatedModel]:
    with closing(IsolatedModel(open_crashing, memory=CrashMemory())) as opened:
        yield opened


def local(words: str, **more: Any) -> dict[str, Any]:
    return {"model": "local", "messages": [{"role": "user", "content": words}], **more}


def test_the_request_that_killed_it_is_a_clear_500_and_then_refused(
    serving: Serving, model: IsolatedModel, cloud: LoopbackCloud
) -> None:
    served = serving(model)
    poison = local("confidential @segv")
    first, again = served.chat(**poison), served.chat(**poison)
    assert (first.status_code, first.json()["error"]["code"]) == (500, "runtime_crashed")
    assert (again.status_code, again.json()["error"]["code"]) == (400, "runtime_crashed_before")
    assert first.headers["x-should-retry"] == "false"
    assert cloud.requests == []
    answer = served.chat(**local("all well"))
    assert (answer.status_code, answer.json()["edgewise"]["source"]) == (200, "local")
    assert served.metric('edgewise_model_restarts_total{model="crashing-1"}') == 1
    assert served.metric('edgewise_model_up{model="crashing-1"}') == 1
    assert served.metric('edgewise_model_resident_bytes{model="crashing-1"}') > 1_000_000
    served.settle()
    codes = [row["error_code"] for row in served.state.engine.ledger.recent(3)]
    assert sorted(codes) == ["", "runtime_crashed", "runtime_crashed_before"]


def test_the_cloud_answers_where_it_may(
    serving: Serving, model: IsolatedModel, cloud: LoopbackCloud
) -> None:
    cloud.always(Answer(text="From afar."))
    served = serving(model)
    for outcome in ("runtime_crashed", "runtime_crashed_before"):
        said = served.chat(**local("a @segv", model="auto")).json()
        assert said["choices"][0]["message"]["content"] == "From afar."
        assert said["edgewise"]["source"] == "cloud"
        assert said["edgewise"]["decision"]["code"] == "handoff_local_failed"
        assert said["edgewise"]["attempts"][0]["outcome"] == outcome
    assert model.supervisor.restarts == 1


def test_seven_others_at_once_all_get_their_answers(
    serving: Serving, model: IsolatedModel, tmp_path: Path
) -> None:
    served, go = serving(model), tmp_path / "go"
    asked = [f"begin{n} @wait:{go} @slow end{n}" for n in range(7)]
    with ThreadPoolExecutor(8) as pool:
        bad = pool.submit(lambda: served.chat(**local(f"a @wait:{go} @segv")))
        streams = [pool.submit(served.chunks, **local(words)) for words in asked[:4]]
        whole = [pool.submit(served.chat, **local(words)) for words in asked[4:]]
        wait_until(lambda: len(model.supervisor._running) == 8)
        go.touch()
        texts = ["".join(map(_delta, stream.result())) for stream in streams]
        texts += [each.result().json()["choices"][0]["message"]["content"] for each in whole]
        assert bad.result().json()["error"]["code"] == "runtime_crashed"
    assert [text.split() for text in texts] == [[f"begin{n}", f"end{n}"] for n in range(7)]
    assert served.chat(**local("next")).status_code == 200


def _delta(chunk: dict[str, Any]) -> str:
    return "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])


def test_a_stream_that_was_shown_ends_with_the_error(
    serving: Serving, model: IsolatedModel
) -> None:
    served = serving(model)
    chunks = served.chunks(**local("shown @slow @segv"))
    assert "".join(map(_delta, (each for each in chunks if "choices" in each))) == "shown "
    assert chunks[-1]["error"]["code"] == "runtime_crashed"


def test_a_model_that_keeps_crashing_leaves_a_server_without_one(
    serving: Serving,
    model: IsolatedModel,
    cloud: LoopbackCloud,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(isolated, "FREE_RESTARTS", 0)
    monkeypatch.setattr(isolated, "FIRST_PAUSE_S", 600.0)
    monkeypatch.setattr(isolated, "LONGEST_PAUSE_S", 600.0)
    cloud.always(Answer(text="From afar."))
    served = serving(model)
    assert served.http.get("/readyz").json()["local_model"] == "crashing-1"
    assert served.chat(**local("@exit")).status_code == 500
    wait_until(lambda: bool(model.supervisor.trouble))
    down = served.chat(**local("well"))
    assert (down.status_code, down.json()["error"]["code"]) == (503, "runtime_down")
    assert int(down.headers["retry-after"]) > 500
    assert served.chat(**local("well", model="auto")).json()["edgewise"]["source"] == "cloud"
    ready = served.http.get("/readyz")
    assert (ready.status_code, ready.json()["local_model"]) == (200, None)
    assert served.metric('edgewise_model_up{model="crashing-1"}') == 0
    device = served.http.get("/edgewise/overview/1h").json()["device"]
    assert (device["state"], device["model"]) == ("missing", "")
    assert "keeps crashing" in device["trouble"]
    assert served.http.get("/healthz").status_code == 200


def test_a_crash_of_the_function_model_is_its_own(serving: Serving, model: IsolatedModel) -> None:
    tools = [{"type": "function", "function": {"name": "stop", "description": "Stop it."}}]
    served = serving(function_model=model)
    answer = served.chat(**local("please @exit now", tools=tools, tool_choice="required"))
    assert answer.json()["error"]["code"] == "runtime_crashed"
    assert served.chat(**local("hello")).status_code == 200
