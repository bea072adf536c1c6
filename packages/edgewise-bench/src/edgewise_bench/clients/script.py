"""What the scripted cloud answers an agent: the calls that mend a file, and then a word."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgewise.testing import Answer, SeenRequest
from edgewise.types.messages import ToolCall

# The calls of one turn by the names that tools may have; the first that was offered is called.
Step = Mapping[str, Mapping[str, Any]]
WORDS = "I look at the file first."
TITLE = "Spelling in a greeting"


@dataclass(slots=True)
class Script:
    """One conversation with one client: the next call after each result, then `last`.

    A request without tools is one for a title or a summary, or that of a client that has no tools:
    then `last` is what it gets.
    """

    steps: Sequence[Step]
    last: str
    typed: str = ""  # the answer to a request for JSON
    asked: dict[str, float] = field(default_factory=dict)  # when each request arrived, by its id
    sent: dict[str, list[ToolCall]] = field(default_factory=dict)
    at_a_loss: set[str] = field(default_factory=set)  # what was offered where nothing fitted

    def answer(self, seen: SeenRequest) -> Answer:
        id = seen.headers.get("x-client-request-id", "")
        self.asked[id] = time.monotonic()
        if self.typed and "responseJsonSchema" in (seen.body.get("generationConfig") or {}):
            return Answer(text=self.typed, input_tokens=900, output_tokens=20)
        offered = list(tool_names(seen.body.get("tools")))
        done = results(seen.body)
        answer = Answer(text=self.last, input_tokens=2_000, output_tokens=40, cached_tokens=1_000)
        if offered and done < len(self.steps):
            step = self.steps[done]
            name = next((name for name in step if name in offered), "")
            if name:
                call = ToolCall(name, step[name], id=f"call_{done}_of_the_cloud")
                self.sent[id] = [call]
                return Answer(
                    text=WORDS if not done else "",
                    tool_calls=(call,),
                    input_tokens=2_000,
                    output_tokens=40,
                )
            self.at_a_loss |= set(offered)
        return answer


def tool_names(tools: Any) -> Iterator[str]:
    for tool in tools or ():
        for declared in tool.get("functionDeclarations") or ():  # Gemini's
            yield declared["name"]
        if "functionDeclarations" in tool:
            continue
        yield (tool.get("function") or tool).get("name") or str(tool.get("type"))


def results(body: Mapping[str, Any]) -> int:
    """How many results of calls a request brings, in any protocol."""
    items = body.get("messages") or body.get("input") or body.get("contents") or ()
    found = 0
    for item in items if isinstance(items, list) else ():
        content = item.get("content") or item.get("parts")
        found += item.get("role") == "tool" or str(item.get("type")).endswith("_call_output")
        for part in content if isinstance(content, list) else ():
            found += isinstance(part, dict) and (
                part.get("type") == "tool_result" or "functionResponse" in part
            )
    return found


def as_sent(call: ToolCall) -> tuple[str, str]:
    """Its name, and its arguments as the scripted cloud writes them."""
    return call.name, json.dumps(dict(call.arguments))
