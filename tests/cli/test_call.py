"""`edgewise call`: only the calls on standard output, everything else beside it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise import parts
from edgewise.cli.main import EXIT_SIGNALLED
from edgewise.settings import Settings
from edgewise.testing import Answer, LoopbackCloud, ScriptedFunctionModel
from edgewise.testing.scripted import SCRIPTED_FUNCTION_MODEL_FACTS
from edgewise.types.messages import ToolCall
from tests.cli.conftest import Run

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Current weather of a place",
            "parameters": {
                "type": "object",
                "properties": {"place": {"type": "string", "description": "City name"}},
                "required": ["place"],
            },
        },
    },
    {
        "name": "set_timer",
        "description": "Start a countdown",
        "parameters": {
            "type": "object",
            "properties": {"minutes": {"type": "integer"}},
            "required": ["minutes"],
        },
    },
]
BOTH = "What's the weather in Zürich and set a timer for 5 minutes"
WEATHER, TIMER = 'get_weather {"place":"Zürich"}', 'set_timer {"minutes":5}'

Write = Callable[..., ScriptedFunctionModel]


@pytest.fixture
def tools(tmp_path: Path) -> str:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps({"tools": TOOLS}), "utf-8")
    return str(path)


@pytest.fixture
def write(monkeypatch: pytest.MonkeyPatch) -> Write:
    """`write('set_timer {"minutes":5}')` is what the device will write, without its weights."""

    def script(
        *answers: str, doubtful: bool = False, call_format: str = "lines"
    ) -> ScriptedFunctionModel:
        facts = replace(SCRIPTED_FUNCTION_MODEL_FACTS, call_format=call_format)
        function_model = (
            ScriptedFunctionModel.doubtful(*answers)
            if doubtful
            else ScriptedFunctionModel(answers, facts=facts)
        )
        monkeypatch.setattr(parts, "open_function_model", lambda _: function_model)
        monkeypatch.setattr("edgewise.cli.call.ensure_function_model", same)
        return function_model

    def same(settings: Settings, policy: str | None = None) -> Settings:
        return settings

    return script


def test_standard_output_has_the_calls_and_nothing_else(run: Run, tools: str, write: Write) -> None:
    write(f"{WEATHER}\n{TIMER}")
    ran = run("call", "--local", "--tools", tools, BOTH)
    assert (ran.code, ran.out) == (0, f"{WEATHER}\n{TIMER}\n")
    first, second, last = ran.err.splitlines()
    assert re.fullmatch(r"  get_weather: device · confidence \d\.\d\d \(unverified\)", first)
    assert re.fullmatch(r"  set_timer: device · confidence \d\.\d\d \(unverified\)", second)
    assert re.match(r"└ device · scripted-caller · confidence \d\.\d\d \(unverified\) · ", last)


def test_what_was_changed_and_what_is_wrong_is_said_per_call(
    run: Run, tools: str, write: Write
) -> None:
    write('set_timer {"minutes":"5"}')
    ran = run("call", "--local", "--tools", tools, "Set a timer for 5 minutes")
    assert ran.out == f"{TIMER}\n"
    assert " · repairs coerced:minutes" in ran.err
    write("set_timer {}")
    ran = run("call", "--local", "--tools", tools, "Set a timer")
    assert " · complaints missing_argument" in ran.err


def test_a_part_without_a_call_is_reported_beside_the_calls(
    run: Run, tools: str, write: Write
) -> None:
    write(WEATHER, "none")
    ran = run("call", "--local", "--tools", tools, BOTH)
    assert ran.out == f"{WEATHER}\n"
    assert "'set a timer for 5 minutes': uncovered_intent, nothing was called" in ran.err
    write(WEATHER, "none")
    ran = run("call", "--local", "--json", "--tools", tools, BOTH)
    assert [(one["code"], one["intent"]) for one in ran.json["complaints"]] == [
        ("uncovered_intent", 1)
    ]


def test_no_call_leaves_standard_output_empty(run: Run, tools: str, write: Write) -> None:
    write("none")
    ran = run("call", "--local", "--tools", tools, "Who wrote Faust?")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("no tool fits this\n└ device · ")


def test_a_missing_value_is_asked_for_beside_an_empty_standard_output(
    run: Run, tools: str, write: Write
) -> None:
    write("ask set_timer: minutes", call_format="conversation")
    ran = run("call", "Set a timer", "--tools", tools)
    assert (ran.code, ran.out) == (0, "")
    assert "How many minutes?" in ran.err
    assert "needed: minutes" in ran.err


def test_facts_come_by_name_or_from_a_file(
    run: Run, tools: str, write: Write, tmp_path: Path
) -> None:
    file = tmp_path / "home.json"
    file.write_text(json.dumps({"entities": [{"name": "Desk Lamp", "area": "Study"}]}), "utf-8")
    device = write("none", call_format="conversation")
    ran = run("call", "Weather here?", "--tools", tools, "--context", "place=Bodø", "--context",
              str(file))  # fmt: skip
    assert ran.code == 0
    assert "place: Bodø" in device.asked[0].prompt
    assert "Desk Lamp | Study" in device.asked[0].prompt


def test_a_list_of_a_home_may_be_home_assistants_own(
    run: Run, tools: str, tmp_path: Path, write: Write
) -> None:
    home = tmp_path / "home.yaml"
    home.write_text("- names: Desk Lamp\n  domain: light\n  areas: Study\n", "utf-8")
    device = write("none", call_format="conversation")
    ran = run("call", "Is the desk lamp on?", "--tools", tools, "--context", str(home))
    assert ran.code == 0
    assert "Desk Lamp | light | Study" in device.asked[0].prompt


@pytest.mark.parametrize(
    ("given", "said"),
    [("nowhere.json", "neither NAME=VALUE nor a file of facts"), ("list", "lists no device")],
)
def test_facts_that_cannot_be_read_are_wrong_usage(
    run: Run, tools: str, tmp_path: Path, given: str, said: str
) -> None:
    if given == "list":
        (tmp_path / "list.json").write_text("[1]", "utf-8")
        given = str(tmp_path / "list.json")
    ran = run("call", "Weather here?", "--tools", tools, "--context", given)
    assert ran.code == 2
    assert said in ran.err


def test_json_is_the_whole_reply(run: Run, tools: str, write: Write) -> None:
    write(TIMER)
    ran = run("call", "--local", "--json", "--tools", tools, "Set a timer for 5 minutes")
    assert (ran.code, ran.err) == (0, "")
    reply = ran.json
    (made,) = reply["tool_calls"]
    assert (made["name"], made["arguments"], made["source"]) == (
        "set_timer",
        {"minutes": 5},
        "local",
    )
    assert reply["intents"] == ["Set a timer for 5 minutes"]
    assert {"split", "model", "judge"} <= reply["steps_ms"].keys()


def test_why_tells_the_walk(run: Run, tools: str, write: Write) -> None:
    write(f"{WEATHER}\n{TIMER}")
    said = run("call", "--local", "--why", "--tools", tools, BOTH).err
    assert "intent 1: What's the weather in Zürich\n" in said
    assert "intent 2: set a timer for 5 minutes\n" in said
    assert re.search(r"^steps: split [\d.]+ ms, .*model [\d.]+ ms", said, re.M)
    assert "local: scripted/scripted-caller answered, " in said


def test_the_request_may_be_piped_in_and_so_may_the_tools(
    run: Run, tools: str, write: Write
) -> None:
    function_model = write(TIMER)
    assert run("call", "--local", "--tools", tools, stdin="a timer for 5 minutes").out
    piped = run("call", "--local", "--tools", "-", "a timer", "for 5", stdin=json.dumps(TOOLS))
    assert piped.out == f"{TIMER}\n"
    assert "A timer for 5.<|im_end|>" in function_model.asked[-1].prompt
    ran = run("call", "--tools", "-", stdin=json.dumps(TOOLS))
    assert (ran.code, ran.out) == (2, "")
    assert "give the REQUEST in words" in ran.err


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[{", "not JSON"),
        ("{}", 'expected a list, or an object with "tools"'),
        ("[]", "there are no tools in it"),
        ('[{"name": 3}]', "tools[0].name: expected a name, got a number"),
        (
            '[{"name": "f", "parameters": {"type": "object", "properties": {"a": 1}}}]',
            "tools[0].parameters.properties.a: expected an object, got a number",
        ),
    ],
)
def test_tools_that_cannot_be_read_are_refused_with_the_place(
    run: Run, tmp_path: Path, text: str, complaint: str
) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text, "utf-8")
    ran = run("call", "--json", "--tools", str(path), "hi")
    assert (ran.code, ran.json["code"]) == (2, "invalid_request")
    assert "bad.json: " in ran.json["error"]
    assert complaint in ran.json["error"]


def test_a_file_that_is_not_there_and_a_request_that_is_empty_are_wrong_usage(
    run: Run, tools: str
) -> None:
    ran = run("call", "--tools", "nowhere.json", "hi")
    assert ran.code == 2
    assert "there is no file 'nowhere.json'" in ran.err
    ran = run("call", "--tools", tools)
    assert ran.code == 2
    assert "nothing to call" in ran.err
    assert run("call", "hi").code == 2


def test_a_doubtful_call_comes_from_the_cloud_and_says_so(
    run: Run, tools: str, write: Write, cloud: LoopbackCloud
) -> None:
    write(TIMER, doubtful=True)
    cloud.always(Answer(tool_calls=(ToolCall("set_timer", {"minutes": 5}, id="c"),)))
    ran = run("call", "--threshold", "1", "--tools", tools, "Set a timer for 5 minutes")
    assert (ran.code, ran.out) == (0, f"{TIMER}\n")
    assert "  set_timer: cloud\n" in ran.err
    assert "└ cloud · " in ran.err


def test_a_name_that_the_cloud_made_up_does_not_reach_the_terminal_as_an_escape(
    run: Run, tools: str, write: Write, cloud: LoopbackCloud
) -> None:
    write(TIMER, doubtful=True)
    evil = {"minutes": 5, "x\x1b]0;owned\x07": 1, "\x9b2J": "\x9b31m"}
    cloud.always(Answer(tool_calls=(ToolCall("set_timer", evil, id="c"),)))
    for more in ((), ("--json",)):
        ran = run("call", "--threshold", "1", "--tools", tools, "Set a timer for 5 minutes", *more)
        assert ran.code == 0
        assert not set("\x1b\x07\x9b") & set(ran.out + ran.err)


def test_calls_of_both_sides_stand_side_by_side(
    run: Run, tools: str, write: Write, cloud: LoopbackCloud
) -> None:
    write(f"{WEATHER}\nset_timer {{}}")  # nobody said how long, so the second cannot be run
    cloud.always(Answer(tool_calls=(ToolCall("set_timer", {"minutes": 5}, id="c"),)))
    ran = run(
        "call",
        "--threshold",
        "0",
        "--tools",
        tools,
        "What's the weather in Zürich and start a timer",
    )
    assert ran.out == f"{WEATHER}\n{TIMER}\n"
    assert "  get_weather: device · " in ran.err
    assert "  set_timer: cloud" in ran.err
    assert "└ device and cloud · " in ran.err
    (asked,) = cloud.requests
    assert "Zürich" not in str(asked.body["messages"]), "only what failed leaves the device"


def test_a_signalled_handoff_exits_10_without_calls(
    run: Run, tools: str, write: Write, cloud: LoopbackCloud
) -> None:
    write(TIMER, doubtful=True)
    asked = ("call", "--signal", "--threshold", "1", "--tools", tools, "A timer for 5 minutes")
    ran = run(*asked)
    assert (ran.code, ran.out) == (EXIT_SIGNALLED, "")
    assert ran.err.startswith("hand this off: ")
    assert run(*asked, "--json").json["cloud_handoff"] is True
    assert cloud.connections == 0


def test_a_missing_function_model_is_fetched_and_if_that_fails_the_cloud_is_asked(
    run: Run, tools: str, cloud: LoopbackCloud, no_model: Path
) -> None:
    cloud.always(Answer(text="I cannot do that."))
    ran = run("call", "--tools", tools, "Who wrote Faust?")
    assert (ran.code, ran.out) == (0, "")
    assert "Getting edgewise-caller, " in ran.err
    assert ran.err.count("pip could not fetch") == 1, "tried and said once"
    assert "no tool fits this\ncloud: I cannot do that.\n" in ran.err
    assert "'Who wrote Faust?': refusal, the cloud declined in words\n└ cloud · " in ran.err


def test_without_function_model_and_cloud_the_error_says_what_to_do(
    run: Run, tools: str, no_model: Path
) -> None:
    ran = run("call", "--json", "--tools", tools, "hi")
    assert ran.code == 5
    assert "edgewise pull edgewise-caller" in ran.json["error"]


def test_the_model_option_names_the_one_that_writes_calls(run: Run, tools: str) -> None:
    ran = run("call", "--model", "edgewise-caler", "--tools", tools, "hi")
    assert ran.code == 5
    assert "did you mean edgewise-caller" in ran.err


@pytest.mark.real_model
def test_the_script_calls_with_the_real_model(
    script: Run, tools: str, default_function_model: object
) -> None:
    ran = script("call", "--local", "--tools", tools, "Set a timer for ten minutes")
    assert (ran.code, ran.out) == (0, 'set_timer {"minutes":10}\n')
    assert "└ device · edgewise-caller · confidence " in ran.err


def test_tools_to_try_come_with_it(run: Run, write: Write) -> None:
    write('get_weather {"place":"Oslo"}')
    ran = run("call", "What's the weather in Oslo?", "--tools", "examples")
    assert (ran.code, ran.out) == (0, 'get_weather {"place":"Oslo"}\n')
    missing = run("call", "hi", "--tools", "tools.json").err
    (path,) = re.findall(r"`--tools examples` are three to try, from (\S+)", missing)
    assert {tool["function"]["name"] for tool in json.loads(Path(path).read_text())} == {
        "set_alarm",
        "send_message",
        "get_weather",
    }
