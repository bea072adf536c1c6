"""`ToolServers`: the tools of MCP servers, run from a program that has no event loop.

    with ToolServers(["uvx mcp-server-time", "http://127.0.0.1:8000/mcp"]) as servers:
        engine.call("What time is it in Asia/Tokyo?", servers.tools, execute=True)

A server is a command, which is started and spoken to over its standard streams, or an address.
The event loop of the `mcp` package lives in one thread here; whoever calls a tool waits for it. A
server is a stranger: it may hang, die, lie about its tools or answer with a book. What it does
wrong becomes a ToolServerFailed with a plain message, within `timeout_s`.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import importlib.util
import ipaddress
import json
import logging
import os
import re
import shlex
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TextIO
from urllib.parse import urlsplit

from typing_extensions import override

from edgewise.bridge import awaited_on
from edgewise.calls.tools import as_tools
from edgewise.errors import ExtraMissing, InvalidRequest, ToolServerFailed
from edgewise.grammar.tools import check_tools
from edgewise.types.messages import RunnableTool

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult
    from mcp.types import Tool as ListedTool

logger = logging.getLogger(__name__)

TIMEOUT_S = 60.0  # for a server to start and list its tools, and for each call
HTTP_S = 600.0  # between two pieces of an answer over HTTP; `timeout_s` is usually less
CLOSING_S = 10.0  # for all of them to end; the package kills what has not ended after some 5 s
MOST_TOOLS = 2_000  # of one server
MOST_PAGES = 200  # of its list: it may go round in circles
MOST_DESCRIBED = 50_000  # characters of one tool's description and schema
MOST_TEXT = 50_000  # characters of a result; what is beyond that is cut, and said
LONGEST_NAME = 64  # providers of clouds take no longer ones, nor other characters
LONGEST_PREFIX = 24
LISTENING_S = 0.5  # for the last lines to be read; a process that it left may hold the pipe
LONGEST_LINE = 4_096  # characters
LAST_WORDS = 3  # lines of its standard error that are quoted when a server fails
_NAME_CHARACTERS = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a server is: a command with its arguments, or a URL."""

    text: str
    words: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> ServerAddress:
        if not isinstance(text, str) or not text.strip():
            raise InvalidRequest(f"an MCP server is a command or an http(s) address, not {text!r}")
        if text.startswith(("http://", "https://")):
            return cls(text)
        try:
            words = tuple(shlex.split(text, posix=os.name != "nt"))
        except ValueError as error:
            raise InvalidRequest(f"the command of an MCP server cannot be read: {error}") from error
        return cls(text, words)

    @property
    def label(self) -> str:
        """Its name in messages: without arguments, variables and passwords, which may be secret."""
        if self.words:
            programs = [word for word in self.words if word != "env" and "=" not in word]
            return os.path.basename(programs[0]) if programs else self.words[0].partition("=")[0]
        parts = urlsplit(self.text)
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"

    @property
    def leaves(self) -> bool:
        """Whether what is sent to it goes over the network to another machine."""
        host = "localhost" if self.words else (urlsplit(self.text).hostname or "")
        try:
            return not ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host != "localhost"


class ToolServers:
    """MCP servers that run while this is open, and their tools.

    tools    what they offer, as tools that can be run; a name that two of them use has the
             server's name before it
    skipped  what is not offered: the tool's name, and why

    Making one starts the servers, all at once. If one fails, all are ended and ToolServerFailed is
    raised. `close`, or the end of a `with` block, ends them.
    """

    def __init__(self, servers: Sequence[str], *, timeout_s: float = TIMEOUT_S) -> None:
        if isinstance(servers, str):
            raise InvalidRequest("mcp: expected a list of servers, got text")
        if not timeout_s > 0:
            raise InvalidRequest(
                f"the time limit of MCP servers must be more than 0 s: {timeout_s}"
            )
        self._servers = [_Server(ServerAddress.of(text)) for text in servers]
        _require_package()
        self.timeout_s = timeout_s
        self.tools: tuple[RunnableTool, ...] = ()
        self.skipped: dict[str, str] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="edgewise-mcp", daemon=True
        )
        self._thread.start()
        atexit.register(self.close)  # a program may forget it, and a server may ignore its end
        try:
            awaited_on(self._loop, self._start())
            self.tools = tuple(self._offered())
            if self.skipped:
                reasons = ", ".join(f"{name!r} ({why})" for name, why in self.skipped.items())
                logger.warning("MCP tools that are not offered: %s", _shortened(reasons, 1000))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the servers. The processes that were started are gone when this returns."""
        atexit.unregister(self.close)
        if self._loop.is_closed():
            return
        ending = asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        with contextlib.suppress(TimeoutError):
            ending.result(2 * CLOSING_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSING_S)
        if not self._thread.is_alive():
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _start(self) -> None:
        starting = [server.start(self.timeout_s) for server in self._servers]
        for failure in await asyncio.gather(*starting, return_exceptions=True):
            if isinstance(failure, BaseException):
                raise failure

    async def _end(self) -> None:
        await asyncio.gather(*(server.end() for server in self._servers))
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:  # calls that nobody waits for any more
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._loop.shutdown_asyncgens()

    def _offered(self) -> Iterator[RunnableTool]:
        prefixes = _distinct(_clean(server.title)[:LONGEST_PREFIX] for server in self._servers)
        uses = Counter(
            name
            for server in self._servers
            for name in {_clean(tool.name) for tool in server.tools}
        )
        taken: set[str] = set()
        for server, prefix in zip(self._servers, prefixes, strict=True):
            own: set[str] = set()
            for listed in server.tools:
                name = _clean(listed.name)
                if listed.name in own:
                    self.skipped[_clean(listed.name)] = "it is listed twice"
                    continue
                own.add(listed.name)
                name = f"{prefix}_{name}"[:LONGEST_NAME] if uses[name] > 1 else name
                name = _free(name, taken)
                if (tool := self._tool(server, listed, name)) is not None:
                    taken.add(name)
                    yield tool

    def _tool(self, server: _Server, listed: ListedTool, name: str) -> RunnableTool | None:
        schema = dict(listed.input_schema)
        described = listed.description or listed.title or ""
        try:
            size = len(described) + len(json.dumps(schema))
            if size > MOST_DESCRIBED:
                raise InvalidRequest(f"{size:,} characters describe it")
            tool = RunnableTool(
                name=name,
                description=described,
                parameters=schema,
                run=self._runner(server, listed.name),
                leaves=server.address.leaves,
            )
            check_tools(as_tools([tool]))
        except (InvalidRequest, RecursionError) as error:
            self.skipped[name] = _shortened(str(error).removeprefix("tools[0]."), 200)
            return None
        return tool

    def _runner(self, server: _Server, name: str) -> Callable[..., Any]:
        def run(**arguments: Any) -> Any:
            if self._loop.is_closed():
                raise ToolServerFailed(f"{server}: it was closed")
            return awaited_on(self._loop, server.call(name, arguments, self.timeout_s))

        return run


class _Server:
    """One server. A task of its own holds the connection from its start to its end."""

    def __init__(self, address: ServerAddress) -> None:
        self.address = address
        self.title = address.label
        self.tools: list[ListedTool] = []
        self._client: Client | None = None
        self._held: asyncio.Task[None] | None = None
        self._leaving = asyncio.Event()
        self._last_words: deque[str] = deque(maxlen=LAST_WORDS)

    @override
    def __str__(self) -> str:
        return f"the MCP server {self.address.label}"

    async def start(self, limit_s: float) -> None:
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._held = asyncio.create_task(self._hold(ready))
        await asyncio.wait([ready], timeout=limit_s)
        if not ready.done():
            ready.cancel()
            message = f"{self} has not started within {limit_s:g} s{self._quoted()}"
            raise ToolServerFailed(message)
        ready.result()

    async def _hold(self, ready: asyncio.Future[None]) -> None:
        """The package wants a connection to be opened and closed by the same task."""
        from mcp import Client, Implementation  # noqa: PLC0415 - an extra

        from edgewise import __version__  # noqa: PLC0415

        try:
            async with contextlib.AsyncExitStack() as held:
                transport = await self._transport(held)
                about_us = Implementation(name="edgewise", version=__version__)
                client = await held.enter_async_context(
                    Client(transport, client_info=about_us, cache=None)
                )
                self.tools = await _list_tools(client)
                self._client = client
                if client.server_info is not None and client.server_info.name:
                    self.title = client.server_info.name
                ready.set_result(None)
                await self._leaving.wait()
        except Exception as error:  # noqa: BLE001 - the server's, the network's and the package's
            if not ready.done():
                ready.set_exception(self._failure("could not be started", error))
            else:
                logger.warning("%s broke off: %s", self, _words(error))
        finally:
            self._client = None

    async def _transport(self, held: contextlib.AsyncExitStack) -> Any:
        if self.address.words:
            from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: PLC0415

            command, *arguments = self.address.words
            started = StdioServerParameters(command=command, args=arguments)
            return stdio_client(started, held.enter_context(self._listened()))
        import httpx2  # noqa: PLC0415
        from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

        # A proxy of the environment would carry what is meant for this machine to another one.
        http = httpx2.AsyncClient(timeout=HTTP_S, trust_env=self.address.leaves)
        await held.enter_async_context(http)
        return streamable_http_client(self.address.text, http_client=http)

    @contextlib.contextmanager
    def _listened(self) -> Iterator[TextIO]:
        """Where a process may write its log: its last lines are kept, for messages about it."""
        reading, writing = os.pipe()

        def listen() -> None:
            with open(reading, encoding="utf-8", errors="replace") as lines:
                while line := lines.readline(LONGEST_LINE):  # a server may never end one
                    if line.strip():
                        self._last_words.append(line.strip())

        listener = threading.Thread(target=listen, name="edgewise-mcp-log", daemon=True)
        listener.start()
        try:
            with open(writing, "w", encoding="utf-8") as errors:
                yield errors
        finally:
            listener.join(LISTENING_S)

    async def call(self, name: str, arguments: Mapping[str, Any], limit_s: float) -> Any:
        if self._client is None:
            raise ToolServerFailed(f"{self} has ended{self._quoted()}")
        try:
            async with asyncio.timeout(limit_s):
                result = await self._client.call_tool(name, dict(arguments))
        except TimeoutError:
            raise ToolServerFailed(f"{self} has not answered within {limit_s:g} s") from None
        except Exception as error:
            raise self._failure("gave no answer", error) from error
        return value_of(result)

    async def end(self) -> None:
        if self._held is None:
            return
        self._leaving.set()
        if self._client is None:
            self._held.cancel()  # it is still starting
        await asyncio.wait([self._held], timeout=CLOSING_S)
        self._held.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._held

    def _failure(self, what: str, error: Exception) -> ToolServerFailed:
        return ToolServerFailed(f"{self} {what}: {_words(error)}{self._quoted()}")

    def _quoted(self) -> str:
        words = " / ".join(self._last_words)
        return f" (it said: {words[-500:]})" if words else ""


async def _list_tools(client: Client) -> list[ListedTool]:
    tools: list[ListedTool] = []
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None or len(tools) >= MOST_TOOLS:
            break
    return tools[:MOST_TOOLS]


def value_of(result: CallToolResult) -> Any:
    """What a model reads of a result: its texts, else its structured content, else nothing.

    Raises ToolServerFailed with the tool's own words if it says that it failed.
    """
    text = "\n".join(_text_of(block) for block in result.content)
    if result.is_error:
        raise ToolServerFailed(_cut(text) or "the tool failed, and did not say why")
    if text:
        return _cut(text)
    structured = result.structured_content
    written = json.dumps(structured, ensure_ascii=False, default=str)
    return structured if len(written) <= MOST_TEXT else _cut(written)


def _text_of(block: Any) -> str:
    """No model here reads the pictures and sounds of tools: they are named."""
    match block.type:
        case "text":
            return str(block.text)
        case "image" | "audio":
            size = len(block.data.rstrip("=")) * 3 // 4
            return f"[{block.type}, {block.mime_type}, {size:,} bytes]"
        case "resource":
            text = getattr(block.resource, "text", None)
            return str(text) if text is not None else f"[file {block.resource.uri}]"
        case _:
            return f"[link to {getattr(block, 'uri', 'something')}]"


def _cut(text: str) -> str:
    if len(text) <= MOST_TEXT:
        return text
    return f"{text[:MOST_TEXT]}\n[cut: {MOST_TEXT:,} of {len(text):,} characters]"


def _clean(name: str) -> str:
    """A name that every model and provider takes."""
    return _NAME_CHARACTERS.sub("_", name).strip("_")[:LONGEST_NAME] or "tool"


def _distinct(names: Iterator[str]) -> list[str]:
    taken: set[str] = set()
    found = []
    for name in names:
        found.append(_free(name, taken))
        taken.add(found[-1])
    return found


def _free(name: str, taken: set[str]) -> str:
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name[: LONGEST_NAME - 5]}_{number}"
    return found


def _words(error: BaseException) -> str:
    """One line about an exception; a group of them is told by its first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return _shortened(" ".join(str(error).split()), 500) or type(error).__name__


def _shortened(text: str, most: int) -> str:
    """Its beginning and its end: either may say what is wrong."""
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-most // 2 :]}"


def _require_package() -> None:
    if importlib.util.find_spec("mcp") is None:
        raise ExtraMissing("mcp", "mcp")
    # Unless somebody listens: it prints a traceback for each line that it cannot read.
    logging.getLogger("mcp").addHandler(logging.NullHandler())
