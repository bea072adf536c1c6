from __future__ import annotations

from edgewise.calibrate.rows import AnyOf
from edgewise.types.messages import Message, Request, Tool, ToolCall
from edgewise.types.replies import Attempt, Finish
from edgewise_bench.calls.cases import CallCase
from edgewise_bench.calls.stand_in_cloud import STAND_IN, StandInCloud

TOOLS = (Tool("find_train"), Tool("start_kettle"))
CASE = CallCase(
    "mine",
    "1",
    "heat the kettle to 90 and find a train to Delft",
    TOOLS,
    (("start_kettle", {"degrees": 90}), ("find_train", {"city": AnyOf(("Delft", "delft"))})),
)


def ask(text: str, tools: tuple[Tool, ...] = TOOLS) -> tuple[list[ToolCall], list[Attempt]]:
    cloud = StandInCloud(wait_ms=0)
    cloud.turn_to(CASE)
    journal: list[Attempt] = []
    request = Request(messages=(Message("user", text),), tools=tools)
    assert cloud.closed(request) is None
    chunks = list(cloud.stream(request, journal, live=False, patience_s=None))
    assert isinstance(chunks[-1], Finish)
    return [chunk for chunk in chunks if isinstance(chunk, ToolCall)], journal


def test_a_whole_request_gets_every_expected_call() -> None:
    calls, journal = ask(CASE.query)
    assert [(call.name, call.arguments) for call in calls] == [
        ("start_kettle", {"degrees": 90}),
        ("find_train", {"city": "Delft"}),
    ]
    assert journal[0].model == STAND_IN == "stand-in cloud (answers from the case file)"


def test_a_part_of_it_gets_what_it_speaks_of() -> None:
    assert [call.name for call in ask("find a train to Delft")[0]] == ["find_train"]
    assert [call.name for call in ask("heat the kettle to 90")[0]] == ["start_kettle"]


def test_a_tool_that_is_not_offered_is_not_called() -> None:
    assert [call.name for call in ask(CASE.query, TOOLS[:1])[0]] == ["find_train"]
