"""Ollama's `/api/chat` and `/api/generate`: reads bodies, writes answers whole or line by line."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict, override

from edgewise.calls.tools import TOOLS_LIMIT, as_tools
from edgewise.server.body import (
    BadField,
    Between,
    Flag,
    Many,
    Model,
    Object,
    Text,
    decode_picture,
    read_body,
)
from edgewise.server.errors import Fault, OllamaError, ollama_error
from edgewise.server.openai.chat import (
    MOST_TOKENS,
    ModelName,
    NestedTool,
    Seed,
    Temperature,
    Texts,
    sampling,
    system_first,
)
from edgewise.server.routing import Metadata
from edgewise.server.wire import (
    Ask,
    Count,
    NotEmpty,
    Opening,
    Report,
    answered_usage,
    call_ids,
    model_name,
    to_json,
)
from edgewise.types.messages import Image, Message, ResponseFormat, Tool, ToolCall
from edgewise.types.replies import Reply, Switched, TextDelta

LINES = {
    "content-type": "application/x-ndjson",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",  # proxies must pass each line on as it comes
}
NANOSECONDS = 1_000_000  # in a millisecond
LATEST = ":latest"  # the tag of a model that has no other
# This API sends pictures without their kind: the beginning of their base64 tells.
PICTURES = {"iVBOR": "image/png", "/9j/": "image/jpeg", "R0lG": "image/gif", "UklG": "image/webp"}


# -- what is asked ---------------------------------------------------------------------------------


class OllamaCalledFunction(Model):
    name: Text
    arguments: Object = Field(default_factory=dict)


class OllamaCall(Model):
    id: Annotated[Text | None, Field(description="older clients send none")] = None
    function: OllamaCalledFunction


class OllamaMessage(Model):
    role: Literal["system", "user", "assistant", "tool"]
    content: Text | None = None
    images: Annotated[Many[Text] | None, Field(description="base64, without a prefix")] = None
    tool_calls: Many[OllamaCall] | None = None
    tool_name: Text | None = None
    tool_call_id: Text | None = None


class OllamaOptions(Model):
    """The options that mean something here. The others belong to Ollama's runtime."""

    temperature: Temperature | None = None
    seed: Seed | None = None
    num_predict: Annotated[
        Annotated[int, Between(-2, MOST_TOKENS)] | None,
        Field(description="0 or less: the max_tokens of the settings"),
    ] = None
    stop: Texts | None = None


class OllamaRequest(Model):
    model: ModelName
    stream: Annotated[Flag | None, Field(description="true if it is left out")] = None
    format: Annotated[
        Literal["", "json"] | Object | None, Field(description="json, or a JSON Schema")
    ] = None
    options: OllamaOptions | None = None
    keep_alive: Annotated[Any, Field(description="ignored: models stay loaded")] = None
    think: Annotated[Any, Field(description="ignored: no thoughts are shown")] = None
    metadata: Metadata | None = None


class OllamaChatRequest(OllamaRequest):
    messages: Annotated[
        Many[OllamaMessage] | None, Field(description="none: only load the model")
    ] = None
    tools: (
        Annotated[
            Many[NestedTool],
            Field(description="each name once", json_schema_extra={"maxItems": TOOLS_LIMIT}),
        ]
        | None
    ) = None


class OllamaGenerateRequest(OllamaRequest):
    prompt: Annotated[Text | None, Field(description="none: only load the model")] = None
    system: Text | None = None
    images: Annotated[Many[Text] | None, Field(description="base64, without a prefix")] = None
    raw: Annotated[Flag | None, Field(description="only false")] = None
    template: Annotated[Text | None, Field(description="only empty")] = None
    suffix: Annotated[Text | None, Field(description="only empty")] = None


def read_chat(body: bytes) -> Ask:
    asked = read_body(OllamaChatRequest, body)
    tools = as_tools([{"function": dict(each.function)} for each in asked.tools or ()])
    empty = {"message": {"role": "assistant", "content": ""}}
    turns = tuple(_turns(asked.messages or ()))
    return _ask(asked, turns, None if asked.messages else empty, tools)


def read_generate(body: bytes) -> Ask:
    asked = read_body(OllamaGenerateRequest, body)
    for name in ("raw", "template", "suffix"):
        if getattr(asked, name):  # a cloud could not do it
            raise BadField(name, "not possible here; send a plain prompt")
    pictures = _pictures(asked.images, "images")
    turn = Message("user", asked.prompt or "", images=pictures)
    turns = system_first(asked.system or "", iter([turn]))
    return _ask(asked, turns, None if asked.prompt else {"response": ""})


def plain_name(model: str) -> str:
    """Clients add a tag to names that have none."""
    return model.removesuffix(LATEST)


def _ask(
    asked: OllamaRequest,
    messages: tuple[Message, ...],
    empty: dict[str, Any] | None,
    tools: tuple[Tool, ...] = (),
) -> Ask:
    """`empty` is the answer without words to a request without words: it only loads the model."""
    given = asked.options or OllamaOptions()
    limit = given.num_predict if (given.num_predict or 0) > 0 else None
    options = sampling(limit, given.temperature, given.seed, given.stop)
    if tools:
        options["tools"] = tools
    if asked.format == "json":
        options["response_format"] = ResponseFormat()
    elif isinstance(asked.format, dict):
        options["response_format"] = ResponseFormat(asked.format, strict=True)
    loaded = {"model": asked.model, "created_at": now(), "done": True, "done_reason": "load"}
    return Ask(
        model=plain_name(asked.model),
        messages=messages,
        options=options,
        metadata=asked.metadata or {},
        stream=asked.stream is not False,
        loaded=None if empty is None else loaded | empty,
    )


def _turns(given: list[OllamaMessage] | tuple[()]) -> Iterator[Message]:
    """Calls need ids. A result without one belongs to the first open call of its tool."""
    waiting: list[ToolCall] = []
    for number, turn in enumerate(given):
        words = turn.content or ""
        pictures = _pictures(turn.images, f"messages[{number}].images")
        if turn.role == "assistant":
            calls = tuple(
                ToolCall(
                    each.function.name, each.function.arguments, each.id or f"call_{number}_{place}"
                )
                for place, each in enumerate(turn.tool_calls or ())
            )
            waiting += calls
            yield Message("assistant", words, tool_calls=calls)
        elif turn.role == "tool":
            call = _answered(turn, waiting)
            waiting = [each for each in waiting if each is not call]
            name = turn.tool_call_id or (call.id if call else "")
            yield Message("tool", words, images=pictures, tool_call_id=name)
        else:
            yield Message(turn.role, words, images=pictures)


def _answered(result: OllamaMessage, waiting: list[ToolCall]) -> ToolCall | None:
    if result.tool_call_id:
        return next((call for call in waiting if call.id == result.tool_call_id), None)
    same = [call for call in waiting if result.tool_name in (None, "", call.name)]
    return next(iter([*same, *waiting]), None)


def _pictures(given: list[str] | None, path: str) -> tuple[Image, ...]:
    return tuple(
        decode_picture(
            data,
            next((kind for start, kind in PICTURES.items() if data.startswith(start)), "unknown"),
            f"{path}[{number}]",
        )
        for number, data in enumerate(given or ())
    )


# -- what is answered ------------------------------------------------------------------------------


class AnswerFunction(TypedDict):
    index: Count
    name: NotEmpty
    arguments: dict[str, Any]


class AnswerCall(TypedDict):
    id: NotEmpty
    function: AnswerFunction


class AnswerTurn(TypedDict):
    role: Literal["assistant"]
    content: str
    tool_calls: NotRequired[list[AnswerCall]]


class OllamaAnswer(TypedDict):
    """What both endpoints answer. The facts at the end come with the last line of a stream."""

    model: str
    created_at: NotEmpty
    done: bool
    done_reason: NotRequired[Literal["stop", "length", "load"]]
    total_duration: NotRequired[Annotated[Count, Field(description="nanoseconds")]]
    load_duration: NotRequired[Count]
    prompt_eval_count: NotRequired[Count]
    prompt_eval_duration: NotRequired[Count]
    eval_count: NotRequired[Count]
    eval_duration: NotRequired[Count]
    edgewise: NotRequired[Report]


class OllamaChatAnswer(OllamaAnswer):
    message: AnswerTurn


class OllamaGenerateAnswer(OllamaAnswer):
    response: str


def now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


class OllamaChatWire:
    """`/api/chat`."""

    name = "ollama.chat"
    stream_head = LINES

    def read(self, body: bytes, *, remote_images: bool) -> Ask:
        return read_chat(body)

    def piece(self, model: str, text: str, calls: list[AnswerCall]) -> dict[str, Any]:
        """One line of a stream, or the beginning of a whole answer."""
        turn: AnswerTurn = {"role": "assistant", "content": text}
        if calls:
            turn["tool_calls"] = calls
        return {"model": model, "created_at": now(), "message": turn, "done": False}

    def whole(self, ask: Ask, reply: Reply, extra: Report) -> dict[str, Any]:
        return self.piece(model_name(ask, reply), reply.text, calls_of(reply)) | _end(reply, extra)

    def writer(self, ask: Ask, request_id: str) -> OllamaWriter:
        return OllamaWriter(self, ask)

    def error(self, fault: Fault) -> OllamaError:
        return ollama_error(fault)


class OllamaGenerateWire(OllamaChatWire):
    """`/api/generate`, which has no tools."""

    name = "ollama.generate"

    @override
    def read(self, body: bytes, *, remote_images: bool) -> Ask:
        return read_generate(body)

    @override
    def piece(self, model: str, text: str, calls: list[AnswerCall]) -> dict[str, Any]:
        return {"model": model, "created_at": now(), "response": text, "done": False}


class OllamaWriter:
    """One JSON object a line. Calls have a line of their own; the last line is `done`."""

    def __init__(self, wire: OllamaChatWire, ask: Ask) -> None:
        self._wire, self._ask = wire, ask

    def begin(self, opening: Opening) -> Iterator[bytes]:
        yield from ()

    def text(self, delta: TextDelta) -> Iterator[bytes]:
        yield _line(self._wire.piece(self._ask.model, delta.text, []))

    def switched(self, event: Switched) -> Iterator[bytes]:
        yield from ()  # clients would take another object for text

    def end(self, reply: Reply, extra: Report) -> Iterator[bytes]:
        if calls := calls_of(reply):
            yield _line(self._wire.piece(self._ask.model, "", calls))
        yield _line(self._wire.piece(model_name(self._ask, reply), "", []) | _end(reply, extra))

    def failed(self, fault: Fault) -> Iterator[bytes]:
        yield _line(ollama_error(fault))


def _line(value: object) -> bytes:
    return to_json(value) + b"\n"


def calls_of(reply: Reply) -> list[AnswerCall]:
    return [
        {
            "id": name,
            "function": {"index": index, "name": call.name, "arguments": dict(call.arguments)},
        }
        for index, (name, call) in enumerate(call_ids(reply))
    ]


def _end(reply: Reply, extra: Report) -> dict[str, Any]:
    used, first_ms = answered_usage(reply), reply.first_token_ms or 0.0
    return {
        "done": True,
        "done_reason": "length" if reply.finish_reason == "length" else "stop",
        "total_duration": round(reply.total_ms * NANOSECONDS),
        "load_duration": 0,
        "prompt_eval_count": used.input_tokens,
        "prompt_eval_duration": round(first_ms * NANOSECONDS),
        "eval_count": used.output_tokens,
        "eval_duration": max(0, round((reply.total_ms - first_ms) * NANOSECONDS)),
        "edgewise": extra,
    }
