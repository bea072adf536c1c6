"""`edgewise bench memory`: the worst request that each endpoint takes, and the memory it costs.

Each is sent to a fresh server whose model has answered once. What is past a limit is refused: then
the figure is what the refusal cost.
"""

from __future__ import annotations

import base64
import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise.server.embeddings import MOST_CHARACTERS, MOST_TEXTS
from edgewise.settings import ServerSettings, Settings
from edgewise.tasks import MOST_SPOKEN
from edgewise.testing import LoopbackCloud
from edgewise.types.messages import MOST_QUESTIONS, MOST_TURNS
from edgewise_bench.campaigns.attacks import CHAT, TRANSCRIBE, Answer, Target
from edgewise_bench.campaigns.hostile import MOST_MB, peak_limit_mb
from edgewise_bench.campaigns.raw_websocket import event, handshake, sound
from edgewise_bench.campaigns.uploads import form, png, silent_flac
from edgewise_bench.campaigns.watch import MemoryWatch
from edgewise_bench.processes import Process, our_server
from edgewise_bench.speech.made_voice import silence, voice, wav

PATIENCE_S = 120.0
AFTER_S = 3.0  # until what stays is measured
TARGETS: dict[str, tuple[str, float]] = {
    "peak_mb": ("<=", round(peak_limit_mb(ServerSettings(), clients=1)))
}
_HELLO = {"role": "user", "content": "Hello?"}
_WORDS = "the quick brown fox jumps over the lazy dog "


@dataclass(frozen=True, slots=True)
class Worst:
    """A request as large as an endpoint takes it."""

    name: str  # of its metrics
    says: str  # in the table
    send: Callable[[Target], Answer]


def worst_requests(body_bytes: int) -> list[Worst]:
    """One or more for every endpoint, made when they are sent; `body_bytes` is the limit."""
    room = body_bytes - 20_000

    def text() -> str:
        return "word " * (room // 5)

    def half() -> str:
        return text()[: room // 2]

    def messages() -> dict[str, Any]:
        count = min(MOST_TURNS, room // len(json.dumps(_HELLO) + ", "))
        return {"model": "local", "messages": [_HELLO] * count, "max_tokens": 4}

    def texts() -> list[str]:
        return [_WORDS * (MOST_CHARACTERS // len(_WORDS) // MOST_TEXTS)] * MOST_TEXTS

    def post(path: str, make: Callable[[], dict[str, Any]]) -> Callable[[Target], Answer]:
        return lambda target: target.post(path, make(), patience_s=PATIENCE_S)

    chat, embeddings = "`/v1/chat/completions`", "`/v1/embeddings`"
    speech = "`/v1/audio/transcriptions`"
    return [
        Worst("chat_text", f"{chat}, one long text", post(CHAT, lambda: _asked(text()))),
        Worst("chat_messages", f"{chat}, many messages", post(CHAT, messages)),
        Worst("chat_schema_choices", f"{chat}, a schema of 1,000 choices", post(CHAT, _choices)),
        Worst("chat_schema_patterns", f"{chat}, a schema of patterns", post(CHAT, _patterns)),
        Worst("chat_tools", f"{chat}, 128 tools", post(CHAT, _tools)),
        Worst("chat_picture", f"{chat}, a picture of 50 million pixels", post(CHAT, _seen)),
        Worst(
            "chat_pictures",
            f"{chat}, four such pictures",
            post(CHAT, lambda: _seen(4)),
        ),
        Worst(
            "responses",
            "`/v1/responses`",
            post("/v1/responses", lambda: {"model": "local", "input": text()}),
        ),
        Worst(
            "feedback",
            "`/edgewise/feedback`",
            post("/edgewise/feedback", lambda: {"id": text(), "right": True}),
        ),
        Worst(
            "gemini",
            "`/v1beta/models/{model:path}`",
            post(
                "/v1beta/models/local:generateContent",
                lambda: {"contents": [{"role": "user", "parts": [{"text": text()}]}]},
            ),
        ),
        Worst(
            "models",
            "`/edgewise/models`",
            post("/edgewise/models", lambda: {"model": text(), "action": "load"}),
        ),
        Worst(
            "systemone",
            "`/v1/systemone`, 400 questions",
            post("/v1/systemone", lambda: {"state": half(), "questions": _questions()}),
        ),
        Worst(
            "decisions",
            "`/v1/decisions`, the same in OpenAI's form",
            post("/v1/decisions", lambda: {"state": half(), "questions": _questions()}),
        ),
        Worst("messages", "`/v1/messages`", post("/v1/messages", lambda: _asked(text()))),
        Worst(
            "count_tokens",
            "`/v1/messages/count_tokens`",
            post("/v1/messages/count_tokens", lambda: _asked(text())),
        ),
        Worst("ollama_chat", "`/api/chat`", post("/api/chat", lambda: _asked(text()))),
        Worst(
            "embeddings_one",
            f"{embeddings}, one long text",
            post("/v1/embeddings", lambda: {"model": "local", "input": text()[:MOST_CHARACTERS]}),
        ),
        Worst(
            "embeddings_many",
            f"{embeddings}, 2,048 texts",
            post("/v1/embeddings", lambda: {"model": "local", "input": texts()}),
        ),
        Worst("sound", f"{speech}, ten minutes of speech", _upload(_speech)),
        Worst("sound_hour", f"{speech}, almost an hour of silence in 12 kB", _upload(_hour)),
        Worst("sound_days", f"{speech}, 100 hours in 1.3 MB", _upload(_days)),
        Worst(
            "translations",
            "`/v1/audio/translations`, ten minutes of speech",
            _upload(_speech, "/v1/audio/translations"),
        ),
        Worst(
            "voice",
            "`/v1/audio/speech`, one long text",
            post(
                "/v1/audio/speech",
                lambda: {"model": "local", "voice": "alloy", "input": text()[:MOST_SPOKEN]},
            ),
        ),
        Worst("realtime", "`/v1/realtime`, three messages of 4 MB", _talk),
    ]


def measure_memory(
    settings: Settings,
    only: tuple[str, ...],
    options: tuple[str, ...] = (),
    progress: Callable[[], None] = lambda: None,
) -> dict[str, float]:
    """Peaks of those that are asked for. `settings.data_dir` gets a ledger for each.

    Ctrl-C ends it early, with the figures so far.
    """
    limit_mb = peak_limit_mb(settings.server, clients=1)
    found: dict[str, float] = {"peak_mb": 0.0, "peak_limit_mb": limit_mb}
    with contextlib.suppress(KeyboardInterrupt):
        for worst in worst_requests(settings.server.body_bytes):
            if worst.name in only:
                found |= _measured_alone(worst, settings, options)
                found["peak_mb"] = max(found["peak_mb"], found[f"peak_mb_{worst.name}"])
                progress()
    return found


def _measured_alone(worst: Worst, settings: Settings, options: tuple[str, ...]) -> dict[str, float]:
    own = settings.with_changes(data_dir=Path(settings.data_dir) / worst.name)
    own.data_dir.mkdir(parents=True)
    with (
        LoopbackCloud() as cloud,
        our_server(own, cloud.url, "--port", "0", *options) as server,
    ):
        return _measure(worst, server)


def _measure(worst: Worst, server: Process) -> dict[str, float]:
    target = Target.at(server.url)
    good = {"model": "local", "max_tokens": 2, "messages": [_HELLO]}
    target.post(CHAT, good)
    before = server.resident_mb()
    watch = MemoryWatch(server, MOST_MB, every_s=0.02)
    started = time.perf_counter()
    answer = worst.send(target)
    seconds = time.perf_counter() - started
    time.sleep(AFTER_S)
    kept = server.resident_mb()
    return {
        f"idle_mb_{worst.name}": before,
        f"peak_mb_{worst.name}": watch.stop(),
        f"kept_mb_{worst.name}": kept,
        f"status_{worst.name}": answer.status,
        f"seconds_{worst.name}": seconds,
    }


def _asked(content: Any, **more: Any) -> dict[str, Any]:
    message = {"role": "user", "content": content}
    return {"model": "local", "max_tokens": 4, "messages": [message], "stream": False, **more}


def _questions() -> dict[str, Any]:
    """As many as a request may ask, each a choice with as many options as fit beside a text."""
    options = {f"option {number}": None for number in range(20)}
    asked = {"type": "choice", "instructions": "Which one?", "criteria": options}
    return {f"question {number}": asked for number in range(MOST_QUESTIONS)}


def _held(schema: Any) -> dict[str, Any]:
    form_of = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    return _asked("Answer as JSON.", response_format=form_of)


def _choices() -> dict[str, Any]:
    return _held({"enum": [f"{number:03d}" + "v" * 95 for number in range(1_000)]})


def _patterns() -> dict[str, Any]:
    pattern = {"type": "string", "pattern": "^[ab]{1,90}$"}
    inner = {f"p{number}": pattern for number in range(10)}
    return _held({"type": "object", "properties": inner, "required": list(inner)})


def _tools() -> dict[str, Any]:
    fields = {f"field_{each}": {"type": "string", "description": _WORDS} for each in range(20)}
    parameters = {"type": "object", "properties": fields, "required": list(fields)}
    offered = [
        {
            "type": "function",
            "function": {"name": f"tool_{number}", "description": _WORDS, "parameters": parameters},
        }
        for number in range(128)
    ]
    return _asked("Do it.", tools=offered, tool_choice="required")


def _seen(count: int = 1) -> dict[str, Any]:
    url = f"data:image/png;base64,{base64.b64encode(png(7_071, 7_071)).decode()}"
    parts: list[dict[str, Any]] = [{"type": "text", "text": "What does it say?"}]
    return _asked([*parts, *[{"type": "image_url", "image_url": {"url": url}}] * count])


def _upload(make: Callable[[], bytes], path: str = TRANSCRIBE) -> Callable[[Target], Answer]:
    def send(target: Target) -> Answer:
        kind, body = form({"model": "local"}, ("x.wav", make(), "audio/wav"))
        return target.post(path, body, kind=kind, patience_s=PATIENCE_S)

    return send


def _speech() -> bytes:
    """Nearly as much as a body may hold."""
    return wav(*([voice(9.0), silence(1.0)] * 60))


def _hour() -> bytes:
    return silent_flac(3_590)


def _days() -> bytes:
    return silent_flac(360_000)


def _talk(target: Target) -> Answer:
    with contextlib.suppress(OSError), target.raw(PATIENCE_S) as connection:
        connection.sendall(handshake())
        connection.recv(65_536)
        for _ in range(3):
            connection.sendall(sound(60))
        connection.sendall(event("input_audio_buffer.commit"))
        until = time.monotonic() + PATIENCE_S / 4
        while time.monotonic() < until and (told := connection.recv(65_536)):
            if b"session.finished" in told:
                break
    return Answer(101)
