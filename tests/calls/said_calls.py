"""Two tools, a request for both, and an answer as the function model writes it, token by token."""

from __future__ import annotations

from collections.abc import Sequence

from edgewise.calls.check import call_features
from edgewise.calls.prompt import parse_answer
from edgewise.types.messages import Tool
from edgewise.types.replies import Token

KETTLE = Tool(
    "kettle.heat",
    "Heat water in the kettle",
    {
        "type": "object",
        "required": ["degrees"],
        "properties": {
            "degrees": {"type": "integer", "description": "Temperature"},
            "label": {"type": "string", "description": "Name of the brew"},
        },
    },
)
BLINDS = Tool(
    "blinds.close",
    "Close the blinds of a room",
    {"type": "object", "required": ["room"], "properties": {"room": {"type": "string"}}},
)
TOOLS = (KETTLE, BLINDS)
REQUEST = "Heat the kettle to 85 and close the blinds in the study"
# Tokens of the two calls: name, opening, value, closing; then the end token, which has no text.
TEXTS = (
    "kettle", ".heat", ' {"degrees":', "8", "5", "}\n",
    "blinds", ".close", ' {"room":"', "study", '"}', "",
)  # fmt: skip


def tokens(logprobs: Sequence[float]) -> list[Token]:
    return [Token(text, chance) for text, chance in zip(TEXTS, logprobs, strict=True)]


SURE = tokens([-0.01] * len(TEXTS))


def features_of(answer: Sequence[Token]) -> tuple[dict[str, float], ...]:
    return call_features(
        answer, parse_answer("".join(token.text for token in answer)), TOOLS, REQUEST
    )
