"""Anthropic's Messages API."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from edgewise.cloud.conversation import (
    base64_text,
    estimated_finish,
    in_turn,
    in_words,
    paired,
    refuse_task,
    system_prompt,
    written_call,
)
from edgewise.cloud.http import (
    WIRE_ID_HEADER,
    Try,
    Wire,
    WireProvider,
    broken,
    cut,
    expect_events,
    header_value,
    mapped,
    message_in,
    reading,
    refused,
)
from edgewise.cloud.provider import Chunk, CloudProvider, ProviderConfig
from edgewise.cloud.providers import Provider, row_for
from edgewise.types.messages import Image, Message, Request, ResponseFormat
from edgewise.types.tokens import Finish, FinishReason

if TYPE_CHECKING:
    import anthropic

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
    import anthropic  # noqa: PLC0415 - the SDK is slow to load; only its users wait

    wire = Wire(config)
    client = anthropic.Anthropic(
        api_key=config.key or "no-key",  # never empty: the SDK would read the environment
        base_url=wire.base_url,
        max_retries=0,
        timeout=wire.timeout,
        http_client=wire.client,
        open_telemetry=False,  # keep prompts out of other people's traces
    )
    return AnthropicProvider(config, wire, client)


class AnthropicProvider(WireProvider):
    def __init__(self, config: ProviderConfig, wire: Wire, client: anthropic.Anthropic) -> None:
        super().__init__(config, wire)
        self._client = client

    def stream(self, request: Request, wire_id: str) -> Iterator[Chunk]:
        name = self._config.name
        if request.task in ("transcribe", "embed"):
            refuse_task(request, name)
        options = payload(request, self._config.model, row_for(self._config))
        headers = {WIRE_ID_HEADER: header_value(wire_id)}
        with self._wire.attempt(wire_id, request.via) as current, _mapped(self._config):
            events = self._client.messages.create(**options, extra_headers=headers)
            expect_events(name, events.response)
            answer = _Answer(name, current)
            for event in events:
                with reading(name):
                    chunks = answer.take(event)
                yield from chunks
            yield answer.end(request)

    def check_key(self) -> None:
        with _mapped(self._config), reading(self._config.name):
            iter(self._client.models.list(limit=1).data)  # a log-in page of some network has none


def payload(request: Request, model: str, row: Provider) -> dict[str, Any]:
    """The request in Anthropic's format. It has no seed; stop words and tools are native."""
    traits = row.traits(model)
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": request.max_tokens,
        "messages": in_turn(
            paired(request.messages), _blocks, assistant="assistant", field="content"
        ),
        "stream": True,
        **(formatted := _format(request.response_format)),
    }
    said = "" if formatted else in_words(request)
    if system := "\n\n".join(filter(None, (system_prompt(request.messages), said))):
        body["system"] = system
    if request.stop:
        body["stop_sequences"] = list(request.stop)
    if request.tools:
        body["tools"] = [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": dict(tool.parameters),
            }
            for tool in request.tools
        ]
        if request.tool_choice != "auto":
            required = request.tool_choice == "required"
            body["tool_choice"] = {"type": "any" if required else "none"}
    if traits.thinking:
        body["thinking"] = {"type": traits.thinking}
    if traits.temperature:
        # The SDK no longer has this argument: newer models refuse it, older ones still obey.
        body["extra_body"] = {"temperature": request.temperature}
    return body


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
    source = {"type": "base64", "media_type": image.media_type, "data": base64_text(image)}
    return {"type": "image", "source": source}


@dataclass(slots=True)
class _Answer:
    """Builds an answer from its events."""

    provider: str
    current: Try
    characters: int = 0
    calls: dict[int, tuple[str, str, list[str]]] = field(default_factory=dict)
    reason: str = ""
    stopped: bool = False
    counts: dict[str, int] = field(default_factory=dict)

    def take(self, event: Any) -> list[Chunk]:
        match event.type:
            case "message_start":
                self._count(event.message.usage)
            case "content_block_start" if event.content_block.type == "tool_use":
                block = event.content_block
                self.calls[event.index] = (block.id, block.name, [])
            case "content_block_delta":
                return self._take_delta(event.index, event.delta)
            case "content_block_stop" if event.index in self.calls:
                id, name, pieces = self.calls[event.index]
                return [written_call(name, "".join(pieces), id)]
            case "message_delta":
                self.reason = event.delta.stop_reason or self.reason
                self._count(event.usage)
            case "message_stop":
                self.stopped = self.current.whole = True
        return []

    def _take_delta(self, index: int, delta: Any) -> list[Chunk]:
        if delta.type == "text_delta" and delta.text:
            self.characters += len(delta.text)
            return [delta.text]
        if delta.type == "input_json_delta":
            self.characters += len(delta.partial_json)
            self.calls[index][2].append(delta.partial_json)
        return []  # thinking is not part of the answer

    def _count(self, usage: Any) -> None:
        """Later counts replace earlier ones, unless they are missing."""
        for name in (
            "input_tokens",
            "output_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
        ):
            value = getattr(usage, name, None)
            if value is not None:
                self.counts[name] = int(value)

    def end(self, request: Request) -> Finish:
        if not (self.stopped and self.reason):
            raise cut(self.provider)
        reason = _FINISH.get(self.reason, "stop")
        if "input_tokens" not in self.counts:
            return estimated_finish(request, reason, self.characters)
        cached = self.counts.get("cache_read_input_tokens", 0)
        stored = self.counts.get("cache_creation_input_tokens", 0)
        return Finish(
            reason,
            # Anthropic counts cached tokens separately.
            input_tokens=self.counts["input_tokens"] + cached + stored,
            output_tokens=self.counts.get("output_tokens", 0),
            cached_tokens=cached,
        )


@contextlib.contextmanager
def _mapped(config: ProviderConfig) -> Generator[None]:
    import anthropic  # noqa: PLC0415

    with mapped(config.name, config.key):
        try:
            yield
        except anthropic.APIStatusError as error:
            status = error.status_code
            if status == 200:  # in the middle of a stream
                status = _STATUS_OF_TYPE.get(error.type or "", 500)
            raise refused(
                config.name,
                error.response,
                message=error.api_message or message_in(error.body),
                status=status,
                key=config.key,
            ) from error
        except anthropic.APIConnectionError as error:
            raise broken(config.name, error.__cause__ or error) from error
