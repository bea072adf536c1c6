"""Coding agents: what they send leaves whole, and what a cloud calls comes back as it wrote it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from typing_extensions import override

from edgewise.testing import (
    Answer,
    LoopbackCloud,
    ScriptedBackend,
    ScriptedFunctionModel,
    Status,
)
from edgewise.types.messages import ToolCall
from tests.server.conftest import Serving
from tests.server.served import Served

KEYS = {"ANTHROPIC_API_KEY": "sk-ant-0123456789", "GEMINI_API_KEY": "AIza-0123456789"}
NAMES = [f"tool_{number}" for number in range(24)] + ["write_file"]
SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "text": {"type": "string"},
        "wait_ms": {"type": "number"},
    },
    "required": ["path", "text"],
    "additionalProperties": False,
}
# What models write and repairs would change: spaces, case, kinds of numbers, unknown names, order.
WRITTEN = {
    "wait_ms": 10000,
    "text": "    return x\n",
    "path": "src/HELLO.py",
    "note": " 'quoted.' ",
    "share": 1.0,
    "empty": "",
    "nothing": None,
    "nested": {"b": [1, 2.5, " "], "a": {}},
}
CALL = ToolCall("write_file", WRITTEN, "call_abc")
WORDS = "I will write the file."
ASKED = "Write the function into src/HELLO.py"
SEEN = {"path": "src/HELLO.py", "text": "  old\n"}


@dataclass(frozen=True)
class Got:
    """What a client makes of an answer."""

    text: str
    calls: list[tuple[str, dict[str, Any]]]
    end: str
    source: str


def turns(last: str, style: str) -> list[dict[str, Any]]:
    """The history of an agent in the style of an API, with this kind of turn at its end."""
    asked = {"role": "user", "content": ASKED}
    if last == "user":
        return [asked]
    if last == "system":
        return [asked, {"role": "system", "content": "The file is open in the editor."}]
    if last == "assistant":
        return [asked, {"role": "assistant", "content": "First I look at the file."}]
    written = json.dumps(SEEN)
    match style:
        case "anthropic":
            call = {"type": "tool_use", "id": "c1", "name": "tool_3", "input": SEEN}
            result = {"type": "tool_result", "tool_use_id": "c1", "content": "  done\n"}
            return [
                asked,
                {"role": "assistant", "content": [call]},
                {"role": "user", "content": [result]},
            ]
        case "responses":
            call = {
                "type": "function_call",
                "call_id": "c1",
                "name": "tool_3",
                "arguments": written,
            }
            result = {"type": "function_call_output", "call_id": "c1", "output": "  done\n"}
            return [asked, call, result]
        case _:
            arguments: Any = SEEN if style == "ollama" else written
            function = {"name": "tool_3", "arguments": arguments}
            call = {"id": "c1", "type": "function", "function": function}
            result = {"role": "tool", "tool_call_id": "c1", "content": "  done\n"}
            return [asked, {"role": "assistant", "content": "", "tool_calls": [call]}, result]


def read(arguments: str) -> dict[str, Any]:
    """The arguments of a call; of one that a limit cut, its text."""
    try:
        found: dict[str, Any] = json.loads(arguments)
    except json.JSONDecodeError:
        return {"cut": arguments}
    return found


def by_chat(served: Served, last: str, stream: bool, headers: dict[str, str], **more: Any) -> Got:
    tools: Any = [
        {"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in NAMES
    ]
    create = served.openai().chat.completions.create
    asked = {"model": "auto", "messages": turns(last, "chat"), "tools": tools, **more}
    if not stream:
        answer = create(**asked, extra_headers=headers)
        choice = answer.choices[0]
        made = [(c.function.name, c.function.arguments) for c in choice.message.tool_calls or ()]
        said, end, note = choice.message.content, choice.finish_reason, answer.edgewise
    else:
        said, end, note, pieces = "", "", {}, dict[int, list[str]]()
        for chunk in create(**asked, stream=True, extra_headers=headers):
            note = (chunk.model_extra or {}).get("edgewise") or note
            for choice in chunk.choices:
                said += choice.delta.content or ""
                end = choice.finish_reason or end
                for piece in choice.delta.tool_calls or ():
                    held = pieces.setdefault(piece.index, ["", ""])
                    held[0] += piece.function.name or ""
                    held[1] += piece.function.arguments or ""
        made = [(name, text) for name, text in pieces.values()]
    return Got(said or "", [(name, read(text)) for name, text in made], end, note["source"])


def by_responses(
    served: Served, last: str, stream: bool, headers: dict[str, str], **more: Any
) -> Got:
    tools: Any = [{"type": "function", "name": name, "parameters": SCHEMA} for name in NAMES]
    limit = {"max_output_tokens": more["max_tokens"]} if more else {}
    create = served.openai().responses.create
    asked = {"model": "auto", "input": turns(last, "responses"), "tools": tools, **limit}
    if stream:
        events = list(create(**asked, stream=True, extra_headers=headers))
        answer = events[-1].response
        pieces = [e for e in events if e.type == "response.function_call_arguments.done"]
        whole = [item for item in answer.output if item.type == "function_call"]
        assert [each.arguments for each in pieces] == [each.arguments for each in whole]
    else:
        answer = create(**asked, extra_headers=headers)
    calls = [item for item in answer.output if item.type == "function_call"]
    made = [(call.name, read(call.arguments)) for call in calls]
    short = answer.incomplete_details
    return Got(answer.output_text, made, short.reason if short else "", answer.edgewise["source"])


def by_messages(
    served: Served, last: str, stream: bool, headers: dict[str, str], **more: Any
) -> Got:
    tools: Any = [{"name": name, "input_schema": SCHEMA} for name in NAMES]
    asked = {
        "model": "auto",
        "max_tokens": more.get("max_tokens", 5000),
        "messages": turns(last, "anthropic"),
        "tools": tools,
    }
    client = served.anthropic()
    note: dict[str, Any] = {}
    if stream:
        with client.messages.stream(**asked, extra_headers=headers) as events:
            for event in events:
                note = (getattr(event, "model_extra", None) or {}).get("edgewise") or note
            answer = events.get_final_message()
    else:
        answer = client.messages.create(**asked, extra_headers=headers)
        note = answer.edgewise
    texts = "".join(block.text for block in answer.content if block.type == "text")
    made = [(b.name, b.input) for b in answer.content if b.type == "tool_use"]
    return Got(texts, made, answer.stop_reason, note["source"])


def by_ollama(served: Served, last: str, stream: bool, headers: dict[str, str], **more: Any) -> Got:
    tools = [{"type": "function", "function": {"name": n, "parameters": SCHEMA}} for n in NAMES]
    asked: dict[str, Any] = {"model": "auto", "messages": turns(last, "ollama"), "tools": tools}
    asked |= {"stream": stream}
    asked |= {"options": {"num_predict": more["max_tokens"]}} if more else {}
    response = served.http.post("/api/chat", json=asked, headers=headers)
    assert response.status_code == 200, response.text
    lines = [json.loads(line) for line in response.text.splitlines()]
    text = "".join(line["message"]["content"] for line in lines)
    calls = [call for line in lines for call in line["message"].get("tool_calls", ())]
    made = [(call["function"]["name"], call["function"]["arguments"]) for call in calls]
    return Got(text, made, lines[-1]["done_reason"], lines[-1]["edgewise"]["source"])


Asking = Callable[..., Got]
APIS: dict[str, tuple[Asking, str, str]] = {  # how it is asked, and the ends it has
    "chat": (by_chat, "tool_calls", "length"),
    "responses": (by_responses, "", "max_output_tokens"),
    "messages": (by_messages, "tool_use", "max_tokens"),
    "ollama": (by_ollama, "stop", "length"),
}


def agent_server(
    serving: Serving, provider: str = "openai", at: LoopbackCloud | None = None, **settings: Any
) -> Served:
    """The function model is sure that no tool fits, and the chat model doubts its words."""
    patient = {"patience_s": 60.0, "connect_s": 30.0, "first_token_s": 60.0}
    chosen = {"chain": (provider,), **patient, **settings}
    address = dict(KEYS) if at else {}
    if at:
        address |= {"ANTHROPIC_BASE_URL": at.anthropic_url}
        address |= {"GOOGLE_GEMINI_BASE_URL": at.gemini_url}
    sure = ScriptedFunctionModel(["none"], logprobs=[[-0.001]])
    words = ScriptedBackend.doubtful("I cannot do that.")
    return serving(words, function_model=sure, environment=address, settings=chosen)


def sent_tools(body: Any) -> list[str]:
    return [(each.get("function") or each)["name"] for each in body["tools"]]


POLICIES = ("prefer_local", "prefer_cloud", "cloud_only")
WAYS = [(policy, stream) for policy in POLICIES for stream in (False, True)]


@pytest.mark.parametrize("last", ["user", "tool", "system", "assistant"])
@pytest.mark.parametrize("api", APIS)
def test_all_tools_arrive_and_the_clouds_call_comes_back_as_it_is(
    serving: Serving, cloud: LoopbackCloud, api: str, last: str
) -> None:
    served, (ask, end, _) = agent_server(serving), APIS[api]
    cloud.always(Answer(text=WORDS, tool_calls=(CALL,)))
    for policy, stream in WAYS:
        got = ask(served, last, stream, {"x-edgewise-policy": policy})
        (name, arguments), *others = got.calls
        assert (name, others, got.text, got.source) == ("write_file", [], WORDS, "cloud")
        assert json.dumps(arguments) == json.dumps(WRITTEN), "values, kinds and order"
        assert got.end == end, (policy, stream)
    assert len(cloud.requests) == len(WAYS)
    for left in cloud.requests:
        assert sent_tools(left.body) == NAMES
        assert "tool_choice" not in left.body
        assert (left.body["tools"][0].get("function") or left.body["tools"][0])[
            "parameters"
        ] == SCHEMA
        limit = 5000 if api == "messages" else None  # Anthropic's clients must name one
        assert left.body.get("max_completion_tokens") == limit


@pytest.mark.parametrize("policy", ["prefer_local", "prefer_cloud", "cloud_only"])
def test_what_the_history_holds_is_not_rewritten(
    serving: Serving, cloud: LoopbackCloud, policy: str
) -> None:
    cloud.always(Answer(text=WORDS))
    by_chat(agent_server(serving), "tool", False, {"x-edgewise-policy": policy})
    asked, called, result = cloud.requests[0].body["messages"]
    assert asked == {"role": "user", "content": ASKED}
    assert called["tool_calls"][0]["function"]["arguments"] == json.dumps(SEEN)
    assert (result["tool_call_id"], result["content"]) == ("c1", "  done\n")


@pytest.mark.parametrize("last", ["user", "tool", "system"])
def test_a_private_agent_stays_on_the_device(
    serving: Serving, cloud: LoopbackCloud, last: str
) -> None:
    got = by_chat(agent_server(serving), last, True, {"x-edgewise-privacy": "private"})
    assert (got.source, got.text, got.calls) == ("local", "I cannot do that.", [])
    assert cloud.requests == []


@pytest.mark.parametrize(("provider", "most"), [("openai", 201), ("anthropic", 128)])
def test_of_more_tools_than_clouds_take_those_that_fit_the_words_arrive_in_another_protocol(
    serving: Serving, cloud: LoopbackCloud, provider: str, most: int
) -> None:
    cloud.always(Answer(text=WORDS))
    many = [*(f"repair_{number}" for number in range(200)), "write_function_into_src"]
    tools: Any = [{"type": "function", "function": {"name": name}} for name in many]
    served = agent_server(serving, provider, cloud)
    for last in ("user", "system"):
        served.chat(messages=turns(last, "chat"), tools=tools).raise_for_status()
    for left in cloud.requests:
        assert len(sent_tools(left.body)) == most
        assert "write_function_into_src" in sent_tools(left.body)


def test_words_that_show_a_call_are_words(serving: Serving, cloud: LoopbackCloud) -> None:
    shown = 'Use `write_file(path="a", text="b")` for that.'
    cloud.always(shown)
    got = by_chat(agent_server(serving), "user", False, {"x-edgewise-policy": "prefer_cloud"})
    assert (got.text, got.calls) == (shown, [])


@pytest.mark.parametrize("last", ["tool", "system", "assistant"])
def test_a_call_that_is_required_is_the_clouds_where_the_device_cannot_make_it(
    serving: Serving, cloud: LoopbackCloud, last: str
) -> None:
    cloud.always(Answer(text="", tool_calls=(CALL,)))
    served = serving(
        ScriptedBackend.confident("No."), function_model=ScriptedFunctionModel.doubtful("none")
    )
    got = by_chat(served, last, False, {}, tool_choice="required")
    assert [name for name, _ in got.calls] == ["write_file"]
    (left,) = cloud.requests
    assert (left.body["tool_choice"], sent_tools(left.body)) == ("required", NAMES)


class CutCall(Answer):
    """Its limit falls into the arguments of the last call."""

    kept = 7

    @override
    def pieces(self, text: str) -> list[str]:
        return [text[: self.kept]] if text.startswith('{"wait_ms') else super().pieces(text)


class CutBeforeArguments(CutCall):
    """Its limit falls between the name of a call and its arguments."""

    kept = 0


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("api", APIS)
def test_a_call_that_the_limit_cuts_ends_with_length(
    serving: Serving, cloud: LoopbackCloud, api: str, provider: str
) -> None:
    served, (ask, _, end) = agent_server(serving, provider, cloud), APIS[api]
    for cut in (CutCall, CutBeforeArguments):
        cloud.always(cut(text="", tool_calls=(CALL,), finish="length"))
        for policy, stream in WAYS:
            got = ask(served, "user", stream, {"x-edgewise-policy": policy}, max_tokens=9)
            assert (got.text, got.end, got.source) == ("", end, "cloud")
            passed_on = (api == "messages") == (provider == "anthropic") and api != "ollama"
            cut_ones = ["write_file"] if passed_on else []
            assert [name for name, _ in got.calls] == cut_ones, "half a call is not translated"
    assert len(cloud.requests) == 2 * len(WAYS), "nobody was asked again"


def test_gemini_sends_nothing_of_a_call_that_the_limit_cuts(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = agent_server(serving, "gemini", cloud)
    cloud.always(Answer(text="", finish="length"))
    for policy, stream in WAYS:
        got = by_chat(served, "user", stream, {"x-edgewise-policy": policy}, max_tokens=9)
        assert (got.calls, got.text, got.end, got.source) == ([], "", "length", "cloud")
    tools = [each.body["tools"][0]["functionDeclarations"] for each in cloud.requests]
    assert [len(each) for each in tools] == [len(NAMES)] * len(WAYS)


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_of_several_calls_only_the_cut_one_is_missing(
    serving: Serving, cloud: LoopbackCloud, provider: str
) -> None:
    served = agent_server(serving, provider, cloud)
    whole = ToolCall("tool_1", SEEN, "c1")
    cloud.always(CutCall(text=WORDS, tool_calls=(whole, CALL), finish="length"))
    for policy in ("prefer_cloud", "cloud_only"):
        got = by_chat(served, "user", True, {"x-edgewise-policy": policy})
        cut = [("write_file", {"cut": '{"wait_'})] if provider == "openai" else []
        assert (got.calls, got.text, got.end) == ([("tool_1", SEEN), *cut], WORDS, "length")


def test_a_limit_of_the_settings_is_one_that_somebody_asked_for(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = agent_server(serving, max_tokens=77)
    cloud.always(Answer(text=WORDS))
    by_chat(served, "user", False, {"x-edgewise-policy": "cloud_only"})
    by_chat(served, "user", False, {"x-edgewise-policy": "cloud_only"}, max_tokens=78)
    limits = [each.body["max_completion_tokens"] for each in cloud.requests]
    assert limits == [77, 78]


def test_a_cloud_that_must_be_told_a_limit_gets_its_models_own(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = agent_server(serving, "anthropic", cloud)
    cloud.always(Answer(text=WORDS))
    for model in ("claude-3-haiku-20240307", "claude-opus-9"):
        answer = served.chat(model=f"cloud/anthropic/{model}")
        assert answer.status_code == 200, answer.text
    assert [each.body["max_tokens"] for each in cloud.requests] == [4096, 32_000]


def test_with_a_budget_an_answer_gets_the_longest_limit_that_it_pays_for(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    cloud.always(Answer(text=WORDS))
    limits = []
    for budget in (
        "$100/day",
        "$0.15/day",
        "$0.08/day",
        "$0.06/day",
        "$0.055/day",
        "$0.05/day",
        "$0.045/day",
    ):
        served = agent_server(serving, "openai/gpt-4o", budgets=(budget,))
        before = len(cloud.requests)
        by_chat(served, "user", False, {})
        limits += [each.body["max_completion_tokens"] for each in cloud.requests[before:]]
        served.state.engine.ledger.close()
    assert limits == sorted(limits, reverse=True) and set(limits) <= {16_384, 4096, 1024, 256}
    assert len(set(limits)) > 2, limits


def test_a_tool_is_still_there_after_an_error_of_the_first_provider(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    cloud.script(Status(500), Answer(text="", tool_calls=(CALL,)))
    got = by_chat(agent_server(serving), "system", False, {})
    assert [sent_tools(each.body) for each in cloud.requests] == [NAMES, NAMES]
    assert [name for name, _ in got.calls] == ["write_file"]


@pytest.mark.parametrize("last", ["user", "tool", "system"])
def test_a_request_that_the_device_cannot_read_is_not_tried_there(
    serving: Serving, cloud: LoopbackCloud, last: str
) -> None:
    words = "A long description of what this tool does, and when it should be called. " * 40
    tools: Any = [
        {"name": name, "description": words, "input_schema": {"type": "object"}} for name in NAMES
    ]
    served = agent_server(serving, "anthropic", cloud)
    cloud.always(Answer(text=WORDS))
    asked = {"model": "auto", "max_tokens": 99, "messages": turns(last, "anthropic")}
    answer = served.http.post("/v1/messages", json={**asked, "tools": tools}).json()
    assert answer["edgewise"]["decision"]["code"] == "handoff_context_exceeded"
    assert [each["place"] for each in answer["edgewise"]["attempts"]] == ["cloud"]
    cloud.always(Status(529))
    assert served.http.post("/v1/messages", json={**asked, "tools": tools}).status_code == 529


def test_usage_counts_the_answer_and_no_run_that_was_thrown_away(serving: Serving) -> None:
    sure = ScriptedFunctionModel(["none"], logprobs=[[-0.001]])
    served = serving(ScriptedBackend.confident("One two."), function_model=sure)
    tools: Any = [{"type": "function", "function": {"name": "go", "parameters": SCHEMA}}]
    answer = served.chat(messages=turns("user", "chat"), tools=tools).json()
    runs = answer["edgewise"]["attempts"]
    assert len(runs) == 2 and answer["edgewise"]["source"] == "local"
    assert answer["usage"]["completion_tokens"] == runs[-1]["output_tokens"]
