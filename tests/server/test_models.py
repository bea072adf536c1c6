"""Several local models behind one server: listed, loaded on demand, refused where they must be."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.local.catalogue import read_manifest, write_manifest
from edgewise.local.store import InstalledModel
from edgewise.server.serve import running
from edgewise.server.state import ServerState
from edgewise.settings import Settings
from tests.local.fake_servers import fake_openai
from tests.local.test_models import CODER, EACH, LARGER, OWN
from tests.pulled import Opened, pull
from tests.server.served import HELLO, Served


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A server with room for two of its three pulled chat models."""
    root = tmp_path / "cache" / "models"
    for name in (OWN, CODER, LARGER, "whisper-tiny.en"):
        pull(root, name)
    Opened(monkeypatch)
    settings = Settings.load(
        {"EDGEWISE_CACHE_DIR": str(root.parent), "EDGEWISE_THREADS": "1"},
        data_dir=tmp_path,
        config_dir=tmp_path / "config",
        model=OWN,
        model_memory_bytes=2 * EACH,
        server={"port": 0, "drain_s": 2.0},
    )
    with Served.started(settings, None) as found:
        yield found


def test_what_is_pulled_is_listed(served: Served) -> None:
    listed = [each["id"] for each in served.http.get("/v1/models").json()["data"]]
    assert listed == ["auto", f"local/{OWN}", f"local/{CODER}", f"local/{LARGER}"]
    assert served.http.get(f"/v1/models/local/{CODER}").json()["owned_by"] == "device"
    tags = {each["name"]: each for each in served.http.get("/api/tags").json()["models"]}
    coder = tags[f"local/{CODER}:latest"]
    assert coder["size"] == 10
    assert coder["details"]["parameter_size"] == "0.5B"
    assert coder["details"]["quantization_level"] == "Q4_K_M"


@pytest.mark.parametrize("name", [CODER, f"local/{CODER}"])
def test_a_pulled_model_is_loaded_on_demand_by_every_api(served: Served, name: str) -> None:
    answer = served.chat(model=name).json()
    assert answer["choices"][0]["message"]["content"] == f"I am {CODER}."
    assert answer["model"] == f"local/{CODER}"
    assert answer["edgewise"]["confidence_verified"] is True, "its own calibration ships"
    message = served.anthropic().messages.create(model=name, max_tokens=20, messages=HELLO)
    assert message.content[0].text == f"I am {CODER}."
    ollama = {"model": f"{name}:latest", "messages": HELLO, "stream": False}
    said = served.http.post("/api/chat", json=ollama).json()
    assert said["message"]["content"] == f"I am {CODER}."
    assert served.chat().json()["model"] == f"local/{OWN}", "the server's own is still there"


def test_a_name_keeps_the_policy_and_local_keeps_it_here(served: Served) -> None:
    named = served.chat(model=CODER).json()["edgewise"]["decision"]
    kept = served.chat(model=f"local/{CODER}").json()["edgewise"]["decision"]
    assert (named["policy"], kept["policy"]) == ("prefer_local", "local_only")


def test_the_least_recently_used_leaves(served: Served) -> None:
    for name in (OWN, CODER, LARGER):
        assert served.chat(model=f"local/{name}").status_code == 200
    loaded = [each["name"] for each in served.http.get("/api/ps").json()["models"]]
    assert loaded == [f"local/{CODER}:latest", f"local/{LARGER}:latest"]
    assert served.chat(model=f"local/{OWN}").json()["model"] == f"local/{OWN}"


def test_a_model_that_cannot_chat_is_a_400(served: Served) -> None:
    for name in ("whisper-tiny.en", "local/whisper-tiny.en"):
        answer = served.chat(model=name)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "model_cannot_chat")
        assert answer.json()["error"]["param"] == "model"


def test_other_names_mean_what_they_meant(served: Served) -> None:
    assert served.chat(model="gpt-4o").json()["model"] == f"local/{OWN}"
    assert served.chat(model="qwen3-0.6b").json()["model"] == f"local/{OWN}", "it is not pulled"
    missing = served.chat(model="local/qwen3-0.6b")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "model_not_found")


def test_a_client_chooses_no_file(served: Served, tmp_path: Path) -> None:
    (tmp_path / "own.gguf").write_bytes(b"GGUF")
    for name in (f"local/{tmp_path}/own.gguf", f"local/../models/{OWN}"):
        assert served.chat(model=name).status_code == 404


def test_a_client_sends_the_server_to_no_other_server(served: Served) -> None:
    """In the library a model may be an address. A client must not make the server call one."""
    with fake_openai(tells=False) as other:
        for name in (other.url, f"{other.url}#m", f"{other.url}/v1"):
            assert served.chat(model=name).json()["model"] == f"local/{OWN}", "as any unknown name"
            assert served.chat(model=f"local/{name}").status_code == 404
        assert served.chat(model="local/ollama:qwen3:4b").status_code == 404
        assert other.asked == []


def test_ollama_loads_a_model_and_shows_it(served: Served) -> None:
    name = f"local/{LARGER}:latest"
    assert served.http.post("/api/generate", json={"model": name}).status_code == 200
    loaded = [each["name"] for each in served.http.get("/api/ps").json()["models"]]
    assert name in loaded
    shown = served.http.post("/api/show", json={"model": name}).json()
    assert shown["model_info"]["edgewise.context_length"] == 4096
    assert shown["details"]["parameter_size"] == "1.5B"


def test_tokens_are_counted_as_the_named_model_reads_them(served: Served) -> None:
    body = {"model": CODER, "messages": HELLO}
    counted = served.http.post("/v1/messages/count_tokens", json=body).json()
    assert counted["edgewise"] == {"model": f"local/{CODER}", "estimated": False}


@pytest.mark.real_model
def test_two_real_models_take_turns_in_the_memory_of_one(
    default_model: InstalledModel, tmp_path: Path
) -> None:
    root = tmp_path / "cache" / "models"
    for name in (default_model.name, "a-second-one"):
        folder = root / name
        shutil.copytree(default_model.path.parent, folder)
        manifest = read_manifest(folder)
        assert manifest is not None
        write_manifest(folder, replace(manifest, name=name))
    settings = Settings.load(
        {"EDGEWISE_CACHE_DIR": str(root.parent), "EDGEWISE_THREADS": "1"},
        data_dir=tmp_path,
        config_dir=tmp_path / "config",
        model=default_model.name,
        model_memory_bytes=400_000_000,
        server={"port": 0, "slots": 1, "drain_s": 2.0},
    )
    states: list[ServerState] = []
    with running(settings, states.append) as url:
        served = Served(url, states[0])
        said: dict[str, tuple[str, bool]] = {}
        for name in (default_model.name, "a-second-one", default_model.name):
            answer = served.chat(model=f"local/{name}", max_tokens=12).json()
            assert answer["model"] == f"local/{name}"
            verified = answer["edgewise"]["confidence_verified"]
            said[name] = answer["choices"][0]["message"]["content"], verified
            assert states[0].engine.parts.models.loaded == (name,), "the other has left"
        served.http.close()
    (first, sure), (second, unsure) = said.values()
    assert first and second
    assert (sure, unsure) == (True, False), "nobody has calibrated the second"
