"""Tools, a doubtful function model and loopback settings, for stories about function calls."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from edgewise import Settings
from edgewise.testing import Answer, LoopbackCloud, ScriptedFunctionModel
from edgewise.types.messages import Tool, ToolCall
from edgewise.types.replies import CallReply

_PIECES = re.compile(r"\w+|\s+|[^\w\s]")


def tool(name: str, description: str, **properties: dict[str, Any]) -> Tool:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return Tool(name, description, schema)


TIMER = tool(
    "set_timer",
    "Set a countdown timer",
    minutes={"type": "integer", "description": "Number of minutes"},
)
WEATHER = tool(
    "get_weather",
    "Get current weather for a location",
    location={"type": "string", "description": "City name"},
)
MESSAGE = tool(
    "send_message",
    "Send a message to a contact",
    recipient={"type": "string", "description": "Name of the person"},
    message={"type": "string", "description": "The message content"},
)
TOOLS = (TIMER, WEATHER, MESSAGE)
NAMES = {each.name for each in TOOLS}

TWO = "Set a timer for 5 minutes and check the weather in London"
BOTH = 'set_timer {"minutes":5}\nget_weather {"location":"London"}'
FIVE = ToolCall("set_timer", {"minutes": 5})
LONDON = ToolCall("get_weather", {"location": "London"})


def function_model(
    *answers: str, doubt: Sequence[str] = (), doubtful: float = -2.5, **options: Any
) -> ScriptedFunctionModel:
    """Writes `answers`; every call is nearly certain, except those of the tools in `doubt`."""
    evidence = []
    for answer in answers:
        doubted, logprobs = answer in doubt, []
        for piece in [*_PIECES.findall(answer), ""]:
            if piece in NAMES:
                doubted = piece in doubt
            logprobs.append(doubtful if doubted else -0.001)
        evidence.append(logprobs)
    return ScriptedFunctionModel(answers, logprobs=evidence, **options)


def settings_for(cloud: LoopbackCloud, **overrides: Any) -> Settings:
    environment = {
        **os.environ,
        "OPENAI_API_KEY": "test-key",
        "OPENAI_BASE_URL": cloud.openai_url,
    }
    return Settings.load(environment, **overrides)


def calls(*made: ToolCall, **options: Any) -> Answer:
    """The answer of a cloud that calls functions and says nothing."""
    return Answer(text="", tool_calls=made, **options)


class BrokenArguments(Answer):
    """Calls whose arguments are not JSON."""

    @override
    def pieces(self, text: str) -> list[str]:
        return ['{"location": "Lon', 'don"] oh'] if text.startswith("{") else []


def said(cloud: LoopbackCloud) -> list[str]:
    """What left the device: the last message of each request."""
    return [request.body["messages"][-1]["content"] for request in cloud.requests]


def made(reply: CallReply) -> list[tuple[str, dict[str, Any], str]]:
    return [(call.name, dict(call.arguments), call.source) for call in reply.calls]
