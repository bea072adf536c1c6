"""The server with the model users get: slots, a schema, evidence, and leaving in mid-answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from edgewise.local.model_store import InstalledModel
from edgewise.server.house import House
from edgewise.server.serve import running
from edgewise.settings import Settings
from tests.server.served import Served, wait_until
from tests.server.test_disconnects import post

pytestmark = pytest.mark.real_model


@pytest.fixture
def served(default_model: InstalledModel, tmp_path: Path) -> Iterator[Served]:
    settings = Settings.load(
        {"EDGEWISE_CACHE_DIR": str(default_model.path.parents[2]), "EDGEWISE_THREADS": "1"},
        data_dir=tmp_path,
        server={"port": 0, "slots": 2, "drain_s": 2.0},
    )
    houses: list[House] = []
    with running(settings, houses.append) as url:
        served = Served(url, houses[0])
        assert houses[0].trouble == ""
        yield served
        served.http.close()


def test_clients_share_the_model_and_one_may_leave(served: Served) -> None:
    gold = [{"role": "user", "content": "What is the chemical symbol for gold?"}]
    with ThreadPoolExecutor(4) as pool:
        bodies = list(
            pool.map(
                lambda _: served.chat(messages=gold, max_tokens=24, model="local").json(), range(4)
            )
        )
    assert all("Au" in body["choices"][0]["message"]["content"] for body in bodies)

    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "population": {"type": "integer"}},
        "required": ["city", "population"],
    }
    held = served.chat(
        model="local",
        messages=[{"role": "user", "content": "Name a city and its population."}],
        max_tokens=60,
        logprobs=True,
        top_logprobs=3,
        response_format={"type": "json_schema", "json_schema": {"schema": schema}},
    ).json()["choices"][0]
    assert set(json.loads(held["message"]["content"])) == {"city", "population"}
    assert all(len(entry["top_logprobs"]) == 3 for entry in held["logprobs"]["content"])

    wrong = served.chat(
        model="local",
        response_format={"type": "json_schema", "json_schema": {"schema": {"type": "nonsense"}}},
    )
    assert wrong.status_code == 400 and "nonsense" in wrong.json()["error"]["message"]

    turnstile = served.house.engine.turnstiles[served.house.local_model]
    story = [{"role": "user", "content": "Tell me a very long story."}]
    connection = post(served, model="local", stream=True, max_tokens=1500, messages=story)
    wait_until(lambda: turnstile.busy == 1)
    connection.close()
    wait_until(lambda: turnstile.busy == 0)
    wait_until(lambda: not any(each.name == "edgewise-llama" for each in threading.enumerate()))
