"""Function calls for the engine: puts the flow's parts together, and runs the calls.

Loaded with the first request that has tools."""

from __future__ import annotations

import datetime
import inspect
import time
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from edgewise import plugins
from edgewise.assembly.calibrations import calibration_of
from edgewise.calls.check import FATAL
from edgewise.calls.confidence import CALLS
from edgewise.calls.difficulty import Weights
from edgewise.calls.formats import format_named
from edgewise.calls.tools import Toolbox
from edgewise.cloud.provider import Cloud
from edgewise.decide.calibration import Calibration
from edgewise.errors import (
    Cancelled,
    InvalidRequest,
    ModelNotFound,
    SettingsError,
    ToolServerFailed,
)
from edgewise.flows import call as call_functions
from edgewise.flows.call import (
    CallRules,
    Parts,
)
from edgewise.local.backend import CallBackend
from edgewise.local.chat_prompt import render_calls
from edgewise.record.tool_counts import ToolRecord
from edgewise.settings import Settings
from edgewise.types.messages import Request, ToolCall
from edgewise.types.replies import Attempt, CallReply, ToolResult

NOT_RUN = "not run:"


def answer(
    request: Request,
    attempts: list[Attempt],
    *,
    settings: Settings,
    function_model: Callable[[], CallBackend],
    cloud: Cloud,
    record: ToolRecord,
) -> CallReply:
    """The calls a request asks for."""
    parts = Parts(
        function_model=function_model,
        cloud=cloud,
        policy=plugins.load("policies", request.policy),
        calibration=lambda function_model: find_call_calibration(settings, function_model),
        rules=call_rules(settings),
        patience_s=settings.patience_s,
        clock=time.perf_counter,
        today=datetime.date.today,
        record=record,
        render=render_calls,
    )
    return call_functions.answer(request, parts, attempts)


def reads_results(function_model: Callable[[], CallBackend]) -> bool:
    """Whether there is a function model that can go on after a tool's result."""
    try:
        facts = function_model().facts()
        return format_named(facts.call_format, facts.chat_template, render_calls).reads_turns
    except ModelNotFound:
        return False


def call_rules(settings: Settings) -> CallRules:
    known = {field.name for field in fields(Weights)}
    if unknown := sorted(set(settings.difficulty) - known):
        raise SettingsError(
            f"[difficulty]: unknown weight {unknown[0]!r} (known: {', '.join(sorted(known))})"
        )
    return CallRules(
        tools_limit=settings.call_tools,
        tiers=(settings.call_easy, settings.call_hard),
        weights=replace(Weights(), **settings.difficulty),
    )


def find_call_calibration(settings: Settings, function_model: CallBackend | None) -> Calibration:
    """The calibration of this model and quantisation, else a plain one."""
    facts = None if function_model is None else function_model.facts()
    return calibration_of(settings, facts, CALLS)


def run_calls(reply: CallReply, box: Toolbox, record: ToolRecord) -> CallReply:
    """The reply with a result for each call, in order. A failed call does not stop the rest."""
    results = tuple(run_call(call, box.functions) for call in reply.calls)
    tools = {tool.name: tool for tool in box.tools if tool.name in box.functions}
    record.note(
        [
            (tools[result.call.name], not result.error)
            for result in results
            if result.call.source == "local"
            and result.call.name in tools
            # An error inside the tool says nothing about the arguments.
            and (not result.error or result.error.startswith(NOT_RUN))
        ]
    )
    return replace(reply, results=results)


def run_call(call: ToolCall, functions: Mapping[str, Callable[..., Any]]) -> ToolResult:
    """Run one call. If it cannot run, or fails, its result is an error."""
    function = functions.get(call.name)
    if function is None:
        return ToolResult(call, error="no Python function of this name was given")
    if wrong := FATAL.intersection(call.complaints):
        return ToolResult(call, error=f"{NOT_RUN} {', '.join(sorted(wrong))}")
    from edgewise.calls.python_tools import call_function  # noqa: PLC0415 - pydantic

    try:
        value = call_function(function, call.arguments)
        if inspect.isawaitable(value):
            from edgewise.bridge import awaited  # noqa: PLC0415 - asyncio

            value = awaited(value)
        return ToolResult(call, value)
    except Cancelled:
        raise
    except InvalidRequest as error:
        return ToolResult(call, error=f"{NOT_RUN} {error}")
    except ToolServerFailed as error:
        return ToolResult(call, error=str(error))
    except Exception as error:  # noqa: BLE001  # the user's code may raise anything
        return ToolResult(call, error=f"{type(error).__name__}: {error}")
