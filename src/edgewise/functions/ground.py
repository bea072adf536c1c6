"""Is each argument of a call supported by the words of the request?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgewise.functions.ground_values import support
from edgewise.functions.heard import GroundKind, Heard, Support, hear
from edgewise.functions.parameter import parameters
from edgewise.types.calls import Complaint
from edgewise.types.messages import Tool, ToolCall

__all__ = [
    "UNGROUNDED", "GroundKind", "Grounding", "Heard", "Support", "check_grounding", "ground",
    "hear",
]  # fmt: skip

# Below this an argument counts as made up.
UNGROUNDED = 0.3


@dataclass(frozen=True, slots=True)
class Grounding:
    """How well the request supports each argument, by name; nested ones count with their parent."""

    arguments: Mapping[str, Support]

    @property
    def score(self) -> float:
        """The worst argument's score: a call is as good as its worst argument."""
        return min((one.score for one in self.arguments.values()), default=1.0)

    @property
    def ungrounded(self) -> tuple[str, ...]:
        return tuple(name for name, one in self.arguments.items() if one.score < UNGROUNDED)


def ground(call: ToolCall, tool: Tool, request: str | Heard) -> Grounding:
    """Support for every argument. Pass a `Heard` to judge several calls of one request."""
    heard = request if isinstance(request, Heard) else hear(request)
    fields = parameters(tool.parameters)
    return Grounding(
        {
            name: support(value, name, fields.get(name, {}), tool.parameters, heard)
            for name, value in call.arguments.items()
        }
    )


def check_grounding(
    call: ToolCall, tool: Tool, request: str | Heard, index: int | None = None
) -> tuple[Complaint, ...]:
    """A complaint for each argument that the request does not support."""
    found = ground(call, tool, request)
    return tuple(
        Complaint("ungrounded", _message(name, call.arguments[name]), index, name)
        for name in found.ungrounded
    )


def _message(name: str, value: Any) -> str:
    written = repr(value)
    shown = written if len(written) <= 80 else f"{written[:77]}..."
    return f"the request does not say {name}={shown}"
