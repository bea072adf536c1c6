"""What answers look like: the shapes that the wires write."""

from __future__ import annotations

from edgewise.server.anthropic.messages import STOP
from edgewise.server.openapi.reports import REPORT_FIELDS, SIGNAL_FIELDS
from edgewise.server.openapi.shapes import (
    AMOUNT,
    ANYTHING,
    COUNT,
    NUMBER,
    OBJECT,
    TEXT,
    WORD,
    Schema,
    choice,
    either,
    listed,
    maybe,
    named,
    record,
    said,
)

_NAMED_LOGPROB: dict[str, Schema] = {
    "token": TEXT,
    "logprob": {"type": "number", "maximum": 0},
    "bytes": listed({"type": "integer", "minimum": 0, "maximum": 255}),
}
LOGPROB = record(_NAMED_LOGPROB | {"top_logprobs": listed(record(_NAMED_LOGPROB), maxItems=20)})
_TOOL_CALL = record(
    {
        "id": WORD,
        "type": choice("function"),
        "function": record({"name": WORD, "arguments": TEXT}),
    }
)
CHAT = record(
    {
        "id": WORD,
        "object": choice("chat.completion"),
        "created": COUNT,
        "model": TEXT,
        "choices": listed(
            record(
                {
                    "index": choice(0),
                    "message": record(
                        {
                            "role": choice("assistant"),
                            "content": maybe(TEXT),
                            "refusal": {"type": "null"},
                            "tool_calls": listed(_TOOL_CALL, minItems=1),
                        },
                        optional=("tool_calls",),
                    ),
                    "logprobs": maybe(
                        record({"content": listed(LOGPROB), "refusal": {"type": "null"}})
                    ),
                    "finish_reason": choice("stop", "length", "tool_calls", "content_filter"),
                }
            ),
            minItems=1,
            maxItems=1,
        ),
        "usage": record(
            dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"), COUNT)
        ),
        "system_fingerprint": {"type": "null"},
        "edgewise": named("Report"),
    }
)
_OUTPUT = either(
    record(
        {
            "id": WORD,
            "type": choice("message"),
            "status": choice("completed"),
            "role": choice("assistant"),
            "content": listed(
                record(
                    {
                        "type": choice("output_text"),
                        "text": TEXT,
                        "annotations": listed(ANYTHING, maxItems=0),
                        "logprobs": listed(LOGPROB),
                    }
                )
            ),
        }
    ),
    record(
        {
            "id": WORD,
            "type": choice("function_call"),
            "status": choice("completed"),
            "call_id": WORD,
            "name": WORD,
            "arguments": TEXT,
        }
    ),
)
RESPONSE = record(
    {
        "id": WORD,
        "object": choice("response"),
        "created_at": COUNT,
        "status": choice("completed", "incomplete"),
        "model": TEXT,
        "output": listed(_OUTPUT),
        "error": {"type": "null"},
        "incomplete_details": maybe(
            record({"reason": choice("max_output_tokens", "content_filter")})
        ),
        "metadata": OBJECT,
        "temperature": NUMBER,
        "usage": record(
            {
                "input_tokens": COUNT,
                "input_tokens_details": record({"cached_tokens": COUNT}),
                "output_tokens": COUNT,
                "output_tokens_details": record({"reasoning_tokens": COUNT}),
                "total_tokens": COUNT,
            }
        ),
        "edgewise": named("Report"),
    }
)
MESSAGE = record(
    {
        "id": WORD,
        "type": choice("message"),
        "role": choice("assistant"),
        "model": TEXT,
        "content": listed(
            either(
                record({"type": choice("text"), "text": WORD}),
                record({"type": choice("tool_use"), "id": WORD, "name": WORD, "input": OBJECT}),
            )
        ),
        "stop_reason": choice(*STOP.values()),
        "stop_sequence": {"type": "null"},
        "usage": record({"input_tokens": COUNT, "output_tokens": COUNT}),
        "edgewise": named("Report"),
    }
)
EMBEDDINGS = record(
    {
        "object": choice("list"),
        "data": listed(
            record(
                {
                    "object": choice("embedding"),
                    "index": COUNT,
                    "embedding": said("base64 of 32-bit floats", either(listed(NUMBER), TEXT)),
                }
            )
        ),
        "model": TEXT,
        "usage": record({"prompt_tokens": COUNT, "total_tokens": COUNT}),
        "edgewise": record(
            REPORT_FIELDS
            | SIGNAL_FIELDS
            | {
                "space": said("vectors of two spaces must not be compared", TEXT),
                "dimensions": COUNT,
                "windows": listed(COUNT),
                "codes": listed(TEXT),
                "text_codes": listed(listed(TEXT)),
            },
            optional=tuple(SIGNAL_FIELDS),
        ),
    }
)
_DURATION = record({"type": choice("duration"), "seconds": COUNT})
_WORD_LOGPROBS = listed(record(_NAMED_LOGPROB))
_HEARD: dict[str, Schema] = {"text": TEXT, "usage": _DURATION, "edgewise": named("SpeechReport")}
TRANSCRIPT = either(
    record(_HEARD | {"logprobs": _WORD_LOGPROBS}, optional=("logprobs",)),
    record(
        _HEARD
        | {
            "task": choice("transcribe"),
            "language": TEXT,
            "duration": AMOUNT,
            "segments": listed(OBJECT),
            "words": listed(record({"word": TEXT, "start": AMOUNT, "end": AMOUNT})),
        },
        optional=("segments", "words"),
    ),
)
MODEL = record({"id": WORD, "object": choice("model"), "created": COUNT, "owned_by": WORD})
MODELS = record({"object": choice("list"), "data": listed(named("Model"), minItems=1)})
