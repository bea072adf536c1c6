"""`edgewise mcp`: the engine as an MCP server, with the tools ask, call, decide, see and so on.

Each tool answers in text for the client's model, and beside it in figures: where the answer comes
from, how sure it is, what it cost, and what kept a better one away. A request that the client
cancels is cancelled on the device and in the cloud.
"""

from __future__ import annotations

import asyncio
import functools
import json
import secrets
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any, ParamSpec

from pydantic import BaseModel, Field
from typing_extensions import override

from edgewise import __version__
from edgewise.aio import AsyncEngine
from edgewise.errors import EdgewiseError, ExtraMissing, InvalidRequest
from edgewise.folder_search import FolderIndex, index_path
from edgewise.requests import image_at
from edgewise.types.answers import shown_value
from edgewise.types.messages import RequestOptions
from edgewise.types.replies import Event, Finished, Reply, SeenReply, TextDelta

try:
    import uvicorn
    from mcp.server.mcpserver import Context, MCPServer
    from mcp.types import CallToolResult, TextContent, ToolAnnotations

    from edgewise.server.patience import protocol_with
except ImportError as error:
    raise ExtraMissing("mcp", error.name or str(error)) from error

INSTRUCTIONS = """\
Small models on this machine answer first, and a cloud model where they are in doubt and it is
allowed. Every result says where it comes from (source) and how likely it is right (confidence)."""

HEADER_S = 10.0  # for the head of a request
Given = ParamSpec("Given")
Private = Annotated[bool, Field(description="Nothing of this request leaves the machine.")]


class Answered(BaseModel):
    """What an answer is worth."""

    text: str
    source: str = Field(description="local: this machine; cloud; mixed; none: nobody answered")
    model: str
    confidence: float | None = Field(
        description="chance that the device's answer is right, also where the cloud answered then"
    )
    confidence_verified: bool = Field(description="whether it was calibrated for this very model")
    cost_usd: float
    degraded: bool = Field(description="whether the cloud should have answered and could not")
    degraded_reason: str = Field(description="why it could not, as a code; empty if not degraded")
    decision: str = Field(description="why this side answered, in words")
    id: str = Field(description="of the request; `edgewise why` explains it")
    total_ms: float


class Call(BaseModel):
    """One function call."""

    name: str
    arguments: dict[str, Any]
    source: str
    confidence: float | None
    complaints: list[str] = Field(description="codes of what is still wrong with it")
    doubt: str = Field(description="why it should not be run unasked; empty: it is sure")


class Called(Answered):
    """Function calls; nothing was run."""

    calls: list[Call]
    needs: list[str] = Field(description="arguments that were not said; the text asks for them")


class Decided(BaseModel):
    """The answer to one typed question."""

    value: bool | str | float | None = Field(
        description="yes or no, the name of an option, or the mean level; null: nobody answered"
    )
    probabilities: dict[str, float]
    confidence: float | None
    confidence_verified: bool
    source: str
    code: str
    reason: str
    doubted: bool = Field(description="whether it should be checked: it may be wrong")


class DecidedAll(Answered):
    """The answers by the names of their questions."""

    answers: dict[str, Decided]


class Part(BaseModel):
    """A piece of a transcript, in seconds."""

    start: float
    end: float
    text: str
    confidence: float | None
    source: str


class Transcribed(Answered):
    """What was said."""

    language: str
    seconds: float
    segments: list[Part]


class Seen(Answered):
    """What is in the pictures."""

    skill: str = Field(description="the device's skill that answered, if one did")
    notes: list[str]


class Passage(BaseModel):
    """A passage of a file, and how near it is to the query."""

    path: str
    first_line: int
    last_line: int
    text: str
    score: float
    words: float
    page: int


class Found(BaseModel):
    """The passages nearest in meaning, best first. They were searched on this machine."""

    hits: list[Passage]
    source: str = "local"
    cost_usd: float = 0.0


def facts_of(reply: Reply) -> dict[str, Any]:
    """A reply as the fields of `Answered`."""
    told = Reply.to_dict(reply)
    return {name: told[name] for name in Answered.model_fields if name in told} | {
        "text": reply.text,
        "cost_usd": told["usage"]["cost_microdollars"] / 1_000_000,
        "degraded_reason": told["decision"]["degraded_code"],
        "decision": told["decision"]["reason"],
    }


def result(text: str, figures: BaseModel) -> CallToolResult:
    content = [TextContent(type="text", text=text)]
    return CallToolResult(content=list(content), structured_content=figures.model_dump(mode="json"))


def plain_errors(
    tool: Callable[Given, Awaitable[CallToolResult]],
) -> Callable[Given, Awaitable[CallToolResult]]:
    """An error of ours in words and with its code, for the client's model to read."""

    @functools.wraps(tool)
    async def told(*given: Given.args, **named: Given.kwargs) -> CallToolResult:
        try:
            return await tool(*given, **named)
        except EdgewiseError as error:
            return CallToolResult(
                content=[TextContent(type="text", text=f"{error} [{error.code}]")],
                structured_content={"error": str(error), "code": error.code},
                is_error=True,
            )

    return told


class EngineTools:
    """The tools, over one engine that all requests share."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine

    async def ask(
        self,
        question: str,
        context: Context[Any, Any],
        system: str = "",
        max_tokens: Annotated[int, Field(ge=1)] | None = None,
        private: Private = False,
    ) -> Annotated[CallToolResult, Answered]:
        """Ask a question. Parts of the answer are reported as progress while it is written."""
        options: RequestOptions = {"system": system, "private": private}
        if max_tokens:
            options["max_tokens"] = max_tokens
        reply = await _told(self.engine.stream(question, **options), context)
        return result(reply.text, Answered(**facts_of(reply)))

    async def call(
        self,
        request: str,
        tools: Annotated[list[dict[str, Any]], Field(description="as in OpenAI's requests")],
        private: Private = False,
    ) -> Annotated[CallToolResult, Called]:
        """Turn a request into calls of the given tools, on this machine. Nothing is run."""
        reply = await self.engine.call(request, tools, private=private)
        calls = [
            Call(**{name: each[name] for name in Call.model_fields})
            for each in Reply.to_dict(reply)["tool_calls"]
        ]
        called = Called(**facts_of(reply), calls=calls, needs=list(reply.needs))
        lines = [f"{call.name} {json.dumps(call.arguments, ensure_ascii=False)}" for call in calls]
        return result("\n".join(lines) or reply.text or "no tool fits this", called)

    async def decide(
        self,
        state: Annotated[
            str | dict[str, Any] | list[Any], Field(description="what the questions are about")
        ],
        questions: Annotated[
            dict[str, dict[str, Any]],
            Field(
                description="by name, as for /v1/systemone: type is noul (yes or no), choice or "
                "score; instructions is the question; criteria are the options"
            ),
        ],
        private: Private = False,
    ) -> Annotated[CallToolResult, DecidedAll]:
        """Answer typed questions about a text or data, with a chance for each option."""
        made = await self.engine.decide(state, questions, private=private)
        answers = {
            name: Decided(**{key: each.to_dict()[key] for key in Decided.model_fields})
            for name, each in made.items()
        }
        lines = [f"{name}: {shown_value(each)}" for name, each in made.items()]
        return result("\n".join(lines), DecidedAll(**facts_of(made), answers=answers))

    async def transcribe(
        self,
        path: Annotated[str, Field(description="a sound file on this machine")],
        context: Context[Any, Any],
        language: Annotated[str, Field(description="as en or de; detected if empty")] = "",
        private: Private = False,
    ) -> Annotated[CallToolResult, Transcribed]:
        """Write down what is said in a sound file."""
        loop = asyncio.get_running_loop()

        def progress(done: float, total: float) -> None:
            report = context.report_progress(done, total or None, "seconds of sound")
            asyncio.run_coroutine_threadsafe(report, loop)

        heard = await self.engine.transcribe(
            path, language=language, private=private, progress=progress
        )
        parts = [
            Part(
                start=one.start,
                end=one.end,
                text=one.text,
                confidence=one.confidence,
                source=one.source,
            )
            for one in heard.segments
        ]
        figures = Transcribed(
            **facts_of(heard), language=heard.language, seconds=heard.seconds, segments=parts
        )
        return result(heard.text, figures)

    async def see(
        self,
        images: Annotated[list[str], Field(description="files on this machine, or addresses")],
        question: str,
        context: Context[Any, Any],
        private: Private = False,
    ) -> Annotated[CallToolResult, Seen]:
        """Ask a question about pictures: the text in them, or what is in them."""
        if not images:
            raise InvalidRequest("there is no picture to look at")
        pictures = [image_at(name) for name in images]
        reply = await _told(self.engine.stream(question, images=pictures, private=private), context)
        skill = reply.skill if isinstance(reply, SeenReply) else ""
        notes = list(reply.notes) if isinstance(reply, SeenReply) else []
        return result(reply.text, Seen(**facts_of(reply), skill=skill, notes=notes))

    async def find(
        self,
        query: str,
        folder: Annotated[str, Field(description="one that `edgewise index` has read")],
        context: Context[Any, Any],
        most: Annotated[int, Field(ge=1, le=100)] = 5,
    ) -> Annotated[CallToolResult, Found]:
        """Find the passages of a folder that are nearest in meaning to a query."""
        engine, loop = self.engine.engine, asyncio.get_running_loop()
        place = Path(folder).expanduser()
        # A client's model must not make this machine read all of a disk.
        if not index_path(engine.settings, place).exists():
            raise InvalidRequest(f"{folder!r} is not indexed: run `edgewise index` on it first")

        def progress(done: int, total: int, name: str) -> None:
            report = context.report_progress(done, total, name)
            asyncio.run_coroutine_threadsafe(report, loop)

        def search() -> list[Passage]:
            with FolderIndex(engine, place) as index:
                index.update(progress)
                return [Passage(**hit.to_dict()) for hit in index.find(query, most)]

        hits = await self.engine.workers.result(search)
        text = "\n\n".join(f"{hit.path}:{hit.first_line}\n{hit.text}" for hit in hits)
        return result(text or "nothing was found", Found(hits=hits))


async def _told(events: AsyncGenerator[Event], context: Context[Any, Any]) -> Reply:
    """The reply at the end of a stream. Its text is reported while it is written."""
    written = 0
    async with aclosing(events):
        async for event in events:
            if isinstance(event, TextDelta):
                written += len(event.text)
                await context.report_progress(written, message=event.text)
            elif isinstance(event, Finished):
                return event.reply
    raise AssertionError("a stream ends with Finished")


class StrictServer(MCPServer[Any]):
    """The package passes over arguments that a tool does not have. A `privacy` in place of
    `private` would let a question out."""

    @override
    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> Any:
        for tool in await self.list_tools():
            known = tool.input_schema.get("properties", {})
            if tool.name == name and (unknown := sorted(set(arguments) - set(known))):
                words = f"{unknown[0][:80]}: {name} has no such argument ({', '.join(known)})"
                return CallToolResult(content=[TextContent(type="text", text=words)], is_error=True)
        return await super().call_tool(name, arguments, context)


def make_server(engine: AsyncEngine) -> MCPServer[Any]:
    """The server. Whoever made the engine closes it."""
    server = StrictServer(
        "edgewise", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING"
    )
    tools = EngineTools(engine)
    for tool in (
        tools.ask,
        tools.call,
        tools.decide,
        tools.transcribe,
        tools.see,
        tools.find,
    ):
        about = ToolAnnotations(read_only_hint=True)  # none of them changes anything
        server.add_tool(plain_errors(tool), annotations=about)
    return server


async def serve_stdio(engine: AsyncEngine) -> None:
    """Serve whoever started this process, until standard input ends. Logs go to standard error."""
    async with engine:
        await make_server(engine).run_stdio_async()


async def serve_http(engine: AsyncEngine, port: int, announce: Callable[[str], None]) -> None:
    """Serve whoever was given the address, until stopped. Port 0 takes a free one.

    Other users of this machine reach the port too, and the tools read files with our rights. So the
    address ends in a key, a new one each time; elsewhere there is nothing.
    """
    with socket.create_server(("127.0.0.1", port)) as listener:
        path = f"/mcp/{secrets.token_urlsafe(32)}"
        announce(f"http://127.0.0.1:{listener.getsockname()[1]}{path}")
        # The package refuses other hosts and origins: a web page cannot reach it.
        app = make_server(engine).streamable_http_app(streamable_http_path=path, host="127.0.0.1")
        config = uvicorn.Config(
            app, log_level="warning", timeout_graceful_shutdown=2, http=protocol_with(HEADER_S)
        )
        async with engine:
            await uvicorn.Server(config).serve(sockets=[listener])
