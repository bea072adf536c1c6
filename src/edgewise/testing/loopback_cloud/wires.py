"""The protocols that the scripted cloud speaks, and the replies and faults of a script."""

from __future__ import annotations

import base64
import binascii
import contextlib
import functools
import hashlib
import json
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from typing_extensions import override

from edgewise.types.messages import ToolCall
from edgewise.types.replies import FinishReason

_SPOKEN_RATE = 24_000
DIMENSIONS = 8  # of invented vectors, if the request does not say
FIXED_SENTENCE = "The loopback cloud heard the question and gives this fixed answer."
TOLD, UNTOLD = "told", "untold"
CUT_SENTENCE = "This answer is long enough to be broken off before it has come to its end."


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A complete answer. Text comes first, tool calls after it, as providers send them.

    thoughts         a text that is streamed before the answer, as thinking
    chunk_size       characters per streamed piece, of text and of tool arguments alike
    delay_first_s    silence before the first byte, headers included
    delay_between_s  silence between two streamed pieces
    cached_tokens    how many of `input_tokens` came from the provider's cache
    stored_tokens    how many of them were put there (Anthropic's alone says so)
    reasoning_tokens how many of `output_tokens` were hidden thoughts
    finish           None: "tool_calls" if there are some, otherwise "stop"
    audio_tokens     how many of `input_tokens` were sound
    audio_seconds    of sound; OpenAI's transcriptions then report these instead of tokens
    speech           for spoken text: the bytes of the sound; None: a WAV, 0.05 s for a character
    vectors          for embeddings; None: invented, the same for the same text
    chances          for decisions: of each question in order, the chance of each option, as
                     {"true": 0.9}; None for a question that is refused. Without them the first
                     option is likely
    usage            TOLD: the counts above; UNTOLD: none; else what is said instead of each count

    Providers count cached and reasoning tokens differently. Each protocol sends what its provider
    would, so that a test notices a client that counts wrongly.
    """

    text: str = FIXED_SENTENCE
    thoughts: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    chunk_size: int = 8
    delay_first_s: float = 0.0
    delay_between_s: float = 0.0
    input_tokens: int = 12
    cached_tokens: int = 0
    stored_tokens: int = 0
    output_tokens: int = 8
    reasoning_tokens: int = 0
    finish: FinishReason | None = None
    audio_tokens: int = 0
    audio_seconds: float = 0.0
    speech: bytes | None = None
    vectors: tuple[tuple[float, ...], ...] | None = None
    chances: tuple[Mapping[str, float] | None, ...] | None = None
    usage: object = TOLD

    def __post_init__(self) -> None:
        if self.chunk_size < 1:
            raise ValueError(f"chunk_size must be at least 1, got {self.chunk_size!r}")

    @property
    def finish_reason(self) -> FinishReason:
        return self.finish or ("tool_calls" if self.tool_calls else "stop")

    def told(self, counts: Mapping[str, Any]) -> dict[str, Any]:
        """What is said of these counts."""
        if self.usage == UNTOLD:
            return {}
        if self.usage == TOLD:
            return dict(counts)
        return {name: self.usage if type(count) is int else count for name, count in counts.items()}

    def pieces(self, text: str) -> list[str]:
        """`text` in pieces of `chunk_size`; an empty text has none."""
        return [text[i : i + self.chunk_size] for i in range(0, len(text), self.chunk_size)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A reply as it was recorded: its bytes, in one piece or, of a stream, in these. Any other
    `status` than 200 is an error in the provider's own words."""

    pieces: tuple[bytes, ...]
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int = 200
    delay_between_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Status:
    """An HTTP error with the provider's kind of body.

    With `after_chunks` a stream begins well, and the error comes as an event inside it.
    Gemini states its waiting time in the body; the others send a `retry-after` header.
    """

    status: int
    retry_after_s: float | None = None
    message: str = ""
    after_chunks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The answer breaks off. Of a body that is not streamed, half is sent.

    how  "reset"  the TCP connection is reset
         "close"  the connection is closed in mid-body, as by a dying proxy
         "end"    the HTTP body ends properly, but the answer's own end is missing
    """

    after_chunks: int = 2
    text: str = CUT_SENTENCE
    chunk_size: int = 8
    how: Literal["reset", "close", "end"] = "reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Malformed:
    """Status 200 and broken JSON: in the body, or in the stream after some good pieces."""

    after_chunks: int = 0


@dataclass(frozen=True, slots=True)
class Empty:
    """A well-formed answer with nothing in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """The request is read but never answered, until the client leaves or the server stops.

    With `after_chunks` a stream begins, then stalls with the connection open.
    """

    after_chunks: int = 0


Fault = Status | Cut | Malformed | Empty | Silence


Scripted = Answer | Recorded | Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRequest:
    """One request as it arrived. Header names are lower-case; `body` is {} unless a JSON object.

    `connection` numbers the TCP connections from 1, so equal numbers mean that it was reused. The
    fields of a form are the `body` too, a file as its bytes. `audio` is the decoded sound, and
    `content` what came, to the byte.
    """

    path: str
    protocol: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    stream: bool
    connection: int
    method: str = "POST"
    query: str = ""
    audio: bytes = field(default=b"", repr=False)
    content: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event, ready to send. `chunk` marks events with part of the answer."""

    data: bytes
    chunk: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """The target of a request: a protocol, the model, and what the path asks for.

    `shape` makes the body of an answer that is not a chat's: JSON, or the bytes of sound.
    """

    wire: Wire
    model: str = ""
    stream: bool = False
    lists_models: bool = False
    required: tuple[str, ...] = field(default=())
    audio: bytes = b""
    shape: Callable[[Answer], dict[str, Any] | bytes] | None = None

    def whole(self, answer: Answer) -> dict[str, Any] | bytes:
        """The body of an answer in one piece: in this route's shape, or a chat's."""
        return self.shape(answer) if self.shape else self.wire.whole(answer, self.model)


class Wire(Protocol):
    """One provider's shapes. Stateless."""

    name: str

    def route(
        self, method: str, path: str, headers: Mapping[str, str], body: Mapping[str, Any]
    ) -> Route | None:
        """None if the path is not this provider's."""
        ...

    def whole(self, answer: Answer, model: str) -> dict[str, Any]:
        """The body of an answer that is not streamed."""
        ...

    def events(self, answer: Answer, model: str, body: Mapping[str, Any]) -> list[Event]:
        """A streamed answer, from its first event to its last."""
        ...

    def error(self, fault: Status) -> dict[str, Any]: ...

    def error_event(self, fault: Status) -> bytes:
        """An error inside a stream that began well."""
        ...

    def broken_event(self) -> bytes:
        """An event whose data is not JSON."""
        ...

    def error_headers(self, fault: Status) -> dict[str, str]: ...

    def models(self, names: Sequence[str]) -> dict[str, Any]: ...


def sse(data: object, *, event: str = "", newline: str = "\n") -> bytes:
    """One server-sent event. Text is sent as it is, everything else as JSON."""
    text = data if isinstance(data, str) else json.dumps(data)
    head = f"event: {event}{newline}" if event else ""
    return f"{head}data: {text}{newline}{newline}".encode()


def beginning(events: Sequence[Event], chunks: int) -> list[Event]:
    """The events up to the `chunks`-th that carries text. Never the end of the answer."""
    taken: list[Event] = []
    seen = 0
    last = max((i for i, event in enumerate(events) if event.chunk), default=-1)
    for i, event in enumerate(events):
        if i > last or (event.chunk and seen == chunks):
            break
        taken.append(event)
        seen += event.chunk
    return taken


def decoded(text: object) -> bytes:
    """The bytes of a base64 text, in either alphabet; empty if it is not one."""
    try:
        return base64.b64decode(str(text).replace("-", "+").replace("_", "/"), validate=True)
    except binascii.Error:
        return b""


def vectors_for(
    answer: Answer, texts: Sequence[str], dimensions: int
) -> tuple[tuple[float, ...], ...]:
    """The scripted vectors, or some derived from each text's hash."""
    if answer.vectors is not None:
        return answer.vectors
    return tuple(
        tuple(byte / 127.5 - 1 for byte in hashlib.shake_256(text.encode()).digest(dimensions))
        for text in texts
    )


def retry_after_header(fault: Status) -> dict[str, str]:
    if fault.retry_after_s is None:
        return {}
    return {"retry-after": f"{fault.retry_after_s:g}"}


def fault_message(fault: Status) -> str:
    return fault.message or f"The loopback cloud was told to answer {fault.status}."


# -- OpenAI's chat completions, transcriptions and embeddings --------------------------------------


_OPENAI_FINISH = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "filtered": "content_filter",
}
_OPENAI_ERRORS = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "unsupported_country_region_territory"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}
_HEAD = {"id": "chatcmpl-loopback", "created": 1_760_000_000, "system_fingerprint": "fp_loopback"}


class OpenAIWire:
    name = "openai"

    def route(
        self, method: str, path: str, headers: Mapping[str, str], body: Mapping[str, Any]
    ) -> Route | None:
        if method == "POST" and path == "/v1/chat/completions":
            return Route(
                self,
                model=str(body.get("model", "")),
                stream=body.get("stream") is True,
                required=("model", "messages"),
            )
        heard = {"/v1/audio/transcriptions": _transcription, "/v1/audio/translations": _translation}
        if method == "POST" and path in heard:
            file = body.get("file")
            return Route(
                self,
                model=str(body.get("model", "")),
                required=("file", "model"),
                audio=file if isinstance(file, bytes) else b"",
                shape=heard[path],
            )
        if method == "POST" and path == "/v1/audio/speech":
            return Route(
                self,
                model=str(body.get("model", "")),
                required=("model", "input", "voice"),
                shape=functools.partial(_speech, body),
            )
        if method == "POST" and path == "/v1/embeddings":
            return Route(
                self,
                model=str(body.get("model", "")),
                required=("input", "model"),
                shape=functools.partial(_openai_embeddings, body),
            )
        if method == "GET" and path == "/v1/models":
            return Route(self, lists_models=True)
        return None

    def whole(self, answer: Answer, model: str) -> dict[str, Any]:
        message: dict[str, Any] = {
            "role": "assistant",
            # OpenAI sends null, not "", beside tool calls.
            "content": answer.text if answer.text or not answer.tool_calls else None,
            "refusal": None,
        }
        if answer.tool_calls:
            message["tool_calls"] = [
                {
                    "id": _call_id(call, index),
                    "type": "function",
                    "function": {"name": call.name, "arguments": json.dumps(dict(call.arguments))},
                }
                for index, call in enumerate(answer.tool_calls)
            ]
        finish = _OPENAI_FINISH[answer.finish_reason]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
        return {
            **_HEAD,
            "object": "chat.completion",
            "model": model,
            "choices": [choice],
            "usage": _openai_usage(answer) or None,
        }

    def events(self, answer: Answer, model: str, body: Mapping[str, Any]) -> list[Event]:
        options = body.get("stream_options")
        usage_wanted = isinstance(options, dict) and options.get("include_usage") is True

        def chunk(
            delta: dict[str, Any], finish: str | None = None, *, carries: bool = False
        ) -> Event:
            data: dict[str, Any] = {
                **_HEAD,
                "object": "chat.completion.chunk",
                "model": model,
                "choices": [
                    {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
                ],
            }
            if usage_wanted:
                data["usage"] = None
            return Event(sse(data), carries)

        events = [chunk({"role": "assistant", "content": "", "refusal": None})]
        # OpenAI shows no thoughts; most of those who speak its protocol call them so.
        events += [
            chunk({"reasoning_content": piece}, carries=True)
            for piece in answer.pieces(answer.thoughts)
        ]
        events += [chunk({"content": piece}, carries=True) for piece in answer.pieces(answer.text)]
        for index, call in enumerate(answer.tool_calls):
            events += [
                chunk({"tool_calls": [delta]}, carries=True)
                for delta in _call_deltas(answer, call, index)
            ]
        events.append(chunk({}, _OPENAI_FINISH[answer.finish_reason]))
        if usage_wanted and answer.usage != UNTOLD:
            last = {
                **_HEAD,
                "object": "chat.completion.chunk",
                "model": model,
                "choices": [],
                "usage": _openai_usage(answer),
            }
            events.append(Event(sse(last)))
        return [*events, Event(sse("[DONE]"))]

    def error(self, fault: Status) -> dict[str, Any]:
        kind, code = _OPENAI_ERRORS.get(
            fault.status,
            ("server_error" if fault.status >= 500 else "invalid_request_error", None),
        )
        return {
            "error": {"message": fault_message(fault), "type": kind, "param": None, "code": code}
        }

    def error_event(self, fault: Status) -> bytes:
        return sse(self.error(fault))

    def broken_event(self) -> bytes:
        return sse('{"id": "chatcmpl-loopback", "choices": [{"delta": {"cont')

    def error_headers(self, fault: Status) -> dict[str, str]:
        return retry_after_header(fault)

    def models(self, names: Sequence[str]) -> dict[str, Any]:
        rows = [
            {"id": name, "object": "model", "created": 1_760_000_000, "owned_by": "loopback"}
            for name in names
        ]
        return {"object": "list", "data": rows}


def _call_id(call: ToolCall, index: int) -> str:
    return call.id or f"call_loopback_{index}"


def _call_deltas(answer: Answer, call: ToolCall, index: int) -> list[dict[str, Any]]:
    """The name comes first with empty arguments, which follow in pieces."""
    opening = {
        "index": index,
        "id": _call_id(call, index),
        "type": "function",
        "function": {"name": call.name, "arguments": ""},
    }
    arguments = answer.pieces(json.dumps(dict(call.arguments)))
    return [opening] + [{"index": index, "function": {"arguments": part}} for part in arguments]


def _transcription(answer: Answer) -> dict[str, Any]:
    if answer.audio_seconds:  # models billed by time report nothing else
        return {
            "text": answer.text,
            "usage": {"type": "duration", "seconds": answer.audio_seconds},
        }
    usage = {
        "type": "tokens",
        "input_tokens": answer.input_tokens,
        "input_token_details": {
            "audio_tokens": answer.audio_tokens,
            "text_tokens": answer.input_tokens - answer.audio_tokens,
        },
        "output_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
    }
    return {"text": answer.text, "usage": usage}


def _translation(answer: Answer) -> dict[str, Any]:
    """Without a usage, as OpenAI's."""
    return {"text": answer.text}


def _speech(body: Mapping[str, Any], answer: Answer) -> bytes:
    """A tone, whatever format is asked for."""
    if answer.speech is not None:
        return answer.speech
    samples = struct.pack("<h", 8000) * 30 + struct.pack("<h", -8000) * 30
    data = samples * (len(str(body["input"])) * _SPOKEN_RATE // 20 // 60)
    sizes = (1, 1, _SPOKEN_RATE, 2 * _SPOKEN_RATE, 2, 16)
    # As OpenAI's: who writes while it speaks does not know the length.
    return (
        b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0"
        + struct.pack("<HHIIHH", *sizes)
        + b"data\xff\xff\xff\xff"
        + data
    )


def _openai_embeddings(body: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    given = body["input"]
    texts = [given] if isinstance(given, str) else list(given)
    vectors = vectors_for(answer, texts, int(body.get("dimensions") or DIMENSIONS))
    rows = [
        {"object": "embedding", "index": index, "embedding": list(vector)}
        for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": answer.input_tokens, "total_tokens": answer.input_tokens}
    return {"object": "list", "model": body["model"], "data": rows, "usage": usage}


def _openai_usage(answer: Answer) -> dict[str, Any]:
    return answer.told(
        {
            "prompt_tokens": answer.input_tokens,
            "completion_tokens": answer.output_tokens,
            "total_tokens": answer.input_tokens + answer.output_tokens,
            "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
            "completion_tokens_details": {"reasoning_tokens": answer.reasoning_tokens},
        }
    )


class ResponsesWire(OpenAIWire):
    """OpenAI's newer protocol."""

    @override
    def route(
        self, method: str, path: str, headers: Mapping[str, str], body: Mapping[str, Any]
    ) -> Route | None:
        if method != "POST" or path != "/v1/responses":
            return None
        model, stream = str(body.get("model", "")), body.get("stream") is True
        return Route(self, model=model, stream=stream, required=("model", "input"))

    @override
    def error_event(self, fault: Status) -> bytes:
        told = self.error(fault)["error"]
        code = told["code"] or told["type"]
        return sse({**told, "type": "error", "code": code, "sequence_number": 9}, event="error")

    @override
    def whole(self, answer: Answer, model: str) -> dict[str, Any]:
        cut = answer.finish_reason in ("length", "filtered")
        why = "content_filter" if answer.finish_reason == "filtered" else "max_output_tokens"
        return {
            "id": "resp_loopback",
            "object": "response",
            "created_at": 1_760_000_000,
            "status": "incomplete" if cut else "completed",
            "model": model,
            "output": [item for item, _ in _items(answer)],
            "error": None,
            "incomplete_details": {"reason": why} if cut else None,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": answer.told(
                {
                    "input_tokens": answer.input_tokens,
                    "input_tokens_details": {"cached_tokens": answer.cached_tokens},
                    "output_tokens": answer.output_tokens,
                    "output_tokens_details": {"reasoning_tokens": answer.reasoning_tokens},
                    "total_tokens": answer.input_tokens + answer.output_tokens,
                }
            )
            or None,
        }

    @override
    def events(self, answer: Answer, model: str, body: Mapping[str, Any]) -> list[Event]:
        made: list[tuple[str, dict[str, Any], bool]] = []
        end = self.whole(answer, model)
        begun = {**end, "status": "in_progress", "output": [], "usage": None}
        made.append(("response.created", {"response": begun}, False))
        for index, (item, text) in enumerate(_items(answer)):
            place = {"item_id": item["id"], "output_index": index}
            empty: dict[str, Any] = (
                {"content": []} if item["type"] == "message" else {"arguments": ""}
            )
            opened = {**item, **empty, "status": "in_progress"}
            made.append(
                ("response.output_item.added", {"output_index": index, "item": opened}, False)
            )
            words = item["type"] == "message"
            kind = "output_text" if words else "function_call_arguments"
            place |= {"content_index": 0} if words else {}
            if words:
                part = {"type": "output_text", "text": "", "annotations": []}
                made.append(("response.content_part.added", {**place, "part": part}, False))
            for piece in answer.pieces(text):
                delta = {**place, "delta": piece} | ({"logprobs": []} if words else {})
                made.append((f"response.{kind}.delta", delta, True))
            done = {"text": text, "logprobs": []} if words else {"arguments": text}
            made.append((f"response.{kind}.done", {**place, **done}, False))
            if words:
                part = item["content"][0]
                made.append(("response.content_part.done", {**place, "part": part}, False))
            made.append(("response.output_item.done", {"output_index": index, "item": item}, False))
        made.append((f"response.{end['status']}", {"response": end}, False))
        return [
            Event(sse({"type": kind, "sequence_number": n, **fields}, event=kind), bool(carries))
            for n, (kind, fields, carries) in enumerate(made)
        ]


def _items(answer: Answer) -> list[tuple[dict[str, Any], str]]:
    """The items of an output, each with its text or arguments."""
    items: list[tuple[dict[str, Any], str]] = []
    if answer.text:
        part = {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}
        message = {"id": "msg_loopback", "type": "message", "role": "assistant"}
        items.append(({**message, "status": "completed", "content": [part]}, answer.text))
    for index, call in enumerate(answer.tool_calls):
        arguments = "".join(answer.pieces(json.dumps(dict(call.arguments))))
        item = {
            "id": f"fc_loopback_{index}",
            "type": "function_call",
            "status": "completed",
            "call_id": _call_id(call, index),
            "name": call.name,
            "arguments": arguments,
        }
        items.append((item, arguments))
    return items


# -- decisions: TypeSafe's wire and OpenAI's ------------------------------------------------------


class DecisionsWire(OpenAIWire):
    """OpenAI's list of questions. Several others take TypeSafe's body at the same path."""

    name = "decisions"

    @override
    def route(
        self, method: str, path: str, headers: Mapping[str, str], body: Mapping[str, Any]
    ) -> Route | None:
        if method != "POST" or path != "/v1/decisions" or "state" in body:
            return None
        return Route(
            self,
            model=str(body.get("model", "")),
            required=("model", "input", "questions"),
            shape=functools.partial(_decided_in_order, body),
        )


class SystemOneWire(OpenAIWire):
    """TypeSafe's questions by name."""

    name = "systemone"
    _PATHS = ("/v1/systemone", "/v1/decisions", "/api/alpha/decisions")

    @override
    def route(
        self, method: str, path: str, headers: Mapping[str, str], body: Mapping[str, Any]
    ) -> Route | None:
        if method != "POST" or path not in self._PATHS:
            return None
        return Route(
            self,
            model=str(body.get("model", "")),
            required=("model", "state", "questions"),
            shape=functools.partial(_decided_by_name, body),
        )

    @override
    def error(self, fault: Status) -> dict[str, Any]:
        words = fault_message(fault)
        if fault.status == 422:
            return {"detail": [{"loc": ["body"], "msg": words, "type": "value_error"}]}
        return {"detail": words}


def _chances(answer: Answer, options: Sequence[str], place: int) -> dict[str, float] | None:
    """The scripted chances of a question, or a likely first option."""
    if answer.chances is not None:
        given = answer.chances[place]
        return None if given is None else {name: given.get(name, 0.0) for name in options}
    rest = 0.1 / (len(options) - 1) if len(options) > 1 else 0.0
    return {name: rest if number else 1 - 0.1 * bool(rest) for number, name in enumerate(options)}


def _mean(chances: Mapping[str, float]) -> float:
    return sum(int(level) * chance for level, chance in chances.items())


def _decided_by_name(body: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    asked = {} if answer.chances == () else body["questions"]
    for place, (name, question) in enumerate(asked.items()):
        kind, criteria = question["type"], question.get("criteria") or {}
        options = ["true", "false"] if kind == "noul" else list(criteria)
        if kind == "score":
            options = [str(level) for level in range(len(criteria))]
        if (chances := _chances(answer, options, place)) is None:
            continue
        told: dict[str, Any] = {"type": kind, "confidence": 0.5, "probabilities": chances}
        match kind:
            case "noul":
                told = {"type": kind, "noul": chances["true"]}
            case "choice":
                told["choice"] = max(chances, key=lambda name: chances[name])
            case _:
                legend = dict(zip(options, criteria, strict=True))
                told |= {"score": _mean(chances), "legend": legend}
        answers[name] = told
    usage = {"input_tokens": answer.input_tokens, "output_tokens": answer.output_tokens}
    return {"model": body["model"], "answers": answers, "usage": answer.told(usage) or None}


def _decided_in_order(body: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    answers = []
    asked = [] if answer.chances == () else body["questions"]
    for place, question in enumerate(asked):
        kind = question["type"]
        options = ["true", "false"]
        if kind == "choice":
            options = [str(each["value"]) for each in question["choices"]]
        elif kind == "score":
            options = [str(level) for level in range(len(question["levels"]))]
        chances = _chances(answer, options, place)
        told: dict[str, Any] = {"type": kind, "name": question.get("name")}
        if chances is None:
            told["type"] = "refusal"
        elif kind == "predicate":
            told["probability"] = chances["true"]
        elif kind == "choice":
            told["choice"] = max(chances, key=lambda name: chances[name])
            told["probabilities"] = [
                {"value": name, "probability": chance} for name, chance in chances.items()
            ]
        else:
            told["score"] = _mean(chances)
            told["probabilities"] = [
                {"value": int(level), "label": each["label"], "probability": chances[level]}
                for level, each in zip(options, question["levels"], strict=True)
            ]
        if chances is not None and kind != "predicate":
            told["confidence"] = 0.5
        answers.append(told)
    usage = {
        "input_tokens": answer.input_tokens,
        "input_tokens_details": {
            "cached_tokens": answer.cached_tokens,
            "cache_write_tokens": answer.stored_tokens,
        },
        "output_tokens": 0,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": answer.input_tokens,
    }
    return {"model": body["model"], "answers": answers, "usage": answer.told(usage) or None}


# -- Anthropic's messages, streamed and whole ------------------------------------------------------


_ANTHROPIC_FINISH = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "filtered": "refusal",
}
_ANTHROPIC_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


class AnthropicWire:
    name = "anthropic"

    def route(
        self, method: str, path: str, headers: Mapping[str, str], body: Mapping[str, Any]
    ) -> Route | None:
        if method == "POST" and path == "/v1/messages":
            return Route(
                self,
                model=str(body.get("model", "")),
                stream=body.get("stream") is True,
                required=("model", "max_tokens", "messages"),
            )
        # OpenAI lists its models at the same path; only Anthropic's clients send this header.
        if method == "GET" and path == "/v1/models" and "anthropic-version" in headers:
            return Route(self, lists_models=True)
        return None

    def whole(self, answer: Answer, model: str) -> dict[str, Any]:
        content = [{"type": "text", "text": answer.text}] if answer.text else []
        return {
            **_message(answer, model),
            "content": content + _anthropic_calls(answer, with_input=True),
            "stop_reason": _ANTHROPIC_FINISH[answer.finish_reason],
            "usage": {**_input_usage(answer), **_output_usage(answer)},
        }

    def events(self, answer: Answer, model: str, body: Mapping[str, Any]) -> list[Event]:
        events = [
            _event("message_start", message=_message(answer, model)),
            _event("ping"),
        ]
        blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
        if answer.thoughts:
            thoughts = answer.pieces(answer.thoughts)
            block = {"type": "thinking", "thinking": "", "signature": ""}
            blocks.append((block, [{"type": "thinking_delta", "thinking": t} for t in thoughts]))
        if answer.text:
            texts = answer.pieces(answer.text)
            deltas: list[dict[str, Any]] = [{"type": "text_delta", "text": part} for part in texts]
            blocks.append(({"type": "text", "text": ""}, deltas))
        for block, call in zip(
            _anthropic_calls(answer, with_input=False), answer.tool_calls, strict=True
        ):
            arguments = answer.pieces(json.dumps(dict(call.arguments)))
            # Anthropic opens every call with an empty piece.
            deltas = [
                {"type": "input_json_delta", "partial_json": part} for part in ["", *arguments]
            ]
            blocks.append((block, deltas))
        for index, (block, deltas) in enumerate(blocks):
            events.append(_event("content_block_start", index=index, content_block=block))
            events += [
                _event("content_block_delta", carries=True, index=index, delta=delta)
                for delta in deltas
            ]
            events.append(_event("content_block_stop", index=index))
        end = {"stop_reason": _ANTHROPIC_FINISH[answer.finish_reason], "stop_sequence": None}
        usage = _output_usage(answer)
        return [*events, _event("message_delta", delta=end, usage=usage), _event("message_stop")]

    def error(self, fault: Status) -> dict[str, Any]:
        kind = _ANTHROPIC_ERRORS.get(
            fault.status, "api_error" if fault.status >= 500 else "invalid_request_error"
        )
        return {
            "type": "error",
            "error": {"type": kind, "message": fault_message(fault)},
            "request_id": "req_loopback",
        }

    def error_event(self, fault: Status) -> bytes:
        return sse(self.error(fault), event="error")

    def broken_event(self) -> bytes:
        return sse('{"type": "content_block_delta", "delta": {"te', event="content_block_delta")

    def error_headers(self, fault: Status) -> dict[str, str]:
        return retry_after_header(fault)

    def models(self, names: Sequence[str]) -> dict[str, Any]:
        rows = [
            {
                "type": "model",
                "id": name,
                "display_name": name,
                "created_at": "2026-01-01T00:00:00Z",
            }
            for name in names
        ]
        return {"data": rows, "has_more": False, "first_id": None, "last_id": None}


def _message(answer: Answer, model: str) -> dict[str, Any]:
    return {
        "id": "msg_loopback",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        # The final count comes with message_delta; a reader that stops here counts wrongly.
        "usage": {**_input_usage(answer), "output_tokens": 1},
    }


def _input_usage(answer: Answer) -> dict[str, Any]:
    return answer.told(
        {
            # Unlike the others, Anthropic does not include cached tokens here.
            "input_tokens": answer.input_tokens - answer.cached_tokens - answer.stored_tokens,
            "cache_creation_input_tokens": answer.stored_tokens,
            "cache_read_input_tokens": answer.cached_tokens,
        }
    )


def _output_usage(answer: Answer) -> dict[str, Any]:
    usage: dict[str, Any] = {"output_tokens": answer.output_tokens}
    if answer.reasoning_tokens:
        usage["output_tokens_details"] = {"thinking_tokens": answer.reasoning_tokens}
    return answer.told(usage)


def _anthropic_calls(answer: Answer, *, with_input: bool) -> list[dict[str, Any]]:
    return [
        {
            "type": "tool_use",
            "id": call.id or f"toolu_loopback_{index}",
            "name": call.name,
            "input": dict(call.arguments) if with_input else {},
        }
        for index, call in enumerate(answer.tool_calls)
    ]


def _event(kind: str, *, carries: bool = False, **fields: Any) -> Event:
    return Event(sse({"type": kind, **fields}, event=kind), carries)


# -- Gemini's generateContent, streamed and whole, and its embeddings ------------------------------


_GENERATE = re.compile(
    r"/v1(?:beta|alpha)?/models/([^/:]+):(streamGenerateContent|generateContent)"
)
_EMBED = re.compile(r"/v1(?:beta|alpha)?/models/([^/:]+):batchEmbedContents")
_LIST = re.compile(r"/v1(?:beta|alpha)?/models")
# Gemini has no reason of its own for tool calls.
_GEMINI_FINISH = {
    "stop": "STOP",
    "length": "MAX_TOKENS",
    "tool_calls": "STOP",
    "filtered": "SAFETY",
}
_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_NEWLINE = "\r\n"  # Google's streams use it; a reader that splits on "\n\n" alone sees no event


class GeminiWire:
    name = "gemini"

    def route(
        self, method: str, path: str, headers: Mapping[str, str], body: Mapping[str, Any]
    ) -> Route | None:
        found = _GENERATE.fullmatch(path)
        if method == "POST" and found:
            return Route(
                self,
                model=found[1],
                stream=found[2] == "streamGenerateContent",
                required=("contents",),
                audio=_sound_in(body.get("contents")),
            )
        found = _EMBED.fullmatch(path)
        if method == "POST" and found:
            return Route(
                self,
                model=found[1],
                required=("requests",),
                shape=functools.partial(_gemini_embeddings, body),
            )
        # OpenAI lists its models at /v1/models too; only Google's clients send this header.
        if method == "GET" and _LIST.fullmatch(path) and "x-goog-api-key" in headers:
            return Route(self, lists_models=True)
        return None

    def whole(self, answer: Answer, model: str) -> dict[str, Any]:
        parts = ([{"text": answer.text}] if answer.text else []) + _gemini_calls(answer)
        return _response(answer, model, parts, last=True)

    def events(self, answer: Answer, model: str, body: Mapping[str, Any]) -> list[Event]:
        parts: list[dict[str, Any]] = [
            {"text": piece, "thought": True} for piece in answer.pieces(answer.thoughts)
        ]
        parts += [{"text": piece} for piece in answer.pieces(answer.text)]
        parts += _gemini_calls(answer)
        events = [
            Event(sse(_response(answer, model, [part], last=False), newline=_NEWLINE), True)
            for part in parts
        ]
        # The reason has its own event, so that a cut before it is seen as a cut.
        end = _response(answer, model, [{"text": ""}] if parts else [], last=True)
        return [*events, Event(sse(end, newline=_NEWLINE))]

    def error(self, fault: Status) -> dict[str, Any]:
        error: dict[str, Any] = {
            "code": fault.status,
            "message": fault_message(fault),
            "status": _STATUS.get(fault.status, "UNKNOWN"),
        }
        if fault.retry_after_s is not None:
            error["details"] = [
                {
                    "@type": "type.googleapis.com/google.rpc.RetryInfo",
                    "retryDelay": f"{fault.retry_after_s:g}s",
                }
            ]
        return {"error": error}

    def error_event(self, fault: Status) -> bytes:
        return sse(self.error(fault), newline=_NEWLINE)

    def broken_event(self) -> bytes:
        return sse('{"candidates": [{"content": {"parts": [{"te', newline=_NEWLINE)

    def error_headers(self, fault: Status) -> dict[str, str]:
        return {}  # Gemini says in the body how long to wait

    def models(self, names: Sequence[str]) -> dict[str, Any]:
        rows = [
            {
                "name": f"models/{name}",
                "displayName": name,
                "supportedGenerationMethods": ["generateContent"],
            }
            for name in names
        ]
        return {"models": rows}


def _sound_in(contents: Any) -> bytes:
    """The first inline sound of a conversation."""
    with contextlib.suppress(AttributeError, TypeError):  # a shape that no Google client sends
        for part in (part for turn in contents or () for part in turn.get("parts") or ()):
            inline = part.get("inlineData") or {}
            kind = inline.get("mimeType") or inline.get("mime_type")  # Google accepts either
            if str(kind).startswith("audio/"):
                return decoded(inline.get("data"))
    return b""


def _gemini_embeddings(body: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    texts = [
        "".join(part.get("text", "") for part in each["content"]["parts"])
        for each in body["requests"]
    ]
    wanted = [each.get("outputDimensionality") for each in body["requests"]]
    vectors = vectors_for(answer, texts, int((wanted and wanted[0]) or DIMENSIONS))
    return {
        "embeddings": [{"values": list(vector)} for vector in vectors],
        "usageMetadata": {"promptTokenCount": answer.input_tokens},
    }


def _gemini_calls(answer: Answer) -> list[dict[str, Any]]:
    """Gemini sends each call whole, never in pieces."""
    calls = []
    for call in answer.tool_calls:
        shape: dict[str, Any] = {"name": call.name, "args": dict(call.arguments)}
        if call.id:
            shape["id"] = call.id
        calls.append({"functionCall": shape})
    return calls


def _response(
    answer: Answer, model: str, parts: list[dict[str, Any]], *, last: bool
) -> dict[str, Any]:
    content: dict[str, Any] = {"role": "model"}
    if parts:
        content["parts"] = parts
    candidate: dict[str, Any] = {"content": content, "index": 0}
    if last:
        candidate["finishReason"] = _GEMINI_FINISH[answer.finish_reason]
    return {
        "candidates": [candidate],
        "usageMetadata": _gemini_usage(answer, last=last),
        "modelVersion": model,
        "responseId": "loopback",
    }


def _gemini_usage(answer: Answer, *, last: bool) -> dict[str, Any]:
    usage: dict[str, Any] = {
        "promptTokenCount": answer.input_tokens,
        "totalTokenCount": answer.input_tokens,
    }
    if answer.cached_tokens:
        usage["cachedContentTokenCount"] = answer.cached_tokens
    if answer.audio_tokens:
        words = answer.input_tokens - answer.audio_tokens
        usage["promptTokensDetails"] = [
            {"modality": "TEXT", "tokenCount": words},
            {"modality": "AUDIO", "tokenCount": answer.audio_tokens},
        ]
    if last:
        # Unlike the others, Gemini does not count thoughts as part of the answer.
        usage["candidatesTokenCount"] = answer.output_tokens - answer.reasoning_tokens
        usage["totalTokenCount"] += answer.output_tokens
        if answer.reasoning_tokens:
            usage["thoughtsTokenCount"] = answer.reasoning_tokens
    return answer.told(usage)


# -- Cactus Cloud's text and speech endpoints, which never stream or report usage ------------------


class CactusWire:
    name = "cactus"

    def route(
        self, method: str, path: str, headers: Mapping[str, str], body: Mapping[str, Any]
    ) -> Route | None:
        if method == "POST" and path == "/api/v1/text":
            return Route(self, model=str(body.get("model", "")), required=("text",))
        if method == "POST" and path == "/api/v1/transcribe":
            return Route(
                self,
                required=("audio", "mime_type"),
                audio=decoded(body.get("audio")),
                shape=lambda answer: {"transcript": answer.text},
            )
        return None

    def whole(self, answer: Answer, model: str) -> dict[str, Any]:
        calls = [
            {"name": call.name, "arguments": dict(call.arguments)} for call in answer.tool_calls
        ]
        return {"text": answer.text, "function_calls": calls}

    def events(self, answer: Answer, model: str, body: Mapping[str, Any]) -> list[Event]:
        return []

    def error(self, fault: Status) -> dict[str, Any]:
        # The service documents no error body; this is the simplest possible one.
        return {"error": fault_message(fault)}

    def error_event(self, fault: Status) -> bytes:
        return b""

    def broken_event(self) -> bytes:
        return b""

    def error_headers(self, fault: Status) -> dict[str, str]:
        return retry_after_header(fault)

    def models(self, names: Sequence[str]) -> dict[str, Any]:
        return {}
