"""What a client's name for a model means, and what the reply names."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from edgewise.local.store import ModelStore
from edgewise.server.wire import meant
from edgewise.testing import LoopbackCloud, ScriptedBackend
from tests.server.conftest import Serving
from tests.server.served import HELLO

BOTH = {"chain": ("openai", "anthropic"), "policy": "prefer_cloud"}


def keys(cloud: LoopbackCloud) -> dict[str, str]:
    return {"ANTHROPIC_API_KEY": "sk-ant-0123456789", "ANTHROPIC_BASE_URL": cloud.anthropic_url}


def test_the_first_pattern_that_fits_says_what_a_name_means() -> None:
    models = {"*haiku*": "auto", "claude-*": "cloud/anthropic/<same>", "gpt-4o-mini": "standard"}
    asked = ("claude-haiku-4-5", "claude-opus-4-8", "gpt-4o-mini", "gpt-4o")
    assert [meant(name, models) for name in asked] == [
        "auto",
        "cloud/anthropic/claude-opus-4-8",
        "standard",
        "gpt-4o",
    ]


def test_names_are_mapped_to_routes(serving: Serving, cloud: LoopbackCloud) -> None:
    models = {"*haiku*": "local", "claude-*": "cloud/anthropic/<same>"}
    served = serving(environment=keys(cloud), settings={**BOTH, "models": models})
    asked = {"max_tokens": 50, "messages": HELLO}
    small = served.anthropic().messages.create(model="claude-haiku-4-5", **asked)
    assert small.model == "local/scripted-1" and not cloud.requests
    large = served.anthropic().messages.create(model="claude-opus-4-8", **asked)
    assert large.model == "claude-opus-4-8" == cloud.requests[0].body["model"]


@pytest.mark.parametrize(
    ("name", "left", "protocol"),
    [
        ("claude-opus-4-8", "claude-opus-4-8", "anthropic"),
        ("gpt-4o", "gpt-4o", "openai"),
        ("somebodys-model", "gpt-6-luna", "openai"),
        ("auto", "gpt-6-luna", "openai"),
    ],
)
def test_a_named_cloud_model_that_leaves_goes_to_whoever_has_it(
    serving: Serving, cloud: LoopbackCloud, name: str, left: str, protocol: str
) -> None:
    served = serving(environment=keys(cloud), settings=BOTH)
    answer = served.chat(model=name)
    assert answer.status_code == 200, answer.text
    (seen,) = cloud.requests
    assert (seen.body["model"], seen.protocol) == (left, protocol)
    assert left in answer.json()["model"]


def test_a_named_cloud_model_need_not_leave(serving: Serving, cloud: LoopbackCloud) -> None:
    served = serving(environment=keys(cloud), settings={"chain": ("openai", "anthropic")})
    assert served.chat(model="gpt-4o").json()["model"] == "local/scripted-1"
    assert cloud.requests == []


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
@pytest.mark.parametrize("sure", [True, False])
def test_a_stream_never_names_a_model_that_does_not_answer(
    serving: Serving, cloud: LoopbackCloud, path: str, sure: bool
) -> None:
    script = ScriptedBackend.confident if sure else ScriptedBackend.doubtful
    served = serving(script("Paris."), settings={"chain": ("openai",)})
    body: dict[str, Any] = {"max_tokens": 50, "model": "claude-opus-4-8"}
    body |= {"input": "Hello", "messages": None} if path.endswith("responses") else {}
    chunks = served.chunks(path, **body)
    named = {
        each[key]["model"] for each in chunks for key in ("message", "response") if key in each
    }
    named |= {each["model"] for each in chunks if "model" in each}
    assert named <= ({"local/scripted-1"} if sure else {"gpt-6-luna", "cloud/openai/gpt-6-luna"})
    assert named


def test_small_work_may_stay_on_the_device_whatever_its_client_names(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    models = {"task/*": "local", "claude-*": "cloud/anthropic/<same>"}
    served = serving(environment=keys(cloud), settings={**BOTH, "models": models})
    title = [{"role": "user", "content": "Write a short title for this conversation: hello"}]
    for path in ("/v1/messages", "/v1/chat/completions"):
        asked = {"model": "claude-haiku-4-5", "max_tokens": 50, "messages": title}
        answer = served.http.post(path, json=asked).json()
        assert answer["edgewise"]["model"] == "local/scripted-1" or not cloud.requests
        assert answer["edgewise"]["decision"]["code"] == "policy_local_only"
    served.http.post("/v1/messages", json={**asked, "messages": HELLO})
    served.chat(model="cloud/openai/gpt-4o", messages=title)
    assert [each.body["model"] for each in cloud.requests] == ["claude-haiku-4-5", "gpt-4o"]


def test_a_clouds_name_is_not_looked_for_on_the_disk(
    serving: Serving, cloud: LoopbackCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serving(environment=keys(cloud), settings=BOTH)
    looked = MagicMock(return_value=[])
    monkeypatch.setattr(ModelStore, "installed", looked)
    assert served.chat(model="gpt-4o").status_code == 200
    looked.assert_not_called()
