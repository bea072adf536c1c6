"""Ollama's `/api/chat` and `/api/generate`: reads bodies, writes answers whole or in lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from edgewise.calls.tools import as_tools
from edgewise.server.body import Flag, Many, Model, Object, Text, decode_picture, read_body
from edgewise.server.errors import Fault, ollama_error
from edgewise.server.openai.chat import (
    ModelName,
    NestedTool,
    Seed,
    Temperature,
    Texts,
    sampling,
    system_first,
)
from edgewise.server.wire import Ask, Opening, Report, answered_usage, model_name, to_json
from edgewise.types.messages import Image, Message, ResponseFormat, ToolCall
from edgewise.types.replies import Reply, Switched, TextDelta

LINES = {
    "content-type": "application/x-ndjson",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}
NANOSECONDS = 1_000_000  # in a millisecond
# By their first bytes: this API sends pictures without saying what they are.
PICTURES = {"iVBOR": "image/png", "/9j/": "image/jpeg", "R0lG": "image/gif", "UklG": "image/webp"}


class CalledFunction(Model):
    name: Text
    arguments: Object = Field(default_factory=dict)


class Called(Model):
    function: CalledFunction


class Turn(Model):
    role: Literal["system", "user", "assistant", "tool"]
    content: Text | None = None
    images: Many[Text] | None = None
    tool_calls: Many[Called] | None = None
    tool_name: Text | None = None


class Options(Model):
    """Those that mean something here; the others are a matter of Ollama's runtime."""

    model_config = ConfigDict(extra="ignore")

    temperature: Temperature | None = None
    seed: Seed | None = None
    num_predict: Annotated[int | None, Field(description="-1: as many as the settings say")] = None
    stop: Texts | None = None


class Common(Model):
    model: ModelName
    stream: Annotated[Flag | None, Field(description="true unless it is said")] = None
    format: Annotated[
        Literal["", "json"] | Object | None, Field(description="json, or a JSON Schema")
    ] = None
    options: Options | None = None


class ChatRequest(Common):
    messages: Many[Turn] = Field(default_factory=list)
    tools: Many[NestedTool] | None = None


class GenerateRequest(Common):
    prompt: Text | None = None
    system: Text | None = None
    images: Many[Text] | None = None


def read_chat(body: bytes) -> Ask:
    asked = read_body(ChatRequest, body)
    tools = as_tools([{"function": dict(each.function)} for each in asked.tools or ()])
    return _ask(asked, tuple(_turns(asked)), {"tools": tools} if tools else {})


def read_generate(body: bytes) -> Ask:
    asked = read_body(GenerateRequest, body)
    pictures = _pictures(asked.images, "images")
    turn = Message("user", asked.prompt or "", images=pictures)
    return _ask(asked, system_first(asked.system or "", iter([turn])), {})


def _ask(asked: Common, messages: tuple[Message, ...], more: Mapping[str, Any]) -> Ask:
    given = asked.options or Options()
    limit = given.num_predict if given.num_predict and given.num_predict > 0 else None
    options = sampling(limit, given.temperature, given.seed, given.stop) | dict(more)
    if asked.format == "json":
        options["response_format"] = ResponseFormat()
    elif asked.format:
        assert isinstance(asked.format, dict), "a format is a word or a schema"
        options["response_format"] = ResponseFormat(asked.format, strict=True)
    return Ask(
        model=asked.model.removesuffix(":latest"),  # clients add it to names without a tag
        messages=messages,
        options=options,
        metadata={},
        stream=asked.stream is not False,
    )


def _turns(asked: ChatRequest) -> Iterator[Message]:
    """Ollama's calls have no ids: a result belongs to the first open call of its tool."""
    waiting: list[tuple[str, str]] = []  # id and tool of calls without a result
    for number, turn in enumerate(asked.messages):
        words = turn.content or ""
        if turn.role == "assistant":
            calls = tuple(
                ToolCall(each.function.name, each.function.arguments, f"call_{number}_{place}")
                for place, each in enumerate(turn.tool_calls or ())
            )
            waiting += [(call.id, call.name) for call in calls]
            yield Message("assistant", words, tool_calls=calls)
        elif turn.role == "tool":
            same = [each for each in waiting if turn.tool_name in (None, each[1])] or waiting[:1]
            waiting = [each for each in waiting if each not in same[:1]]
            yield Message("tool", words, tool_call_id=same[0][0] if same else "")
        else:
            pictures = _pictures(turn.images, f"messages[{number}].images")
            yield Message(turn.role, words, images=pictures)


def _pictures(given: list[str] | None, path: str) -> tuple[Image, ...]:
    return tuple(
        decode_picture(
            data,
            next((kind for start, kind in PICTURES.items() if data.startswith(start)), "unknown"),
            f"{path}[{number}]",
        )
        for number, data in enumerate(given or ())
    )


class OllamaWire:
    """`/api/chat`."""

    name = "ollama.chat"
    stream_head = LINES

    def read(self, body: bytes, *, remote_images: bool) -> Ask:
        return read_chat(body)

    def piece(self, text: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": text}
        return {"message": message | ({"tool_calls": calls} if calls else {})}

    def whole(self, ask: Ask, reply: Reply, extra: Report) -> dict[str, Any]:
        return self.line(ask, reply.text, reply, extra)

    def line(
        self, ask: Ask, text: str, reply: Reply | None = None, extra: Report | None = None
    ) -> dict[str, Any]:
        found = {
            "model": ask.model if reply is None else model_name(ask, reply),
            "created_at": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
            **self.piece(text, [] if reply is None else _calls(reply)),
            "done": reply is not None,
        }
        if reply is None:
            return found
        used, first_ms = answered_usage(reply), reply.first_token_ms or 0.0
        return found | {
            "done_reason": "length" if reply.finish_reason == "length" else "stop",
            "total_duration": round(reply.total_ms * NANOSECONDS),
            "load_duration": 0,
            "prompt_eval_count": used.input_tokens,
            "prompt_eval_duration": round(first_ms * NANOSECONDS),
            "eval_count": used.output_tokens,
            "eval_duration": round((reply.total_ms - first_ms) * NANOSECONDS),
            "edgewise": extra,
        }

    def writer(self, ask: Ask, request_id: str) -> OllamaWriter:
        return OllamaWriter(self, ask)

    def error(self, fault: Fault) -> dict[str, Any]:
        return ollama_error(fault)


class GenerateWire(OllamaWire):
    """`/api/generate`."""

    name = "ollama.generate"

    def read(self, body: bytes, *, remote_images: bool) -> Ask:
        return read_generate(body)

    def piece(self, text: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
        return {"response": text}


class OllamaWriter:
    """One JSON object a line; the last one is `done`."""

    def __init__(self, wire: OllamaWire, ask: Ask) -> None:
        self._wire, self._ask = wire, ask

    def begin(self, opening: Opening) -> Iterator[bytes]:
        yield from ()

    def text(self, delta: TextDelta) -> Iterator[bytes]:
        yield _line(self._wire.line(self._ask, delta.text))

    def switched(self, event: Switched) -> Iterator[bytes]:
        yield from ()  # clients would take another object for text

    def end(self, reply: Reply, extra: Report) -> Iterator[bytes]:
        yield _line(self._wire.line(self._ask, "", reply, extra))

    def failed(self, fault: Fault) -> Iterator[bytes]:
        yield _line(ollama_error(fault))


def _line(value: object) -> bytes:
    return to_json(value) + b"\n"


def _calls(reply: Reply) -> list[dict[str, Any]]:
    return [
        {"function": {"name": call.name, "arguments": dict(call.arguments)}}
        for call in reply.tool_calls
    ]
