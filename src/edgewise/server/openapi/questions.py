"""What requests may say: the bodies that the readers take, with their limits."""

from __future__ import annotations

from edgewise import plugins
from edgewise.calls.tools import (
    NAME_LIMIT,
    TOOLS_LIMIT,
)
from edgewise.server.openai.chat import (
    MOST_ALTERNATIVES,
    MOST_TOKENS,
)
from edgewise.server.openai.embeddings import (
    MOST_DIMENSIONS,
    MOST_TEXTS,
)
from edgewise.server.openai.responses import (
    LOGPROBS,
    STATEFUL,
)
from edgewise.server.openai.transcriptions import (
    FORMATS,
    MOST_TEMPERATURE,
)
from edgewise.server.openapi.shapes import (
    CHANCE,
    FLAG,
    OBJECT,
    TEXT,
    WORD,
    Schema,
    asked,
    choice,
    either,
    known_or,
    listed,
    maybe,
    named,
    number,
    said,
    whole,
)
from edgewise.server.routing import LEAST_SHARE, MOST_SHARE

NOTHING: Schema = {"type": "null"}
NAME: Schema = {
    "type": "string",
    "pattern": "^[^\\s{}\\x00-\\x1f]([^{}\\x00-\\x1f]*[^\\s{}\\x00-\\x1f])?$",
    "maxLength": NAME_LIMIT,
}
MODEL = said("auto, local/NAME or cloud/PROVIDER/MODEL", known_or(TEXT, "auto", "local", "cloud"))
ROUTING_WORD: Schema = {"type": "string", "pattern": r"\S", "maxLength": 128}
ROUTING: dict[str, Schema] = {
    "policy": choice(*plugins.names("policies")),
    "privacy": said("private: never leaves the device", choice("private", "open")),
    "handoff": said("signal: only say that it should be", choice("automatic", "signal")),
    "threshold": CHANCE,
    "max_error": said("of what is kept, in place of a threshold", number(LEAST_SHARE, MOST_SHARE)),
    "error_probability": said("that it is more after all", number(LEAST_SHARE, MOST_SHARE)),
    "cloud_share": said("of requests, in place of a threshold", CHANCE),
    "deadline_ms": number(1, 86_400_000),
    "budget_key": said("whose budget pays", ROUTING_WORD),
}
ARGUMENTS = said("an object, as JSON text", known_or(TEXT, "{}"))
SCHEMA: Schema = OBJECT | {"minProperties": 1}
LIMIT = whole(1, MOST_TOKENS)
PARAMETERS: Schema = OBJECT | {"properties": {"type": choice("object", "dict")}}
FUNCTION_FIELDS = {"description": TEXT, "parameters": PARAMETERS}
TEXT_PART = asked({"type": choice("text", "input_text", "output_text"), "text": TEXT})
REFUSAL_PART = asked({"type": choice("refusal"), "refusal": TEXT})
PICTURE = said("data:image/…;base64,…; an address where the server fetches them", TEXT)
WORDS = maybe(either(TEXT, listed(either(TEXT_PART, REFUSAL_PART))))
WORDS_AND_PICTURES = maybe(
    either(
        TEXT,
        listed(
            either(
                TEXT_PART,
                REFUSAL_PART,
                asked({"type": choice("image_url"), "image_url": asked({"url": PICTURE})}),
                asked({"type": choice("input_image"), "image_url": PICTURE}),
            )
        ),
    )
)
NUMBER_TEXT: Schema = {"type": "string", "pattern": "^[0-9]+([.][0-9]+)?$"}
STOP = maybe(either(TEXT, listed(TEXT)))


def _metadata(**more: Schema) -> Schema:
    """Routing, under its own names or with `edgewise_` before them; clients may keep more here."""
    fields = {
        name: either(schema, NUMBER_TEXT) if schema.get("type") == "number" else schema
        for name, schema in (ROUTING | more).items()
    }
    return asked({}, fields)


def _sampling(*limits: str) -> dict[str, Schema]:
    return {
        **dict.fromkeys(limits, LIMIT),
        "temperature": number(0, 2),
        "seed": whole(-(2**63), 2**63),
        "stop": STOP,
    }


TOOL = either(
    asked({"type": choice("function"), "function": asked({"name": NAME}, FUNCTION_FIELDS)}),
    asked({"type": choice("function"), "name": NAME}, FUNCTION_FIELDS),
)
TOOLS: dict[str, Schema] = {
    "tools": said("each name once", listed(TOOL, maxItems=TOOLS_LIMIT)),
    "tool_choice": said(
        "a named one must be among the tools",
        either(
            choice("none", "auto", "required"),
            asked({"function": asked({"name": TEXT})}),
            asked({"name": TEXT}, {"function": NOTHING}),
        ),
    ),
}
SCHEMA_FIELDS = {"name": TEXT, "strict": FLAG}
CHAT_MESSAGE = either(
    asked({"role": choice("system", "developer")}, {"content": WORDS}),
    asked({"role": choice("user")}, {"content": WORDS_AND_PICTURES}),
    asked(
        {"role": choice("assistant")},
        {
            "content": WORDS,
            "tool_calls": listed(
                asked({"id": TEXT, "function": asked({"name": TEXT}, {"arguments": ARGUMENTS})})
            ),
        },
    ),
    asked({"role": choice("tool"), "tool_call_id": TEXT}, {"content": WORDS}),
)
CHAT = asked(
    {
        "model": MODEL,
        "messages": said("at least one with words", listed(named("ChatMessage"), minItems=1)),
    },
    {
        **_sampling("max_completion_tokens", "max_tokens"),
        **TOOLS,
        "n": choice(1),
        "response_format": either(
            asked({}, {"type": choice("text", "json_object")}),
            asked(
                {
                    "type": choice("json_schema"),
                    "json_schema": asked({"schema": SCHEMA}, SCHEMA_FIELDS),
                }
            ),
        ),
        "logprobs": FLAG,
        "top_logprobs": said("goes with logprobs = true", whole(0, MOST_ALTERNATIVES)),
        "stream": FLAG,
        "stream_options": asked({}, {"include_usage": FLAG}),
        "modalities": either(choice("text"), listed(choice("text"))),
        "metadata": _metadata(),
    },
)
RESPONSE_ITEM = either(
    asked(
        {"role": choice("system", "developer", "assistant")},
        {"type": choice("message"), "content": WORDS},
    ),
    asked({"role": choice("user")}, {"type": choice("message"), "content": WORDS_AND_PICTURES}),
    asked(
        {"type": choice("function_call"), "name": TEXT, "call_id": TEXT}, {"arguments": ARGUMENTS}
    ),
    asked({"type": choice("function_call_output"), "call_id": TEXT}, {"output": WORDS}),
    said("another model's thoughts; passed over", asked({"type": choice("reasoning")})),
)
RESPONSE = asked(
    {
        "model": MODEL,
        "input": either(TEXT, listed(named("ResponseItem"), minItems=1)),
    },
    {
        **_sampling("max_output_tokens"),
        **TOOLS,
        **dict.fromkeys(STATEFUL, said("refused: nothing is kept", NOTHING)),
        "background": choice(False),
        "instructions": TEXT,
        "text": asked(
            {},
            {
                "format": either(
                    asked({}, {"type": choice("text", "json_object")}),
                    asked({"type": choice("json_schema"), "schema": SCHEMA}, SCHEMA_FIELDS),
                )
            },
        ),
        "include": either(TEXT, listed(known_or(TEXT, LOGPROBS))),
        "top_logprobs": whole(0, MOST_ALTERNATIVES),
        "stream": FLAG,
        "metadata": _metadata(),
    },
)
_SOURCE = either(
    asked({"type": choice("base64"), "media_type": TEXT, "data": TEXT}),
    asked({"type": choice("url"), "url": PICTURE}),
)
_TEXT_BLOCK = asked({"type": choice("text"), "text": TEXT})
_IMAGE_BLOCK = asked({"type": choice("image"), "source": _SOURCE})
_THOUGHT = said("passed over", asked({"type": choice("thinking", "redacted_thinking")}))
_RESULT_BLOCK = asked(
    {"type": choice("tool_result"), "tool_use_id": TEXT},
    {"content": either(TEXT, listed(either(_TEXT_BLOCK, _IMAGE_BLOCK)))},
)
_CALL_BLOCK = asked({"type": choice("tool_use"), "id": TEXT, "name": TEXT}, {"input": OBJECT})


def _turn(role: str, *blocks: Schema) -> Schema:
    return asked({"role": choice(role), "content": either(TEXT, listed(either(*blocks)))})


TURN = either(
    _turn("user", _TEXT_BLOCK, _THOUGHT, _IMAGE_BLOCK, _RESULT_BLOCK),
    _turn("assistant", _TEXT_BLOCK, _THOUGHT, _CALL_BLOCK),
    _turn("system", _TEXT_BLOCK, _THOUGHT),
)
MESSAGES = asked(
    {
        "model": MODEL,
        "max_tokens": LIMIT,
        "messages": said("at least one with words", listed(named("Turn"), minItems=1)),
    },
    {
        "system": either(TEXT, listed(asked({"text": TEXT}))),
        "temperature": number(0, 2),
        "stop_sequences": STOP,
        "tools": listed(
            asked(
                {"name": NAME},
                {"type": choice("custom"), "description": TEXT, "input_schema": PARAMETERS},
            ),
            maxItems=TOOLS_LIMIT,
        ),
        "tool_choice": either(
            asked({}, {"type": choice("auto", "any", "none")}),
            asked({"type": choice("tool"), "name": TEXT}),
        ),
        "output_config": asked(
            {}, {"format": asked({"type": choice("json_schema"), "schema": SCHEMA})}
        ),
        "stream": FLAG,
        "metadata": _metadata(),
    },
)
EMBEDDINGS = asked(
    {"input": either(WORD, listed(WORD, minItems=1, maxItems=MOST_TEXTS))},
    {
        "model": MODEL,
        "encoding_format": choice("float", "base64"),
        "dimensions": whole(1, MOST_DIMENSIONS),
        "metadata": _metadata(space=said("refuse vectors of another space", TEXT)),
    },
)
LANGUAGE: Schema = {"type": "string", "pattern": "^([A-Za-z]{2,3}([-_].*)?|[Aa]uto)?$"}
TRUTH = choice("true", "false", "1", "0", "")
TRANSCRIPTION: Schema = {
    "type": "object",
    "required": ["file"],
    "properties": {
        "file": said("a sound file", {"type": "string", "format": "binary"}),
        "model": MODEL,
        "language": said("a code like en; empty: found out", LANGUAGE),
        "prompt": said("words that show how it is spelt", TEXT),
        "temperature": number(0, MOST_TEMPERATURE),
        "response_format": choice(*FORMATS),
        "timestamp_granularities[]": listed(choice("word", "segment")),
        "include[]": listed(choice("logprobs")),
        "stream": TRUTH,
    }
    | {f"metadata[{name}]": schema for name, schema in ROUTING.items()},
}
