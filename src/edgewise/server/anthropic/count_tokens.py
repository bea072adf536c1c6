"""Anthropic's `/v1/messages/count_tokens`: how long a request is for the model on the device."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from annotated_types import Ge
from typing_extensions import TypedDict

from edgewise.calls.prompt import render_tools
from edgewise.decide.fit import count_characters, estimate_tokens
from edgewise.server.access_log import Served
from edgewise.server.answer import Incoming, chat_options, noted
from edgewise.server.anthropic.messages import read_count
from edgewise.server.errors import anthropic_error
from edgewise.server.state import ServerState
from edgewise.server.wire import JSON, NotEmpty, Work, to_json, whole
from edgewise.types.messages import Message

MOST_CHARACTERS = 1_000_000  # counted exactly; more are estimated


class CountReport(TypedDict):
    """Whose tokens these are. Pictures are not counted."""

    model: NotEmpty
    estimated: bool


class TokenCount(TypedDict):
    input_tokens: Annotated[int, Ge(0)]
    edgewise: CountReport


def count_tokens(state: ServerState, incoming: Incoming) -> Work:
    """Nothing is asked of any model, so nothing is written into the ledger."""
    served = Served(endpoint="messages.count_tokens", client=incoming.client.name)

    def work() -> Work:
        ask = read_count(incoming.body, remote_images=state.server.remote_images)
        served.model = ask.model[:80]
        options = chat_options(state, incoming, ask.model, {})
        request = state.engine._request(ask.messages, **{**ask.options, **options})
        if request.tool_choice == "none":  # the device does not read them then
            request = replace(request, tools=())
        # A longer text fits no device: counting it exactly would only take time and memory.
        long = count_characters(request.messages) > MOST_CHARACTERS
        counted = None if long else state.engine.count_tokens(request)
        tools = Message("system", render_tools(request.tools))
        found: TokenCount = {
            "input_tokens": (
                estimate_tokens([*request.messages, tools]) if counted is None else counted
            ),
            "edgewise": {
                "model": f"local/{state.engine._open_backend(request.model).facts().model}",
                "estimated": counted is None,
            },
        }
        served.status, served.code = 200, "counted"
        yield whole(200, JSON, to_json(found))

    yield from noted(state, served, incoming.cancellation, work, anthropic_error)
