"""A reply as JSON: one projection, of which server, ledger and MCP choose."""

from __future__ import annotations

import json
from typing import Any

from edgewise.mcp_server import facts_of
from edgewise.record.rows import reply_row
from edgewise.server.wire import report
from edgewise.types.messages import Message, Request, ToolCall
from edgewise.types.replies import Attempt, CallReply, Decision, Reply, Token, Usage

SURE = Decision(policy="prefer_local", handoff="automatic", code="confident", reason="sure")


def made(kind: type[Reply[Any]] = Reply, **changed: Any) -> Reply[Any]:
    given: dict[str, Any] = {"id": "1", "text": "Paris.", "source": "local", "decision": SURE}
    return kind(**given | changed)


def test_all_of_it_is_plain_json() -> None:
    evidence = Decision(
        policy="p", handoff="signal", code="c", reason="", evidence=(Token("a", -0.1, 1.0, 2.0),)
    )
    attempt = Attempt(
        place="cloud", backend="b", model="m", outcome="answered", redacted={"KEY": 1}
    )
    whole = made(decision=evidence, attempts=(attempt,), tool_calls=(ToolCall("f", {"a": [1]}),))
    told = json.loads(json.dumps(whole.to_dict()))
    assert told["decision"]["evidence"][0]["text"] == "a"
    assert told["attempts"][0]["redacted"] == {"KEY": 1}
    assert told["tool_calls"][0]["arguments"] == {"a": [1]}


def test_an_answer_that_is_no_json_to_begin_with_is_told_without_its_parsed_value() -> None:
    assert made(text='{"city": "Paris"}', parsed=object()).to_dict()["parsed"] == {"city": "Paris"}
    assert "parsed" not in made(text="city: Paris", parsed=object()).to_dict()


def test_server_ledger_and_mcp_say_the_same_of_a_reply() -> None:
    usage = Usage(input_tokens=3, output_tokens=4, cost_microdollars=5)
    reply = made(
        CallReply, confidence=0.75, usage=usage, total_ms=6.0, tool_calls=(ToolCall("f", {}, "x"),)
    )
    said, kept = report(reply), reply_row(Request(messages=(Message("user", "?"),)), reply, 0.0, 0)
    shown, told = facts_of(reply), reply.to_dict()
    for name in ("source", "model", "confidence", "degraded", "total_ms"):
        assert said[name] == kept[name] == shown[name] == told[name]
    assert said["cost_microdollars"] == kept["cost_microdollars"] == 5
    assert said["calls"] == [{"name": "f", "source": "cloud", "confidence": None}]
    assert "response" not in said and "success" not in said
