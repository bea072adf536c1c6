"""A conversation: one history, whoever said what, and the loop that runs its tools."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, Unpack, cast, overload

from edgewise.calls.tools import as_toolbox
from edgewise.engine import Engine, run
from edgewise.errors import InvalidRequest
from edgewise.requests import as_images, as_messages, checked, shown, spoken, takes
from edgewise.tasks import Seal, check_consent, keep_in, refusals, run_allowed
from edgewise.types.messages import (
    Approve,
    ChatOptions,
    Execute,
    Message,
    Request,
    RequestOptions,
    RunnableTool,
    ToolCall,
    ToolLike,
    as_kinds,
    new_request_id,
)
from edgewise.types.replies import CallReply, Event, Finished, Parsed, Reply, TextDelta, ToolResult
from edgewise.types.transcripts import Transcript

if TYPE_CHECKING:
    from edgewise.mcp_client import ToolServers

NO_RESULT = "no result was given"
MCP_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Round:
    """One round of calls: the reply with the results of the calls that ran, and its messages.

    `open_calls` are calls of tools that are only described; the application makes those. `doubts`
    says of calls in doubt what became of them, unless the user allowed them.
    """

    reply: Reply
    messages: tuple[Message, ...]
    open_calls: tuple[ToolCall, ...]
    doubts: tuple[str, ...] = ()


def run_round(
    reply: Reply,
    tools: Sequence[ToolLike],
    *,
    seal: Seal = keep_in,
    execute: Execute = True,
    approve: Approve | None = None,
) -> Round:
    """Run the calls of tools that can be run, in order. Every result needs the id of its call."""
    box = as_toolbox(tools)
    functions = box.functions if execute else {}
    calls = tuple(
        replace(call, id=call.id or f"call_{new_request_id()}") for call in reply.tool_calls
    )
    ours = [call for call in calls if call.name in functions]
    refused = refusals(ours, functions, execute, approve)
    results = run_allowed(ours, box, refused, seal)
    doubts = tuple(
        f"{call.name} was {why or f'run in doubt ({call.doubt})'}"
        for call, why in zip(ours, refused, strict=True)
        if call.doubt and (why or approve is None)
    )
    reply = replace(reply, tool_calls=calls)
    if isinstance(reply, CallReply):
        reply = replace(reply, results=results)
    said = Message("assistant", reply.text, tool_calls=calls, source=reply.source)
    others = tuple(call for call in calls if call.name not in functions)
    return Round(reply, (said, *map(as_message, results)), others, doubts)


def with_doubts(reply: Reply, earlier: Sequence[Round]) -> Reply:
    """The last reply of a turn; what was in doubt before it is in doubt in it too."""
    doubtful = [one for one in earlier if one.doubts]
    if not doubtful:
        return reply
    codes = [reply.decision, *(one.reply.decision for one in doubtful)]
    degraded = next((one.degraded_code for one in codes if one.degraded_code), "")
    reason = "; ".join([reply.decision.reason, *(each for one in doubtful for each in one.doubts)])
    decision = replace(reply.decision, reason=reason, degraded_code=degraded)
    return replace(reply, decision=decision, needs_cloud_handoff=True, degraded=bool(degraded))


def as_message(result: ToolResult) -> Message:
    """A result as text for a model: text stays as it is, anything else becomes JSON."""
    if result.error:
        text = f"failed: {result.error}"
    elif result.value is None:
        text = "done"
    elif isinstance(result.value, str):
        text = result.value
    else:
        text = _written(result.value)
    return Message("tool", text, tool_call_id=result.call.id, source="local")


def _written(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError):  # keys that are not text, or a value that contains itself
        return repr(value)


def open_calls(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """The calls of a history that have no result yet."""
    answered = {message.tool_call_id for message in messages if message.role == "tool"}
    return tuple(
        call for message in messages for call in message.tool_calls if call.id not in answered
    )


def answer_all(messages: Sequence[Message], results: Sequence[ToolResult]) -> list[Message]:
    """One message for each open call: providers refuse a history with open calls."""
    waiting = {call.id: call for call in open_calls(messages)}
    given = {result.call.id: result for result in results}
    if strange := sorted(set(given) - set(waiting)):
        raise InvalidRequest(f"no call waits for a result with the id {strange[0]!r}")
    return [
        as_message(given.get(name) or ToolResult(call, error=NO_RESULT))
        for name, call in waiting.items()
    ]


class Conversation:
    """Turns of a user and an assistant. Options given here apply to every turn.

        conversation = Conversation(engine, system="Answer in one sentence.")
        conversation.ask("Who wrote Faust?")
        conversation.ask("When was he born?", policy="cloud_only")

    With `tools` a turn may take several steps: calls of Python functions are run, and the model
    answers from their results. The last of the `max_steps` steps must be an answer. Calls of tools
    that are only described come back as `reply.tool_calls`; pass their results to `resume`.

    `mcp` names MCP servers, each a command or an http(s) address, whose tools are offered too. They
    start with the first turn, or with the `with` block, whose end stops them; each may take
    `mcp_timeout_s` to start, and for each call.

    A call in doubt is not run, and the model is told so; with `execute="always"` it is, and with
    `execute=False` all calls are the application's. `approve` is asked about every call, sure or
    not, before the calls of a step are run; only True runs one. It may be a coroutine function.

        with Conversation(engine, mcp=["uvx mcp-server-time"]) as conversation:
            conversation.ask("What time is it in Asia/Tokyo?")

    Every turn sends the whole history. Once it contains a private turn, all later turns are
    private too, whatever they say. Remove that turn, and they may leave the device again.
    Kinds that a turn names in `redact` or `private_kinds` hold for all later turns as well.
    """

    @takes(RequestOptions)
    def __init__(
        self,
        engine: Engine,
        *,
        max_steps: int = 4,
        mcp: Sequence[str] = (),
        mcp_timeout_s: float = MCP_TIMEOUT_S,
        execute: Execute = True,
        approve: Approve | None = None,
        **options: Unpack[RequestOptions],
    ) -> None:
        """The options apply to every turn."""
        check_consent(execute, approve)
        if max_steps < 2:
            raise InvalidRequest(f"max_steps = {max_steps}: at least 2, to call and to answer")
        options = _checked(options)
        system = options.pop("system", "")
        self.engine = engine
        self.max_steps = max_steps
        self.messages: list[Message] = [Message("system", system)] if system else []
        self.options = options
        self.steps: list[Reply] = []  # the reply of each request of the last turn
        self.mcp = mcp
        self.mcp_timeout_s = mcp_timeout_s
        self.execute = execute
        self.approve = approve
        self.secrets: list[Message] = []  # what private turns said: these very messages
        self._kinds: dict[str, tuple[str, ...]] = {}  # by option: what no later turn may let out
        self._servers: ToolServers | None = None

    def close(self) -> None:
        """End the MCP servers. The next turn would start them again."""
        if self._servers is not None:
            self._servers.close()
            self._servers = None

    def __enter__(self) -> Self:
        self._served()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def private(self) -> bool:
        """Whether a turn of this history was private. If so, nothing of it may leave the device."""
        return any(message is secret for secret in self.secrets for message in self.messages)

    @overload
    def ask(
        self,
        text: str | Transcript,
        *,
        response_format: type[Parsed],
        **options: Unpack[ChatOptions],
    ) -> Reply[Parsed]: ...
    @overload
    def ask(self, text: str | Transcript, **options: Unpack[RequestOptions]) -> Reply: ...
    @takes(RequestOptions)
    def ask(self, text: str | Transcript, **options: Unpack[RequestOptions]) -> Reply:
        """The user's next turn, written or transcribed, and the answer to it."""
        return _reply(self._turn(text, options, live=False))

    @takes(RequestOptions)
    def stream(
        self, text: str | Transcript, **options: Unpack[RequestOptions]
    ) -> Generator[Event, None, None]:
        """Like `Engine.stream`. If a turn is left half way, the history keeps what was shown."""
        return self._turn(text, options, live=True)

    @takes(RequestOptions)
    def resume(self, results: Sequence[ToolResult], **options: Unpack[RequestOptions]) -> Reply:
        """Continue with the results of the calls that the application made."""
        given = self._answer_calls(results)
        if not given:
            raise InvalidRequest("no call waits for a result")
        return _reply(
            self._walk(given, {**_after_calls(self.options), **_checked(options)}, live=False)
        )

    def _turn(
        self, text: str | Transcript, options: RequestOptions, *, live: bool
    ) -> Generator[Event, None, None]:
        if not isinstance(text, str | Transcript):
            raise InvalidRequest(f"text: expected text or a transcript, got {shown(text)}")
        merged: RequestOptions = {**self.options, **_checked(options)}
        turn = spoken(text, as_images(merged.pop("images", ())))
        yield from self._walk([*self._answer_calls(()), turn], merged, live=live)

    def _answer_calls(self, results: Sequence[ToolResult]) -> list[Message]:
        """One message for every call of the history that has no result."""
        self.messages[:] = as_messages(self.messages)  # a program may have put dictionaries there
        if not any(message.tool_calls for message in self.messages):
            return []
        return answer_all(self.messages, results)

    def _walk(
        self, new: list[Message], options: RequestOptions, *, live: bool
    ) -> Generator[Event, None, None]:
        """Take steps until there is an answer, or a call that only the application can make."""
        self.steps = []
        earlier: list[Round] = []
        if served := self._served():
            options = {**options, "tools": [*options.get("tools", ()), *served]}
        options = self._with_kinds(options)
        for left in reversed(range(self.max_steps)):
            if self.private or options.get("private"):
                options = {**options, "private": True}
                self.secrets += new
            if not left:
                # Providers refuse tool results if the request does not name the tools.
                options = {**options, "tool_choice": "none"}
            request = self.engine.parts.request([*self.messages, *new], **options)
            reply = yield from self._step(new, request, live=live)
            calls: tuple[ToolCall, ...] = ()
            if reply.tool_calls:
                # Calls made although tool_choice forbids them are left to the application.
                made = run_round(
                    reply,
                    options.get("tools", ()) if left else (),
                    seal=self.engine.parts.seal(request),
                    execute=self.execute,
                    approve=self.approve,
                )
                reply, calls = made.reply, made.open_calls
                earlier.append(made)
                self._remember(made.messages)
            self.steps.append(reply)
            if calls or not reply.tool_calls:
                yield Finished(with_doubts(replace(reply, tool_calls=calls), earlier))
                return
            new = []
            options.pop("request_id", None)  # only the first step has this id
            options = _after_calls(options)

    def _with_kinds(self, options: RequestOptions) -> RequestOptions:
        given: dict[str, Any] = {**options}
        for name in ("redact", "private_kinds"):
            kept = self._kinds.get(name, ())
            with suppress(TypeError, ValueError):  # the engine refuses what is no kind
                kept = tuple(dict.fromkeys((*kept, *as_kinds(given.get(name, ())))))
                self._kinds[name] = given[name] = kept
        return cast(RequestOptions, given)

    def _step(
        self, new: Sequence[Message], request: Request, *, live: bool
    ) -> Generator[Event, None, Reply]:
        """One request: run its calls, then remember question and answer."""
        shown: list[TextDelta] = []
        reply: Reply | None = None
        try:
            with closing(self._events(request, live=live)) as events:
                for event in events:
                    if isinstance(event, Finished):
                        reply = event.reply
                    else:
                        shown += [event] if isinstance(event, TextDelta) else []
                        yield event
        finally:
            if reply is not None or shown:
                self._remember(new)
                if reply is None:
                    said = "".join(delta.text for delta in shown)
                    self._remember([Message("assistant", said, source=shown[-1].source)])
        assert reply is not None, "a flow ends with Finished"
        # If a handoff was only signalled, the application answers, and appends the answer.
        if not (reply.signalled or reply.tool_calls):
            self._remember([Message("assistant", reply.text, source=reply.source)])
        return reply

    def _served(self) -> tuple[RunnableTool, ...]:
        """The tools of the MCP servers, which are started now if they are not running."""
        if not self.mcp:
            return ()
        if self._servers is None:
            from edgewise.mcp_client import ToolServers  # noqa: PLC0415 - asyncio, and an extra

            self._servers = ToolServers(self.mcp, timeout_s=self.mcp_timeout_s)
        return self._servers.tools

    def _events(self, request: Request, *, live: bool) -> Generator[Event, None, None]:
        events = run(self.engine.parts, request, live=live)
        if live:
            self.engine.parts.streams.add(events)
        return events

    def _remember(self, messages: Sequence[Message]) -> None:
        self.messages += messages
        if self.private:
            self.secrets += messages  # the answer may repeat what the private turn said


def _checked(options: RequestOptions) -> RequestOptions:
    return cast(RequestOptions, checked(options, RequestOptions))


def _after_calls(options: RequestOptions) -> RequestOptions:
    """A required call was made, so now the model may answer in words."""
    if options.get("tool_choice") == "none":
        return options
    return {**options, "tool_choice": "auto"}


def _reply(events: Iterable[Event]) -> Reply:
    for event in events:
        if isinstance(event, Finished):
            return event.reply
    raise AssertionError("a turn ends with Finished")
