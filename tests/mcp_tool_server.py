"""An MCP server for the tests, written with the official package: each mode misbehaves in its way.

`python -P tests/mcp_tool_server.py MODE [http]` speaks over its standard streams. With `http` it
listens on a port of this machine, and prints its address.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

import anyio
from mcp.server import Server, ServerRequestContext
from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ImageContent, ListToolsResult, TextContent, Tool

PLACE = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
VERBS = (
    "open", "close", "start", "stop", "lock", "unlock", "clean", "repair", "paint", "count",
    "measure", "move", "sell", "rent", "buy",
)  # fmt: skip
NOUNS = (
    "door", "window", "garage", "lamp", "heater", "oven", "fridge", "printer", "camera", "gate",
    "pump", "boiler", "fan", "alarm", "curtain", "shelf", "table", "chair", "radio", "piano",
)  # fmt: skip
HUGE = 900_000  # characters; the package reads no longer event over HTTP


def get_weather(place: str) -> str:
    """Get the current weather of a place."""
    return f"It rains in {place}."


def count_words(text: str) -> dict[str, int]:
    """Count the words of a text."""
    return {"words": len(text.split())}


def draw_chart(title: str) -> list[Any]:
    """Draw a chart with a title."""
    return [f"The chart {title}:", Image(data=b"\x89PNG" + bytes(96), format="png")]


def write_book(topic: str) -> str:
    """Write a whole book about a topic."""
    return "word " * (HUGE // 5)


def open_door(code: str) -> str:
    """Open the door with a code."""
    raise ToolError(f"the code {code} is wrong")


async def wait_forever(reason: str) -> str:
    """Wait for a reason, without end."""
    try:
        await anyio.sleep_forever()
    finally:
        if path := os.environ.get("CANCELLED_FILE"):
            with open(path, "w") as file:
                file.write(reason)
    return ""


def break_down(reason: str) -> str:
    """Break down for a reason."""
    sys.stderr.write("I cannot go on\n")
    sys.stderr.flush()
    os._exit(3)


def tell_process() -> int:
    """Tell the number of this process."""
    return os.getpid()


def read_secret(name: str) -> str:
    """Read a secret variable of the environment."""
    return os.environ.get(name, "nothing")


TOOLS: tuple[Callable[..., Any], ...] = (
    get_weather, count_words, draw_chart, write_book, open_door, wait_forever, break_down,
    tell_process, read_secret,
)  # fmt: skip


def good(name: str = "weather station") -> MCPServer:
    """Tools that work, and tools that fail in every way a tool can."""
    server = MCPServer(name, log_level="ERROR")
    for tool in TOOLS:
        server.add_tool(tool, structured_output=False if tool is draw_chart else None)
    return server


def listing(tools: list[Tool], page: int = 0) -> Server[Any]:
    """A server that lists what it was told to, `page` tools at a time."""

    async def list_tools(_: ServerRequestContext[Any], given: Any) -> ListToolsResult:
        start = int(given.cursor) if given and given.cursor else 0
        size = page or len(tools) or 1
        following = str(start + size) if start + size < len(tools) else None
        return ListToolsResult(tools=tools[start : start + size], next_cursor=following)

    async def call_tool(_: ServerRequestContext[Any], given: Any) -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text=f"{given.name} ran")])

    return Server("lister", on_list_tools=list_tools, on_call_tool=call_tool)


def many() -> Server[Any]:
    """As a house full of devices would list: three hundred, of which one is meant."""
    tools = [
        Tool(name=f"{verb}_{noun}", description=f"{verb} the {noun} of a place", input_schema=PLACE)
        for verb in VERBS
        for noun in NOUNS
    ][:299]
    tools.append(Tool(name="get_weather", description="Weather of a place", input_schema=PLACE))
    return listing(tools, page=50)


def endless() -> Server[Any]:
    async def list_tools(_: ServerRequestContext[Any], given: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="again", input_schema=PLACE)], next_cursor="again")

    return Server("endless", on_list_tools=list_tools)


def hostile() -> Server[Any]:
    """Schemas that cannot be read or cost too much, and one that is good."""
    properties: dict[str, Any] = {
        "pattern": {"type": "string", "pattern": "^((a?){50}){50}b$"},
        "itself": {"$ref": "#/properties/x"},
        "text": "a sentence",
        "choices": {"enum": []},
        "length": {"type": "string", "minLength": "many"},
        "huge": {"enum": [f"value {n}" for n in range(20_000)]},
    }
    nested: dict[str, Any] = {"type": "string"}
    for _ in range(60):
        nested = {"type": "object", "properties": {"x": nested}}
    properties["nested"] = nested
    tools = [
        Tool(name=name, input_schema={"type": "object", "properties": {"x": schema}})
        for name, schema in properties.items()
    ]
    tools.append(Tool(name="long", description="word " * 20_000, input_schema=PLACE))
    tools.append(Tool(name="get.weather\x1b[2J/now", description="Weather", input_schema=PLACE))
    tools.append(Tool(name="twice", input_schema=PLACE))
    tools.append(Tool(name="twice", input_schema=PLACE))
    return listing(tools)


def pictures() -> Server[Any]:
    """Results of kinds that are not text."""
    blocks: dict[str, CallToolResult] = {
        "picture": CallToolResult(
            content=[ImageContent(type="image", data="AAAA", mime_type="image/png")]
        ),
        "figures": CallToolResult(content=[], structured_content={"degrees": 21}),
        "nothing": CallToolResult(content=[]),
        "silent_failure": CallToolResult(content=[], is_error=True),
    }

    async def list_tools(_: ServerRequestContext[Any], given: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name=name, input_schema=PLACE) for name in blocks])

    async def call_tool(_: ServerRequestContext[Any], given: Any) -> CallToolResult:
        return blocks[given.name]

    return Server("pictures", on_list_tools=list_tools, on_call_tool=call_tool)


def lying() -> Server[Any]:
    """A result that breaks the schema which the server promised."""
    promised = {
        "type": "object",
        "properties": {"degrees": {"type": "number"}},
        "required": ["degrees"],
    }

    async def list_tools(_: ServerRequestContext[Any], given: Any) -> ListToolsResult:
        tool = Tool(name="get_degrees", input_schema=PLACE, output_schema=promised)
        return ListToolsResult(tools=[tool])

    async def call_tool(_: ServerRequestContext[Any], given: Any) -> CallToolResult:
        return CallToolResult(content=[], structured_content={"degrees": "warm"})

    return Server("lying", on_list_tools=list_tools, on_call_tool=call_tool)


def loud() -> MCPServer:
    """Never ends a line of its log."""
    for _ in range(40):
        sys.stderr.write("x" * 1_000_000)
    return good()


MODES: dict[str, Callable[[], MCPServer | Server[Any]]] = {
    "good": good,
    "loud": loud,
    "other": lambda: good("other station"),
    "many": many,
    "endless": endless,
    "hostile": hostile,
    "pictures": pictures,
    "lying": lying,
}


GARBLED = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "garbled", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "fine", "inputSchema": PLACE}, {"name": 7}]},
}


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def speak(server: MCPServer | Server[Any]) -> None:
    from mcp.server.stdio import stdio_server

    lowlevel = server._lowlevel_server if isinstance(server, MCPServer) else server
    async with stdio_server() as (reading, writing):
        await lowlevel.run(reading, writing, lowlevel.create_initialization_options())


async def serve(server: MCPServer | Server[Any]) -> None:
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    say(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp")
    config = uvicorn.Config(server.streamable_http_app(), log_level="error")
    await uvicorn.Server(config).serve(sockets=[listener])


def main() -> None:
    mode = sys.argv[1]
    if mode == "deaf":  # neither answers nor ends when it is asked to
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        sys.stderr.write(f"process {os.getpid()} waits\n")
        sys.stderr.flush()
        while True:
            time.sleep(60)
    if mode == "garbled":  # lists a tool that the package cannot read
        for line in sys.stdin:
            asked = json.loads(line)
            if "id" in asked:
                found = GARBLED.get(asked["method"])
                error = {"code": -32601, "message": "no such method"}
                answer = {"error": error} if found is None else {"result": found}
                say(json.dumps({"jsonrpc": "2.0", "id": asked["id"]} | answer))
        return
    if mode == "babble":
        while True:
            say("this is not JSON")
            time.sleep(0.01)
    if mode == "wreck":
        raise SystemExit("no configuration was found")
    if len(sys.argv) > 2:
        anyio.run(serve, MODES[mode]())
    else:
        anyio.run(speak, MODES[mode]())


if __name__ == "__main__":
    main()
