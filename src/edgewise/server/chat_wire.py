"""OpenAI's chat completions: the shapes of answers, whole and streamed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from edgewise.server.chat_request import read_chat
from edgewise.server.faults import Fault
from edgewise.server.fields import Fields
from edgewise.server.wire import (
    Ask,
    Opening,
    answered_usage,
    arguments_text,
    call_ids,
    model_name,
    sse,
    switch_note,
)
from edgewise.types.replies import Reply, Switched, TextDelta
from edgewise.types.tokens import Token

FINISH = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "filtered": "content_filter",
}


class ChatWire:
    name = "chat.completions"

    def read(self, body: Fields, *, remote_images: bool) -> Ask:
        return read_chat(body, remote_images=remote_images)

    def whole(self, ask: Ask, reply: Reply, extra: Mapping[str, Any]) -> dict[str, Any]:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": reply.text or (None if reply.tool_calls or reply.signalled else ""),
            "refusal": None,
        }
        if reply.tool_calls:
            message["tool_calls"] = tool_calls(reply)
        choice = {
            "index": 0,
            "message": message,
            "logprobs": _whole_logprobs(ask, reply),
            "finish_reason": finish_reason(reply),
        }
        return {
            "id": f"chatcmpl-{reply.id}",
            "object": "chat.completion",
            "created": ask.created,
            "model": model_name(ask, reply),
            "choices": [choice],
            "usage": usage(reply),
            "system_fingerprint": None,
            "edgewise": dict(extra),
        }

    def writer(self, ask: Ask, request_id: str) -> ChatWriter:
        return ChatWriter(ask, request_id)

    def error(self, fault: Fault) -> dict[str, Any]:
        return openai_error(fault)


class ChatWriter:
    """`chat.completion.chunk` events, and `[DONE]`."""

    def __init__(self, ask: Ask, request_id: str) -> None:
        self._ask = ask
        self._head: dict[str, Any] = {
            "id": f"chatcmpl-{request_id}",
            "object": "chat.completion.chunk",
            "created": ask.created,
            "model": ask.model,
            "system_fingerprint": None,
        }

    def begin(self, opening: Opening) -> Iterator[bytes]:
        yield self._chunk({"role": "assistant", "content": ""}, edgewise=opening.to_dict())

    def text(self, delta: TextDelta) -> Iterator[bytes]:
        wanted = self._ask.logprobs
        evidence = None if wanted is None else logprobs(delta.tokens, wanted)
        yield self._chunk({"content": delta.text}, logprobs=evidence)

    def switched(self, event: Switched) -> Iterator[bytes]:
        said = switch_note(event)
        yield self._chunk({}, edgewise=said | {"confidence": event.confidence})

    def end(self, reply: Reply, extra: Mapping[str, Any]) -> Iterator[bytes]:
        for index, call in enumerate(tool_calls(reply)):
            yield self._chunk({"tool_calls": [{"index": index, **call}]})
        yield self._chunk({}, finish_reason(reply), edgewise=dict(extra))
        if self._ask.usage:
            yield sse({**self._head, "choices": [], "usage": usage(reply)})
        yield b"data: [DONE]\n\n"

    def failed(self, fault: Fault) -> Iterator[bytes]:
        yield sse(openai_error(fault))

    def _chunk(
        self,
        delta: Mapping[str, Any],
        finish: str | None = None,
        *,
        logprobs: Mapping[str, Any] | None = None,
        edgewise: Mapping[str, Any] | None = None,
    ) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        body: dict[str, Any] = {**self._head, "choices": [choice]}
        if self._ask.usage:
            body["usage"] = None
        if edgewise is not None:
            body["edgewise"] = edgewise
        return sse(body)


def openai_error(fault: Fault) -> dict[str, Any]:
    return {
        "error": {
            "message": fault.message,
            "type": fault.kind,
            "param": fault.param or None,
            "code": fault.code,
        }
    }


def finish_reason(reply: Reply) -> str:
    return "tool_calls" if reply.tool_calls else FINISH[reply.finish_reason]


def tool_calls(reply: Reply) -> list[dict[str, Any]]:
    return [
        {
            "id": name,
            "type": "function",
            "function": {"name": call.name, "arguments": arguments_text(call)},
        }
        for name, call in call_ids(reply)
    ]


def usage(reply: Reply) -> dict[str, int]:
    counted = answered_usage(reply)
    return {
        "prompt_tokens": counted.input_tokens,
        "completion_tokens": counted.output_tokens,
        "total_tokens": counted.input_tokens + counted.output_tokens,
    }


def logprobs(tokens: Sequence[Token], wanted: int) -> dict[str, Any]:
    """Evidence in OpenAI's form. A token inside a character has no text of its own."""
    return {
        "content": [
            {
                **_named(token.text, token.logprob),
                "top_logprobs": [_named(*each) for each in token.alternatives[:wanted]],
            }
            for token in tokens
            if token.has_evidence
        ],
        "refusal": None,
    }


def _named(text: str, logprob: float) -> dict[str, Any]:
    return {"token": text, "logprob": logprob, "bytes": list(text.encode())}


def _whole_logprobs(ask: Ask, reply: Reply) -> dict[str, Any] | None:
    """Only the device has evidence, and only an answer that is all its own is described by it."""
    if ask.logprobs is None or reply.source != "local":
        return None
    return logprobs(reply.decision.evidence, ask.logprobs)
