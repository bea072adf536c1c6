"""The server with the model users get: slots, a schema, evidence, and leaving in mid-answer."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

from edgewise.local.store import InstalledModel
from edgewise.server.serve import running
from edgewise.server.state import ServerState
from edgewise.settings import Settings
from edgewise.speech.words import word_errors
from tests.conftest import MODELS_DIR
from tests.recordings import BECKETT_WORDS, sound_of
from tests.server.conftest import Serving
from tests.server.served import Served, wait_until
from tests.server.test_disconnects import post

pytestmark = pytest.mark.real_model
PRIVATE = {"x-edgewise-privacy": "private"}


@pytest.fixture
def served(default_model: InstalledModel, tmp_path: Path) -> Iterator[Served]:
    settings = Settings.load(
        {"EDGEWISE_CACHE_DIR": str(default_model.path.parents[2]), "EDGEWISE_THREADS": "1"},
        data_dir=tmp_path,
        server={"port": 0, "slots": 2, "drain_s": 2.0},
    )
    states: list[ServerState] = []
    with running(settings, states.append) as url:
        served = Served(url, states[0])
        assert states[0].trouble == ""
        yield served
        served.http.close()
        served.closing.close()


def test_the_count_of_tokens_is_what_an_answer_then_reads(served: Served) -> None:
    asked: Any = {
        "model": "local",
        "system": "Be short.",
        "messages": [{"role": "user", "content": "Grüß Gott! What is gold?"}],
    }
    messages = served.anthropic().messages
    answer = messages.create(max_tokens=2, **asked)
    assert messages.count_tokens(**asked).input_tokens == answer.usage.input_tokens > 10


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

    fair_queue = served.state.engine.parts.fair_queues[served.state.local_model]
    story = [{"role": "user", "content": "Tell me a very long story."}]
    connection = post(served, model="local", stream=True, max_tokens=1500, messages=story)
    wait_until(lambda: fair_queue.busy == 1)
    connection.close()
    wait_until(lambda: fair_queue.busy == 0)
    wait_until(lambda: not any(each.name == "edgewise-decoder" for each in threading.enumerate()))


def test_no_request_leads_the_runtime_into_a_dead_end(served: Served) -> None:
    """Each of these once ended the process: a grammar that no text fulfils is no error there."""
    odd = "\U0004a000"  # of the planes that Unicode left empty; the vocabulary cannot spell it
    schemas = [
        {"type": "integer", "minimum": 5, "maximum": 3},
        {"type": "string", "minLength": 5, "maxLength": 2},
    ]
    for schema in schemas:
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        answer = served.chat(model="local", response_format=form, max_tokens=8)
        assert answer.status_code == 400, answer.text
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": [odd]}}}
    spelt = served.chat(model="local", response_format=form, max_tokens=30).json()
    assert json.loads(spelt["choices"][0]["message"]["content"]) == odd
    tool = {"type": "function", "function": {"name": f"D{odd}]"}}
    assert served.chat(model="local", tools=[tool]).status_code == 400
    assert served.chat(model="local", max_tokens=4).status_code == 200


@pytest.fixture
def hearing(serving: Serving) -> Served:
    if not (MODELS_DIR / "whisper-tiny.en").is_dir():
        pytest.skip("run `edgewise pull whisper-tiny.en` first")
    settings = {"cache_dir": MODELS_DIR.parent, "threads": 1, "fetch_default_model": False}
    return serving(settings=settings)  # its transcriber is the model that users get


def test_a_person_is_heard_over_the_network_and_spelt_as_the_prompt_says(
    hearing: Served, beckett: Path
) -> None:
    hear = hearing.openai().audio.transcriptions.create
    file = (beckett.name, beckett.read_bytes())
    plain = hear(model="local", file=file)
    assert plain.edgewise["source"] == "local" and plain.edgewise["model"] == "whisper-tiny.en"
    assert word_errors(BECKETT_WORDS, plain.text).rate <= 0.2
    assert "Phail" not in plain.text
    told = hear(model="local", file=file, prompt="Mr. Phail fails. Phail again. Phail better.")
    assert "Phail again" in told.text


def test_a_person_is_captioned_live_over_the_network(hearing: Served, beckett: Path) -> None:
    sound = (sound_of(beckett) * 32767).astype("<i2").tobytes()
    url = hearing.url.replace("http", "ws", 1) + "/v1/realtime?intent=transcription"
    form = {"audio": {"input": {"format": {"type": "audio/pcm", "rate": 16000}}}}
    with connect(url) as socket:
        socket.send(json.dumps({"type": "session.update", "session": form}))
        for start in range(0, len(sound), 16_000):  # half a second
            piece = base64.b64encode(sound[start : start + 16_000]).decode()
            socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": piece}))
        socket.send(json.dumps({"type": "input_audio_buffer.commit"}))
        events = [json.loads(socket.recv(120))]
        while events[-1]["type"] != "edgewise.session.finished":
            assert events[-1]["type"] != "error", events[-1]
            events.append(json.loads(socket.recv(120)))
    kinds = [each["type"] for each in events]
    assert kinds.count("input_audio_buffer.speech_started") == kinds.count(
        "input_audio_buffer.speech_stopped"
    )
    assert word_errors(BECKETT_WORDS, events[-1]["text"]).rate <= 0.3
    assert events[-1]["edgewise"]["source"] == "local"


def test_a_client_cannot_find_out_by_guessing_what_another_one_asked(served: Served) -> None:
    secret: Any = [{"role": "user", "content": "My diagnosis is a rare one: tell nobody. " * 6}]

    def cached(key: str) -> int:
        made = served.openai(key).chat.completions.create(
            model="local", messages=secret, max_tokens=1, extra_headers=PRIVATE
        )
        return int(made.edgewise["attempts"][0]["cached_tokens"])

    assert cached("alice") == 0
    assert cached("mallory") == 0
    assert cached("alice") > 40
