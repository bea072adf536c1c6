"""Which models are in memory: preloaded, pinned, kept as Ollama's clients say, let go."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgewise.local.models import PooledModel
from edgewise.server.ollama import keep_alive_s
from edgewise.server.serve import running
from edgewise.server.state import ServerState
from edgewise.settings import Settings
from tests.pulled import Opened, pull
from tests.server.browser import Browser, chromium
from tests.server.served import Served, wait_until

OWN, CODER = "smollm2-135m-instruct", "qwen2.5-coder-0.5b-instruct"


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    root = tmp_path / "cache" / "models"
    pull(root, OWN, quantisation="Q8_0")
    pull(root, CODER)
    yield Opened(monkeypatch)


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Browser]:
    with chromium(tmp_path / "chromium") as browser:
        browser.look()
        yield browser
        assert browser.errors == []


@pytest.fixture
def start(tmp_path: Path, opened: Opened) -> Iterator[Any]:
    stack: list[Any] = []

    def started(keys: bool = False, **server: Any) -> Served:
        variables = {"ANN_KEY": "ann-key-0123456789", "EDGEWISE_SERVER_KEY": "lead-key-0123456789"}
        if keys:
            server["keys"] = {"ann": {"key_env": "ANN_KEY"}}
        settings = Settings.load(
            variables if keys else {},
            model=OWN,
            cache_dir=tmp_path / "cache",
            data_dir=tmp_path / "data",
            config_dir=tmp_path / "config",
            server={"port": 0, "isolate": False, **server},
        )
        states: list[ServerState] = []
        running_one = running(settings, states.append)
        served = Served(running_one.__enter__(), states[0])
        stack.append((running_one, served))
        wait_until(served.state.warm.is_set)
        return served

    yield started
    for running_one, served in stack:
        served.http.close()
        running_one.__exit__(None, None, None)


def residences(served: Served) -> dict[str, dict[str, Any]]:
    found = served.http.get("/edgewise/models").json()["models"]
    return {each["name"]: each for each in found}


def change(served: Served, model: str, action: str, **headers: str) -> Any:
    body = {"model": model, "action": action}
    return served.http.post("/edgewise/models", json=body, headers=headers)


def test_what_is_preloaded_is_there_before_anybody_asks_and_stays(start: Any) -> None:
    served = start(preload=["auto", CODER])
    found = residences(served)
    assert {name: (each["state"], each["pinned"]) for name, each in found.items()} == {
        OWN: ("loaded", True),
        CODER: ("loaded", True),
    }
    assert found[OWN]["own"] and not found[CODER]["own"]
    served.http.post("/api/generate", json={"model": f"local/{CODER}", "keep_alive": 0})
    assert residences(served)[CODER]["state"] == "loaded", "it is pinned"


def test_a_model_that_cannot_be_preloaded_is_no_reason_not_to_start(start: Any) -> None:
    served = start(preload=["no-such-model"])
    assert served.chat(model="local").status_code == 200


def test_models_are_loaded_pinned_and_let_go_by_name(start: Any, opened: Opened) -> None:
    served = start()
    assert residences(served)[CODER]["state"] == "unloaded"
    told = change(served, CODER, "load").json()
    assert (told["state"], told["pinned"], told["until"]) == ("loaded", False, None)
    assert change(served, f"local/{CODER}", "pin").json()["pinned"]
    assert change(served, CODER, "unload").json()["state"] == "unloaded"
    assert all(each.closed for each in opened.named(CODER))
    assert change(served, "no-such-model", "load").status_code == 404
    assert change(served, CODER, "melt").status_code == 400


def test_a_model_that_is_being_loaded_says_so(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    served, go_on = start(), threading.Event()

    def slow(self: PooledModel) -> None:
        assert go_on.wait(60)

    monkeypatch.setattr(PooledModel, "load", slow)
    loading = threading.Thread(target=change, args=(served, CODER, "load"))
    loading.start()
    wait_until(lambda: residences(served)[CODER]["state"] == "loading")
    go_on.set()
    loading.join()
    wait_until(lambda: residences(served)[CODER]["state"] == "unloaded")


def test_ollamas_keep_alive_is_kept(start: Any, opened: Opened) -> None:
    served = start()
    asked = {"model": f"local/{CODER}", "prompt": "Who are you?", "stream": False}
    served.http.post("/api/generate", json={**asked, "keep_alive": "10m"})
    (told,) = (e for e in served.http.get("/api/ps").json()["models"] if CODER in e["name"])
    assert not told["expires_at"].startswith("2318"), "it says when it leaves"
    assert residences(served)[CODER]["until"] is not None
    pinned = change(served, CODER, "pin")  # it stays, however long somebody wanted it
    assert "Infinity" not in pinned.text and pinned.json()["until"] is None
    assert "2318" in served.http.get("/api/ps").text
    assert change(served, CODER, "unpin").json()["until"] is not None
    model = served.state.pooled(CODER)
    with model._pool.using(model):
        model.keep(600)  # while somebody asks it, nobody knows when it leaves
        assert residences(served)[CODER]["until"] is None
        assert served.http.get("/api/ps").status_code == 200
    answer = served.http.post("/api/generate", json={**asked, "keep_alive": 0}).json()
    assert answer["response"] == f"I am {CODER}."
    wait_until(lambda: all(each.closed for each in opened.named(CODER)))
    assert CODER not in served.http.get("/api/ps").text
    served.http.post("/api/generate", json={"model": f"local/{CODER}"})
    assert residences(served)[CODER]["state"] == "loaded"
    let_go = served.http.post("/api/generate", json={"model": f"local/{CODER}", "keep_alive": "0"})
    assert let_go.json()["done_reason"] == "unload"
    assert residences(served)[CODER]["state"] == "unloaded"


def test_a_key_of_its_own_changes_nothing_for_others(start: Any, opened: Opened) -> None:
    served = start(keys=True)
    ann = {"authorization": "Bearer ann-key-0123456789"}
    lead = {"authorization": "Bearer lead-key-0123456789"}
    assert change(served, CODER, "load", **lead).status_code == 200
    refused = change(served, CODER, "unload", **ann)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not_allowed")
    body = {"model": f"local/{CODER}", "keep_alive": 0}
    assert served.http.post("/api/generate", json=body, headers=ann).status_code == 200
    found = served.http.get("/edgewise/models", headers=ann).json()["models"]
    assert {each["name"]: each["state"] for each in found}[CODER] == "loaded"
    assert not any(each.closed for each in opened.named(CODER))


def test_a_model_that_was_given_to_the_server_stays(served: Served) -> None:
    refused = change(served, "scripted-1", "unload")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "model_stays")
    asked = {"model": "local", "prompt": "Hello", "keep_alive": 0, "stream": False}
    assert served.http.post("/api/generate", json=asked).status_code == 200


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (None, None), (0, 0.0), (300, 300.0), (-1, float("inf")), ("-1", float("inf")),
        ("5m", 300.0), ("1h30m", 5400.0), ("90", 90.0), ("500ms", 0.5), ("-1m", float("inf")),
        ("0", 0.0), (1e300, float("inf")), (float("nan"), float("inf")),
    ],
)  # fmt: skip
def test_keep_alive_is_read_as_ollama_reads_it(given: Any, seconds: float | None) -> None:
    assert keep_alive_s(given) == seconds


@pytest.mark.parametrize("given", ["soon", "", "5 m", "m", [], {}, True, "9" * 60])
def test_a_keep_alive_that_says_no_time_is_refused(start: Any, given: Any) -> None:
    served = start()
    body = {"model": "local", "prompt": "Hello", "keep_alive": given}
    answer = served.http.post("/api/generate", json=body)
    assert answer.status_code == 400 and "keep_alive" in answer.text


def test_the_page_loads_pins_and_lets_go(start: Any, page: Browser) -> None:
    served = start()
    page.open(served.url)
    rows = "[...document.querySelectorAll('#models-list .row')]"
    row = f"{rows}.find((each) => each.textContent.includes('coder'))"
    page.wait(f"{row}?.textContent.includes('not in memory')")

    def press(text: str, then: str) -> None:
        buttons = f"[...{row}.querySelectorAll('button')]"
        page.run(f"{buttons}.find((each) => each.textContent === '{text}').click()")
        page.wait(f"{row}.textContent.includes('{then}')")

    press("Load", "Unload")
    press("Pin", "Unpin")
    press("Unload", "not in memory")
