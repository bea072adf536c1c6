"""One hostile request at a time: a family, a name, and a function that sends it.

Request number N of seed S is always the same one: `edgewise bench hostile --seed S --first N
--rounds 1` sends it alone.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import random
import re
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from edgewise_bench.campaigns import pressure
from edgewise_bench.campaigns.bodies import GOOD, MALFORMED, MORE_GOOD, bent_body, large_body
from edgewise_bench.campaigns.raw_http import raw_bytes
from edgewise_bench.campaigns.raw_websocket import talk
from edgewise_bench.campaigns.schemas import hostile_schema
from edgewise_bench.campaigns.uploads import (
    broken_form,
    form,
    hostile_pictures,
    hostile_sound,
    tone,
    wav,
)
from edgewise_bench.campaigns.watch import MARK

CHAT, TRANSCRIBE = "/v1/chat/completions", "/v1/audio/transcriptions"
ANSWER_S = 120.0  # to answer one request, others running beside it
RAW_S = 20.0  # for what a bare connection is told
FOREIGN = "foreign"  # the code of an exception that is not ours
RESET = struct.pack("ii", 1, 0)  # linger for no time: the other side sees a reset
_ID = re.compile(rb'"edgewise":\s*\{"id":\s*"([0-9a-f]{32})"')
_CODE = re.compile(rb'"code":\s*"([a-z_]+)"')


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: 0 is no status at all. `late` if the sender's patience ended first."""

    status: int = 0
    code: str = ""
    ids: tuple[str, ...] = ()
    late: bool = False
    words: str = ""  # what is wrong, where that is no status


@dataclass(frozen=True, slots=True)
class Privacy:
    """Says in one of several ways that a request must not leave, and marks its text."""

    marker: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def drawn(cls, rng: random.Random) -> Privacy:
        marker = f"{MARK}{rng.getrandbits(64):016x}"
        said: list[tuple[Mapping[str, str], Mapping[str, str]]] = [
            ({"x-edgewise-privacy": "private"}, {}),
            ({}, {"privacy": "private"}),
            ({}, {"edgewise_privacy": "private"}),
            ({}, {"privacy": "private", "edgewise_privacy": "open"}),
            ({"x-edgewise-privacy": "open"}, {"privacy": "private"}),
            ({"x-edgewise-privacy": "private"}, {"privacy": "open"}),
            ({"x-edgewise-private": "true"}, {}),
            ({"x-edgewise-privacy": "PRIVATE"}, {}),
        ]
        return cls(marker, *rng.choice(said))

    @classmethod
    def strict(cls, rng: random.Random) -> Privacy:
        """In the header: for requests whose body is bent, or has no place for it."""
        marker = f"{MARK}{rng.getrandbits(64):016x}"
        return cls(marker, {"x-edgewise-privacy": "private"}, {})


OPEN = Privacy()


@dataclass(frozen=True, slots=True)
class Target:
    host: str
    port: int
    pid: int = 0

    @classmethod
    def at(cls, url: str, pid: int = 0) -> Target:
        parts = urlsplit(url)
        return cls(parts.hostname or "", parts.port or 80, pid)

    def post(
        self,
        path: str,
        body: Any,
        headers: Mapping[str, str] | None = None,
        kind: str = "application/json",
        patience_s: float = ANSWER_S,
    ) -> Answer:
        """A whole request and its whole answer; a body that is no bytes is sent as JSON."""
        content = body if isinstance(body, bytes) else _json(body)
        connection = http.client.HTTPConnection(self.host, self.port, timeout=patience_s)
        try:
            connection.request("POST", path, content, {"content-type": kind, **(headers or {})})
            response = connection.getresponse()
            named = response.getheader("x-edgewise-id")
            return _answer(response.status, response.read(), named)
        except TimeoutError:
            return Answer(late=True)
        except (OSError, http.client.HTTPException):  # refused or cut: the caller looks why
            return Answer()
        finally:
            connection.close()

    def raw(self, patience_s: float = RAW_S) -> socket.socket:
        return socket.create_connection((self.host, self.port), timeout=patience_s)


def _answer(status: int, content: bytes, named: str | None = None) -> Answer:
    ids = {each.decode() for each in _ID.findall(content)} | ({named} if named else set())
    code = _CODE.search(content)
    return Answer(status, code[1].decode() if code else "", tuple(sorted(ids)))


def _json(body: Any) -> bytes:
    # Half a surrogate pair goes out as an escape, as JavaScript sends it.
    return json.dumps(body).encode("utf-8", "replace")


Send = Callable[[Target], Answer]
Named = tuple[str, Send]


def _asked(privacy: Privacy, words: str = "Answer as JSON.") -> list[dict[str, Any]]:
    return [{"role": "user", "content": f"{words} {privacy.marker}".strip()}]


def _model(rng: random.Random, privacy: Privacy) -> str:
    if privacy.marker:
        return rng.choice(["auto", "auto", "local", "cloud", "gpt-5"])
    return rng.choices(["local", "auto"], [5, 1])[0]


def schemas(rng: random.Random, privacy: Privacy) -> Named:
    kind, schema = hostile_schema(rng)
    model, tokens = _model(rng, privacy), rng.choice([2, 8, 16])
    heat, streams = rng.choice([0, 1.5]), rng.random() < 0.15
    asked = _asked(privacy)
    chat = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    bodies: dict[str, dict[str, Any]] = {
        CHAT: {"messages": asked, "max_tokens": tokens, "response_format": chat},
        "/v1/responses": {
            "input": asked,
            "max_output_tokens": tokens,
            "text": {"format": {"type": "json_schema", "name": "x", "schema": schema}},
        },
        "/api/chat": {"messages": asked, "options": {"num_predict": tokens}, "format": schema},
    }
    path = rng.choices(list(bodies), [8, 1, 1])[0]
    body = bodies[path] | {"model": model, "temperature": heat, "stream": streams}
    body["metadata"] = dict(privacy.metadata)
    return f"{kind} at {path}", lambda target: target.post(path, body, privacy.headers)


def tools(rng: random.Random, privacy: Privacy) -> Named:
    made = [hostile_schema(rng) for _ in range(rng.choice([1, 1, 2, 5]))]
    offered = [
        {"type": "function", "function": {"name": f"do_{number}", "parameters": schema}}
        for number, (_, schema) in enumerate(made)
    ]
    body = {
        "model": _model(rng, privacy),
        "messages": _asked(privacy, "Do it now, please, do it with x."),
        "tools": offered,
        "tool_choice": rng.choice(["auto", "required", "none"]),
        "max_tokens": 16,
        "metadata": dict(privacy.metadata),
    }
    name = " and ".join(kind for kind, _ in made)
    return name, lambda target: target.post(CHAT, body, privacy.headers)


def fields(rng: random.Random, privacy: Privacy) -> Named:
    path, body = bent_body(rng)
    if privacy.marker:
        privacy = Privacy.strict(rng)
        place = "messages" if "messages" in GOOD.get(path, MORE_GOOD.get(path, {})) else "input"
        body[place] = _asked(privacy) if place == "messages" else privacy.marker
    return path, lambda target: target.post(path, body, privacy.headers)


def large(rng: random.Random, privacy: Privacy) -> Named:
    name, body = large_body(rng)
    path = rng.choice([CHAT, CHAT, "/v1/responses", "/api/chat", "/v1/messages/count_tokens"])
    headers = {"x-edgewise-privacy": "private"} if privacy.marker else {}
    return f"{name} at {path}", lambda target: target.post(path, body, headers)


def malformed(rng: random.Random, privacy: Privacy) -> Named:
    name = rng.choice(list(MALFORMED))
    path = rng.choice([*GOOD, *MORE_GOOD, TRANSCRIBE])
    return f"{name} at {path}", lambda target: target.post(path, MALFORMED[name], privacy.headers)


def raw_http(rng: random.Random, privacy: Privacy) -> Named:
    case = raw_bytes(rng)

    def send(target: Target) -> Answer:
        with contextlib.suppress(OSError), target.raw() as connection:
            if case.way == "dribble":
                for byte in case.data[:12]:
                    connection.sendall(bytes([byte]))
                    time.sleep(0.05)
                return Answer()
            connection.sendall(case.data)
            if case.way == "leave":
                return Answer()
            if case.way == "reset":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                return Answer()
            if case.way == "half close":
                connection.shutdown(socket.SHUT_WR)
            return _first(connection)
        return Answer()

    return f"{case.name}, {case.way}", send


def _first(connection: socket.socket) -> Answer:
    """What a bare connection is told, as far as it comes in one go."""
    with contextlib.suppress(TimeoutError):
        told = connection.recv(65_536)
        if told.startswith(b"HTTP/1.1 ") and told[9:12].isdigit():
            return _answer(int(told[9:12]), told)
    return Answer()


def websocket(rng: random.Random, privacy: Privacy) -> Named:
    headers = ["x-edgewise-privacy: private"] if privacy.marker else []
    said = talk(rng, *headers)

    def send(target: Target) -> Answer:
        heard = b""
        with contextlib.suppress(OSError), target.raw() as connection:
            connection.sendall(said.hello)
            heard = connection.recv(65_536)
            connection.sendall(said.said)
            until = time.monotonic() + said.stay_s
            while (left := until - time.monotonic()) > 0:
                connection.settimeout(left)
                if not (part := connection.recv(65_536)):
                    break
                heard += part
        status = int(heard[9:12]) if heard[9:12].isdigit() else 0
        return _answer(status, heard)

    return said.name, send


def sound(rng: random.Random, privacy: Privacy) -> Named:
    if rng.random() < 0.3:
        name, kind, body = broken_form(rng)
        send: Send = lambda target: target.post(TRANSCRIBE, body, privacy.headers, kind)  # noqa: E731
        return f"a form: {name}", send
    name, data, file_name, file_kind = hostile_sound(rng)
    said = {"model": rng.choice(["local", "auto"]), "prompt": privacy.marker}
    said |= {f"metadata[{key}]": value for key, value in privacy.metadata.items()}
    said |= rng.choice([{}, {"stream": "true"}, {"response_format": "verbose_json"}])
    kind, body = form(said, (file_name, data, file_kind))
    return name, lambda target: target.post(TRANSCRIBE, body, privacy.headers, kind)


def pictures(rng: random.Random, privacy: Privacy) -> Named:
    name, files = hostile_pictures(rng)
    kind = rng.choice(["image/png", "image/jpeg", "image/gif", "image/webp"])
    coded = [base64.b64encode(data).decode() for data in files]
    words = rng.choice(["What does it say?", "What objects are there?", "Describe it."])
    text = f"{words} {privacy.marker}"
    path = rng.choice([CHAT, "/v1/messages", "/api/chat"])
    parts: list[dict[str, Any]] = [{"type": "text", "text": text}]
    if path == "/api/chat":
        message: dict[str, Any] = {"role": "user", "content": text, "images": coded}
    elif path == CHAT:
        parts += [
            {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{each}"}}
            for each in coded
        ]
        message = {"role": "user", "content": parts}
    else:
        parts += [
            {"type": "image", "source": {"type": "base64", "media_type": kind, "data": each}}
            for each in coded
        ]
        message = {"role": "user", "content": parts}
    body = {"model": _model(rng, privacy), "messages": [message], "max_tokens": 8}
    body |= {"stream": False, "metadata": dict(privacy.metadata)}
    return f"{name} at {path}", lambda target: target.post(path, body, privacy.headers)


def embeddings(rng: random.Random, privacy: Privacy) -> Named:
    words = "the quick brown fox jumps over the lazy dog "
    texts: dict[str, Any] = {
        "a long text": words * rng.choice([20, 2_000, 20_000]),
        "a very long text": words * 110_000,
        "many texts": [f"{number} a cat sat" for number in range(rng.choice([200, 2_048, 2_049]))],
        "long texts": [words * 400] * 60,
        "one long word": "x" * 2_000_000,
        "strange letters": "\U0001f600\u202e\ufffd\x00é" * 3,
        "a long text of strange letters": "\U0001f600\u202e\ufffd\x00é" * 30_000,
        "nothing": rng.choice(["", [], [""], [[]], None, [None]]),
        "numbers": rng.choice([[1, 2, 3], [[1, 2], [3]], [2**70]]),
    }
    name = rng.choice(list(texts))
    path = rng.choice(["/v1/embeddings", "/v1/embeddings", "/api/embed"])
    body: dict[str, Any] = {"model": rng.choice(["local", "auto"]), "input": texts[name]}
    if privacy.marker and isinstance(texts[name], str):
        body["input"] = f"{privacy.marker} {texts[name]}"
    body["metadata"] = dict(privacy.metadata)
    # Its sender has no patience: the work must end with it.
    patience_s = rng.choice([0.2, 1.0, 3.0]) if "long" in name else ANSWER_S

    def send(target: Target) -> Answer:
        answer = target.post(path, body, privacy.headers, patience_s=patience_s)
        return Answer() if answer.late and patience_s < ANSWER_S else answer

    return f"{name} at {path}", send


def leaving(rng: random.Random, privacy: Privacy) -> Named:
    """A good request whose sender does not wait for the answer."""
    path = rng.choice([CHAT, CHAT, "/v1/messages", "/v1/responses", "/api/generate", TRANSCRIBE])
    stay_s = rng.choice([0.0, 0.01, 0.1, 0.5])
    streams, resets, half = rng.random() < 0.5, rng.random() < 0.5, rng.random() < 0.2
    kind, content = "application/json", b""
    if path == TRANSCRIBE:
        kind, content = form({"model": "local"}, ("x.wav", wav(tone(3)), "audio/wav"))
    else:
        asked = _asked(privacy, f"Tell me story number {rng.randrange(10**6)}.")
        body: dict[str, Any] = {"model": _model(rng, privacy), "stream": streams}
        body |= {"input": asked, "messages": asked, "prompt": asked[0]["content"]}
        body |= {"max_tokens": 60, "metadata": dict(privacy.metadata)}
        content = _json(body)
    lines = [f"POST {path} HTTP/1.1", "host: localhost", f"content-type: {kind}"]
    lines += [f"content-length: {len(content)}", *(f"{k}: {v}" for k, v in privacy.headers.items())]
    sent = "\r\n".join(lines).encode() + b"\r\n\r\n" + content

    def send(target: Target) -> Answer:
        with contextlib.suppress(OSError), target.raw() as connection:
            connection.sendall(sent[: len(sent) * 9 // 10] if half else sent)
            time.sleep(stay_s)
            if resets:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        return Answer()

    return f"{path} after {stay_s:g} s", send


def places(rng: random.Random, _: Privacy) -> Named:
    name, take = pressure.places(rng)

    def send(target: Target) -> Answer:
        take(target.host, target.port)
        return Answer()

    return name, send


def slow(rng: random.Random, privacy: Privacy) -> Named:
    asked = _asked(privacy, f"Tell me story number {rng.randrange(10**6)}.")
    body = {"model": "local", "messages": asked, "max_tokens": 60, "stream": True}
    name, read = pressure.slow_reader(rng, _json(body | {"metadata": dict(privacy.metadata)}))

    def send(target: Target) -> Answer:
        read(target.host, target.port)
        return Answer()

    return name, send


def stopped(rng: random.Random, privacy: Privacy) -> Named:
    """A child stands still; then a good request must be answered."""
    seed, asked = rng.getrandbits(32), _asked(privacy, "Hi.")
    body = {"model": "local", "messages": asked, "max_tokens": 2}
    body["metadata"] = dict(privacy.metadata)

    def send(target: Target) -> Answer:
        pressure.stopped_child(random.Random(seed), target.pid)[1]()
        return target.post(CHAT, body, privacy.headers)

    return pressure.stopped_child(random.Random(seed), 0)[0], send


def spellings(rng: random.Random, privacy: Privacy) -> Named:
    """To the cloud, with a card number in it that must not leave."""
    name, card = pressure.spelt(rng)
    where = rng.choice((CHAT, "/v1/responses", "/v1/messages"))
    asked = _asked(privacy, f"Is this right: {card}")
    body: dict[str, Any] = {"model": "cloud", "max_tokens": 16}
    body["metadata"] = dict(privacy.metadata)
    body |= {"input": asked} if where == "/v1/responses" else {"messages": asked}
    headers = {"x-edgewise-redact": "CARD", **privacy.headers}
    return f"{name} at {where}", lambda target: target.post(where, body, headers)


def library(rng: random.Random, _: Privacy) -> Named:
    name, ask = pressure.odd_argument(rng)

    def send(target: Target) -> Answer:
        return Answer(code=FOREIGN, words=wrong) if (wrong := ask()) else Answer()

    return name, send


# Of a hundred requests, how many are of each family.
FAMILIES: dict[str, tuple[int, Callable[[random.Random, Privacy], Named]]] = {
    "schemas": (40, schemas),
    "tools": (5, tools),
    "fields": (10, fields),
    "malformed": (2, malformed),
    "large": (2, large),
    "http": (12, raw_http),
    "websocket": (6, websocket),
    "sound": (4, sound),
    "pictures": (3, pictures),
    "embeddings": (2, embeddings),
    "leaving": (4, leaving),
    "places": (1, places),
    "slow": (2, slow),
    "stopped": (1, stopped),
    "spellings": (3, spellings),
    "library": (3, library),
}


@dataclass(frozen=True, slots=True)
class Attack:
    number: int
    family: str
    name: str
    send: Send


def make_attack(
    seed: int, number: int, families: tuple[str, ...] = tuple(FAMILIES), private: bool = False
) -> Attack:
    """The same one for the same seed, number and families. `private`: it certainly is."""
    rng = random.Random(f"{seed}-{number}")
    family = rng.choices(families, [FAMILIES[each][0] for each in families])[0]
    privacy = Privacy.drawn(rng) if rng.random() < 0.15 else OPEN
    if private:
        privacy = Privacy.strict(rng)
    name, send = FAMILIES[family][1](rng, privacy)
    return Attack(number, family, f"{name}, private" if privacy.marker else name, send)
