"""OpenAI's responses: reads the body, writes answers. Nothing is kept between requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from annotated_types import MaxLen
from pydantic import Field, WithJsonSchema
from typing_extensions import TypedDict

from edgewise.server.body import (
    BadField,
    Flag,
    Model,
    OneOf,
    Other,
    Refused,
    Text,
    TextOrMany,
    foreign,
    parse_body,
    read_model,
    refused,
)
from edgewise.server.chat import (
    Alternatives,
    Arguments,
    ModelName,
    NamedSchema,
    Parts,
    PlainFormat,
    Seed,
    Temperature,
    Texts,
    TokenLimit,
    TokenLogprob,
    ToolChoice,
    Tools,
    held_to,
    listed,
    logprobs,
    read_content,
    sampling,
    system_first,
    tool_options,
)
from edgewise.server.errors import Error, Fault, openai_error
from edgewise.server.wire import (
    COMMENT,
    EVENTS,
    Ask,
    Count,
    Metadata,
    NotEmpty,
    Opening,
    Report,
    answered_by,
    answered_usage,
    arguments_text,
    call_ids,
    sse,
    switch_note,
)
from edgewise.types.messages import Message, ResponseFormat, ToolCall, WireName
from edgewise.types.replies import Reply, Switched, TextDelta, Token

LOGPROBS = "message.output_text.logprobs"
NO_STATE = "this server keeps no state; send the whole conversation"

Stateful = Annotated[Refused, refused(NO_STATE), Field(description="refused: nothing is kept")]


class ResponseMessage(Model):
    """Only a user's may hold images."""

    type: Literal["message"] | None = None
    role: Literal["system", "developer", "user", "assistant"]
    content: Parts | None = None


class ResponseCall(Model):
    type: Literal["function_call"]
    name: Text
    call_id: Text
    arguments: Arguments = Field(default_factory=dict)


class ResponseCallOutput(Model):
    type: Literal["function_call_output"]
    call_id: Text
    output: Parts | None = None


class ResponseReasoning(Model):
    """Another model's thoughts; passed over."""

    type: Literal["reasoning"]


ResponseItem = ResponseMessage | ResponseCall | ResponseCallOutput | ResponseReasoning


class ResponseSchemaFormat(NamedSchema):
    type: Literal["json_schema"]


class ResponseText(Model):
    format: Annotated[PlainFormat | ResponseSchemaFormat, OneOf("type")] | None = None


class ResponseRequest(Model):
    model: ModelName
    input: TextOrMany[Annotated[ResponseItem, OneOf("type", other=True)]]
    max_output_tokens: TokenLimit | None = None
    temperature: Temperature | None = None
    seed: Seed | None = None
    stop: Texts | None = None
    tools: Tools | None = None
    tool_choice: ToolChoice | None = None
    previous_response_id: Stateful = None
    conversation: Stateful = None
    prompt: Stateful = None
    background: Annotated[Flag | None, WithJsonSchema({"enum": [False, None]})] = None
    instructions: Text | None = None
    text: ResponseText | None = None
    include: Annotated[
        Texts | None,
        WithJsonSchema(
            {
                "anyOf": [
                    {"type": ["string", "null"]},
                    {
                        "type": "array",
                        "items": {"anyOf": [{"enum": [LOGPROBS]}, {"type": "string"}]},
                    },
                ]
            }
        ),
    ] = None
    top_logprobs: Alternatives | None = None
    stream: Flag | None = None
    metadata: Metadata | None = None


def read_response(body: bytes, *, remote_images: bool) -> Ask:
    sent = parse_body(body)
    asked = read_model(ResponseRequest, sent)
    if asked.background:
        raise BadField("background", "this server keeps no state; stream it instead")
    options = sampling(asked.max_output_tokens, asked.temperature, asked.seed, asked.stop)
    options |= tool_options(asked.tools, asked.tool_choice)
    given = asked.text.format if asked.text else None
    if isinstance(given, ResponseSchemaFormat):
        options["response_format"] = held_to(given)
    elif given is not None and given.type == "json_object":
        options["response_format"] = ResponseFormat()
    evidence = LOGPROBS in listed(asked.include)
    if evidence:
        options["evidence"] = True
    return Ask(
        model=asked.model,
        messages=system_first(asked.instructions or "", _turns(asked.input, remote_images)),
        options=options,
        metadata=asked.metadata or {},
        stream=bool(asked.stream),
        logprobs=(asked.top_logprobs or 0) if evidence else None,
        body=sent,
        read=asked,
        foreign=tuple(dict.fromkeys(_foreign(asked))),
    )


def _foreign(asked: ResponseRequest) -> Iterator[str]:
    yield from foreign(asked.input)
    if isinstance(asked.tool_choice, Other):
        yield "tool_choice"


def _turns(given: str | Sequence[ResponseItem | Other], remote: bool) -> Iterator[Message]:
    if isinstance(given, str):
        yield Message("user", given)
        return
    calls: list[ToolCall] = []
    for number, item in enumerate(given):
        if isinstance(item, ResponseCall):  # calls of one turn stand side by side
            calls.append(ToolCall(item.name, item.arguments, item.call_id))
            continue
        if calls:
            yield Message("assistant", tool_calls=tuple(calls))
            calls = []
        if isinstance(item, ResponseMessage):
            yield _read_message(item, f"input[{number}].content", remote)
        elif isinstance(item, ResponseCallOutput):
            text, images = read_content(item.output, f"input[{number}].output", remote)
            yield Message("tool", text, images=images, tool_call_id=item.call_id)
    if calls:
        yield Message("assistant", tool_calls=tuple(calls))


def _read_message(item: ResponseMessage, path: str, remote: bool) -> Message:
    text, images = read_content(item.content, path, remote)
    if images and item.role != "user":
        raise BadField(path, "only a user's message may hold images")
    role = "system" if item.role == "developer" else item.role
    return Message(role, text, images=images)


class OutputText(TypedDict):
    type: Literal["output_text"]
    text: str
    annotations: Annotated[list[Any], MaxLen(0)]
    logprobs: list[TokenLogprob]


class OutputMessage(TypedDict):
    id: NotEmpty
    type: Literal["message"]
    status: Literal["in_progress", "completed"]
    role: Literal["assistant"]
    content: list[OutputText]


class OutputCall(TypedDict):
    id: NotEmpty
    type: Literal["function_call"]
    status: Literal["completed"]
    call_id: NotEmpty
    name: NotEmpty
    arguments: str


class CachedTokens(TypedDict):
    cached_tokens: Count


class ReasoningTokens(TypedDict):
    reasoning_tokens: Count


class ResponseUsage(TypedDict):
    input_tokens: Count
    input_tokens_details: CachedTokens
    output_tokens: Count
    output_tokens_details: ReasoningTokens
    total_tokens: Count


class IncompleteDetails(TypedDict):
    reason: Literal["max_output_tokens", "content_filter"]


class Response(TypedDict):
    """Besides these there is what the official client expects to find."""

    id: NotEmpty
    object: Literal["response"]
    created_at: Count
    status: Literal["completed", "incomplete"]
    model: str
    output: list[OutputMessage | OutputCall]
    error: None
    incomplete_details: IncompleteDetails | None
    metadata: dict[str, Any]
    temperature: float
    usage: ResponseUsage
    edgewise: Report


class ResponsesWire:
    name = "responses"
    forwards: WireName | None = "responses"
    note_places = ("response", "response")
    in_path: tuple[str, bool] | None = None
    ping = COMMENT
    stream_head = EVENTS

    def read(self, body: bytes, *, remote_images: bool) -> Ask:
        return read_response(body, remote_images=remote_images)

    def whole(self, ask: Ask, reply: Reply, extra: Report) -> dict[str, Any]:
        evidence = reply.decision.evidence if reply.source == "local" else ()
        output: list[OutputMessage | OutputCall] = []
        if reply.text:
            output.append(_message(reply.id, [_text(ask, reply.text, evidence)]))
        output += [_call(reply, number) for number in range(len(reply.tool_calls))]
        cut = reply.finish_reason == "length"
        short = cut or (reply.finish_reason == "filtered" and not reply.tool_calls)
        reason = "max_output_tokens" if cut else "content_filter"
        return _response(
            ask,
            reply.id,
            status="incomplete" if short else "completed",
            model=answered_by(ask, reply),
            output=output,
            incomplete_details={"reason": reason} if short else None,
            usage=_usage(reply),
            edgewise=extra,
        )

    def writer(self, ask: Ask, request_id: str) -> ResponsesWriter:
        return ResponsesWriter(ask, request_id)

    def error(self, fault: Fault) -> Error:
        return openai_error(fault)


class ResponsesWriter:
    """`response.*` events, numbered from 0."""

    def __init__(self, ask: Ask, request_id: str) -> None:
        self._ask = ask
        self._id = request_id
        self._model = ask.model
        self._number = 0
        self._texts: list[str] = []
        self._tokens: list[Token] = []

    def begin(self, opening: Opening) -> Iterator[bytes]:
        self._model = opening.model or self._ask.model
        begun = self._going(opening.to_dict())
        yield self._event("response.created", response=begun)
        yield self._event("response.in_progress", response=begun)

    def text(self, delta: TextDelta) -> Iterator[bytes]:
        if not self._texts:
            item = _message(self._id, [], status="in_progress")
            yield self._event("response.output_item.added", output_index=0, item=item)
            yield self._part("response.content_part.added", part=_text(self._ask, "", ()))
        self._texts.append(delta.text)
        self._tokens += delta.tokens
        wanted = self._ask.logprobs
        evidence = logprobs(delta.tokens, wanted)["content"] if wanted is not None else []
        yield self._part("response.output_text.delta", delta=delta.text, logprobs=evidence)

    def switched(self, event: Switched) -> Iterator[bytes]:
        note = switch_note(event)
        yield self._event("response.in_progress", response=self._going(note))

    def end(self, reply: Reply, extra: Report) -> Iterator[bytes]:
        if self._texts:
            yield from self._end_of_text()
        first = 1 if self._texts else 0
        for number in range(len(reply.tool_calls)):
            yield from self._call(_call(reply, number), first + number)
        whole = ResponsesWire().whole(self._ask, reply, extra)
        yield self._event(f"response.{whole['status']}", response=whole)

    def failed(self, fault: Fault) -> Iterator[bytes]:
        error = {"code": fault.code, "message": fault.message}
        broken = _response(self._ask, self._id, model=self._model, status="failed", error=error)
        yield self._event("response.failed", response=broken)

    def _going(self, note: Mapping[str, Any]) -> dict[str, Any]:
        return _response(
            self._ask, self._id, model=self._model, status="in_progress", edgewise=note
        )

    def _end_of_text(self) -> Iterator[bytes]:
        part = _text(self._ask, "".join(self._texts), self._tokens)
        done = {"text": part["text"], "logprobs": part["logprobs"]}
        yield self._part("response.output_text.done", **done)
        yield self._part("response.content_part.done", part=part)
        item = _message(self._id, [part])
        yield self._event("response.output_item.done", output_index=0, item=item)

    def _call(self, item: Mapping[str, Any], index: int) -> Iterator[bytes]:
        begun = {**item, "arguments": "", "status": "in_progress"}
        yield self._event("response.output_item.added", output_index=index, item=begun)
        place = {"item_id": item["id"], "output_index": index}
        arguments = item["arguments"]
        yield self._event("response.function_call_arguments.delta", **place, delta=arguments)
        yield self._event(
            "response.function_call_arguments.done",
            **place,
            name=item["name"],
            arguments=arguments,
        )
        yield self._event("response.output_item.done", output_index=index, item=item)

    def _part(self, kind: str, **fields: Any) -> bytes:
        place = {"item_id": f"msg_{self._id}", "output_index": 0, "content_index": 0}
        return self._event(kind, **place, **fields)

    def _event(self, kind: str, **fields: Any) -> bytes:
        number, self._number = self._number, self._number + 1
        return sse({"type": kind, "sequence_number": number, **fields}, kind)


def _response(ask: Ask, request_id: str, **fields: Any) -> dict[str, Any]:
    """Everything the official client expects to find, changed by `fields`."""
    choice = ask.options.get("tool_choice", "auto")
    return {
        "id": f"resp_{request_id}",
        "object": "response",
        "created_at": ask.created,
        "status": "in_progress",
        "model": ask.model,
        "output": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": dict(ask.metadata),
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "store": False,
        "temperature": ask.options.get("temperature", 0.0),
        "text": {"format": {"type": "text"}},
        "tool_choice": choice if isinstance(choice, str) else {"type": "function", **choice},
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
        **fields,
    }


def _message(
    request_id: str,
    content: list[OutputText],
    *,
    status: Literal["in_progress", "completed"] = "completed",
) -> OutputMessage:
    return {
        "id": f"msg_{request_id}",
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": content,
    }


def _text(ask: Ask, text: str, tokens: Sequence[Token]) -> OutputText:
    evidence = logprobs(tokens, ask.logprobs)["content"] if ask.logprobs is not None else []
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": evidence}


def _call(reply: Reply, number: int) -> OutputCall:
    name, call = call_ids(reply)[number]
    return {
        "id": f"fc_{reply.id}_{number}",
        "type": "function_call",
        "status": "completed",
        "call_id": name,
        "name": call.name,
        "arguments": arguments_text(call),
    }


def _usage(reply: Reply) -> ResponseUsage:
    counted = answered_usage(reply)
    return {
        "input_tokens": counted.input_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": counted.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": counted.input_tokens + counted.output_tokens,
    }
