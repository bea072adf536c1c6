"""A request from what a caller gives: its messages, the settings' defaults, and checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from edgewise import plugins
from edgewise.errors import InvalidRequest
from edgewise.settings import Settings
from edgewise.types.messages import Handoff, Message, Request, Role

Prompt = str | Message | Sequence[Message]


def build_request(prompt: Prompt, options: dict[str, Any], settings: Settings) -> Request:
    """A validated request, with the settings where the options are silent."""
    given = dict(options)
    messages = _messages(prompt, given.pop("system", ""), tuple(given.pop("images", ())))
    if "stop" in given:
        given["stop"] = tuple(given["stop"])
    if "tools" in given:
        from edgewise.functions.tool_schema import as_tools  # noqa: PLC0415  # only with tools

        given["tools"] = as_tools(given["tools"])
    defaults = {
        "policy": settings.policy,
        "handoff": settings.handoff,
        "threshold": settings.threshold,
        "max_tokens": settings.max_tokens,
        "store_text": settings.store_text,
    }
    request = Request(messages=messages, **(defaults | given))
    _validate(request)
    return request


def _messages(prompt: Prompt, system: str, images: tuple[Any, ...]) -> tuple[Message, ...]:
    if isinstance(prompt, str):
        messages: tuple[Message, ...] = (Message("user", prompt, images=images),)
    elif images:
        raise InvalidRequest("images= goes with a text prompt; put them into the message instead")
    else:
        messages = (prompt,) if isinstance(prompt, Message) else tuple(prompt)
    return (Message("system", system), *messages) if system else messages


def _validate(request: Request) -> None:
    checks = (
        (bool(request.messages), "there is no message"),
        (
            all(message.role in get_args(Role) for message in request.messages),
            f"a message's role must be one of {', '.join(get_args(Role))}",
        ),
        (
            any(message.content or message.images for message in request.messages),
            "the prompt is empty",
        ),
        (request.max_tokens >= 1, f"max_tokens = {request.max_tokens}: at least 1"),
        (request.temperature >= 0, f"temperature = {request.temperature}: 0 or more"),
        (
            request.threshold is None or 0 <= request.threshold <= 1,
            f"threshold = {request.threshold}: between 0 and 1",
        ),
        (request.handoff in get_args(Handoff), f"handoff = {request.handoff!r}"),
        (
            request.deadline_ms is None or request.deadline_ms > 0,
            f"deadline_ms = {request.deadline_ms}: more than 0",
        ),
    )
    for good, complaint in checks:
        if not good:
            raise InvalidRequest(complaint)
    plugins.load("policies", request.policy)
