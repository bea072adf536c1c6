"""`--mcp` of `edgewise call` and `edgewise chat`: tools of real servers, run after a yes."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from edgewise import ToolServers, parts
from edgewise.mcp_client import ServerAddress
from edgewise.settings import Settings
from edgewise.testing import ScriptedBackend, ScriptedFunctionModel
from tests.cli.conftest import Open, Run
from tests.test_mcp_client import command

WEATHER = 'get_weather {"place":"Oslo"}'
ASKED = "What is the weather in Oslo?"


@pytest.fixture(autouse=True)
def scripted(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """The device calls for the weather and knows one sentence; weights are not needed."""
    if "real_model" in request.keywords:
        return

    def same(settings: Settings, *_: object) -> Settings:
        return settings

    function_model = ScriptedFunctionModel([WEATHER])
    backend = ScriptedBackend.confident("It is raining there.")
    monkeypatch.setattr(parts, "open_function_model", lambda _: function_model)
    monkeypatch.setattr(parts, "open_backend", lambda _: backend)
    for name in ("call.ensure_function_model", "chat.ensure_function_model", "chat.ensure_model"):
        monkeypatch.setattr(f"edgewise.cli.{name}", same)


def test_without_a_terminal_and_without_a_yes_a_call_is_shown_and_not_run(run: Run) -> None:
    ran = run("call", "--local", ASKED, "--mcp", command("good"))
    assert (ran.code, ran.out) == (0, f"{WEATHER}\n")
    assert "not run: there is nobody to ask (--yes runs them)" in ran.err


def test_with_yes_the_result_follows_the_call(run: Run) -> None:
    ran = run("call", "--local", "--yes", ASKED, "--mcp", command("good"))
    assert ran.out == f"{WEATHER}\nresult  get_weather: It rains in Oslo.\n"


def test_a_yes_before_the_question_does_not_run_what_is_in_doubt(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    doubtful = ScriptedFunctionModel.doubtful(WEATHER)
    monkeypatch.setattr(parts, "open_function_model", lambda _: doubtful)
    mcp = ("--mcp", command("good"))
    ran = run("call", "--local", "--yes", ASKED, *mcp)
    assert "result  get_weather: failed: not run: in doubt (get_weather: " in ran.out
    assert " · in doubt" in ran.err
    ran = run("call", "--local", "--json", "--yes", ASKED, *mcp).json
    assert ran["results"][0]["value"] is None and ran["tool_calls"][0]["doubt"]
    assert "--always runs them" in run("call", "--local", ASKED, *mcp).err
    assert "result  get_weather: It rains" in run("call", "--local", "--always", ASKED, *mcp).out
    ran = run("chat", "--local", "--yes", *mcp, stdin=f"{ASKED}\n/history\n")
    assert "not run: in doubt (--always runs it)" in ran.err and "It rains" not in ran.out
    ran = run("chat", "--local", "--always", *mcp, stdin=f"{ASKED}\n/history\n")
    assert "tool: It rains in Oslo." in ran.out

    monkeypatch.setattr("edgewise.cli.call.is_attended", lambda: True)
    monkeypatch.setattr("edgewise.cli.call.read_prompt", lambda words, _: " ".join(words))
    ran = run("call", "--local", ASKED, *mcp, stdin="y\n")
    assert "run 1 call, 1 in doubt? [y/N]" in ran.err
    assert "result  get_weather: It rains" in ran.out, "whoever is asked has seen it"


def test_in_a_terminal_it_asks(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgewise.cli.call.is_attended", lambda: True)
    monkeypatch.setattr("edgewise.cli.call.read_prompt", lambda words, _: " ".join(words))
    for answer, shown in (("y", True), ("n", False)):
        ran = run("call", "--local", ASKED, "--mcp", command("good"), stdin=f"{answer}\n")
        assert "run 1 call? [y/N]" in ran.err
        assert ("result  get_weather: It rains in Oslo." in ran.out) is shown


def test_in_json_the_results_are_part_of_the_reply(run: Run) -> None:
    ran = run("call", "--local", "--json", "--yes", ASKED, "--mcp", command("good"))
    assert ran.json["results"] == [
        {"name": "get_weather", "value": "It rains in Oslo.", "error": ""}
    ]
    ran = run("call", "--local", "--json", ASKED, "--mcp", command("good"))
    assert ran.json["results"] == [] and "not run" in ran.err


def test_tools_of_a_file_and_of_a_server_go_together(run: Run, tmp_path: Path) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text('[{"name": "set_timer", "description": "Start a countdown"}]')
    ran = run("call", "--local", "-y", ASKED, "--mcp", command("good"), "--tools", str(tools))
    assert "result  get_weather: It rains in Oslo." in ran.out
    ran = run("call", "--local", ASKED)
    assert ran.code == 2 and "give --tools FILE" in ran.err and "or --mcp SERVER" in ran.err


def test_a_private_request_is_told_that_tools_on_other_machines_are_not_offered(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ServerAddress, "leaves", True)  # as if this server were far away
    monkeypatch.setattr(parts, "open_function_model", lambda _: ScriptedFunctionModel(["none"]))
    ran = run("call", "--private", "-y", ASKED, "--mcp", command("good"))
    assert "not offered to a private request: 9 tools of servers on other machines" in ran.err
    assert ran.out == ""


def test_a_server_that_fails_is_one_line_and_an_exit_code(run: Run) -> None:
    ran = run("call", "--local", ASKED, "--mcp", command("wreck"))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.endswith("no configuration was found) [tool_server_failed]\n")
    ran = run("call", "--local", ASKED, "--mcp", command("deaf"), "--mcp-timeout", "2")
    assert ran.code == 1 and "has not started within 2 s" in ran.err


def test_without_the_package_the_extra_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda *_: None)
    ran = run("call", "--local", ASKED, "--mcp", "anything")
    assert ran.code == 1 and "mcp is not installed" in ran.err and "[mcp]'" in ran.err


def test_a_chat_calls_a_tool_and_answers_from_its_result(run: Run) -> None:
    ran = run("chat", "--local", "--yes", "--mcp", command("good"), stdin=f"{ASKED}\n/history\n")
    assert "It is raining there." in ran.out
    assert "tool: It rains in Oslo." in ran.out
    assert f"call  {WEATHER}" in ran.err
    ran = run("chat", "--local", "--mcp", command("good"), stdin=f"{ASKED}\n/history\n")
    assert "not run: there is nobody to ask" in ran.err
    assert "tool: failed: not run: the user did not allow it" in ran.out


def test_a_chat_asks_before_each_call(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgewise.cli.call.is_attended", lambda: True)
    talk = f"{ASKED}\ny\n{ASKED}\nn\n/history\n"
    ran = run("chat", "--local", "--mcp", command("good"), stdin=talk)
    assert ran.err.count("run 1 call? [y/N]") == 2
    assert ran.out.count("tool: It rains in Oslo.") == 1
    assert ran.out.count("tool: failed: not run: the user did not allow it") == 1


@pytest.mark.real_model
def test_a_person_is_asked_and_says_yes(terminal: Open) -> None:
    window = terminal(
        "call", "--local", "What's the weather in Oslo?", "--mcp", command("good"), columns=120
    )
    window.wait_for("run 1 call? [y/N]", timeout=120)
    window.press("y\n")
    window.wait_for("result  get_weather: It rains in Oslo.", timeout=60)
    assert window.finish(60) == 0


def test_the_command_of_a_server_is_split_like_in_a_shell(run: Run, tmp_path: Path) -> None:
    spaced = tmp_path / "my server.py"
    spaced.write_text(
        f"import runpy, sys\nsys.argv[1:] = ['good']\n"
        f"runpy.run_path({str(Path(__file__).parents[1] / 'mcp_tool_server.py')!r}, "
        "run_name='__main__')\n"
    )
    server = f"{shlex.quote(sys.executable)} -P '{spaced}'"
    ran = run("call", "--local", "-y", ASKED, "--mcp", server)
    assert "It rains in Oslo." in ran.out


def test_the_server_announces_its_address_and_ends_when_it_is_told_to() -> None:
    given = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(
        [sys.executable, "-m", "edgewise", "mcp", "--http", "0", "--json"],
        env=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    with process.stdout as stdout, process.stderr as stderr:
        url = json.loads(stdout.readline())["url"]
        with ToolServers([url], timeout_s=120) as servers:
            assert [tool.name for tool in servers.tools][:2] == ["ask", "call"]
        process.terminate()
        assert stdout.read() == ""
        assert "Traceback" not in stderr.read()
    assert process.wait() in (0, 128 + signal.SIGTERM)
