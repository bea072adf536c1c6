"""A cloud for benches without a key: it waits as a real one would, and answers from the case file.

Whatever it has a part in names it: figures that rest on it tell what a perfect cloud would give.
"""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Mapping
from typing import Any

from edgewise.calibrate.rows import AnyOf, Call
from edgewise.cloud.provider import Chunk, Stop
from edgewise.errors import CloudClosed
from edgewise.types.messages import Request, ToolCall
from edgewise.types.replies import Attempt, Finish
from edgewise_bench.calls.cases import CallCase

STAND_IN = "stand-in cloud (answers from the case file)"
TYPICAL_MS = 800.0  # what a small cloud model took for the public cases, by several teams' logs
_WORDS = re.compile(r"\w+")


class StandInCloud:
    """Fulfils `Cloud`. The harness tells it by `turn_to` which case comes next."""

    def __init__(self, wait_ms: float = TYPICAL_MS) -> None:
        self._wait_s = wait_ms / 1000
        self._case: CallCase | None = None

    def turn_to(self, case: CallCase) -> None:
        self._case = case

    def closed(self, request: Request) -> CloudClosed | None:
        return None

    def stream(
        self,
        request: Request,
        journal: list[Attempt],
        *,
        live: bool,
        patience_s: float | None,
        stop: Stop | None = None,
    ) -> Generator[Chunk, None, None]:
        if stop is None:
            time.sleep(self._wait_s)
        elif not stop.begin() or stop.wait(self._wait_s):
            return
        calls = asked_for(self._case, request) if self._case else []
        journal.append(
            Attempt(
                place="cloud",
                backend="stand-in",
                model=STAND_IN,
                outcome="answered",
                total_ms=1000 * self._wait_s,
                output_tokens=1,
            )
        )
        for number, (name, arguments) in enumerate(calls):
            yield ToolCall(name, _settled(arguments), id=f"stand-in-{number}", source="cloud")
        if not calls:
            yield "No tool serves this."
        yield Finish("stop", 1, 1)


def asked_for(case: CallCase, request: Request) -> list[Call]:
    """The expected calls that a request is about: all of them, or those that its part speaks of.

    A call belongs to a part of the request if its values are rather said there than in the rest.
    """
    offered = {tool.name for tool in request.tools}
    expected = [call for call in case.expected if call[0] in offered]
    text = next((m.content for m in reversed(request.messages) if m.role == "user"), "")
    words, whole = _words(text), _words(case.query)
    if whole <= words:
        return expected
    rest = whole - words
    return [call for call in expected if _said(call, words) >= _said(call, rest)]


def _said(call: Call, words: set[str]) -> float:
    spoken = _words(call[0].replace("_", " ")) | _words(str(list(_settled(call[1]).values())))
    return len(spoken & words) / max(1, len(spoken))


def _words(text: str) -> set[str]:
    return set(_WORDS.findall(text.lower()))


def _settled(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value.values[0] if isinstance(value, AnyOf) else value
        for key, value in arguments.items()
    }
