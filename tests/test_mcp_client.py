"""Tools of MCP servers: real processes, written with the official package, good and bad ones."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgewise import (
    AsyncConversation,
    AsyncEngine,
    CallReply,
    Conversation,
    Engine,
    InvalidRequest,
    Settings,
    ToolCall,
    ToolServerFailed,
    ToolServers,
)
from edgewise.errors import Cancelled, ExtraMissing
from edgewise.extras import install_command
from edgewise.local.store import InstalledModel
from edgewise.mcp_client import MOST_TEXT, ServerAddress
from edgewise.testing import Answer, LoopbackCloud, ScriptedBackend, ScriptedFunctionModel

PATIENCE_S = 120.0  # for what must succeed: the machine may be busy
IMPATIENCE_S = 3.0  # for what never will
ROOT = Path(__file__).parents[1]


def command(mode: str, *rest: str, **variables: str) -> str:
    """How such a server is started. It inherits no variables, and so they are set before it."""
    given = [f"{name}={value}" for name, value in variables.items()]
    program = [sys.executable, "-P", str(ROOT / "tests" / "mcp_tool_server.py"), mode, *rest]
    return shlex.join(["env", *given, *program] if given else program)


def opened(*modes: str, timeout_s: float = PATIENCE_S) -> ToolServers:
    return ToolServers([command(mode) for mode in modes], timeout_s=timeout_s)


def run(servers: ToolServers, tool: str, **arguments: Any) -> Any:
    return next(one for one in servers.tools if one.name == tool).run(**arguments)


def is_gone(process: int) -> bool:
    """Ended, and not left as a zombie."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def children() -> set[int]:
    """The processes that this one has started and not yet buried."""
    found: set[int] = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has just ended
            parent = path.read_text().rpartition(")")[2].split()[1]
            found |= {int(path.parent.name)} if int(parent) == os.getpid() else set()
    return found


@pytest.fixture(scope="module")
def good() -> Iterator[ToolServers]:
    with opened("good") as servers:
        yield servers


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server over HTTP, on this machine."""
    process = subprocess.Popen(
        shlex.split(command("good", "http")), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


# -- what a server offers -----------------------------------------------------------------------


def test_a_tool_of_a_server_is_run_like_a_function(good: ToolServers) -> None:
    weather = next(tool for tool in good.tools if tool.name == "get_weather")
    assert weather.description == "Get the current weather of a place."
    assert weather.parameters["required"] == ["place"]
    assert not weather.leaves
    assert weather.run(place="Oslo") == "It rains in Oslo."


def test_results_of_every_kind_become_something_that_a_model_reads(good: ToolServers) -> None:
    assert run(good, "draw_chart", title="Rain") == "The chart Rain:\n[image, image/png, 100 bytes]"
    assert '"words": 2' in run(good, "count_words", text="two words")
    with opened("pictures") as servers:
        assert run(servers, "picture", place="Oslo") == "[image, image/png, 3 bytes]"
        assert run(servers, "figures", place="Oslo") == {"degrees": 21}
        assert run(servers, "nothing", place="Oslo") is None
        with pytest.raises(ToolServerFailed, match=r"^the tool failed, and did not say why$"):
            run(servers, "silent_failure", place="Oslo")


def test_a_huge_result_is_cut_and_says_so(good: ToolServers) -> None:
    book = run(good, "write_book", topic="rain")
    assert len(book) < MOST_TEXT + 100
    assert book.endswith("[cut: 50,000 of 900,000 characters]")


def test_a_tool_that_fails_fails_in_its_own_words(good: ToolServers) -> None:
    with pytest.raises(ToolServerFailed, match="the code 12 is wrong"):
        run(good, "open_door", code="12")


def test_a_result_that_breaks_its_promised_schema_is_refused() -> None:
    with opened("lying") as servers, pytest.raises(ToolServerFailed, match="'warm' is not of type"):
        run(servers, "get_degrees", place="Oslo")


def test_three_hundred_tools_on_six_pages_are_all_offered() -> None:
    with opened("many") as servers:
        assert len(servers.tools) == 300
        assert run(servers, "get_weather", place="Oslo") == "get_weather ran"


def test_a_list_without_end_is_left_after_some_pages() -> None:
    with opened("endless") as servers:
        assert [tool.name for tool in servers.tools] == ["again"]
        assert servers.skipped == {"again": "it is listed twice"}


def test_tools_that_cannot_be_described_to_a_model_are_skipped_with_a_reason() -> None:
    with opened("hostile") as servers:
        names = [tool.name for tool in servers.tools]
        assert run(servers, "get_weather_2J_now", place="Oslo").startswith("get.weather")
    assert names == ["pattern", "itself", "get_weather_2J_now", "twice"]
    assert set(servers.skipped) == {
        *("text", "choices", "length", "huge", "nested", "long", "twice")
    }
    assert servers.skipped["text"] == "parameters.properties.x: expected an object, got text"
    assert servers.skipped["nested"].endswith("nested too deeply")
    assert servers.skipped["huge"] == "288,941 characters describe it"


def test_names_of_two_servers_that_collide_get_the_servers_names() -> None:
    with opened("good", "other", "pictures") as servers:
        names = [tool.name for tool in servers.tools]
        assert run(servers, "other_station_get_weather", place="Oslo") == "It rains in Oslo."
    assert names[0] == "weather_station_get_weather"
    assert "figures" in names and "get_weather" not in names
    with opened("other", "other") as twins:
        names = [tool.name for tool in twins.tools]
        assert {"other_station_get_weather", "other_station_2_get_weather"} <= set(names)


def test_a_server_gets_none_of_the_users_keys(
    good: ToolServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-something")
    with opened("good") as servers:
        assert run(servers, "read_secret", name="OPENAI_API_KEY") == "nothing"
    with ToolServers([command("good", TOKEN="given")], timeout_s=PATIENCE_S) as servers:
        assert run(servers, "read_secret", name="TOKEN") == "given"


# -- what a server does wrong -------------------------------------------------------------------


def test_a_server_that_hangs_in_a_call_is_left_and_can_be_asked_again(tmp_path: Path) -> None:
    told = tmp_path / "cancelled"
    with ToolServers([command("good", CANCELLED_FILE=str(told))], timeout_s=PATIENCE_S) as servers:
        servers.timeout_s = 3 * IMPATIENCE_S  # it must get to know of the call at least
        with pytest.raises(ToolServerFailed, match="has not answered within 9 s"):
            run(servers, "wait_forever", reason="rain")
        servers.timeout_s = PATIENCE_S
        assert run(servers, "get_weather", place="Oslo") == "It rains in Oslo."
        assert told.read_text() == "rain", "it is told that nobody waits any more"


def test_a_server_that_dies_in_a_call_is_said_to_have_and_its_last_words_are_quoted() -> None:
    with opened("good", "pictures") as servers:
        with pytest.raises(ToolServerFailed, match="gave no answer: Connection closed"):
            run(servers, "break_down", reason="rain")
        with pytest.raises(ToolServerFailed, match="it said: I cannot go on"):
            run(servers, "get_weather", place="Oslo")
        assert run(servers, "figures", place="Oslo") == {"degrees": 21}, "the other one lives"


def test_a_log_that_never_ends_a_line_takes_no_memory() -> None:
    tracemalloc.start()
    try:
        with opened("loud") as servers:
            assert run(servers, "get_weather", place="Oslo") == "It rains in Oslo."
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_a_server_that_hangs_at_its_start_is_ended() -> None:
    before = children(), set(threading.enumerate())
    with pytest.raises(ToolServerFailed, match="has not started within 3 s"):
        opened("deaf", timeout_s=IMPATIENCE_S)
    assert children() == before[0], "although it ignores its end and SIGTERM"
    assert not {one.name for one in set(threading.enumerate()) - before[1] if one.is_alive()}


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("wreck", r"could not be started: Connection closed \(it said: no configuration was found"),
        ("garbled", r"could not be started: .*tools\.1\.name"),
        ("babble", r"has not started within 3 s"),
    ],
)
def test_a_server_that_cannot_be_understood_is_a_plain_error(mode: str, message: str) -> None:
    limit = IMPATIENCE_S if mode == "babble" else PATIENCE_S
    with pytest.raises(ToolServerFailed, match=message):
        opened(mode, timeout_s=limit)


def test_a_command_or_an_address_where_nothing_is_is_a_plain_error() -> None:
    with pytest.raises(ToolServerFailed, match="the MCP server none could not be started"):
        ToolServers(["/no/such/none --key secret"])
    with pytest.raises(ToolServerFailed, match="could not be started") as raised:
        ToolServers(["http://user:secret@127.0.0.1:9/mcp?key=secret"], timeout_s=PATIENCE_S)
    assert "http://127.0.0.1:9/mcp" in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("wrong", ["", "  ", "an 'open quote", 7])
def test_what_is_no_server_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidRequest):
        ToolServers([wrong])
    with pytest.raises(InvalidRequest, match="expected a list of servers"):
        ToolServers("uvx mcp-server-time")
    with pytest.raises(InvalidRequest, match="more than 0 s"):
        ToolServers([], timeout_s=0)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ExtraMissing, match=re.escape(install_command("mcp"))):
        ToolServers(["anything"])


def test_only_what_is_on_another_machine_leaves() -> None:
    here = ("uvx mcp-server-time", "http://127.0.0.1:8000/mcp", "http://localhost/mcp")
    there = (
        "https://tools.example/mcp",
        "http://192.168.1.20:8000/mcp",
        "http://localhost.example",
    )
    assert [ServerAddress.of(text).leaves for text in (*here, *there)] == [False] * 3 + [True] * 3


# -- over HTTP ----------------------------------------------------------------------------------


def test_a_server_over_http_is_used_in_the_same_way(address: str) -> None:
    with ToolServers([address], timeout_s=PATIENCE_S) as servers:
        assert run(servers, "get_weather", place="Oslo") == "It rains in Oslo."
        assert run(servers, "write_book", topic="rain").endswith("of 900,000 characters]")
        with pytest.raises(ToolServerFailed, match="the code 12 is wrong"):
            run(servers, "open_door", code="12")
        servers.timeout_s = IMPATIENCE_S
        with pytest.raises(ToolServerFailed, match="has not answered within 3 s"):
            run(servers, "wait_forever", reason="rain")
        servers.timeout_s = PATIENCE_S
        assert run(servers, "get_weather", place="Rome") == "It rains in Rome."


def test_a_server_on_this_machine_is_not_reached_through_a_proxy(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with ToolServers([address], timeout_s=PATIENCE_S) as servers:
        assert run(servers, "get_weather", place="Oslo") == "It rains in Oslo."


def test_a_server_over_http_that_dies_in_a_call_is_a_plain_error() -> None:
    process = subprocess.Popen(
        shlex.split(command("good", "http")), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with (
        process.stdout as lines,
        ToolServers([lines.readline().strip()], timeout_s=PATIENCE_S) as servers,
    ):
        servers.timeout_s = 5 * IMPATIENCE_S
        with pytest.raises(ToolServerFailed):
            run(servers, "break_down", reason="rain")
        with pytest.raises(ToolServerFailed):
            run(servers, "get_weather", place="Oslo")
    assert process.wait() == 3


# -- in a conversation --------------------------------------------------------------------------


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    settings = Settings.load({}, data_dir=tmp_path, config_dir=tmp_path / "config")
    with Engine(
        settings,
        backend=ScriptedBackend.confident("It is raining there."),
        function_model=ScriptedFunctionModel(['get_weather {"place":"Oslo"}']),
    ) as made:
        yield made


def test_a_conversation_calls_a_servers_tool_and_answers_from_its_result(engine: Engine) -> None:
    asked: list[ToolCall] = []

    def approve(call: ToolCall) -> bool:
        asked.append(call)
        return True

    servers = [command("good")]
    with Conversation(engine, mcp=servers, approve=approve, policy="local_only") as talk:
        reply = talk.ask("What is the weather in Oslo?")
    assert reply.text == "It is raining there."
    assert [call.name for call in asked] == ["get_weather"]
    assert [message.content for message in talk.messages if message.role == "tool"] == [
        "It rains in Oslo."
    ]


def test_a_call_that_is_not_approved_is_not_run(engine: Engine) -> None:
    async def later(_: ToolCall) -> bool:
        return False

    for approve in (lambda _: False, later):
        with Conversation(
            engine, mcp=[command("good")], approve=approve, policy="local_only"
        ) as talk:
            talk.ask("What is the weather in Oslo?")
        result = next(message for message in talk.messages if message.role == "tool")
        assert result.content == "failed: not run: the user did not allow it"


def test_a_call_of_a_servers_tool_that_is_in_doubt_is_not_run(tmp_path: Path) -> None:
    model = ScriptedFunctionModel.doubtful('get_weather {"place":"Oslo"}')
    settings = Settings.load({}, data_dir=tmp_path, config_dir=tmp_path / "config")
    with (
        Engine(
            settings, backend=ScriptedBackend.confident("Rain."), function_model=model
        ) as engine,
        Conversation(engine, mcp=[command("good")], policy="local_only") as talk,
    ):
        assert talk.ask("What is the weather in Oslo?").needs_cloud_handoff
    result = next(message for message in talk.messages if message.role == "tool")
    assert result.content.startswith("failed: not run: in doubt (get_weather: ")


def test_a_tool_that_fails_is_told_to_the_model_and_the_talk_goes_on(tmp_path: Path) -> None:
    model = ScriptedFunctionModel(['open_door {"code":"12"}'])
    backend = ScriptedBackend.confident("The code is wrong.")
    settings = Settings.load({}, data_dir=tmp_path, config_dir=tmp_path / "config")
    with (
        Engine(settings, backend=backend, function_model=model) as engine,
        Conversation(engine, mcp=[command("good")], policy="local_only") as talk,
    ):
        assert talk.ask("Open the door with the code 12").text == "The code is wrong."
    result = next(message for message in talk.messages if message.role == "tool")
    assert result.content == "failed: Error executing tool open_door: the code 12 is wrong"


def test_closing_a_conversation_leaves_no_process_behind(tmp_path: Path) -> None:
    settings = Settings.load({}, data_dir=tmp_path, config_dir=tmp_path / "config")
    model = ScriptedFunctionModel(["tell_process {}"])
    backend = ScriptedBackend.confident("There you are.")
    with Engine(settings, backend=backend, function_model=model) as engine:
        talk = Conversation(engine, mcp=[command("good")], policy="local_only")
        talk.ask("Tell the number of this process")
        (step, _) = talk.steps
        assert isinstance(step, CallReply)
        process = int(step.results[0].value)
        assert not is_gone(process)
        talk.close()
        assert is_gone(process)
        talk.ask("Tell the number of this process")  # starts it again
        talk.close()
    gc.collect()  # what was not closed would warn here, and a warning is an error


def test_a_program_that_forgets_to_close_leaves_no_process_behind() -> None:
    script = (
        "import sys\nfrom edgewise import ToolServers\n"
        "servers = ToolServers([sys.argv[1]])\n"
        "tools = {tool.name: tool for tool in servers.tools}\n"
        "print(tools['tell_process'].run())\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, command("good")], capture_output=True, text=True, check=True
    )
    assert is_gone(int(ran.stdout))
    assert ran.stderr == ""


def test_a_name_of_the_programs_own_tools_is_not_taken_twice(engine: Engine) -> None:
    def get_weather(place: str) -> str:
        """The weather of a place."""
        return "sunny"

    with (
        Conversation(engine, mcp=[command("good")], tools=[get_weather]) as talk,
        pytest.raises(InvalidRequest, match="'get_weather' is the name of tools"),
    ):
        talk.ask("What is the weather in Oslo?")


def test_results_of_private_turns_stay_on_the_device(tmp_path: Path) -> None:
    with LoopbackCloud() as cloud:
        cloud.always(Answer(text="The cloud knows."))
        environment = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": cloud.openai_url}
        settings = Settings.load(
            environment, chain=("openai",), data_dir=tmp_path, config_dir=tmp_path / "config"
        )
        backend = ScriptedBackend.confident("It is raining there.")
        model = ScriptedFunctionModel(['get_weather {"place":"Oslo"}'])
        with (
            Engine(settings, backend=backend, function_model=model) as engine,
            Conversation(engine, mcp=[command("good")], policy="prefer_cloud") as talk,
        ):
            talk.ask("What is the weather in Oslo?", private=True)
            assert talk.private
            later = talk.ask("And tomorrow?")
            assert later.decision.degraded_code == "private"
        assert not cloud.requests


def test_a_private_request_is_not_offered_tools_of_another_machine(engine: Engine) -> None:
    with opened("pictures") as servers:
        (tool, *_) = servers.tools
        far = type(tool)(
            name="far", parameters=tool.parameters, run=lambda **_: "left", leaves=True
        )
        request = engine.parts.request("anything", tools=[tool, far], private=True)
        assert [one.name for one in request.tools] == [tool.name]
        assert len(engine.parts.request("anything", tools=[tool, far]).tools) == 2


def test_whoever_leaves_cancels_the_call_and_the_server_is_told(tmp_path: Path) -> None:
    told = tmp_path / "cancelled"
    model = ScriptedFunctionModel(['wait_forever {"reason":"rain"}'])
    backend = ScriptedBackend.confident("I waited.")
    settings = Settings.load({}, data_dir=tmp_path, config_dir=tmp_path / "config")

    async def ask_and_leave() -> None:
        loop, called = asyncio.get_running_loop(), asyncio.Event()

        def approve(_: ToolCall) -> bool:
            loop.call_soon_threadsafe(called.set)
            return True

        async with AsyncEngine(settings, backend=backend, function_model=model) as engine:
            talk = AsyncConversation(
                engine,
                mcp=[command("good", CANCELLED_FILE=str(told))],
                mcp_timeout_s=PATIENCE_S,
                policy="local_only",
                approve=approve,
            )
            async with talk:
                asking = asyncio.create_task(talk.ask("Wait forever for the reason rain"))
                await called.wait()
                await asyncio.sleep(0.5)  # it is on its way
                asking.cancel()
                with pytest.raises((asyncio.CancelledError, Cancelled)):
                    await asking

    asyncio.run(ask_and_leave())
    assert told.read_text() == "rain"


# -- with the real function model, and with reference servers -----------------------------------


@pytest.mark.real_model
def test_the_function_model_calls_the_right_one_of_three_hundred_tools(
    default_function_model: InstalledModel,
) -> None:
    with Engine() as engine, opened("many") as servers:
        reply = engine.call(
            "What's the weather in Oslo?", servers.tools, execute=True, policy="local_only"
        )
    assert [call.name for call in reply.calls] == ["get_weather"]
    assert dict(reply.calls[0].arguments) == {"place": "Oslo"}
    assert reply.results[0].value == "get_weather ran"


@pytest.mark.real_model
def test_hostile_schemas_beside_a_good_one_do_not_harm_it(
    default_function_model: InstalledModel,
) -> None:
    with Engine() as engine, opened("hostile") as servers:
        reply = engine.call(
            "What's the weather in Oslo now?", servers.tools, execute=True, policy="local_only"
        )
    assert [call.name for call in reply.calls] == ["get_weather_2J_now"]


def reference(package: str, *arguments: str) -> str:
    """The command of a reference server; it inherits no path, so that is set before it."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    path = os.pathsep.join(filter(None, sys.path))
    return shlex.join(["env", f"PYTHONPATH={path}", sys.executable, "-m", package, *arguments])


@pytest.mark.real_model
def test_the_reference_server_for_times_is_called_by_the_function_model(
    default_function_model: InstalledModel,
) -> None:
    server = reference("mcp_server_time", "--local-timezone", "Europe/Oslo")
    with Engine() as engine, ToolServers([server], timeout_s=PATIENCE_S) as servers:
        assert [tool.name for tool in servers.tools] == ["get_current_time", "convert_time"]
        reply = engine.call(
            "What is the current time in the timezone Asia/Tokyo?",
            servers.tools,
            execute=True,
            policy="local_only",
        )
    assert [call.name for call in reply.calls] == ["get_current_time"]
    assert '"timezone": "Asia/Tokyo"' in reply.results[0].value
    with (
        ToolServers([server], timeout_s=PATIENCE_S) as servers,
        pytest.raises(ToolServerFailed, match="Atlantis"),
    ):
        run(servers, "get_current_time", timezone="Atlantis")


def test_the_reference_server_for_git_is_run(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "new.txt").write_text("new")
    server = reference("mcp_server_git", "--repository", str(tmp_path))
    with ToolServers([server], timeout_s=PATIENCE_S) as servers:
        assert not servers.skipped
        assert "new.txt" in run(servers, "git_status", repo_path=str(tmp_path))
        with pytest.raises(ToolServerFailed):
            run(servers, "git_status", repo_path="/")
