"""`edgewise mcp`: the engine as an MCP server, spoken to with the official package's own client."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.types import CallToolResult

from edgewise import AsyncEngine, FolderIndex, Ledger, Settings, ToolServers
from edgewise.local.store import InstalledModel
from edgewise.mcp_server import make_server
from edgewise.testing import (
    Answer,
    LoopbackCloud,
    ScriptedBackend,
    ScriptedEmbedder,
    ScriptedFunctionModel,
    ScriptedTranscriber,
    Silence,
    heard,
)
from tests.pictures import as_file, page
from tests.speech.made_voice import silence, voice, wav

pytestmark = pytest.mark.anyio
PATIENCE_S = 120.0
WORDS = " ".join(f"word{number}" for number in range(400))
WEATHER = {
    "name": "get_weather",
    "description": "Current weather of a place",
    "parameters": {
        "type": "object",
        "properties": {"place": {"type": "string"}},
        "required": ["place"],
    },
}
# A server of its own process, whose device prints to standard output what it should not.
NOISY = """
import asyncio, os, sys
import edgewise.mcp_server
from edgewise import AsyncEngine, Settings
from edgewise.mcp_server import serve_http, serve_stdio
from edgewise.testing import ScriptedBackend

class Noisy(ScriptedBackend):
    def generate(self, request, **given):
        print("loading the model ...", flush=True)
        os.write(1, b"llama_model_load: done\\n")
        yield from super().generate(request, **given)

words = os.environ["WORDS"]
backend = Noisy.confident(words, delay_s=0.05 if words.count(" ") > 10 else 0.0)
engine = AsyncEngine(Settings.load(), backend=backend)
if sys.argv[1:] == ["http"]:
    edgewise.mcp_server.HEADER_S = 1.0
    asyncio.run(serve_http(engine, 0, lambda url: print(url, flush=True)))
else:
    asyncio.run(serve_stdio(engine))
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def settings_for(folder: Path, url: str = "", **changes: Any) -> Settings:
    environment = {"OPENAI_API_KEY": "k" if url else "", "OPENAI_BASE_URL": url}
    limits: dict[str, Any] = {"first_token_s": 60.0, "patience_s": 60.0, "connect_s": 60.0}
    return Settings.load(
        environment, chain=("openai",), data_dir=folder, config_dir=folder / "config"
    ).with_changes(**limits, **changes)


@asynccontextmanager
async def client_of(
    settings: Settings, mode: Literal["auto", "legacy"] = "auto", **parts: Any
) -> AsyncIterator[Client]:
    async with (
        AsyncEngine(settings, **parts) as engine,
        Client(make_server(engine), mode=mode) as client,
    ):
        yield client


def child(*arguments: str, words: str = "It is Canberra.") -> StdioServerParameters:
    """A process does not inherit the environment of the tests."""
    given = {name: value for name, value in os.environ.items() if name.startswith("EDGEWISE_")}
    given |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "WORDS": words}
    return StdioServerParameters(command=sys.executable, args=list(arguments), env=given)


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    assert block.type == "text"
    return block.text


def figures_of(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, result.content
    figures: dict[str, Any] = result.structured_content
    return figures


async def until(found: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not found():
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_six_tools_are_offered_and_none_changes_anything(
    tmp_path: Path, mode: Literal["auto", "legacy"]
) -> None:
    async with client_of(settings_for(tmp_path), mode) as client:
        tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == ["ask", "call", "decide", "transcribe", "see", "find"]
    assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)
    assert all("context" not in tool.input_schema["properties"] for tool in tools)
    for tool in tools[:5]:
        promised = (tool.output_schema or {})["required"]
        assert {"source", "confidence", "confidence_verified", "cost_usd"} <= set(promised)
        assert {"degraded", "degraded_reason"} <= set(promised)


@pytest.mark.parametrize("said", [{"privacy": "private"}, {"policy": "local_only"}], ids=str)
async def test_an_argument_that_a_tool_does_not_have_is_refused(
    tmp_path: Path, said: dict[str, Any]
) -> None:
    backend = ScriptedBackend.confident("It is Canberra.")
    async with client_of(settings_for(tmp_path), backend=backend) as client:
        refused = await client.call_tool("ask", {"question": "What?", **said})
        assert refused.is_error and "private" in text_of(refused)
        answered = await client.call_tool("ask", {"question": "What?", "private": True})
        assert text_of(answered) == "It is Canberra."


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_answer_says_where_it_is_from_and_how_sure_it_is(
    tmp_path: Path, mode: Literal["auto", "legacy"]
) -> None:
    backend = ScriptedBackend.confident("It is Canberra.")
    shown: list[str] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        shown.append(message or "")

    async with client_of(settings_for(tmp_path), mode, backend=backend) as client:
        asked = {"question": "What is the capital of Australia?"}
        result = await client.call_tool("ask", asked, progress_callback=progress)
    assert text_of(result) == "It is Canberra."
    figures = figures_of(result)
    assert (figures["source"], figures["model"]) == ("local", "scripted-1")
    assert 0.9 < figures["confidence"] <= 1 and not figures["confidence_verified"]
    assert (figures["cost_usd"], figures["degraded"]) == (0, False)
    assert "".join(shown) == "It is Canberra.", "it is reported while it is written"


async def test_an_answer_of_the_cloud_says_its_cost_and_a_private_one_why_there_is_none(
    tmp_path: Path,
) -> None:
    with LoopbackCloud() as cloud:
        cloud.always(Answer(text="Canberra, of course."))
        backend = ScriptedBackend.doubtful("Perhaps Sydney.")
        async with client_of(settings_for(tmp_path, cloud.openai_url), backend=backend) as client:
            asked = {"question": "What is the capital of Australia?"}
            figures = figures_of(await client.call_tool("ask", asked))
            assert (figures["text"], figures["source"]) == ("Canberra, of course.", "cloud")
            assert figures["cost_usd"] > 0
            assert figures["confidence"] < 0.5, "the device's, which is why the cloud was asked"
            kept = figures_of(await client.call_tool("ask", asked | {"private": True}))
        assert (kept["text"], kept["source"]) == ("Perhaps Sydney.", "local")
        assert (kept["degraded"], kept["degraded_reason"]) == (True, "private")
        assert len(cloud.requests) == 1


async def test_calls_are_written_and_not_run(tmp_path: Path) -> None:
    model = ScriptedFunctionModel(['get_weather {"place":"Zürich"}', "none"])
    async with client_of(settings_for(tmp_path), function_model=model) as client:
        asked = {"request": "What's the weather in Zürich?", "tools": [WEATHER]}
        result = await client.call_tool("call", asked)
        assert text_of(result) == 'get_weather {"place": "Zürich"}'
        (call,) = figures_of(result)["calls"]
        assert (call["name"], call["arguments"]) == ("get_weather", {"place": "Zürich"})
        assert call["source"] == "local" and call["confidence"] is not None
        nothing = await client.call_tool("call", asked | {"request": "Who wrote Faust?"})
        assert text_of(nothing) == "no tool fits this"
        assert figures_of(nothing)["calls"] == []


async def test_typed_questions_are_answered_with_a_chance_for_each_option(tmp_path: Path) -> None:
    device = ScriptedBackend.deciding({"refund": 0.97, "team": {"billing": 0.9, "tech": 0.1}})
    async with client_of(settings_for(tmp_path), backend=device) as client:
        questions = {
            "refund": {"type": "noul", "instructions": "Do they want money back?"},
            "team": {"type": "choice", "criteria": {"billing": None, "tech": None}},
        }
        told = await client.call_tool(
            "decide", {"state": "Charged twice!", "questions": questions, "private": True}
        )
    figures = figures_of(told)
    assert figures["answers"]["refund"]["value"] is True
    assert figures["answers"]["team"]["probabilities"]["billing"] == pytest.approx(0.9)
    assert figures["source"] == "local"


async def test_a_sound_file_is_transcribed(tmp_path: Path) -> None:
    sound = tmp_path / "sound.wav"
    sound.write_bytes(wav(silence(0.5), voice(3.0), silence(0.5)))
    transcriber = ScriptedTranscriber([[heard("hello there", 0.5, 2.0)]])
    async with client_of(settings_for(tmp_path), transcriber=transcriber) as client:
        figures = figures_of(await client.call_tool("transcribe", {"path": str(sound)}))
        assert figures["text"] == "hello there"
        assert (figures["source"], figures["seconds"]) == ("local", 4.0)
        assert figures["segments"][0]["text"] == "hello there"
        missing = await client.call_tool("transcribe", {"path": str(tmp_path / "none.wav")})
    assert missing.is_error and "none.wav" in text_of(missing)


async def test_text_in_a_picture_is_read(tmp_path: Path) -> None:
    sign = tmp_path / "sign.png"
    sign.write_bytes(as_file(page("NO PARKING", width=280)))
    asked = {"images": [str(sign)], "question": "What does the sign say?"}
    async with client_of(settings_for(tmp_path), backend=ScriptedBackend.confident("x")) as client:
        figures = figures_of(await client.call_tool("see", asked))
        assert (figures["text"], figures["skill"]) == ("NO PARKING", "reads text")
        assert figures["source"] == "local"
        for images in ([], [str(tmp_path / "none.png")]):
            wrong = await client.call_tool("see", asked | {"images": images})
            assert wrong.is_error and "[invalid_request]" in text_of(wrong)


async def test_only_a_folder_that_the_user_has_indexed_is_searched(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "ferry.md").write_text("The ferry leaves at nine.\n")
    settings, embedder = settings_for(tmp_path / "home"), ScriptedEmbedder()
    asked = {"query": "when does the ferry leave", "folder": str(notes)}
    async with (
        AsyncEngine(settings, embedder=embedder) as engine,
        Client(make_server(engine)) as client,
    ):
        refused = await client.call_tool("find", asked)
        assert refused.is_error and "run `edgewise index` on it first" in text_of(refused)
        with FolderIndex(engine.engine, notes) as index:
            index.update()
        (notes / "train.md").write_text("The train leaves at ten.\n")
        result = await client.call_tool("find", asked)
        hits = figures_of(result)["hits"]
    assert [hit["path"] for hit in hits] == ["ferry.md", "train.md"], "and it is brought up to date"
    assert "The ferry leaves at nine." in text_of(result)


async def test_what_goes_wrong_is_said_in_words_with_its_code(tmp_path: Path) -> None:
    no_model = settings_for(
        tmp_path, cache_dir=tmp_path / "empty", fetch_default_model=False, policy="local_only"
    )
    async with client_of(no_model) as client:
        result = await client.call_tool("ask", {"question": "Hello?"})
        assert result.is_error
        assert (result.structured_content or {})["code"] == "no_local_model"
        assert text_of(result).endswith("[no_local_model]")
        wrong = await client.call_tool("ask", {"question": "Hello?", "max_tokens": 0})
        assert wrong.is_error


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_cancelling_a_request_stops_the_device(
    tmp_path: Path, mode: Literal["auto", "legacy"]
) -> None:
    backend = ScriptedBackend.confident(WORDS, delay_s=0.05)
    async with client_of(settings_for(tmp_path), mode, backend=backend) as client:
        asking = asyncio.create_task(client.call_tool("ask", {"question": "Count."}))
        await until(lambda: backend.generated > 2)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await until(lambda: backend.closed_early == 1)
    assert backend.generated < 400


async def test_cancelling_a_request_calls_the_cloud_off(tmp_path: Path) -> None:
    with LoopbackCloud() as cloud:
        cloud.always(Silence())
        settings = settings_for(tmp_path, cloud.openai_url, policy="cloud_only")
        async with client_of(settings, "legacy") as client:
            asking = asyncio.create_task(client.call_tool("ask", {"question": "Hello?"}))
            await asyncio.to_thread(cloud.wait_for, lambda seen: len(seen.requests) == 1)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            await asyncio.to_thread(cloud.wait_for, lambda seen: seen.disconnects == 1)


# -- as a process -------------------------------------------------------------------------------


async def test_a_process_is_spoken_to_and_a_cancelled_request_ends_in_its_ledger(
    own_home: Path,
) -> None:
    ledger = Settings.load().ledger_path
    async with Client(child("-c", NOISY, words=WORDS), mode="legacy") as client:
        written = asyncio.Event()

        async def progress(progress: float, total: float | None, message: str | None) -> None:
            written.set()

        asked = {"question": "Count."}
        asking = asyncio.create_task(client.call_tool("ask", asked, progress_callback=progress))
        await asyncio.wait_for(written.wait(), PATIENCE_S)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

        def recorded() -> list[dict[str, Any]]:
            return Ledger(ledger).recent()

        await until(lambda: bool(recorded()))
        (row,) = recorded()
        assert row["error_code"] == "cancelled"
        assert (await client.list_tools()).tools[0].name == "ask", "and it is still there"


def test_standard_output_carries_nothing_but_the_protocol(own_home: Path) -> None:
    first = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    }
    asked = {"name": "ask", "arguments": {"question": "What is the capital of Australia?"}}
    sent: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": first},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": asked},
    ]
    given = child("-c", NOISY)
    process = subprocess.Popen(
        [given.command, *given.args],
        env={**os.environ, **(given.env or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin and process.stdout and process.stderr
    with process.stdin as stdin, process.stdout as stdout, process.stderr as stderr:
        for message in sent:
            stdin.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
            stdin.flush()
        answers = [json.loads(stdout.readline()), json.loads(stdout.readline())]
        stdin.close()
        rest, noise = stdout.read(), stderr.read()
    assert process.wait() == 0, "it ends with its standard input"
    assert [answer["id"] for answer in answers] == [1, 2] and rest == ""
    assert answers[1]["result"]["structuredContent"]["text"] == "It is Canberra."
    assert "loading the model" in noise and "llama_model_load" in noise


async def test_over_http_it_serves_whoever_has_the_address_and_no_web_page(
    own_home: Path,
) -> None:
    given = child("-c", NOISY, "http")
    process = subprocess.Popen(
        [given.command, *given.args],
        env={**os.environ, **(given.env or {})},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout as stdout:
        try:
            url = await asyncio.to_thread(stdout.readline)
            async with Client(url.strip()) as client:
                result = await client.call_tool("ask", {"question": "Which capital?"})
            assert figures_of(result)["text"] == "It is Canberra."
            import httpx2

            async with httpx2.AsyncClient() as http:
                stranger = {"origin": "https://evil.example", "accept": "application/json"}
                refused = await http.post(url.strip(), headers=stranger, json={})
                bare = await http.post(url.strip().rpartition("/")[0], json={})
            assert refused.status_code == 403
            assert bare.status_code == 404, "another user of this machine knows the port alone"
            at = urlsplit(url.strip())
            with socket.create_connection((at.hostname, at.port)) as slow:
                slow.sendall(b"GET /mcp HTTP/1.1\r\n")
                assert b" 408 " in await asyncio.to_thread(slow.recv, 100)
            assert len(url.strip().rpartition("/mcp/")[2]) >= 32
        finally:
            process.terminate()
            process.wait()


@pytest.mark.real_model
async def test_the_command_serves_the_real_function_model_to_any_client(
    default_function_model: InstalledModel, own_home: Path
) -> None:
    async with Client(child("-m", "edgewise", "mcp", "--policy", "local_only")) as client:
        asked = {"request": "What's the weather in Oslo?", "tools": [WEATHER]}
        figures = figures_of(await client.call_tool("call", asked))
    (call,) = figures["calls"]
    assert (call["name"], call["arguments"]) == ("get_weather", {"place": "Oslo"})
    assert figures["source"] == "local" and figures["confidence_verified"]


@pytest.mark.real_model
def test_our_own_client_uses_our_own_server(default_model: InstalledModel, own_home: Path) -> None:
    given = child("-m", "edgewise", "mcp", "--policy", "local_only")
    variables = [f"{name}={value}" for name, value in (given.env or {}).items() if name != "WORDS"]
    command = shlex.join(["env", *variables, given.command, *given.args])
    with ToolServers([command], timeout_s=PATIENCE_S) as servers:
        assert not servers.skipped
        ask = next(tool for tool in servers.tools if tool.name == "ask")
        assert "Paris" in ask.run(question="What is the capital of France?", max_tokens=24)


def test_without_the_package_the_command_names_the_extra(own_home: Path) -> None:
    script = (
        "import sys\nsys.modules['mcp'] = None\nfrom edgewise.cli.main import main\nmain(['mcp'])\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ran.returncode == 1 and ran.stdout == ""
    assert "it comes with" in ran.stderr and "pip install" in ran.stderr and "[mcp]" in ran.stderr


def test_neither_edgewise_nor_its_help_loads_the_package(own_home: Path) -> None:
    script = (
        "import sys\nimport edgewise\nfrom edgewise.cli.main import main\n"
        "edgewise.Engine, edgewise.Conversation\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "assert not {'mcp', 'mcp_types'} & set(sys.modules), 'loaded'\n"
    )
    for arguments in (["--help"], ["call", "--help"], ["chat", "--help"], ["mcp", "--help"]):
        ran = subprocess.run(
            [sys.executable, "-c", script, *arguments], capture_output=True, text=True
        )
        assert ran.returncode == 0, ran.stderr
