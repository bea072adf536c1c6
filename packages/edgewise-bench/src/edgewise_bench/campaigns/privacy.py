"""`edgewise bench privacy`: what is said to be private, at every door, while every byte is watched.

Three rigs of the same parts: engines on our door and on a cloud of the user's own, a tool that
leaves, and a server; each with a loopback cloud that keeps every byte that its sockets read. In the
first rig everything is private, so whatever reaches its cloud is a leak. In the second personal
data is redacted: what its cloud reads is searched. In the third the same is asked and nothing is
private: it must leak, or the other two prove nothing.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import random
import socket
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from typing_extensions import override

from edgewise import AsyncEngine, Conversation, Engine, Image, Settings
from edgewise.cloud.provider import Chunk
from edgewise.errors import CloudClosed, EdgewiseError
from edgewise.server import serve
from edgewise.testing import (
    Answer,
    LoopbackCloud,
    ScriptedBackend,
    ScriptedEmbedder,
    ScriptedFunctionModel,
    ScriptedTranscriber,
    ScriptedVoice,
    Status,
    heard,
)
from edgewise.testing.scripted import SCRIPTED_FACTS, SCRIPTED_TRANSCRIBER_FACTS
from edgewise.types.messages import Message, Request, RunnableTool, Tool, ToolCall
from edgewise.types.replies import Attempt, Finish, Judged, Vectors, Voiced
from edgewise_bench.campaigns.attacks import TRANSCRIBE, Target
from edgewise_bench.campaigns.raw_websocket import event, handshake
from edgewise_bench.campaigns.uploads import form, png
from edgewise_bench.speech.made_voice import silence, voice, wav

TARGETS: dict[str, tuple[str, float]] = {
    "private_bytes_out": ("<=", 0),
    "control_leaks": (">=", 1),
    "doors_without_control": ("<=", 0),
    "things_without_control": ("<=", 0),
}
TRANSLATES = replace(SCRIPTED_TRANSCRIBER_FACTS, translates=True)
DOUBT = "I am not at all sure but perhaps it is over there somewhere"
RATE = 16_000
AUDITED_S = 60.0
ENDED_S = 60.0
KEY, KEPT_KEY = "bench-key-open", "bench-key-kept"
SOUNDS = ("sound", "sound_stream", "second_update")
Said = dict[str, Any]


# -- what must not leave ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Canary:
    """A word and a card number that no other request has."""

    word: str
    card: str

    @classmethod
    def drawn(cls, rng: random.Random) -> Self:
        digits = [4, *(rng.randrange(10) for _ in range(14))]
        total = sum(sum(divmod(2 * d, 10)) if i % 2 == 0 else d for i, d in enumerate(digits))
        card = "".join(map(str, [*digits, -total % 10]))
        return cls(f"kanári{rng.getrandbits(64):016x}", card)

    @override
    def __str__(self) -> str:
        return f"{self.word} pays with {self.card}"

    def bytes_in(self, read: bytes, *, card_only: bool = False) -> int:
        """How many bytes of it stand there."""
        texts = (self.card,) if card_only else (self.card, self.word)
        return sum(read.count(each) * len(each) for text in texts for each in needles(text))


def needles(text: str) -> set[bytes]:
    """A text as it may stand in what left: plain, as JSON escapes it, or inside of base64."""
    raw = text.encode()
    found = {raw, json.dumps(text)[1:-1].encode()}
    for before in range(3):  # its first byte may be any of three, and neighbours share its ends
        coded = base64.b64encode(bytes(before) + raw)
        found.add(coded[4 if before else 0 : -4])
    return found


# -- who listens -----------------------------------------------------------------------------------


class _Socket(socket.socket):
    """Keeps what it reads."""

    heard: bytearray

    @override
    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        count = super().recv_into(buffer, nbytes, flags)
        self.heard += memoryview(buffer)[:count]
        return count


class TappedCloud(LoopbackCloud):
    """Keeps every byte of every connection."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[bytearray] = []

    @override
    def _welcome(self, sock: socket.socket) -> None:
        tapped = _Socket(sock.family, sock.type, sock.proto, fileno=sock.detach())
        tapped.heard = bytearray()
        self.heard.append(tapped.heard)
        super()._welcome(tapped)


class OwnCloud:
    """A user's own: it knows nothing of privacy, and keeps what it is shown."""

    def __init__(self) -> None:
        self.read = b""

    def closed(self, request: Request) -> CloudClosed | None:
        self.read += repr(request).encode()
        return None

    def stream(
        self, request: Request, journal: list[Attempt], **_: Any
    ) -> Generator[Chunk, None, None]:
        self.read += repr(request).encode()
        journal.append(Attempt(place="cloud", backend="own", model="own", outcome="answered"))
        if request.task == "embed":
            yield Vectors(tuple((0.6, 0.8) for _ in request.messages))
        elif request.task == "speak":
            yield Voiced(wav(silence(0.1)), "wav", "own")
        elif request.task == "decide":
            yield Judged({name: {"true": 0.75, "false": 0.25} for name in request.questions})
        else:
            yield "Noted."
        yield Finish()


# -- a rig -----------------------------------------------------------------------------------------


class Rig:
    """Engines, a tool that leaves and a server, and all that got out of them."""

    def __init__(self, folder: Path, held: contextlib.ExitStack, **changes: Any) -> None:
        self.cloud = held.enter_context(TappedCloud())
        self.cloud.always(Answer(text="The cloud knows."))
        self.own = OwnCloud()
        self.sent = b""  # by the tool
        self._environment = {
            "OPENAI_API_KEY": "sk-of-the-bench-0123456789",
            "OPENAI_BASE_URL": self.cloud.openai_url,
            "BENCH_KEY": KEY,
            "BENCH_KEPT_KEY": KEPT_KEY,
        }
        self._folder, self._changes = folder, changes
        self.doubting = held.enter_context(self._engine("doubting", DOUBT))
        self.beside = held.enter_context(self._engine("beside", DOUBT, cloud=self.own))
        self.audited = held.enter_context(self._engine("audited", "Surely.", audit_share=1.0))
        keys = {
            "open": {"key_env": "BENCH_KEY"},
            "kept": {"key_env": "BENCH_KEPT_KEY", "private_kinds": ["CARD"]},
        }
        loaded = self._settings("server", server={"port": 0, "keys": keys, "drain_s": 2.0})
        url = held.enter_context(serve.running(loaded, **self._parts(DOUBT)))
        self.server = Target.at(url)

    def _settings(self, name: str, **more: Any) -> Settings:
        home = self._folder / name
        # What is scripted to fail must not close the cloud for what comes after it: the control
        # would leak nothing, and what is kept in would be kept in for the wrong reason.
        changes = {**self._changes, **more, "chain": ("openai",), "cooldown_s": 0.01}
        return Settings.load(
            self._environment, data_dir=home, config_dir=home / "config", **changes
        )

    def _parts(self, text: str) -> dict[str, Any]:
        make = ScriptedBackend.doubtful if text == DOUBT else ScriptedBackend.confident
        return {
            "backend": make(text, facts=replace(SCRIPTED_FACTS, images=True)),
            "function_model": ScriptedFunctionModel.doubtful("note text=perhaps"),
            "transcriber": ScriptedTranscriber(
                [[heard("perhaps so", 0.3, 1.3, chance=0.1)]], facts=TRANSLATES
            ),
            "voice": ScriptedVoice(fails=True),
            "embedder": ScriptedEmbedder(fail=True),
        }

    def _engine(self, name: str, text: str, cloud: Any = None, **more: Any) -> Engine:
        return Engine(self._settings(name, **more), cloud=cloud, **self._parts(text))

    def asynchronous(self, *, own: bool) -> AsyncEngine:
        cloud = self.own if own else None
        return AsyncEngine(self._settings("asynchronous"), cloud=cloud, **self._parts(DOUBT))

    def calling(self, call: ToolCall) -> Engine:
        """One whose device is sure of this call."""
        parts = self._parts(DOUBT)
        written = f"{call.name} {json.dumps(call.arguments, ensure_ascii=False)}"
        parts["function_model"] = ScriptedFunctionModel([written])
        return Engine(self._settings("calling"), **parts)

    def far(self) -> RunnableTool:
        """A tool of a server elsewhere."""

        def run(text: str) -> str:
            self.sent += f"tool: {text}\n".encode()
            return "done"

        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        schema |= {"required": ["text"]}
        return RunnableTool(
            name="post", description="Posts a text.", parameters=schema, run=run, leaves=True
        )

    @property
    def out(self) -> bytes:
        """All that left since it was last taken."""
        return b"\n".join((*map(bytes, self.cloud.heard), self.own.read, self.sent))

    def take(self) -> bytes:
        """All that left since it was last taken; empty if nothing did."""
        left = self.out.strip()
        for each in self.cloud.heard:
            each.clear()
        self.own.read = self.sent = b""
        return left


# -- ways to say private ---------------------------------------------------------------------------

# To the library. `open` says nothing. Kinds count, because every canary has a card.
LOCAL_ONLY: Said = {"policy": "local_only"}
OPTIONS: dict[str, Said] = {
    "option": {"private": True},
    "local_only": LOCAL_ONLY,
    "private_kinds": {"private_kinds": ["CARD"]},
    "private_and_cloud_first": {"private": True, "policy": "prefer_cloud"},
    "private_and_cloud_only": {"private": True, "policy": "cloud_only"},
    "kinds_and_cloud_only": {"private_kinds": True, "policy": "cloud_only"},
}


@dataclass(frozen=True, slots=True)
class Way:
    """How an HTTP request says it: what is added to a good one."""

    headers: Mapping[str, str] = field(default_factory=dict)
    metadata: Said = field(default_factory=dict)
    body: Said = field(default_factory=dict)
    query: str = ""
    model: str = "auto"
    key: str = KEY
    twice: bool = False  # metadata, and then once more, empty


PRIVATE = {"privacy": "private"}
WAYS: dict[str, Way] = {
    "header": Way(headers={"x-edgewise-privacy": "private"}),
    "header_policy": Way(headers={"x-edgewise-policy": "local_only"}),
    "header_kinds": Way(headers={"x-edgewise-private-kinds": "CARD"}),
    "metadata": Way(metadata=PRIVATE),
    "metadata_long_name": Way(metadata={"edgewise_privacy": "private"}),
    "metadata_policy": Way(metadata={"policy": "local_only"}),
    "metadata_kinds": Way(metadata={"private_kinds": "CARD"}),
    "model": Way(model="local"),
    "metadata_against_header": Way(headers={"x-edgewise-privacy": "open"}, metadata=PRIVATE),
    "metadata_against_model": Way(metadata=PRIVATE, model="cloud"),
    "policy_against_model": Way(metadata={"policy": "local_only"}, model="cloud"),
    "key": Way(key=KEPT_KEY),
    "key_and_model": Way(key=KEPT_KEY, model="cloud"),
    # Where nobody reads it: these are refused.
    "top_level": Way(body=PRIVATE, model="cloud"),
    "edgewise_object": Way(body={"edgewise": PRIVATE}, model="cloud"),
    "top_level_policy": Way(body={"policy": "local_only"}, model="cloud"),
    "options": Way(body={"options": PRIVATE}, model="cloud"),
    "extra_body": Way(body={"extra_body": {"metadata": PRIVATE}}, model="cloud"),
    "metadata_private": Way(metadata={"private": "true"}, model="cloud"),
    "metadata_edgewise": Way(metadata={"edgewise": PRIVATE}, model="cloud"),
    "query": Way(query="?privacy=private", model="cloud"),
    "other_header": Way(headers={"x-private": "true"}, model="cloud"),
    "twice": Way(metadata=PRIVATE, twice=True, model="cloud"),
}
REDACTED = Way(headers={"x-edgewise-redact": "CARD"}, model="cloud")
OPEN = Way(model="cloud")


# -- what could leave ------------------------------------------------------------------------------


def _history(thing: str, canary: Canary) -> list[Message]:
    """A conversation in which the canary is in one place."""
    prompt = Message("user", "What next?")
    call = ToolCall("note", {"text": str(canary)}, id="call_1")
    match thing:
        case "system":
            return [Message("system", str(canary)), prompt]
        case "result":
            said = Message("assistant", tool_calls=(replace(call, arguments={"text": "it"}),))
            return [prompt, said, Message("tool", str(canary), tool_call_id="call_1"), prompt]
        case "earlier_call":
            said = Message("assistant", tool_calls=(call,))
            return [prompt, said, Message("tool", "done", tool_call_id="call_1"), prompt]
        case "title":
            title = Message("user", "Write a title of three words for this chat.")
            return [Message("user", str(canary)), Message("assistant", "I see."), title]
        case "picture":
            picture = Image.from_bytes(png(8, 8, bits=8))
            return [Message("user", str(canary), images=(picture,))]
    return [Message("user", str(canary))]


CHATS = ("prompt", "system", "result", "earlier_call", "title", "picture", "error", "retry")
NOTE = Tool("note", "Keeps a text.", {"type": "object", "properties": {"text": {"type": "string"}}})


def _fault(rig: Rig, thing: str) -> None:
    """The cloud's next answers: errors that quote what was sent, and one that is tried again."""
    if thing == "error":
        rig.cloud.script(Status(400, message="bad request"))
    elif thing == "retry":
        rig.cloud.script(Status(503), Status(503))


# -- the doors -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Case:
    """One request: a door, how it says what it says, and what could leave."""

    door: str
    way: str
    thing: str
    canary: Canary


Ask = Callable[[Rig, Said, str, Canary], object]


def _given(thing: str) -> Said:
    return {"tools": [NOTE], "tool_choice": "none"} if thing in ("result", "earlier_call") else {}


def _complete(engine: Callable[[Rig], Engine]) -> Ask:
    def ask(rig: Rig, said: Said, thing: str, canary: Canary) -> object:
        return engine(rig).complete(_history(thing, canary), **said, **_given(thing))

    return ask


def _stream(rig: Rig, said: Said, thing: str, canary: Canary) -> object:
    return list(rig.doubting.stream(_history(thing, canary), **said, **_given(thing)))


def _call(engine: Callable[[Rig], Engine], **more: Any) -> Ask:
    def ask(rig: Rig, said: Said, thing: str, canary: Canary) -> object:
        tool = replace(NOTE, description=f"Keeps {canary}") if thing == "schema" else NOTE
        words = "note something" if thing == "schema" else f"note {canary}"
        return engine(rig).call(words, [tool], **{**more, **said})

    return ask


def _audit(rig: Rig, said: Said, thing: str, canary: Canary) -> None:
    rig.audited.complete(_history(thing, canary), **said, **_given(thing))
    assert rig.audited.parts.auditor is not None
    rig.audited.parts.auditor.wait(AUDITED_S)


def _embed(engine: Callable[[Rig], Engine]) -> Ask:
    def ask(rig: Rig, said: Said, _: str, canary: Canary) -> object:
        return engine(rig).embed([str(canary), "other"], **said)

    return ask


def _decide(engine: Callable[[Rig], Engine]) -> Ask:
    def ask(rig: Rig, said: Said, thing: str, canary: Canary) -> object:
        state = "a mail" if thing in ASKED else str(canary)
        return engine(rig).decide(state, _questions(thing, canary), **said)

    return ask


ASKED = ("question", "outcome", "name")  # of a decision, where a canary may stand


def _questions(thing: str, canary: Canary) -> Said:
    place = {thing: str(canary)}
    question: Said = {"type": "noul", "instructions": place.get("question", "Is it urgent?")}
    if "outcome" in place:
        question |= {"criteria": {"true": place["outcome"]}}
    return {place.get("name", "urgent"): question}


def _hear(engine: Callable[[Rig], Engine]) -> Ask:
    def ask(rig: Rig, said: Said, _: str, canary: Canary) -> object:
        said = {name: value for name, value in said.items() if name != "model"}
        return engine(rig).transcribe(_talk(), hint=str(canary), **said)

    return ask


def _say(engine: Callable[[Rig], Engine]) -> Ask:
    def ask(rig: Rig, said: Said, _: str, canary: Canary) -> object:
        said = {name: value for name, value in said.items() if name != "model"}
        return engine(rig).speak(str(canary), **said)

    return ask


def _translate(rig: Rig, said: Said, _: str, canary: Canary) -> object:
    said = {name: value for name, value in said.items() if name != "model"}
    return rig.doubting.transcribe(_talk(), hint=str(canary), translate=True, **said)


def _talk() -> bytes:
    return wav(silence(0.3), voice(1.2), silence(0.5))


def _listen(rig: Rig, said: Said, _: str, canary: Canary) -> None:
    with rig.doubting.listen(rate=RATE, hint=str(canary), **said) as live:
        live.process(voice(1.2))
        live.process(silence(1.5))
        live.stop()


def _converse(rig: Rig, said: Said, _: str, canary: Canary) -> None:
    """The canary is said in the first turn; the later ones say nothing of privacy."""
    talk = Conversation(rig.doubting)
    with contextlib.suppress(EdgewiseError):
        talk.ask(str(canary), **said)
    # A turn that was refused is no part of the history; a policy is of its own turn alone.
    if any(str(canary) in each.content for each in talk.messages) and said != LOCAL_ONLY:
        talk.ask("And now?")
        list(talk.stream("And then?"))


def _asynchronously(own: bool) -> Ask:
    def ask(rig: Rig, said: Said, thing: str, canary: Canary) -> None:
        async def work() -> None:
            async with rig.asynchronous(own=own) as engine:
                await engine.complete(_history(thing, canary), **said, **_given(thing))
                async for _ in engine.stream(_history(thing, canary), **said, **_given(thing)):
                    pass

        asyncio.run(work())

    return ask


def _tool(rig: Rig, said: Said, thing: str, canary: Canary) -> None:
    """The device's own call of a tool that leaves, and one that a hostile provider wrote."""
    far = rig.far()
    if thing == "call_of_the_device":
        with rig.calling(ToolCall("post", {"text": str(canary)})) as engine:
            engine.call(f"post {canary}", [far], execute=True, **said)
            Conversation(engine, tools=[far], **said).ask(f"post {canary}")
        return
    opened = "[CARD_1]" if "redact" in said else str(canary)
    rig.cloud.script(Answer(text="", tool_calls=(ToolCall("post", {"text": opened}),)))
    said = {"policy": "cloud_only", **said}
    Conversation(rig.doubting, tools=[far], **said).ask(f"post {canary}")


def _doubting(rig: Rig) -> Engine:
    return rig.doubting


def _beside(rig: Rig) -> Engine:
    return rig.beside


LIBRARY: dict[str, tuple[Ask, tuple[str, ...]]] = {
    "complete": (_complete(_doubting), CHATS),
    "stream": (_stream, CHATS),
    "call": (_call(_doubting), ("prompt", "schema", "error", "retry")),
    "speculation": (_call(_doubting, speculative=True), ("prompt", "schema")),
    "audit": (_audit, ("prompt", "system", "result", "title")),
    "embed": (_embed(_doubting), ("prompt", "error", "retry")),
    "decide": (_decide(_doubting), ("prompt", *ASKED, "error", "retry")),
    "speak": (_say(_doubting), ("prompt", "error", "retry")),
    "transcribe": (_hear(_doubting), ("sound", "error", "retry")),
    "translate": (_translate, ("sound",)),
    "listen": (_listen, ("sound",)),
    "conversation": (_converse, ("prompt", "error")),
    "async": (_asynchronously(own=False), ("prompt", "system", "result")),
    "tool": (_tool, ("call_of_the_device", "call_of_a_provider")),
    "own_complete": (_complete(_beside), CHATS[:-2]),
    "own_call": (_call(_beside), ("prompt", "schema")),
    "own_embed": (_embed(_beside), ("prompt",)),
    "own_decide": (_decide(_beside), ("prompt", *ASKED)),
    "own_speak": (_say(_beside), ("prompt",)),
    "own_transcribe": (_hear(_beside), ("sound",)),
    "own_async": (_asynchronously(own=True), ("prompt", "system", "result")),
}


def _openai(messages: list[Message]) -> list[Said]:
    """In the shape of chat completions."""
    found: list[Said] = []
    for each in messages:
        said: Said = {"role": each.role, "content": each.content}
        if each.images:
            data = base64.b64encode(each.images[0].data).decode()
            picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
            said["content"] = [{"type": "text", "text": each.content}, picture]
        if each.tool_calls:
            said["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
                }
                for call in each.tool_calls
            ]
        if each.tool_call_id:
            said["tool_call_id"] = each.tool_call_id
        found.append(said)
    return found


def _chat(thing: str, canary: Canary) -> Said:
    return {"messages": _openai(_history(thing, canary))}


def _texts(thing: str, canary: Canary) -> tuple[str, list[Said]]:
    """The system prompt, and plain turns."""
    history = _history(thing, canary)
    system = "".join(each.content for each in history if each.role == "system")
    return system, [
        {"role": each.role, "content": each.content} for each in history if each.role != "system"
    ]


def _responses(thing: str, canary: Canary) -> Said:
    system, turns = _texts(thing, canary)
    return {"input": turns, "instructions": system or None}


def _anthropic(thing: str, canary: Canary) -> Said:
    system, turns = _texts(thing, canary)
    return {"messages": turns, "max_tokens": 32} | ({"system": system} if system else {})


PLAIN = ("prompt", "system", "title", "error", "retry")
# Path, body, and what could leave through it.
HTTP: dict[str, tuple[str, Callable[[str, Canary], Said], tuple[str, ...]]] = {
    "http_chat": ("/v1/chat/completions", _chat, CHATS),
    "http_chat_stream": (
        "/v1/chat/completions",
        lambda thing, canary: _chat(thing, canary) | {"stream": True},
        CHATS,
    ),
    "http_responses": ("/v1/responses", _responses, PLAIN),
    "http_messages": ("/v1/messages", _anthropic, PLAIN),
    "http_ollama_chat": (
        "/api/chat",
        lambda thing, canary: {"messages": _texts("prompt", canary)[1], "stream": thing == "retry"},
        ("prompt", "error", "retry"),
    ),
    "http_ollama_generate": (
        "/api/generate",
        lambda thing, canary: {"prompt": str(canary), "stream": thing == "retry"},
        ("prompt", "error", "retry"),
    ),
    "http_systemone": (
        "/v1/systemone",
        lambda thing, canary: {
            "state": "a mail" if thing in ASKED else str(canary),
            "questions": _questions(thing, canary),
        },
        ("prompt", *ASKED, "error"),
    ),
    "http_decisions": (
        "/v1/decisions",
        lambda thing, canary: {
            "input": "a mail" if thing == "question" else str(canary),
            "questions": [
                {
                    "type": "predicate",
                    "instructions": str(canary) if thing == "question" else "It is urgent.",
                }
            ],
        },
        ("prompt", "question", "error"),
    ),
    "http_embeddings": ("/v1/embeddings", lambda _, canary: {"input": [str(canary)]}, ("prompt",)),
    "http_speech": (
        "/v1/audio/speech",
        lambda _, canary: {"input": str(canary), "voice": "any", "response_format": "wav"},
        ("prompt",),
    ),
    "http_ollama_embed": ("/api/embed", lambda _, canary: {"input": str(canary)}, ("prompt",)),
}


def _post(rig: Rig, door: str, way: Way, thing: str, canary: Canary) -> bool:
    path, make, _ = HTTP[door]
    body = {"model": way.model, **make(thing, canary), **way.body}
    if way.metadata:
        body["metadata"] = way.metadata
    written = json.dumps(body)
    if way.twice:
        written = written[:-1] + ', "metadata": {}}'
    headers = {"authorization": f"Bearer {way.key}", **way.headers}
    return rig.server.post(path + way.query, written.encode(), headers).status < 400


def _bracketed(values: Said, around: str = "") -> Iterator[tuple[str, str]]:
    """As SDKs write objects into forms: `options[privacy]`."""
    for name, value in values.items():
        name = f"{around}[{name}]" if around else name
        if isinstance(value, dict):
            yield from _bracketed(value, name)
        else:
            yield name, str(value)


def _upload(rig: Rig, _: str, way: Way, thing: str, canary: Canary) -> bool:
    fields = {"model": way.model, "prompt": str(canary)}
    fields |= dict(_bracketed(way.body))
    fields |= dict(_bracketed(way.metadata, "metadata"))
    if thing == "sound_stream":
        fields["stream"] = "true"
    kind, body = form(fields, ("talk.wav", _talk(), "audio/wav"))
    if way.twice:
        extra = '--edge\r\nContent-Disposition: form-data; name="metadata[privacy]"\r\n\r\nopen\r\n'
        body = extra.encode() + body
    headers = {"authorization": f"Bearer {way.key}", **way.headers}
    return rig.server.post(TRANSCRIBE + way.query, body, headers, kind).status < 400


def _speak(rig: Rig, _: str, way: Way, thing: str, canary: Canary) -> bool:
    """A realtime session. For `second_update` a later update says nothing of privacy."""
    sound = {"input": {"format": {"type": "audio/pcm", "rate": RATE}}}
    model = "auto" if way.model == "cloud" else way.model  # a session always hears on the device
    heard_by = {"transcription": {"model": model, "prompt": str(canary)}}
    session: Said = {"audio": {"input": sound["input"] | heard_by}, **way.body}
    if way.metadata:
        session["metadata" if thing == "second_update" else "edgewise"] = way.metadata
        if way.twice:
            session["edgewise"] = {"threshold": 0.5}
            session["metadata"] = way.metadata
    updates = [session]
    if thing == "second_update":
        updates.append({"audio": {"input": sound["input"] | {"transcription": {}}}})
    spoken = b"".join(
        event("input_audio_buffer.append", audio=base64.b64encode(_pcm(part)).decode())
        for part in (voice(1.2), silence(1.5))
    )
    messages = b"".join(event("session.update", session=each) for each in updates) + spoken
    names = [f"{name}: {value}" for name, value in way.headers.items()]
    head = handshake(f"authorization: Bearer {way.key}", *names)
    head = head.replace(b"/v1/realtime ", f"/v1/realtime{way.query} ".encode(), 1)
    with contextlib.suppress(OSError), rig.server.raw(ENDED_S) as open_socket:
        open_socket.sendall(head)
        read = open_socket.recv(65_536)
        if b" 101 " not in read.split(b"\r\n", 1)[0]:
            return False
        open_socket.sendall(messages + event("input_audio_buffer.commit"))
        ends = (b"edgewise.session.finished", b"there is no sound to commit")
        while not any(end in read for end in ends) and (part := open_socket.recv(65_536)):
            read += part
        return ends[0] in read
    return False


def _pcm(samples: Any) -> bytes:
    data: bytes = (samples * 32_767).astype("<i2").tobytes()
    return data


Send = Callable[[Rig, str, Way, str, Canary], bool]
SENT: dict[str, tuple[Send, tuple[str, ...]]] = {
    **{door: (_post, things) for door, (_, _, things) in HTTP.items()},
    "http_transcriptions": (_upload, ("sound", "sound_stream")),
    "realtime": (_speak, ("sound", "second_update")),
}


# -- the campaign ----------------------------------------------------------------------------------


def cases(requests: int, seed: int) -> Iterator[Case]:
    """Every door with every way, round after round, with one of its things in turn."""
    rng = random.Random(f"privacy-{seed}")
    # A policy says who answers; the tools that it may use are the user's choice.
    pairs = [
        (door, way) for door in LIBRARY for way in OPTIONS if (door, way) != ("tool", "local_only")
    ]
    pairs += [(door, way) for door in SENT for way in WAYS]
    turn: Counter[str] = Counter()
    count = 0
    while True:
        rng.shuffle(pairs)
        for door, way in pairs:
            if count == requests:
                return
            things = LIBRARY[door][1] if door in LIBRARY else SENT[door][1]
            yield Case(door, way, things[turn[door] % len(things)], Canary.drawn(rng))
            turn[door] += 1
            count += 1


def send(rig: Rig, case: Case, said: Said, way: Way) -> bool:
    """Whether it was answered; otherwise it was refused."""
    _fault(rig, case.thing)
    try:
        if case.door in LIBRARY:
            LIBRARY[case.door][0](rig, said, case.thing, case.canary)
        else:
            return SENT[case.door][0](rig, case.door, way, case.thing, case.canary)
    except EdgewiseError:
        return False
    finally:
        rig.cloud.clear_script()  # a fault that nobody met is not for the next request
    return True


def measure_privacy(
    folder: Path,
    requests: int,
    seed: int = 0,
    progress: Callable[[], None] = lambda: None,
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, float]:
    """All metrics. `folder` gets ledgers: one that may be thrown away. `tell` is told of leaks."""
    count: Counter[str] = Counter()
    leaked_by: dict[str, set[str]] = {"door": set(), "thing": set()}
    with contextlib.ExitStack() as held:
        kept = Rig(folder / "kept", held)
        redacted = Rig(folder / "redacted", held)
        control = Rig(folder / "control", held)
        asked = list(cases(requests, seed))
        read = b""
        for case in asked:
            ours = OPTIONS.get(case.way, {})
            count["refused"] += not send(kept, case, ours, WAYS.get(case.way, OPEN))
            if out := kept.take():
                count["private"] += len(out)
                tell(f"{len(out):,} bytes left: {case.door}, {case.way}, {case.thing}")
            # An audit, and live captions, begin on the device.
            policy = "prefer_local" if case.door in ("audit", "listen") else "cloud_only"
            send(redacted, case, {"redact": ["CARD"], "policy": policy}, REDACTED)
            read += redacted.take()
            send(control, case, {"policy": policy}, OPEN)
            if left := control.take():
                count["control"] += len(left)
                # A sound has no letters: there any byte is one of it.
                if case.canary.bytes_in(left) or case.thing in SOUNDS:
                    count["control_leaks"] += 1
                    leaked_by["door"].add(case.door)
                    leaked_by["thing"].add(case.thing)
            progress()
        count["private"] += len(kept.take())  # what came late
        read += redacted.take()
        in_redacted = sum(case.canary.bytes_in(read, card_only=True) for case in asked)
    for kind, known in leaked_by.items():
        for name in sorted({getattr(case, kind) for case in asked} - known):
            tell(f"the control of the {kind} {name} leaked nothing")
    doors, things = {case.door for case in asked}, {case.thing for case in asked}
    return {
        "requests": len(asked),
        "private_bytes_out": count["private"] + in_redacted,
        "bytes_out_of_private": count["private"],
        "bytes_out_of_redacted": in_redacted,
        "refused": count["refused"],
        "redacted_bytes_read": len(read),
        "control_leaks": count["control_leaks"],
        "control_bytes_read": count["control"],
        "doors": len(doors),
        "ways": len({case.way for case in asked}),
        "things": len(things),
        "combinations": len({(case.door, case.way, case.thing) for case in asked}),
        "doors_without_control": len(doors - leaked_by["door"]),
        "things_without_control": len(things - leaked_by["thing"]),
    }
