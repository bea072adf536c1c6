"""Cactus Cloud: one string or sound in, one string out. No streaming, no usage report.

Its protocol has no sampling options, token limit or stop words: they are not sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from edgewise.cloud.conversation import (
    base64_text,
    described,
    estimated_finish,
    in_words,
    one_sound,
    refuse_task,
)
from edgewise.cloud.http import (
    WIRE_ID_HEADER,
    Wire,
    WireProvider,
    header_value,
    mapped,
    reading,
    refused,
)
from edgewise.cloud.provider import Chunk, CloudProvider, ProviderConfig
from edgewise.errors import CloudRejected
from edgewise.types.messages import Message, Request, ToolCall

LANGUAGE = "en-US"  # what the vendor's own client always sends
_TEXTS = ("text", "analysis")
_TRANSCRIPTS = ("transcript", "text", "response", "analysis")


def open_provider(config: ProviderConfig) -> CloudProvider:
    return CactusCloudProvider(config, Wire(config))


class CactusCloudProvider(WireProvider):
    def stream(self, request: Request, wire_id: str) -> Iterator[Chunk]:
        name, key = self._config.name, self._config.key
        path, body = payload(request, self._config)
        url = self._wire.base_url.rstrip("/") + path
        headers = {"X-API-Key": key, WIRE_ID_HEADER: header_value(wire_id)}
        with self._wire.attempt(wire_id, request.via), mapped(name, key):
            response = self._wire.client.post(url, json=body, headers=headers)
            if not response.is_success:
                raise refused(name, response, key=key)
            reply = response.json()
        heard = request.task == "transcribe"
        with reading(name):
            text, calls = _taken_apart(reply, f"call_{wire_id}", _TRANSCRIPTS if heard else _TEXTS)
        if text or heard:  # silence is an answer, too
            yield text
        yield from calls
        written = len(text) + sum(len(str(call.arguments)) for call in calls)
        yield estimated_finish(request, "tool_calls" if calls else "stop", written)


def payload(request: Request, config: ProviderConfig) -> tuple[str, dict[str, Any]]:
    """The path and the body: `/text`, `/vlm` with an image, `/transcribe` for sound."""
    if request.task == "transcribe":
        sound = one_sound(request, config.name)
        spoken = {"audio": base64_text(sound), "mime_type": sound.media_type}
        return "/transcribe", {**spoken, "language": request.language or LANGUAGE}
    if request.task == "embed":
        refuse_task(request, config.name)
    images = [image for message in request.messages for image in message.images]
    if len(images) > 1:
        raise CloudRejected(
            f"{config.name} takes one image per request, this one has {len(images)}",
            provider=config.name,
        )
    body = {"language": LANGUAGE, "model": config.model}
    if not images:
        return "/text", {"text": flattened(request), **body}
    picture = {"image": base64_text(images[0]), "mime_type": images[0].media_type}
    return "/vlm", {"prompt": flattened(request), **picture, **body}


def flattened(request: Request) -> str:
    """The conversation as one string: a single question as it is, otherwise `[role] words`."""
    messages = [message for message in request.messages if message.content or message.tool_calls]
    said = in_words(request)
    if len(messages) == 1 and messages[0].role == "user" and not request.tools and not said:
        return messages[0].content
    lines = [line for message in messages for line in _lines(message)]
    if request.tools and request.tool_choice != "none":
        lines.append(f"[tools] {json.dumps([described(tool) for tool in request.offered])}")
    if request.tools and request.tool_choice == "required":
        said = f"Call at least one of the tools. {said}".strip()
    lines += [f"[answer] {said}"] if said else []
    return "\n".join(lines)


def _lines(message: Message) -> Iterator[str]:
    if message.content:
        yield f"[{message.role}] {message.content}"
    for call in message.tool_calls:
        yield f"[{message.role} called] {call.name} {json.dumps(dict(call.arguments))}"


def _taken_apart(reply: Any, call_prefix: str, names: Sequence[str]) -> tuple[str, list[ToolCall]]:
    if not isinstance(reply, Mapping) or not reply.keys() & {*names, "function_calls"}:
        raise ValueError("no text, no analysis and no function calls in it")
    text = next((reply[name] for name in names if reply.get(name)), "")
    if not isinstance(text, str):
        raise ValueError("its text is not text")
    calls = []
    for number, call in enumerate(reply.get("function_calls") or ()):
        arguments = call.get("arguments") or {}
        if isinstance(arguments, str):
            arguments = json.loads(arguments)
        name = call["name"]
        calls.append(ToolCall(name, dict(arguments), f"{call_prefix}_{number}", "cloud"))
    return text, calls
