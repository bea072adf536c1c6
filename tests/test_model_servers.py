"""A running server as the device of an engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewise import Engine, Settings
from edgewise.calibrations import calibration_of, model_key
from edgewise.decide.calibration import CHAT
from edgewise.errors import ModelNotFound, SettingsError
from edgewise.local.backend import DeviceFacts
from edgewise.local.store import InstalledModel
from edgewise.parts import Address, address_of, open_server
from edgewise.testing import Answer, LoopbackCloud
from tests.local.fake_servers import fake_ollama, fake_openai
from tests.local.served_llama import serve_llama

GOLD = "What is the chemical symbol for gold?"


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("http://127.0.0.1:8080", Address("http://127.0.0.1:8080")),
        ("http://localhost:1234/v1/", Address("http://localhost:1234")),
        ("http://127.0.0.1:8000#qwen/qwen3", Address("http://127.0.0.1:8000", "qwen/qwen3")),
        ("ollama:qwen3:4b", Address("http://127.0.0.1:11434", "qwen3:4b", "ollama")),
        ("llama-server:", Address("http://127.0.0.1:8080", "", "llama-server")),
        ("tiny", None),
        ("qwen2.5-coder-1.5b-instruct", None),
        ("/models/ollama:x.gguf", None),
    ],
)
def test_a_model_s_name_may_be_an_address(name: str, address: Address | None) -> None:
    assert address_of(name) == address


def test_another_machine_is_the_device_only_if_the_user_says_so() -> None:
    address = Address("http://192.0.2.7:8080")
    with pytest.raises(SettingsError, match=r"device_hosts = \['192\.0\.2\.7'\]"):
        open_server(Settings.load(), address)
    with fake_ollama() as server:
        named = server.url.replace("127.0.0.1", "localhost")
        assert open_server(Settings.load(), Address(named, "qwen3:4b")).facts().evidence


@pytest.mark.real_model
def test_llama_server_answers_behind_the_gate(default_model: InstalledModel) -> None:
    server = serve_llama(default_model, context_tokens=512)
    try:
        with Engine(Settings.load(model=server.url)) as engine:
            reply = engine.complete(GOLD, max_tokens=24)
    finally:
        server.close()
    assert reply.source == "local" and reply.confidence is not None
    assert not reply.confidence_verified, "nobody has calibrated this engine"
    assert reply.attempts[0].backend == "llama-server"


def test_an_answer_without_evidence_is_kept_and_called_unjudged() -> None:
    with fake_openai(tells=False) as server, Engine(Settings.load(model=server.url)) as engine:
        reply = engine.complete(GOLD)
        assert (reply.text, reply.source) == ("The symbol is Au.", "local")
        assert (reply.confidence, reply.decision.code) == (None, "kept_unjudged")
        assert not reply.confidence_verified and not reply.degraded


def test_a_single_request_may_name_a_server() -> None:
    with fake_openai(tells=False) as server, Engine(Settings.load()) as engine:
        reply = engine.complete(GOLD, model=server.url)
        assert (reply.text, reply.source) == ("The symbol is Au.", "local")
        with pytest.raises(SettingsError, match="another machine"):
            engine.complete(GOLD, model="http://192.0.2.7:8080")


def test_a_stated_risk_cannot_be_kept_without_evidence_so_the_cloud_is_asked() -> None:
    with LoopbackCloud() as cloud, fake_openai(tells=False) as server:
        cloud.always(Answer(text="Au."))
        settings = Settings.load(model=server.url).with_changes(
            chain=("own/any",), providers={"own": {"base_url": cloud.openai_url, "model": "any"}}
        )
        with Engine(settings) as engine:
            assert engine.complete(GOLD).source == "local"
            assert engine.complete(GOLD, max_error=0.1).source == "cloud"
            assert engine.complete(GOLD, policy="prefer_cloud").source == "cloud"


def test_calls_need_a_server_that_takes_our_grammars() -> None:
    with fake_openai(tells=True) as server, pytest.raises(ModelNotFound, match="llama-server can"):
        open_server(Settings.load(), Address(server.url), calls=True)


def test_a_calibration_belongs_to_a_runtime_too() -> None:
    facts = DeviceFacts(backend="llama_cpp", model="M", quantisation="Q8_0", context_tokens=1)
    assert model_key(facts) == "m-q8_0"
    other = DeviceFacts(backend="ollama", model="M", quantisation="Q8_0", context_tokens=1)
    assert model_key(other) == "m-q8_0@ollama"


@pytest.mark.real_model
def test_a_server_that_has_our_very_file_borrows_its_calibration(
    default_model: InstalledModel, tmp_path: Path
) -> None:
    settings = Settings.load()
    key = f"{default_model.name}-q8_0"
    served = serve_llama(default_model)
    try:
        server = open_server(settings, Address(served.url))
        assert server.facts().same_bits_as == key
        found = calibration_of(settings, server.facts(), CHAT)
        assert found.name == f"{key}:borrowed"
        elsewhere = settings.with_changes(cache_dir=str(tmp_path))
        assert open_server(elsewhere, Address(served.url)).facts().same_bits_as == ""
    finally:
        served.close()
