"""What leaves in its provider's own protocol leaves as it came, and comes back as it is."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from typing_extensions import override

from edgewise.cloud.conversation import LONGEST_ANSWER, most_output_tokens
from edgewise.cloud.http import members
from edgewise.cloud.openai import forwarded
from edgewise.cloud.providers import PROVIDERS as PROVIDERS_OF_OURS
from edgewise.grammar.answers import compile_answer
from edgewise.local.backend import TokenStream
from edgewise.testing import (
    LoopbackCloud,
    Recorded,
    ScriptedBackend,
    ScriptedFunctionModel,
    Status,
)
from edgewise.testing.scripted import SCRIPTED_FACTS
from edgewise.types.messages import Message, Original, Request
from tests.server.conftest import Serving
from tests.server.served import Served

CHAT: dict[str, Any] = {
    "model": "gpt-4o",
    "messages": [
        {"role": "developer", "content": [{"type": "text", "text": "Be  brief."}], "name": "me"},
        {"role": "user", "content": "Look, and\n write. "},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "go", "arguments": "{broken"}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": " ok\n"}]},
        {"role": "user", "content": "Again.", "unknown": {"a": [1, 2.50, None]}},
    ],
    "tools": [
        {
            "type": "function",
            "function": {"name": "go", "strict": True, "parameters": {"type": "object"}},
        },
        {"type": "custom", "custom": {"name": "patch", "format": {"type": "text"}}},
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": False,
    "top_p": 0.3,
    "logit_bias": {"5": -100},
    "prompt_cache_key": "k1",
    "service_tier": "flex",
    "metadata": {"session": "s1"},
    "verbosity": "low",
    "reasoning_effort": "high",
    "user": "u1",
    "new_field": {"deep": [{"x": 1e-7}]},
}
RESPONSES: dict[str, Any] = {
    "model": "gpt-4o",
    "instructions": "Work.",
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go."}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA=="},
        {"type": "custom_tool_call", "call_id": "c0", "name": "patch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "c0", "output": "Done"},
        {"type": "function_call", "call_id": "c1", "name": "go", "arguments": '{"a":  1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "  ok\n"},
    ],
    "tools": [
        {"type": "function", "name": "go", "strict": False, "parameters": {"type": "object"}},
        {"type": "namespace", "name": "mcp__x", "tools": [{"type": "function", "name": "y"}]},
        {"type": "custom", "name": "apply_patch", "format": {"type": "grammar"}},
        {"type": "web_search", "external_web_access": False},
    ],
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "k2",
    "reasoning": {"effort": "medium", "summary": "auto"},
    "parallel_tool_calls": True,
    "client_metadata": {"x": "y"},
}
MESSAGES: dict[str, Any] = {
    "model": "claude-opus-4-8",
    "max_tokens": 32000,
    "system": [
        {"type": "text", "text": "You are Claude Code.", "cache_control": {"type": "ephemeral"}}
    ],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Fix it."}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm. ", "signature": "EqQB=="},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": " ls "}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "no\n", "is_error": True},
                {
                    "type": "text",
                    "text": "Go on.",
                    "cache_control": {"type": "ephemeral", "ttl": "1h"},
                },
            ],
        },
        {"role": "system", "content": "The file changed."},
    ],
    "tools": [
        {"name": "Bash", "input_schema": {"type": "object"}, "eager_input_streaming": True},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
    ],
    "thinking": {"type": "adaptive"},
    "output_config": {"effort": "high"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "metadata": {"user_id": "user_1_session_2"},
}


def event(kind: str, **fields: Any) -> bytes:
    data = json.dumps({"type": kind, **fields}, separators=(", ", " : ")).encode()
    return b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n"


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {"id": "chatcmpl-9x", "object": "chat.completion.chunk", "model": "gpt-4o-2024-11-20"}
    return b"data: " + json.dumps({**body, "choices": [choice], **more}).encode() + b"\n\n"


ARGUMENTS = '{"path": "A.py",  "text": "    return x\\n", "n": 1.0}'
CHAT_PIECES = (
    b": PROCESSING\n\n",
    chunk({"role": "assistant", "content": ""}, usage=None),
    chunk({"reasoning_content": "I think."}, usage=None),
    chunk({"content": "I write "}, usage=None),
    chunk(
        {
            "tool_calls": [
                {
                    "index": 0,
                    "id": "call_7",
                    "type": "function",
                    "function": {"name": "go", "arguments": ""},
                }
            ]
        },
        usage=None,
    ),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": ARGUMENTS[:9]}}]}, usage=None),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": ARGUMENTS[9:]}}]}, usage=None),
    chunk({}, "tool_calls", usage=None),
    b'data: {"id":"chatcmpl-9x","choices":[],"usage":{"prompt_tokens":70,"completion_tokens":9,'
    b'"prompt_tokens_details":{"cached_tokens":64}}}\n\n',
    b"data: [DONE]\n\n",
)
MESSAGE = {"id": "msg_01", "type": "message", "role": "assistant", "model": "claude-opus-4-8"}
USED = {"input_tokens": 3, "cache_read_input_tokens": 21000, "output_tokens": 1}
MESSAGES_PIECES = (
    event("message_start", message={**MESSAGE, "content": [], "usage": USED}),
    event(
        "content_block_start",
        index=0,
        content_block={"type": "thinking", "thinking": "", "signature": ""},
    ),
    event("ping"),
    event("content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": "Hm"}),
    event("content_block_delta", index=0, delta={"type": "signature_delta", "signature": "Eq=="}),
    event("content_block_stop", index=0),
    event("content_block_start", index=1, content_block={"type": "text", "text": ""}),
    event("content_block_delta", index=1, delta={"type": "text_delta", "text": "I look."}),
    event("content_block_stop", index=1),
    event(
        "content_block_start",
        index=2,
        content_block={"type": "tool_use", "id": "t9", "name": "Bash", "input": {}},
    ),
    event(
        "content_block_delta",
        index=2,
        delta={"type": "input_json_delta", "partial_json": ARGUMENTS[:9]},
    ),
    event(
        "content_block_delta",
        index=2,
        delta={"type": "input_json_delta", "partial_json": ARGUMENTS[9:]},
    ),
    event("content_block_stop", index=2),
    event(
        "message_delta",
        delta={"stop_reason": "tool_use", "stop_sequence": None},
        usage={"output_tokens": 55},
        context_management={"applied_edits": []},
    ),
    event("message_stop"),
)
RESPONSE: dict[str, Any] = {"id": "resp_1", "object": "response", "model": "gpt-4o", "output": []}
CALL = {
    "type": "custom_tool_call",
    "id": "ctc_1",
    "call_id": "c9",
    "name": "apply_patch",
    "input": "*** Begin\n",
}
RESPONSES_PIECES = (
    event("response.created", response={**RESPONSE, "status": "in_progress"}, sequence_number=0),
    event("response.output_item.added", output_index=0, item={**CALL, "input": ""}),
    event("response.custom_tool_call_input.delta", item_id="ctc_1", delta="*** Begin\n"),
    event("response.output_item.done", output_index=0, item=CALL),
    event(
        "response.completed",
        response={
            **RESPONSE,
            "status": "completed",
            "output": [CALL],
            "usage": {
                "input_tokens": 900,
                "input_tokens_details": {"cached_tokens": 800},
                "output_tokens": 5,
            },
        },
    ),
)
WHOLE = {
    "chat": {
        "id": "chatcmpl-9",
        "object": "chat.completion",
        "model": "gpt-4o-x",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Yes.", "annotations": []},
                "finish_reason": "stop",
            },
        ],
        "usage": {"prompt_tokens": 70, "completion_tokens": 9},
        "service_tier": "flex",
    },
    "responses": {
        **RESPONSE,
        "status": "completed",
        "output": [CALL],
        "usage": {"input_tokens": 900, "output_tokens": 5},
    },
    "messages": {
        **MESSAGE,
        "content": [
            {"type": "thinking", "thinking": "Hm", "signature": "E=="},
            {"type": "text", "text": "Yes."},
        ],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 70, "output_tokens": 9},
        "container": None,
    },
}
GEMINI: dict[str, Any] = {
    "systemInstruction": {"role": "user", "parts": [{"text": "You  are careful."}]},
    "contents": [
        {"role": "user", "parts": [{"text": "Go."}, {"text": " On."}]},
        {
            "role": "model",
            "parts": [
                {"text": "Hm. ", "thought": True},
                {
                    "functionCall": {"name": "go", "args": {"a": 1.0, "text": "  x\n"}},
                    "thoughtSignature": "Eq==",
                },
            ],
        },
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "go", "response": {"output": " ok\n"}}}],
        },
        {"role": "user", "parts": [{"text": "Again.", "unknownField": {"a": [1, 2.50, None]}}]},
    ],
    "tools": [
        {
            "function_declarations": [
                {"name": "go", "parameters": {"type": "OBJECT", "propertyOrdering": ["a"]}}
            ]
        },
        {"googleSearch": {}},
    ],
    "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}, "newField": 1},
    "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
    "generationConfig": {
        "temperature": 0.3,
        "topK": 7,
        "maxOutputTokens": 32_000,
        "thinkingConfig": {"includeThoughts": True, "thinkingBudget": -1},
    },
}
CANDIDATE = {"index": 0, "content": {"role": "model", "parts": [{"text": "Yes."}]}}
GEMINI_USED = {
    "promptTokenCount": 900,
    "cachedContentTokenCount": 800,
    "candidatesTokenCount": 5,
    "thoughtsTokenCount": 3,
}


def response(*parts: dict[str, Any], **more: Any) -> bytes:
    content = {"role": "model", "parts": list(parts)}
    reason = {"finishReason": more.pop("finish")} if "finish" in more else {}
    body = {"candidates": [{"content": content, "index": 0, **reason}], **more}
    return (
        b"data: " + json.dumps({**body, "modelVersion": "gemini-2.5-flash"}).encode() + b"\r\n\r\n"
    )


GEMINI_PIECES = (
    response({"text": "I think.", "thought": True}),
    response({"text": "I  look. "}),
    response({"text": "Now."}),
    response(
        {
            "functionCall": {"name": "go", "args": {"text": "    return x\n", "n": 1.0}},
            "thoughtSignature": "CiQB==",
        }
    ),
    response({"text": ""}, finish="STOP", usageMetadata=GEMINI_USED, responseId="r9"),
)
WHOLE["gemini"] = {
    "candidates": [{**CANDIDATE, "finishReason": "STOP", "avgLogprobs": -0.1}],
    "usageMetadata": GEMINI_USED,
    "modelVersion": "gemini-2.5-flash",
    "responseId": "r9",
}
WIRES: dict[str, tuple[str, dict[str, Any], tuple[bytes, ...], str]] = {
    "chat": ("/v1/chat/completions", CHAT, CHAT_PIECES, "gpt-4o"),
    "responses": ("/v1/responses", RESPONSES, RESPONSES_PIECES, "gpt-4o"),
    "messages": ("/v1/messages", MESSAGES, MESSAGES_PIECES, "claude-opus-4-8"),
    "gemini": ("/v1beta/models/gemini-2.5-flash", GEMINI, GEMINI_PIECES, "gemini-2.5-flash"),
}
PROVIDERS = {"messages": "anthropic", "gemini": "gemini"}


def send(
    served: Served, wire: str, body: dict[str, Any], *, stream: bool, **headers: str
) -> httpx2.Response:
    """As the clients of a protocol do: Google's say in the path whether they want a stream."""
    path = WIRES[wire][0]
    if wire == "gemini":
        path += ":streamGenerateContent?alt=sse" if stream else ":generateContent"
    else:
        body = {**body, "stream": stream}
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return served.http.post(path, json=body, headers=sent)


def gateway(serving: Serving, cloud: LoopbackCloud, wire: str, **settings: Any) -> Served:
    """Its chain has the provider of this protocol; the device is sure, and is not what is asked."""
    provider, model = PROVIDERS.get(wire, "openai"), WIRES[wire][3]
    keys = {"ANTHROPIC_API_KEY": "sk-ant-0123456789", "ANTHROPIC_BASE_URL": cloud.anthropic_url}
    keys |= {"GEMINI_API_KEY": "gm-0123456789", "GOOGLE_GEMINI_BASE_URL": cloud.gemini_url}
    return serving(
        ScriptedBackend.doubtful("No."),
        function_model=ScriptedFunctionModel(["none"], logprobs=[[-0.001]]),
        environment=keys,
        settings={"chain": (f"{provider}/{model}",), "policy": "prefer_cloud", **settings},
    )


def without_ours(text: bytes) -> bytes:
    """Takes the `edgewise` objects out again, by their bytes."""
    mark = b'"edgewise":'
    while (at := text.find(mark)) >= 0:
        _, length = json.JSONDecoder().raw_decode(text[at + len(mark) :].decode())
        rest = text[at + len(mark) + length :]
        text = text[:at] + rest.removeprefix(b",")
    return text


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("wire", WIRES)
def test_a_request_leaves_as_it_came(
    serving: Serving, cloud: LoopbackCloud, wire: str, stream: bool
) -> None:
    _, body, pieces, _ = WIRES[wire]
    served = gateway(serving, cloud, wire)
    sent = {**body, "metadata": {**body.get("metadata", {}), "deadline_ms": 9e6}}
    whole = json.dumps(WHOLE[wire]).encode()
    cloud.always(Recorded(pieces=pieces if stream else (whole,)))
    headers = {"anthropic_beta": "context-1m-2025", "x_api_key": "mine", "cookie": "a=b"}
    answer = send(served, wire, sent, stream=stream, **headers)
    assert answer.status_code == 200, answer.text
    (left,) = cloud.requests
    wanted = {**body, **({} if wire == "gemini" else {"stream": stream})}
    if wire == "chat" and stream:
        wanted["stream_options"] = {"include_usage": True}
    assert json.loads(left.content) == wanted
    assert left.headers["anthropic-beta"] == "context-1m-2025"
    assert "cookie" not in left.headers and "mine" not in left.headers.values()


@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_comes_back_byte_by_byte(
    serving: Serving, cloud: LoopbackCloud, wire: str
) -> None:
    _, body, pieces, _ = WIRES[wire]
    served = gateway(serving, cloud, wire)
    headers = {"request-id": "req_9", "x-request-id": "req_9", "set-cookie": "a=b"}
    cloud.always(Recorded(pieces=pieces, headers=headers))
    asked = {"stream_options": {"include_usage": True}} if wire == "chat" else {}
    answer = send(served, wire, {**body, **asked}, stream=True)
    assert answer.content != b"".join(pieces)
    assert without_ours(answer.content) == b"".join(pieces)
    assert answer.headers["request-id"] == "req_9" and "set-cookie" not in answer.headers
    report = [json.loads(line[5:]) for line in answer.text.splitlines() if '"attempts"' in line]
    (last,) = report
    told = (last.get("response") or last)["edgewise"]
    assert (told["source"], told["attempts"][-1]["outcome"]) == ("cloud", "answered")
    assert told["attempts"][-1]["cached_tokens"] in (64, 800, 21000)
    assert "not_translated" not in told


def test_usage_that_only_we_asked_for_is_hidden(serving: Serving, cloud: LoopbackCloud) -> None:
    served = gateway(serving, cloud, "chat")
    cloud.always(Recorded(pieces=CHAT_PIECES))
    answer = served.http.post("/v1/chat/completions", json={**CHAT, "stream": True})
    unasked = b"".join(each.replace(b', "usage": null', b"") for each in CHAT_PIECES)
    unasked = unasked.replace(CHAT_PIECES[-2], b"")
    assert without_ours(answer.content) == unasked


@pytest.mark.parametrize("wire", WIRES)
def test_a_whole_answer_comes_back_to_the_byte(
    serving: Serving, cloud: LoopbackCloud, wire: str
) -> None:
    whole = json.dumps(WHOLE[wire], indent=1).encode()
    cloud.always(Recorded(pieces=(whole,)))
    served = gateway(serving, cloud, wire)
    answer = send(served, wire, WIRES[wire][1], stream=False)
    assert without_ours(answer.content).replace(b"{\n ", b"{", 1) == whole.replace(b"{\n ", b"{", 1)
    assert answer.json()["edgewise"]["source"] == "cloud"
    assert answer.headers["x-edgewise-source"] == "cloud"


def message(*content: dict[str, Any], end: str, used: int) -> dict[str, Any]:
    usage = {**USED, "output_tokens": used}
    return {**MESSAGE, "content": [*content], "usage": usage, "stop_reason": end}


PUT_TOGETHER: dict[str, dict[str, Any]] = {
    "chat": {
        "id": "chatcmpl-9x",
        "object": "chat.completion",
        "model": "gpt-4o-2024-11-20",
        "usage": {
            "prompt_tokens": 70,
            "completion_tokens": 9,
            "prompt_tokens_details": {"cached_tokens": 64},
        },
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "I write ",
                    "reasoning_content": "I think.",
                    "tool_calls": [
                        {
                            "id": "call_7",
                            "type": "function",
                            "function": {"name": "go", "arguments": ARGUMENTS},
                        }
                    ],
                },
                "logprobs": None,
                "finish_reason": "tool_calls",
            }
        ],
    },
    "responses": json.loads(RESPONSES_PIECES[-1].split(b"data: ")[1])["response"],
    "messages": {
        **message(
            {"type": "thinking", "thinking": "Hm", "signature": "Eq=="},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "t9", "name": "Bash", "input": json.loads(ARGUMENTS)},
            end="tool_use",
            used=55,
        ),
        "stop_sequence": None,
        "context_management": {"applied_edits": []},
    },
    "gemini": {
        "candidates": [
            {
                "content": {
                    "role": "model",
                    "parts": [
                        {"text": "I think.", "thought": True},
                        {"text": "I  look. Now."},
                        {
                            "functionCall": {
                                "name": "go",
                                "args": {"text": "    return x\n", "n": 1.0},
                            },
                            "thoughtSignature": "CiQB==",
                        },
                        {"text": ""},
                    ],
                },
                "index": 0,
                "finishReason": "STOP",
            }
        ],
        "modelVersion": "gemini-2.5-flash",
        "usageMetadata": GEMINI_USED,
        "responseId": "r9",
    },
}


@pytest.mark.parametrize("wire", WIRES)
def test_a_whole_answer_is_whole_where_the_device_was_asked_first(
    serving: Serving, cloud: LoopbackCloud, wire: str
) -> None:
    """The cloud is asked for a stream then, to see that it begins: nothing of it is lost."""
    _, body, pieces, _ = WIRES[wire]
    served = gateway(serving, cloud, wire, policy="prefer_local")
    turns = next(name for name in ("messages", "input", "contents") if name in body)
    asked = {**body, turns: [each for each in body[turns] if each.get("role") == "user"][:1]}
    cloud.always(Recorded(pieces=pieces))
    answer = send(served, wire, asked, stream=False).json()
    told = answer.pop("edgewise")
    assert (told["source"], told["decision"]["code"]) == ("cloud", "handoff_low_confidence")
    assert answer == PUT_TOGETHER[wire]
    cloud.always(Recorded(pieces=pieces[:-3]))  # what is cut is no answer
    answer = send(served, wire, asked, stream=False).json()
    assert answer["edgewise"]["degraded_code"] == "cloud_cut" and "No." in json.dumps(answer)


def test_a_response_whose_end_does_not_say_all_again_is_whole(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    end = json.loads(RESPONSES_PIECES[-1].split(b"data: ")[1])["response"]
    bare = event("response.completed", response={**end, "output": []})
    cloud.always(Recorded(pieces=(*RESPONSES_PIECES[:-1], bare)))
    served = gateway(serving, cloud, "responses", policy="prefer_local")
    asked = {"model": "gpt-4o", "input": "Go."}
    assert send(served, "responses", asked, stream=False).json()["output"] == [CALL]


def test_of_several_pieces_each_answer_and_each_call_is_put_together(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    def call(place: int, arguments: str, **named: str) -> dict[str, Any]:
        function = {"arguments": arguments, **({"name": "go"} if named else {})}
        return {"tool_calls": [{"index": place, "function": function, **named}]}

    again = {"role": "assistant", "content": "Yes"}  # some servers say the role in each piece
    likely = {"content": [{"token": "Yes", "logprob": -0.1, "top_logprobs": []}]}
    safe = {"hate": {"severity": "safe"}}
    first = chunk(again).replace(
        b'"delta"', b'"logprobs": %s, "delta"' % json.dumps(likely).encode()
    )
    marked = b'"content_filter_results": %s, "delta"' % json.dumps(safe).encode()
    pieces = (
        first,
        first.replace(b'"delta"', marked),
        first.replace(b'"delta"', marked),
        chunk(call(0, "{", id="c1", type="function")),
        chunk(call(0, "}")),
        chunk(call(0, "{}", id="c2", type="function")),  # some number every call 0
        chunk(call(1, "{}", id="c3", type="function")),
        chunk({}, "tool_calls", service_tier="flex", obfuscation="x9"),
        b"data: [DONE]\n\n",
    )
    cloud.always(Recorded(pieces=pieces))
    served = gateway(serving, cloud, "chat", policy="prefer_local")
    answer = send(served, "chat", CHAT_SDK, stream=False).json()
    (choice,) = answer["choices"]
    assert choice["message"]["role"] == "assistant"
    assert choice["message"]["content"] == "YesYesYes"
    made = [(one["id"], one["function"]) for one in choice["message"]["tool_calls"]]
    assert made == [(id, {"name": "go", "arguments": "{}"}) for id in ("c1", "c2", "c3")]
    assert choice["logprobs"] == {"content": likely["content"] * 3}
    assert choice["content_filter_results"] == safe
    assert answer["service_tier"] == "flex" and "obfuscation" not in answer


ODD = (
    '{ "model" :"gpt-4o",\n"messages":[ {"role":"user","content":"\\u00e9 \\ud83d\\ude42 é\\/"} ],'
    '"tools":[{"type":"function","function":{"name":"go","parameters":{"type":"object","x":1E+2}}}],'
    '"zz_list": [1.50, -0, 0.12345678901234567890, 123456789012345678901, {"b":1,"a":2}],'
    '"top_p":1.0,"metadata":{"job" : "x"},"user":"\\u0041"\r\n}'
)


def test_values_leave_in_the_bytes_they_came_in(serving: Serving, cloud: LoopbackCloud) -> None:
    served = gateway(serving, cloud, "chat")
    cloud.always(Recorded(pieces=(json.dumps(WHOLE["chat"]).encode(),)))
    kind = {"content-type": "application/json"}
    asked = ',"stream":true,"stream_options":{ "include_usage" :true}'
    for sent in (ODD, ODD.replace(',"user"', f'{asked},"user"')):
        served.http.post("/v1/chat/completions", content=sent, headers=kind)
        cloud.always(Recorded(pieces=CHAT_PIECES))
        assert members(cloud.requests[-1].content.decode()) == members(sent)
    assert list(members(ODD)) == [
        "model",
        "messages",
        "tools",
        "zz_list",
        "top_p",
        "metadata",
        "user",
    ]


def test_a_long_list_of_betas_arrives(serving: Serving, cloud: LoopbackCloud) -> None:
    served = gateway(serving, cloud, "messages")
    betas = ",".join(f"a-long-name-of-a-feature-{number}-2026-01-01" for number in range(60))
    send(served, "messages", MESSAGES, stream=False, anthropic_beta=betas)
    assert cloud.requests[0].headers["anthropic-beta"] == betas


# What providers take, or answer in words of their own, and we do not read.
NOT_READ: dict[str, tuple[str, dict[str, Any]]] = {
    "functions": ("chat", {"functions": [{"name": "go"}], "function_call": "auto"}),
    "a result of a function": (
        "chat",
        {"messages": [{"role": "user", "content": "x"}, {"role": "function", "content": "y"}]},
    ),
    "a call without an id": (
        "chat",
        {
            "messages": [
                {"role": "user", "content": "x"},
                {"role": "assistant", "tool_calls": [{"function": {"name": "go"}}]},
                {"role": "tool", "content": "y"},
            ]
        },
    ),
    "a schema that is true": (
        "chat",
        {
            "tools": [
                {
                    "type": "function",
                    "function": {"name": "go", "parameters": {"properties": {"x": True}}},
                }
            ]
        },
    ),
    "another choice": ("chat", {"tool_choice": "any"}),
    "another format": ("chat", {"response_format": {"type": "grammar", "grammar": "x"}}),
    "no words": ("chat", {"messages": [{"role": "user", "content": None}]}),
    "an address": (
        "chat",
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": "https://a.example/b"}}],
                }
            ]
        },
    ),
    "no limit at all": ("chat", {"max_tokens": -1}),
    "a file": (
        "messages",
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "image", "source": {"type": "file", "file_id": "f1"}}],
                }
            ]
        },
    ),
    "a tool of the provider": (
        "messages",
        {
            "tools": [{"type": "web_search_20250305", "name": "web_search"}],
            "tool_choice": {"type": "tool", "name": "web_search"},
        },
    ),
    "arguments that are a list": (
        "messages",
        {
            "messages": [
                {"role": "user", "content": "x"},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "a", "name": "go", "input": []}],
                },
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]},
            ]
        },
    ),
    "an answer that it keeps": ("responses", {"previous_response_id": "resp_1"}),
    "a conversation that it keeps": ("responses", {"conversation": "conv_1", "input": "x"}),
    "a picture that it keeps": (
        "responses",
        {
            "input": [
                {"role": "user", "content": [{"type": "input_image", "file_id": "f1"}]},
            ]
        },
    ),
    "only what is pointed to": ("responses", {"input": [{"type": "item_reference", "id": "x"}]}),
    "words in place of a list": ("gemini", {"contents": "x"}),
    "another mode": ("gemini", {"toolConfig": {"functionCallingConfig": {"mode": "NEW"}}}),
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("case", NOT_READ)
def test_whether_what_we_cannot_read_is_wrong_is_its_providers_to_say(
    serving: Serving, cloud: LoopbackCloud, case: str, stream: bool
) -> None:
    wire, changed = NOT_READ[case]
    _, body, pieces, model = WIRES[wire]
    served = gateway(serving, cloud, wire, policy="prefer_local")
    cloud.always(Recorded(pieces=pieces if stream else (json.dumps(WHOLE[wire]).encode(),)))
    sent = {**body, **changed}
    answer = send(served, wire, sent, stream=stream)
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-edgewise-reason"] == "handoff_parts_unsupported"
    (left,) = cloud.requests
    found = json.loads(left.content)
    assert {name: found.get(name) for name in sent} == sent
    assert found.get("model", model) == model


class Held(ScriptedBackend):
    """Makes a grammar of a schema before it begins, as real ones do."""

    @override
    def generate(self, request: Request, **options: Any) -> TokenStream:
        assert request.response_format is not None
        compile_answer(request.response_format.schema)
        return super().generate(request, **options)


@pytest.mark.parametrize("stream", [True, False])
def test_a_schema_that_is_none_is_its_providers_to_judge(
    serving: Serving, cloud: LoopbackCloud, stream: bool
) -> None:
    backend = Held(["{}"], facts=replace(SCRIPTED_FACTS, schemas=True))
    served = serving(backend, settings={"chain": ("openai/gpt-4o",)})
    pieces = CHAT_PIECES if stream else (json.dumps(WHOLE["chat"]).encode(),)
    cloud.always(Recorded(pieces=pieces))
    named = {"name": "x", "schema": {"type": "OBJECT"}}
    body = {
        "model": "auto",
        "messages": [{"role": "user", "content": "x"}],
        "response_format": {"type": "json_schema", "json_schema": named},
    }
    assert send(served, "chat", body, stream=stream).headers["x-edgewise-source"] == "cloud"
    assert json.loads(cloud.requests[0].content)["response_format"] == body["response_format"]
    kept = send(served, "chat", {**body, "model": "local"}, stream=stream)
    assert kept.status_code == 400 and "no answer can follow" in kept.text


@pytest.mark.parametrize("case", NOT_READ)
def test_what_we_cannot_read_stays_where_its_provider_cannot_be_asked(
    serving: Serving, cloud: LoopbackCloud, case: str
) -> None:
    wire, changed = NOT_READ[case]
    other = "openai" if wire in ("messages", "gemini") else "anthropic"
    served = gateway(serving, cloud, wire, chain=(other,))
    kept = send(served, wire, {**WIRES[wire][1], **changed}, stream=False)
    private = send(
        served, wire, {**WIRES[wire][1], **changed}, stream=True, x_edgewise_privacy="private"
    )
    assert {kept.status_code, private.status_code} == {400}
    assert "invalid_request" in kept.text and "invalid_request" in private.text
    assert not cloud.requests


def test_a_limit_that_is_none_is_paid_for_as_none() -> None:
    original = Original(wire="chat", body={"max_tokens": -1, "messages": []})
    request = Request(messages=(Message("user", "x"),), original=original)
    assert most_output_tokens(request) == LONGEST_ANSWER
    limited = replace(request, max_tokens=256)
    body = forwarded(limited, original, "any", PROVIDERS_OF_OURS["openai"]).body
    assert body["max_completion_tokens"] == 256 == most_output_tokens(limited)


def test_a_wrong_word_about_where_it_may_go_is_refused_in_what_we_cannot_read(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = gateway(serving, cloud, "chat")
    facts = {"context": {"date": "today"}}  # ours: such a request does not leave as it came
    for metadata in ({"privacy": "privat"}, {"edgewise_polcy": "local_only"}, ["private"], facts):
        body = {**CHAT, "functions": [{"name": "go"}], "metadata": metadata}
        assert send(served, "chat", body, stream=False).status_code == 400
    assert not cloud.requests


def test_what_another_protocol_cannot_say_is_named(serving: Serving, cloud: LoopbackCloud) -> None:
    served = gateway(serving, cloud, "messages")
    asked = {**CHAT, "messages": CHAT["messages"][1:2] + CHAT["messages"][4:]}
    whole = served.http.post("/v1/chat/completions", json=asked)
    assert whole.status_code == 200, whole.text
    named = whole.json()["edgewise"]["not_translated"]
    assert {"logit_bias", "top_p", "messages.unknown", "new_field"} <= set(named)
    assert whole.headers["x-edgewise-not-translated"] == ", ".join(named)
    streamed = served.http.post("/v1/chat/completions", json={**asked, "stream": True})
    assert streamed.headers["x-edgewise-not-translated"] == ", ".join(named)


def test_a_part_that_only_its_own_protocol_has_goes_nowhere_else(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    sound = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
    turn = [{"role": "user", "content": [sound]}]
    served = gateway(serving, cloud, "messages")
    answer = served.http.post("/v1/chat/completions", json={"model": "auto", "messages": turn})
    assert answer.status_code >= 400 and "input_audio" in answer.text
    assert cloud.requests == []


@pytest.mark.parametrize("more", [{"n": 2}, {"modalities": ["text", "audio"]}])
def test_what_the_device_cannot_do_leaves(
    serving: Serving, cloud: LoopbackCloud, more: dict[str, Any]
) -> None:
    served = serving()
    answer = served.chat(**more)
    assert answer.json()["edgewise"]["decision"]["code"] == "handoff_parts_unsupported"
    (left,) = cloud.requests
    assert left.body[next(iter(more))] == more[next(iter(more))]


@pytest.mark.parametrize(
    ("stream", "policy"),
    [(True, "prefer_cloud"), (False, "prefer_cloud"), (False, "prefer_local")],
)
@pytest.mark.parametrize("wire", WIRES)
def test_personal_data_leaves_as_placeholders_and_is_put_back(
    serving: Serving, cloud: LoopbackCloud, wire: str, stream: bool, policy: str
) -> None:
    body = WIRES[wire][1]
    served = gateway(serving, cloud, wire, redact=("EMAIL",), policy=policy)
    body = json.loads(json.dumps(body).replace("Go", "Write to ann@example.org. Go", 1))
    if wire == "chat":
        body = json.loads(json.dumps(body).replace("Again", "Write to ann@example.org", 1))
    if wire == "responses":
        body["input"] = [body["input"][0], *body["input"][4:]]
    halved = [response({"text": "To [EMA"}), response({"text": "IL_1]!"}), GEMINI_PIECES[-1]]
    halves = {
        "chat": [chunk({"content": "To [EMA"}), chunk({"content": "IL_1]!"}), *CHAT_PIECES[-3:]],
        "messages": [
            *MESSAGES_PIECES[:7],
            event("content_block_delta", index=1, delta={"type": "text_delta", "text": "To [EMA"}),
            event("ping"),
            event("content_block_delta", index=1, delta={"type": "text_delta", "text": "IL_1]!"}),
            *MESSAGES_PIECES[8:],
        ],
        "responses": [
            RESPONSES_PIECES[0],
            event("response.output_text.delta", item_id="m", delta="To [EMA"),
            event("response.output_text.delta", item_id="m", delta="IL_1]!"),
            RESPONSES_PIECES[-1].replace(b"*** Begin", b"To [EMAIL_1]!"),
        ],
        "gemini": halved,
    }[wire]
    whole = json.dumps(WHOLE[wire]).replace("Yes.", "To [EMAIL_1]!")
    whole = whole.replace("*** Begin", "To [EMAIL_1]!")
    in_pieces = stream or policy == "prefer_local"
    cloud.always(Recorded(pieces=tuple(halves) if in_pieces else (whole.encode(),)))
    answer = send(served, wire, body, stream=stream)
    assert answer.status_code == 200, answer.text
    (left,) = cloud.requests
    assert b"ann@example.org" not in left.content and b"[EMAIL_1]" in left.content
    text = "".join(_texts(answer.text)) if stream else answer.text
    assert "To ann@example.org!" in text and "EMAIL_1" not in text


PARTS: dict[str, Any] = {
    "chat": {"messages": [{"role": "user", "content": "PARTS"}]},
    "responses": {"input": [{"role": "user", "content": "PARTS"}]},
    "messages": {"messages": [{"role": "user", "content": "PARTS"}], "max_tokens": 50},
    "gemini": {"contents": [{"role": "user", "parts": "PARTS"}]},
}


@pytest.mark.parametrize("wire", WIRES)
def test_a_value_of_which_each_part_has_a_piece_does_not_leave(
    serving: Serving, cloud: LoopbackCloud, wire: str
) -> None:
    """A model reads the parts of a message one after the other."""
    kind = {"responses": {"type": "input_text"}, "gemini": {}}.get(wire, {"type": "text"})

    def asked(*texts: str) -> dict[str, Any]:
        parts = [{**kind, "text": text} for text in texts]
        whole = json.dumps(PARTS[wire]).replace('"PARTS"', json.dumps(parts))
        return {"model": "cloud", **json.loads(whole)} if wire != "gemini" else json.loads(whole)

    served = gateway(serving, cloud, wire, redact=("CARD",), policy="prefer_cloud")
    cloud.always(Recorded(pieces=(json.dumps(WHOLE[wire]).encode(),)))
    send(served, wire, asked("The card is 4111 1111", "1111 1111, and it works."), stream=False)
    assert cloud.requests == []
    send(served, wire, asked("The card is", "4111 1111 1111 1111, and it works."), stream=False)
    assert b"[CARD_1]" in cloud.requests[0].content and b"1111" not in cloud.requests[0].content


def _texts(stream: str) -> list[str]:
    found = []
    for line in stream.splitlines():
        if not line.startswith("data: {"):
            continue
        value = json.loads(line[6:])
        delta = value.get("delta")
        found.append(delta if isinstance(delta, str) else (delta or {}).get("text") or "")
        found += [choice["delta"].get("content") or "" for choice in value.get("choices", ())]
        for candidate in value.get("candidates", ()):
            found += [part.get("text", "") for part in candidate["content"]["parts"]]
    return found


def said(*deltas: Any, finish: str | None = "stop") -> tuple[bytes, ...]:
    return (*(chunk(each) for each in deltas), chunk({}, finish), b"data: [DONE]\n\n")


# Streams that are no error, and not what their protocol describes.
ODD_STREAMS = {
    "thoughts and words as lists": said(
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]},
        {"content": [{"type": "text", "text": "Yes"}]},
        {"content": "."},
    ),
    "no list of choices": (b'data: {"id":"x","choices":null}\n\n', *said({"content": "Yes."})),
    "arguments that are no text": said(
        {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "go", "arguments": {"a": 1}}}]}
    ),
    "a delta that is a text": said("Yes.", {"content": "Yes."}),
    "nothing at all": said({"role": "assistant", "content": ""}),
}


@pytest.mark.parametrize("case", ODD_STREAMS)
def test_an_event_that_we_cannot_read_is_for_its_client(
    serving: Serving, cloud: LoopbackCloud, case: str
) -> None:
    served = gateway(serving, cloud, "chat")
    pieces = ODD_STREAMS[case]
    cloud.always(Recorded(pieces=pieces))
    answer = send(served, "chat", {**CHAT, "stream_options": {"include_usage": True}}, stream=True)
    assert answer.headers["x-edgewise-source"] == "cloud"
    assert without_ours(answer.content) == b"".join(pieces)


EMPTY: dict[str, dict[str, Any]] = {
    "chat": {"choices": [{"index": 0, "message": {"role": "assistant"}, "finish_reason": None}]},
    "responses": {**RESPONSE, "status": "completed"},
    "messages": {**MESSAGE, "content": [], "stop_reason": "refusal", "usage": USED},
    "gemini": {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": GEMINI_USED},
}


@pytest.mark.parametrize("wire", EMPTY)
def test_an_empty_answer_is_an_answer(serving: Serving, cloud: LoopbackCloud, wire: str) -> None:
    """An agent's model often has nothing to add to what it did, or refuses without a word."""
    served = gateway(serving, cloud, wire)
    cloud.always(Recorded(pieces=(json.dumps(EMPTY[wire]).encode(),)))
    answer = send(served, wire, WIRES[wire][1], stream=False)
    assert answer.headers["x-edgewise-source"] == "cloud"
    assert json.loads(without_ours(answer.content)) == EMPTY[wire]


def test_a_list_of_thoughts_is_put_together_with_the_words_behind_it(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = gateway(serving, cloud, "chat", policy="prefer_local")
    cloud.always(Recorded(pieces=ODD_STREAMS["thoughts and words as lists"]))
    asked = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hello?"}]}
    answer = send(served, "chat", asked, stream=False).json()
    assert answer["choices"][0]["message"]["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
        {"type": "text", "text": "Yes"},
        {"type": "text", "text": "."},
    ]


def test_a_stream_that_breaks_ends_with_an_error(serving: Serving, cloud: LoopbackCloud) -> None:
    served = gateway(serving, cloud, "chat")
    cloud.always(Recorded(pieces=CHAT_PIECES[:4]))
    answer = served.http.post("/v1/chat/completions", json={**CHAT, "stream": True})
    assert answer.content.startswith(b": PROCESSING") and b"[DONE]" not in answer.content
    last = json.loads(answer.text.strip().splitlines()[-1].removeprefix("data: "))
    assert last["error"]["code"] == "cloud_cut"


def test_one_of_several_answers_that_breaks_ends_with_an_error(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = gateway(serving, cloud, "chat")
    first, second = chunk({"content": "Yes."}), chunk({"content": "The dose is 5"})
    second = second.replace(b'"index": 0', b'"index": 1')
    pieces = (first, second, chunk({}, "stop"))
    cloud.always(Recorded(pieces=pieces))
    answer = served.http.post("/v1/chat/completions", json={**CHAT, "stream": True, "n": 2})
    last = json.loads(answer.text.strip().splitlines()[-1].removeprefix("data: "))
    assert "The dose is 5" in answer.text and last["error"]["code"] == "cloud_cut"
    # An end mark says that all of them are whole.
    cloud.always(Recorded(pieces=(*pieces, b"data: [DONE]\n\n")))
    answer = served.http.post("/v1/chat/completions", json={**CHAT, "stream": True, "n": 2})
    assert "cloud_cut" not in answer.text and answer.text.endswith("data: [DONE]\n\n")


ERRORS: dict[str, bytes] = {
    "chat": b'{"error": {"message": "too long",  "type": "invalid_request_error",'
    b' "param": "messages", "code": "context_length_exceeded"}}',
    "responses": b'{"error": {"message": "no quota",  "type": "insufficient_quota",'
    b' "param": null, "code": "insufficient_quota"}}',
    "messages": b'{"type": "error", "error": {"type": "invalid_request_error",  "message":'
    b' "prompt is too long: 208310 tokens > 200000 maximum"}, "request_id": "req_9"}',
    "gemini": b'{"error": {"code": 400, "message":  "too long", "status": "INVALID_ARGUMENT"}}',
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("status", [400, 404, 413, 429, 500, 529])
@pytest.mark.parametrize("wire", WIRES)
def test_a_providers_error_comes_back_in_its_own_words(
    serving: Serving, cloud: LoopbackCloud, wire: str, status: int, stream: bool
) -> None:
    """Agents go by them: one makes a too long conversation shorter, another waits."""
    body = WIRES[wire][1]
    served = gateway(serving, cloud, wire, policy="cloud_only")
    headers = {"retry-after": "41", "x-should-retry": "true", "request-id": "req_9", "server": "x"}
    cloud.always(Recorded(pieces=(ERRORS[wire],), headers=headers, status=status))
    answer = send(served, wire, body, stream=stream)
    assert (answer.status_code, answer.content) == (status, ERRORS[wire])
    got = {name: answer.headers.get(name) for name in headers}
    assert got == {**headers, "server": got["server"]} and got["server"] != "x"


def test_what_a_provider_says_of_our_key_is_not_the_clients(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = gateway(serving, cloud, "chat", policy="cloud_only")
    key = b"sk-cloud-key-0123456789"
    wrong = b'{"error": {"message": "Incorrect API key: %s", "code": "invalid_api_key"}}' % key
    cloud.script(Recorded(pieces=(wrong,), status=401))
    answer = served.http.post("/v1/chat/completions", json=CHAT)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "cloud_auth_failed")
    served = gateway(serving, cloud, "chat", policy="cloud_only")
    cloud.script(Recorded(pieces=(wrong,), status=400))
    answer = served.http.post("/v1/chat/completions", json=CHAT)
    assert answer.status_code == 400 and "invalid_api_key" in answer.text
    assert "***" in answer.text and key.decode() not in answer.text


def test_an_error_that_quotes_a_placeholder_quotes_the_clients_own_words(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = gateway(serving, cloud, "chat", policy="cloud_only", redact=("EMAIL",))
    quoted = b'{"error": {"message": "what is [EMAIL_1]?", "code": "unclear"}}'
    cloud.always(Recorded(pieces=(quoted,), status=400))
    turn = [{"role": "user", "content": "Write to ann@example.org"}]
    answer = served.http.post("/v1/chat/completions", json={"model": "auto", "messages": turn})
    assert answer.json()["error"]["message"] == "what is ann@example.org?"
    assert "ann@" not in "".join(str(row) for row in served.state.engine.ledger.recent(5))


@pytest.mark.parametrize("wire", WIRES)
def test_an_error_in_the_middle_of_a_stream_is_the_providers(
    serving: Serving, cloud: LoopbackCloud, wire: str
) -> None:
    _, body, pieces, _ = WIRES[wire]
    served = gateway(serving, cloud, wire, policy="cloud_only")
    overloaded = {"type": "overloaded_error", "message": "Overloaded"}
    failed = {**RESPONSE, "status": "failed", "error": {"code": "server_is_overloaded"}}
    broken = {
        "chat": b"data: " + json.dumps({"error": overloaded}).encode() + b"\n\n",
        "responses": event("response.failed", response=failed),
        "messages": event("error", error=overloaded),
        "gemini": b'data: {"error": {"code": 503, "status": "UNAVAILABLE"}}\r\n\r\n',
    }[wire]
    begun = pieces[: {"chat": 4, "responses": 3, "messages": 8, "gemini": 3}[wire]]
    cloud.always(Recorded(pieces=(*begun, broken)))
    answer = send(served, wire, body, stream=True)
    assert answer.status_code == 200 and answer.content.endswith(broken)


@pytest.mark.parametrize("stream", [True, False])
def test_the_price_is_that_of_what_was_read_and_stored(
    serving: Serving, cloud: LoopbackCloud, stream: bool
) -> None:
    """An agent sends its whole conversation every turn, and nine tenths of it are cached."""
    served = gateway(serving, cloud, "messages", policy="cloud_only", budgets=("$50/day",))
    cache = {"cache_read_input_tokens": 20_000, "cache_creation_input_tokens": 1_000}
    used = {"input_tokens": 10, **cache, "output_tokens": 1}
    begun = event("message_start", message={**MESSAGE, "content": [], "usage": used})
    whole = {**WHOLE["messages"], "usage": {**used, "output_tokens": 55}}
    pieces = (begun, *MESSAGES_PIECES[1:]) if stream else (json.dumps(whole).encode(),)
    cloud.always(Recorded(pieces=pieces))
    served.http.post("/v1/messages", json={**MESSAGES, "stream": stream})
    (row,) = served.state.engine.ledger.recent(5)
    # $5 a million, a tenth of it from the cache, a quarter more into it; $25 for the answer
    assert row["cost_microdollars"] == 10 * 5 + 20_000 // 2 + 6_250 + 55 * 25


def test_an_overloaded_provider_stays_one(serving: Serving, cloud: LoopbackCloud) -> None:
    served = gateway(serving, cloud, "messages", policy="cloud_only")
    cloud.always(Status(529, retry_after_s=7))
    answer = served.http.post("/v1/messages", json=MESSAGES)
    assert answer.status_code == 529
    assert answer.json()["error"]["type"] == "overloaded_error"


@pytest.mark.parametrize("stream", [True, False])
def test_a_circuit_that_closes_soon_is_no_request_that_does_not_fit(
    serving: Serving, cloud: LoopbackCloud, stream: bool
) -> None:
    """An agent that is told so cuts its conversation, or gives up; this one comes again."""
    served = gateway(serving, cloud, "chat", policy="prefer_local")
    cloud.always(Status(503, retry_after_s=40))
    asked = {**CHAT_SDK, "stream": stream}
    long = [{"role": "user", "content": "word " * 50_000}]
    for more in ({"model": "cloud/openai/gpt-4o"}, {"n": 2}, {"messages": long}):
        for _ in range(4):
            answer = served.http.post("/v1/chat/completions", json={**asked, **more})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "breaker_open")
        assert 30 <= int(answer.headers["retry-after"]) <= 40
    kept = {**asked, "n": 2, "metadata": {"policy": "local_only"}}
    answer = served.http.post("/v1/chat/completions", json=kept)
    assert answer.json()["error"]["code"] == "does_not_fit"


def test_every_byte_that_leaves_is_reserved_for(serving: Serving, cloud: LoopbackCloud) -> None:
    served = gateway(serving, cloud, "chat", budgets=("$1/day",))
    cloud.always("Yes.")
    asked = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hello"}]}
    large = {**asked, "prediction": {"type": "content", "content": "x" * 500_000}}
    assert served.http.post("/v1/chat/completions", json=asked).json()["edgewise"]["source"] == (
        "cloud"
    )
    kept = served.http.post("/v1/chat/completions", json=large)
    assert kept.json()["edgewise"]["degraded_code"] == "budget_spent"
    assert len(cloud.requests) == 1


def test_the_official_clients_read_what_is_passed_on(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = gateway(serving, cloud, "messages", chain=("anthropic/claude-opus-4-8", "openai"))
    cloud.always(Recorded(pieces=MESSAGES_PIECES))
    typed = {name: each for name, each in MESSAGES.items() if name != "context_management"}
    with served.anthropic().messages.stream(**typed) as stream:
        message = stream.get_final_message()
    thought, words, call = message.content
    assert (thought.thinking, thought.signature, words.text) == ("Hm", "Eq==", "I look.")
    assert (call.name, call.input, message.stop_reason) == (
        "Bash",
        json.loads(ARGUMENTS),
        "tool_use",
    )
    assert (message.id, message.usage.cache_read_input_tokens) == ("msg_01", 21000)

    cloud.always(Recorded(pieces=CHAT_PIECES))
    client = served.openai()
    chunks = list(client.chat.completions.create(**CHAT_SDK, stream=True))
    pieces = [each.choices[0].delta.tool_calls or [] for each in chunks]
    arguments = "".join(call.function.arguments for calls in pieces for call in calls)
    assert arguments == ARGUMENTS and chunks[-1].choices[0].finish_reason == "tool_calls"
    cloud.always(Recorded(pieces=RESPONSES_PIECES))
    events = list(client.responses.create(model="gpt-4o", input="Go.", stream=True))
    assert events[-1].response.output[0].input == "*** Begin\n"


CHAT_SDK: dict[str, Any] = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Go."}]}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("wire", WIRES)
def test_of_a_server_behind_this_one_our_account_is_shown(
    serving: Serving, cloud: LoopbackCloud, wire: str, stream: bool
) -> None:
    _, body, pieces, _ = WIRES[wire]
    served = gateway(serving, cloud, wire)
    theirs = {"edgewise": {"source": "theirs"}}
    whole = json.dumps({**WHOLE[wire], **theirs}).encode()
    places = {"chat": (1, 7), "responses": (0, 4), "messages": (0, 13), "gemini": (0, 4)}
    first, last = places[wire]
    mark = b'"edgewise": {"source": "theirs"}, '
    at = {"messages": b'"delta"', "gemini": b'"candidates"'}.get(wire, b'"id"')
    chosen = [*pieces]
    begins = b'"candidates"' if wire == "gemini" else b'"id"'
    chosen[first] = chosen[first].replace(begins, mark + begins, 1)
    chosen[last] = chosen[last].replace(at, mark + at, 1)
    cloud.always(Recorded(pieces=tuple(chosen) if stream else (whole,)))
    answer = send(served, wire, body, stream=stream)
    assert answer.status_code == 200 and "theirs" not in answer.text
    assert answer.text.count('"edgewise":') == 1 + stream
