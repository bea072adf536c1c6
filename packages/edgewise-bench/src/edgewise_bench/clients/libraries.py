"""A small agent on an official library: `python -m edgewise_bench.clients.libraries NAME URL DIR`.

It sends as many fields as its protocol has, so that one that is lost on the way is seen.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edgewise_bench.clients.programs import ORDER

MOST_TURNS = 5
SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "text": {"type": "string", "description": "All of the file."},
        "mode": {"type": "number"},
        "size": {"type": "integer"},
    },
    "required": ["path", "text"],
    "additionalProperties": False,
}
ABOUT = "Write a file."
PIXEL = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
        "1f15c4890000000d49444154789c6360606060000000050001a5f64540"
        "0000000049454e44ae426082"
    )
).decode()


def openai_chat(url: str, write: Callable[[str], str]) -> None:
    import openai  # noqa: PLC0415 - one run needs one of them

    function = {"name": "write_file", "description": ABOUT, "parameters": SCHEMA, "strict": True}
    messages: list[Any] = [
        {"role": "system", "content": "You are careful.", "name": "house"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "  Before the picture.\n"},
                {
                    "type": "image_url",
                    "image_url": {"url": f"data:image/png;base64,{PIXEL}", "detail": "low"},
                },
                {"type": "text", "text": ORDER},
            ],
        },
    ]
    with openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
        for turn in range(MOST_TURNS):
            ask: Any = client.chat.completions.create
            with ask(
                model="auto",
                messages=messages,
                tools=[{"type": "function", "function": function}],
                tool_choice="auto",
                parallel_tool_calls=False,
                stream=True,
                stream_options={"include_usage": True},
                temperature=0.7,
                top_p=0.9,
                seed=7,
                presence_penalty=0.1,
                frequency_penalty=0.2,
                logit_bias={"50256": -100},
                user="somebody",
                store=True,
                metadata={"job": "greeting"},
                service_tier="auto",
                reasoning_effort="low",
                verbosity="low",
                prompt_cache_key="greeting-1",
                stop=["<never>"],
            ) as events:
                said, calls = _chat_answer(events)
            messages.append({"role": "assistant", "content": said, "tool_calls": calls})
            if not calls:
                messages[-1].pop("tool_calls")
                return
            for call in calls:
                told = write(call["function"]["arguments"])
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": told})
            if turn == 0:
                # A history that some servers mend: a system turn in the middle of it.
                messages.append({"role": "system", "content": "Say what you did."})


def _chat_answer(events: Any) -> tuple[str, list[dict[str, Any]]]:
    said, calls = "", dict[int, dict[str, Any]]()
    for event in events:
        for choice in event.choices:
            said += choice.delta.content or ""
            for piece in choice.delta.tool_calls or ():
                empty = {"type": "function", "function": {"name": "", "arguments": ""}}
                call = calls.setdefault(piece.index, {"id": piece.id, **empty})
                call["function"]["name"] += piece.function.name or ""
                call["function"]["arguments"] += piece.function.arguments or ""
    return said, list(calls.values())


def openai_responses(url: str, write: Callable[[str], str]) -> None:
    import openai  # noqa: PLC0415 - one run needs one of them

    tool = {"name": "write_file", "description": ABOUT, "parameters": SCHEMA, "strict": True}
    items: list[Any] = [
        {"role": "developer", "content": "You are careful."},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "  Before the picture.\n"},
                {
                    "type": "input_image",
                    "image_url": f"data:image/png;base64,{PIXEL}",
                    "detail": "low",
                },
                {"type": "input_text", "text": ORDER},
            ],
        },
    ]
    with openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
        for _ in range(MOST_TURNS):
            ask: Any = client.responses.create
            with ask(
                model="auto",
                instructions="Mend what you are asked to mend.",
                input=items,
                tools=[{"type": "function", **tool}, {"type": "web_search"}],
                tool_choice="auto",
                parallel_tool_calls=False,
                stream=True,
                store=False,
                include=["reasoning.encrypted_content"],
                reasoning={"effort": "low", "summary": "auto"},
                text={"verbosity": "low"},
                prompt_cache_key="greeting-1",
                service_tier="auto",
                metadata={"job": "greeting"},
                top_p=0.9,
                truncation="disabled",
                safety_identifier="somebody",
            ) as events:
                whole = [each.response for each in events if each.type == "response.completed"]
            calls = [item for item in whole[-1].output if item.type == "function_call"]
            items += [item.to_dict() for item in whole[-1].output]
            if not calls:
                return
            items += [
                {
                    "type": "function_call_output",
                    "call_id": call.call_id,
                    "output": write(call.arguments),
                }
                for call in calls
            ]


def anthropic_messages(url: str, write: Callable[[str], str]) -> None:
    import anthropic  # noqa: PLC0415 - one run needs one of them

    kept: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}
    picture = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    messages: list[Any] = [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "  Before the picture.\n"},
                {"type": "image", "source": picture},
                {"type": "text", "text": ORDER, **kept},
            ],
        }
    ]
    system: Any = [{"type": "text", "text": "You are careful.", **kept}]
    tool: Any = {"name": "write_file", "description": ABOUT, "input_schema": SCHEMA, **kept}
    with anthropic.Anthropic(base_url=url, api_key="any", max_retries=0) as client:
        for turn in range(MOST_TURNS):
            with client.messages.stream(
                model="auto",
                max_tokens=9_000,
                system=system,
                messages=messages,
                tools=[tool],
                tool_choice={"type": "auto", "disable_parallel_tool_use": True},
                thinking={"type": "enabled", "budget_tokens": 2_000},
                metadata={"user_id": "somebody"},
                service_tier="auto",
                stop_sequences=["<never>"],
                extra_headers={"anthropic-beta": "interleaved-thinking-2025-05-14"},
                extra_body={"output_config": {"effort": "low"}},
            ) as events:
                message: Any = events.get_final_message()
            messages.append(
                {"role": "assistant", "content": [part.to_dict() for part in message.content]}
            )
            calls = [part for part in message.content if part.type == "tool_use"]
            if not calls:
                return
            results = [
                {
                    "type": "tool_result",
                    "tool_use_id": call.id,
                    "content": write(json.dumps(call.input)),
                    "is_error": turn > 0,
                }
                for call in calls
            ]
            messages.append({"role": "user", "content": results})


LIBRARIES = {each.__name__: each for each in (openai_chat, openai_responses, anthropic_messages)}


def main() -> None:
    name, url, folder = sys.argv[1:]

    def write(arguments: str) -> str:
        given = json.loads(arguments)
        (Path(folder) / given["path"]).write_text(given["text"], "utf-8")
        return "written"

    LIBRARIES[name](url, write)


if __name__ == "__main__":
    main()
