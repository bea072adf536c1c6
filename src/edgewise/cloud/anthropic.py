"""Anthropic's Messages API."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from typing_extensions import override

from edgewise.cloud.conversation import (
    LONGEST_ANSWER,
    bytes_in,
    counted,
    estimated_finish,
    in_turn,
    in_words,
    paired,
    picture_source,
    refuse_task,
    system_prompt,
    whole_calls,
)
from edgewise.cloud.http import (
    AnswerBuilder,
    Post,
    Try,
    Wire,
    WireProvider,
    cut,
    exchange,
    mapped,
    reading,
    refused,
)
from edgewise.cloud.provider import Arrived, Chunk, CloudProvider, ProviderConfig
from edgewise.cloud.providers import Provider, row_for
from edgewise.types.messages import Image, Message, Original, Request, ResponseFormat
from edgewise.types.replies import Finish, FinishReason

VERSION = {"anthropic-version": "2023-06-01"}
_FINISH: dict[str, FinishReason] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "filtered",
}
# An error inside a stream has status 200 and only this word.
_STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}


def open_provider(config: ProviderConfig) -> CloudProvider:
    return AnthropicProvider(config, Wire(config))


class AnthropicProvider(WireProvider):
    def stream(self, request: Request, wire_id: str) -> Iterator[Chunk]:
        config, original = self._config, request.original
        if request.task in ("transcribe", "embed"):
            refuse_task(request, config.name)
        row = row_for(config)
        if original is None:
            body = payload(request, config.model, row)
            post = Post(path="/v1/messages", body=body)
        else:
            post = forwarded(request, original, config.model, row)
        post = replace(post, headers={**VERSION, **post.headers, **self._key})
        yield from exchange(
            self._wire,
            config,
            post,
            request,
            wire_id,
            lambda current: MessagesAnswer(config.name, current, raw=post.raw),
        )

    @property
    def _key(self) -> dict[str, str]:
        return {"x-api-key": self._config.key or "no-key"}

    def check_key(self) -> None:
        config = self._config
        with mapped(config.name, config.key), reading(config.name):
            url = self._wire.base_url.rstrip("/") + "/v1/models?limit=1"
            found = self._wire.client.get(url, headers=VERSION | self._key)
            if found.status_code >= 300:
                raise refused(config.name, found, key=config.key)
            iter(found.json()["data"])  # a log-in page of some network has none


def forwarded(request: Request, original: Original, model: str, row: Provider) -> Post:
    """The request as its client sent it, to this model. What a model refuses that we chose is
    adapted; to one that the client named, everything goes as it came."""
    body = dict(original.body)
    chosen = not str(body.get("model", "")).endswith(model)
    body["model"] = model
    if original.stream:
        body["stream"] = True
    traits = row.traits(model)
    if chosen and not traits.temperature:
        body.pop("temperature", None)
    if chosen and traits.thinking:
        body.setdefault("thinking", {"type": traits.thinking})
    return Post(
        path="/v1/messages",
        body=body,
        headers=original.headers,
        stream=original.stream,
        raw=True,
        together=original.put_together,
    )


def payload(request: Request, model: str, row: Provider) -> dict[str, Any]:
    """The request in Anthropic's format. It has no seed; stop words and tools are native."""
    traits = row.traits(model)
    body: dict[str, Any] = {
        "model": model,
        # The protocol has no "as long as it takes".
        "max_tokens": request.max_tokens or row.longest(model) or LONGEST_ANSWER,
        "messages": in_turn(
            paired(request.messages), _blocks, assistant="assistant", field="content"
        ),
        "stream": True,
        **(formatted := _format(request.response_format)),
        **_tools(request),
    }
    said = "" if formatted else in_words(request)
    if system := "\n\n".join(filter(None, (system_prompt(request.messages), said))):
        body["system"] = system
    if request.stop:
        body["stop_sequences"] = list(request.stop)
    if traits.thinking:
        body["thinking"] = {"type": traits.thinking}
    if traits.temperature:
        # Newer models refuse it, older ones still obey.
        body["temperature"] = request.temperature
    return body


def _tools(request: Request) -> dict[str, Any]:
    if not request.tools:
        return {}
    offered = [
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": dict(tool.parameters),
        }
        for tool in request.tools
    ]
    if request.chosen:
        return {"tools": offered, "tool_choice": {"type": "tool", "name": request.chosen}}
    kind = {"auto": "", "required": "any", "none": "none"}[request.tool_choice]
    return {"tools": offered, **({"tool_choice": {"type": kind}} if kind else {})}


def _format(wanted: ResponseFormat | None) -> dict[str, Any]:
    """Nothing for "any object": the protocol cannot say it, so the prompt does."""
    if wanted is None or not wanted.schema:
        return {}
    return {"output_config": {"format": {"type": "json_schema", "schema": dict(wanted.schema)}}}


def _blocks(message: Message) -> list[dict[str, Any]]:
    pictures = [_picture(image) for image in message.images]
    words = [{"type": "text", "text": message.content}] if message.content.strip() else []
    if message.role == "tool":
        return [
            {
                "type": "tool_result",
                "tool_use_id": message.tool_call_id,
                "content": [*words, *pictures],
            }
        ]
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)}
        for call in message.tool_calls
    ]
    return [*pictures, *words, *calls]


def _picture(image: Image) -> dict[str, Any]:
    return {"type": "image", "source": picture_source(image)}


def _go_on(block: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """A block with what one more event says: of its text, its thought, its signature."""
    if citation := delta.get("citation"):
        block["citations"] = [*(block.get("citations") or ()), citation]
    for name, value in delta.items():
        if name in ("type", "partial_json", "citation"):
            continue
        before = block.get(name)
        on = isinstance(before, str) and isinstance(value, str)
        block[name] = before + value if on else value


class MessagesAnswer(AnswerBuilder):
    """From the events of a message, or a whole one."""

    status_of = _STATUS_OF_TYPE

    def __init__(self, provider: str, current: Try, *, raw: bool) -> None:
        super().__init__(provider, current, raw=raw)
        self.characters = 0
        self.calls: dict[int, tuple[str, str, list[str]]] = {}
        self.reason = ""
        self.counts: dict[str, object] = {}

    @override
    def take(self, value: dict[str, Any]) -> Sequence[str | Arrived]:
        match value.get("type"):
            case "message_start":
                self._count(value["message"].get("usage"))
                self.counts.pop("output_tokens", None)  # of the first token; the end says more
            case "content_block_start":
                return [self._start(value["index"], value["content_block"])]
            case "content_block_delta":
                return self._take_delta(value["index"], value["delta"])
            case "message_delta":
                self.reason = value["delta"].get("stop_reason") or self.reason
                self.over = True
                self._count(value.get("usage"))
            case "message_stop":
                self.ended = self.current.whole = True
        return [Arrived(0)]

    @override
    def take_whole(self, value: dict[str, Any]) -> Sequence[str | Arrived]:
        self.reason, self.ended = value.get("stop_reason") or "", True
        self._count(value.get("usage"))
        texts: list[str | Arrived] = []
        hidden = 0
        for index, block in enumerate(value["content"]):
            if block["type"] == "text":
                texts.append(block["text"])
                self.characters += len(block["text"])
                continue
            hidden += bytes_in(block)
            if block["type"] == "tool_use":
                given = json.dumps(block["input"], ensure_ascii=False)
                self.calls[index] = (block["id"], block["name"], [given])
        return [Arrived(hidden), *texts]

    @override
    def together(self, events: Sequence[dict[str, Any]]) -> dict[str, Any]:
        message: dict[str, Any] = {}
        blocks: dict[int, dict[str, Any]] = {}
        inputs: dict[int, str] = {}
        for event in events:
            match event.get("type"):
                case "message_start":
                    message = {**event["message"]}
                case "content_block_start":
                    blocks[event["index"]] = {**event["content_block"]}
                case "content_block_delta":
                    index, delta = event["index"], event["delta"]
                    inputs[index] = inputs.get(index, "") + delta.get("partial_json", "")
                    _go_on(blocks[index], delta)
                case "message_delta":
                    used = {n: v for n, v in (event.get("usage") or {}).items() if v is not None}
                    more = {n: v for n, v in event.items() if n not in ("type", "delta", "usage")}
                    usage = {**(message.get("usage") or {}), **used}
                    message |= {**more, **event["delta"], "usage": usage}
        for index, text in inputs.items():
            if text:
                with contextlib.suppress(ValueError):  # a limit cut it, as the reason says
                    blocks[index]["input"] = json.loads(text)
        return {**message, "content": [blocks[index] for index in sorted(blocks)]}

    def _start(self, index: int, block: dict[str, Any]) -> Arrived:
        """The name of a call, or a thought that nobody may read."""
        if block["type"] == "tool_use":
            self.calls[index] = (block["id"], block["name"], [])
            return Arrived(bytes_in(block["name"]))
        return Arrived(bytes_in({n: v for n, v in block.items() if n != "type"}))

    def _take_delta(self, index: int, delta: dict[str, Any]) -> Sequence[str | Arrived]:
        if delta["type"] == "text_delta" and delta["text"]:
            if not isinstance(delta["text"], str):
                raise TypeError("text is not text")
            self.characters += len(delta["text"])
            return [delta["text"]]
        if delta["type"] == "input_json_delta":
            self.characters += len(delta["partial_json"])
            if index in self.calls:  # else the provider's own tool
                self.calls[index][2].append(delta["partial_json"])
        # Thinking is not part of the answer.
        return [Arrived(bytes_in(delta) - bytes_in(delta["type"]))]

    def _count(self, usage: Any) -> None:
        """Later counts replace earlier ones, unless they are missing."""
        for name in (
            "input_tokens",
            "output_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
        ):
            if (value := (usage or {}).get(name)) is not None:
                self.counts[name] = value
        long = (usage or {}).get("cache_creation") or {}
        if (value := long.get("ephemeral_1h_input_tokens")) is not None:
            self.counts["stored_long"] = value
        # What it read and wrote to sum the conversation up is in none of the sums above.
        more = [
            each
            for each in (usage or {}).get("iterations") or ()
            if each.get("type") == "compaction"
        ]
        for name in ("input_tokens", "output_tokens") if more else ():
            self.counts[f"summed_{name}"] = counted(*(each.get(name, 0) for each in more))
        used = (usage or {}).get("server_tool_use") or {}
        if (value := used.get("web_search_requests")) is not None:
            self.counts["searches"] = value

    @override
    def end(self, request: Request) -> Iterator[Chunk]:
        if not (self.ended and self.reason):
            raise cut(self.provider)
        reason = _FINISH.get(self.reason, "stop")
        with reading(self.provider):
            written = ((name, "".join(parts), id) for id, name, parts in self.calls.values())
            calls = list(whole_calls(written, reason, passed_on=self.raw))
        yield from calls
        yield self._finish(request, reason)

    def _finish(self, request: Request, reason: FinishReason) -> Finish:
        if not {"input_tokens", "output_tokens"} <= self.counts.keys():
            return estimated_finish(request, reason, self.characters)
        cached = self.counts.get("cache_read_input_tokens", 0)
        stored = self.counts.get("cache_creation_input_tokens", 0)
        return Finish(
            reason,
            # Anthropic counts cached tokens separately.
            input_tokens=counted(
                self.counts["input_tokens"],
                cached,
                stored,
                self.counts.get("summed_input_tokens", 0),
            ),
            output_tokens=counted(
                self.counts["output_tokens"], self.counts.get("summed_output_tokens", 0)
            ),
            cached_tokens=counted(cached),
            stored_tokens=counted(stored),
            stored_long_tokens=counted(self.counts.get("stored_long", 0)),
            searches=counted(self.counts.get("searches", 0)),
        )
