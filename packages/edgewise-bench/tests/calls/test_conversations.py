"""`edgewise bench conversations` with a scripted model and a file of seven cases."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from edgewise.calls.prompt import Question
from edgewise.cli.main import cli
from edgewise.errors import ModelNotFound, SettingsError
from edgewise.parts import find_function_model
from edgewise.settings import Settings
from edgewise.testing import ScriptedFunctionModel
from edgewise.types.messages import Message, Tool
from edgewise_bench.calls import conversations as module
from edgewise_bench.calls.conversations import (
    SETS,
    SHIPPED,
    ConversationCase,
    Replied,
    choose,
    equal_calls,
    figures,
    is_right,
    measure_conversations,
    read_conversations,
)
from edgewise_bench.calls.hard_schemas import is_nested
from edgewise_bench.commands import bench


def tool(name: str, description: str, /, *required: str, **more: dict[str, Any]) -> dict[str, Any]:
    fields = {key: {"type": "string"} for key in required} | more
    parameters = {"type": "object", "properties": fields, "required": list(required)}
    return {"name": name, "description": description, "parameters": parameters}


def said(*texts: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text} for text in texts]


def call(name: str, /, **arguments: object) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def made(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": "", "tool_calls": list(calls)}


KETTLE = tool("start_kettle", "Heat water in the kettle", degrees={"type": "integer"})
TRAIN = tool("find_train", "Find a train to a city", "city")
TABLE = tool("book_table", "Book a table at a restaurant", "restaurant", "day")
LAMP = tool("turn_on", "Switch a device on", "name")
PARCEL = tool(
    "send_parcel",
    "Send a parcel",
    to={"type": "object", "properties": {"city": {"type": "string"}}},
)
ROWS: list[dict[str, Any]] = [
    {
        "set": "dialogue",
        "messages": [
            *said("heat the kettle to 85 degrees"),
            made(call("start_kettle", degrees=85)),
            *said("make it 90"),
        ],
        "tools": [KETTLE],
        "calls": [call("start_kettle", degrees=90)],
    },
    {
        "set": "missing",
        "messages": said("book a table at Chez Odile"),
        "tools": [TABLE, TRAIN],
        "asks": [{"tool": "book_table", "needs": ["day"]}],
    },
    {
        "set": "home",
        "messages": said("switch the piano lamp on"),
        "context": {"entities": [{"name": "Piano Lamp", "area": "Loft"}]},
        "tools": [LAMP],
        "calls": [call("turn_on", name="Piano Lamp")],
    },
    {
        "set": "rounds",
        "messages": [
            *said("find a train to Delft"),
            made(call("find_train", city="Delft")),
            {"role": "tool", "content": '{"train":"IC 2223"}'},
        ],
        "tools": [TRAIN],
    },
    {"set": "taken_away", "messages": said("find a train to Delft"), "tools": [KETTLE]},
    {
        "set": "nested",
        "messages": said("send a parcel to Delft"),
        "tools": [PARCEL],
        "calls": [call("send_parcel", to={"city": "Delft"})],
    },
    {
        "set": "facts",
        "messages": said("find a train to where I am"),
        "context": {"place": "Delft"},
        "tools": [TRAIN],
        "calls": [call("find_train", city="Delft")],
    },
]
RIGHT = [
    'start_kettle {"degrees":90}', "ask book_table: day", 'turn_on {"name":"Piano Lamp"}', "none",
    "none", 'send_parcel {"to":{"city":"Delft"}}', 'find_train {"city":"Delft"}',
]  # fmt: skip
WARM_UP = 'get_weather {"place":"Oslo"}'


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    path = tmp_path / "seven.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, ROWS)).encode()))
    return path


def scripted(*answers: str) -> ScriptedFunctionModel:
    """One that reads turns and asks back; its first answer is to the request that loads it."""
    model = ScriptedFunctionModel([WARM_UP, *answers])
    reading = replace(model.facts(), call_format="conversation")
    return ScriptedFunctionModel([WARM_UP, *answers], facts=reading)


def test_right_answers_get_full_marks_and_the_model_reads_what_is_around_a_request(
    cases: Path,
) -> None:
    model = scripted(*RIGHT)
    rows = measure_conversations(Settings.load(), read_conversations(cases), function_model=model)
    found = figures(rows)
    assert [is_right(*row) for row in rows] == [True] * 7
    assert {name: found[f"{name}_exact"] for name in ("dialogue", "rounds", "home", "nested")} == {
        "dialogue": 1.0, "rounds": 1.0, "home": 1.0, "nested": 1.0,
    }  # fmt: skip
    assert (found["asked_back"], found["asked_exactly"], found["home_f1"]) == (1.0, 1.0, 1.0)
    assert (found["false_questions"], found["taken_away_false_calls"]) == (0.0, 0.0)
    assert sum(found[f"{name}_cases"] for name in SETS) == 7
    prompts = [asked.prompt for asked in model.asked[1:]]
    assert 'start_kettle {"degrees":85}' in prompts[0]
    assert "Piano Lamp" in prompts[2]
    assert "IC 2223" in prompts[3]


def test_the_command_prints_one_object_and_names_itself(
    cases: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own_home: Path
) -> None:
    monkeypatch.setattr(module, "open_function_model", lambda settings: scripted(*RIGHT[2:3]))
    answers = tmp_path / "answers.jsonl"
    arguments = ["conversations", "--cases", str(cases), "--sets", "home", "--limit", "1"]
    arguments += ["--seed", "3", "--answers", str(answers), "--save", str(tmp_path), "--json"]
    ran = CliRunner().invoke(bench, arguments, catch_exceptions=False)
    card = json.loads(ran.stdout)
    assert list(card) == ["name", "command", "versions", "date", "metrics"]
    assert card["command"] == (
        "edgewise bench conversations --sets home --limit 1 --seed 3 --cases seven.jsonl.gz"
    ), "without the folders of this machine"
    assert card["metrics"]["home_exact"] == 1.0
    assert "dialogue_exact" not in card["metrics"], "it was not asked"
    assert json.loads((tmp_path / "conversations.json").read_text("utf-8")) == card
    [row] = [json.loads(line) for line in answers.read_text("utf-8").splitlines()]
    assert (row["query"], row["right"]) == ("switch the piano lamp on", True)
    assert not list(own_home.rglob("*.sqlite3")), "the user's ledger stays out of it"


def case(name: str, *calls: tuple[str, dict[str, Any]], needs: str = "") -> ConversationCase:
    asks = (Question("book", tuple(needs.split())),) if needs else ()
    words = (Message("user", "do it"),)
    return ConversationCase(name, "0", name, words, {}, (Tool("book"),), calls, asks)


def test_figures_by_hand() -> None:
    on, off = ("turn_on", {"name": "Lamp"}), ("turn_on", {"name": "Lamp", "area": "Loft"})
    rows = [
        (case("dialogue", on), Replied((on,), seconds=1.0)),
        (case("dialogue", on), Replied((on,), frozenset({"name"}), seconds=2.0)),
        (case("missing", needs="day"), Replied(needs=frozenset({"day", "people"}), seconds=3.0)),
        (case("missing", needs="day"), Replied((("book", {"day": "?"}),), seconds=4.0)),
        (case("missing", needs="day people"), Replied(needs=frozenset({"day"}), seconds=4.0)),
        (case("home", on, off), Replied((off, off), seconds=5.0)),
        (case("taken_away"), Replied((on,), seconds=6.0)),
        (case("taken_away"), Replied(needs=frozenset({"day"}), seconds=7.0, error="malformed")),
    ]
    assert figures(rows) == {
        "dialogue_exact": 0.5,
        "home_exact": 0.0,
        "asked_back": pytest.approx(1 / 3),  # further questions do no harm here
        "asked_exactly": 0.0,
        "asked_for_some": pytest.approx(2 / 3),
        "false_questions": pytest.approx(1 / 3),
        "home_f1": 0.5,  # a further argument makes another call of it
        "taken_away_false_calls": 0.5,
        "taken_away_questions": 0.5,
        "seconds_p50": 4.0,
        "seconds_p95": 7.0,
        "dialogue_cases": 2.0,
        "missing_cases": 3.0,
        "home_cases": 1.0,
        "taken_away_cases": 2.0,
        "errors": 1.0,
    }


def test_calls_are_equal_one_to_one() -> None:
    on = ("turn_on", {"name": "Lamp"})
    assert equal_calls([on, on], [on]) == 1
    assert equal_calls([on], [on, on]) == 1
    assert equal_calls([("turn_on", {"name": "lamp"})], [on]) == 1, "the case of letters is free"


def test_a_limit_draws_by_its_seed_from_each_set() -> None:
    known = read_conversations()
    few = choose(known, ("home", "rounds"), 5, 1)
    assert Counter(one.set for one in few) == {"home": 5, "rounds": 5}
    assert few == choose(known, ("home", "rounds"), 5, 1)
    assert few != choose(known, ("home", "rounds"), 5, 2)


def test_the_shipped_cases_are_as_many_as_promised_and_fit_their_tools() -> None:
    known = read_conversations()
    count = Counter(one.set for one in known)
    least = {"dialogue": 320, "missing": 150, "home": 150, "rounds": 100, "taken_away": 150}
    least |= {"nested": 100, "facts": 100}
    assert set(count) == set(SETS) == set(least)
    assert all(count[name] >= least[name] for name in SETS)
    assert SHIPPED.stat().st_size < 1_000_000
    for one in known:
        tools = {each.name: each.parameters for each in one.tools}
        assert all(set(given) <= set(tools[name]["properties"]) for name, given in one.expected)
        assert all(question.tool in tools for question in one.asks)
        assert one.messages[-1].role in ("user", "tool")
    assert all(one.asks and not one.expected for one in known if one.set == "missing")
    assert not any(one.asks or one.expected for one in known if one.set == "taken_away")
    assert all(one.context["entities"] for one in known if one.set == "home")
    nested = [one for one in known if one.set == "nested"]
    assert all(any(is_nested(each.parameters) for each in one.tools) for one in nested)


def test_what_cannot_be_run_is_said(tmp_path: Path) -> None:
    ran = CliRunner().invoke(cli, ["bench", "conversations", "--cases", "nowhere.jsonl"])
    assert (ran.exit_code, "no file nowhere.jsonl" in ran.output) == (2, True)
    empty = tmp_path / "empty.jsonl"
    empty.write_text("", "utf-8")
    with pytest.raises(SettingsError, match="holds no case"):
        read_conversations(empty)


@pytest.mark.real_model
def test_the_shipped_caller_answers_real_cases() -> None:
    settings = Settings.load(fetch_default_model=False)
    try:
        find_function_model(settings)
    except ModelNotFound as error:
        pytest.skip(str(error))
    asked = choose(read_conversations(), ("dialogue", "taken_away"), 1, 0)
    found = figures(measure_conversations(settings, asked))
    assert (found["dialogue_cases"], found["taken_away_cases"], found["errors"]) == (1, 1, 0)
    assert found["seconds_p95"] > 0
