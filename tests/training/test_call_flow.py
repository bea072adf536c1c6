from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from training.call_flow import (
    KeepingFunctionModel,
    KeptFunctionModel,
    answer,
    flow_samples,
    read_kept,
    write_kept,
)
from training.call_samples import Asked, read_asked
from training.fit_calls import SHIPPED, main
from training.score import read_calls

from edgewise.calls.check import CALLS, answer_confidence
from edgewise.calls.intents import as_written
from edgewise.calls.prompt import render_conversation, render_prompt
from edgewise.decide.calibration import Calibration, parse_calibration
from edgewise.errors import GenerationFailed
from edgewise.local.backend import CallToWrite
from edgewise.types.messages import Message, Tool, ToolCall
from edgewise.types.replies import Finish, Token
from edgewise_bench.routing.rows import read_calls as read_traces
from tests.flows.calling import BOTH, TIMER, TOOLS, TWO, WEATHER, function_model

ONE = "Set a timer for 5 minutes"
HEAT = 'get_weather {"location":"London"}'


def shipped() -> Calibration:
    return parse_calibration(json.loads(SHIPPED.read_text("utf-8")), SHIPPED.name, CALLS)


def kept(
    request: str, said: str, *, tools: tuple[Tool, ...] = TOOLS, doubt: float = 0.001,
    none: float | None = None,
) -> dict[str, Any]:  # fmt: skip
    pieces = [*said.replace("{", " {").split(" "), ""]
    texts = [f"{piece} " for piece in pieces[:-1]]
    texts = [text.replace("  {", " {") for text in texts]
    return {
        "prompt": render_prompt(tools, as_written(request)),
        "tokens": [*texts, ""],
        "logprobs": [-doubt] * len(pieces),
        "runners_up": [-8.0] * len(pieces),
        "none": none,
    }


def case(
    request: str, said: str, source: str = "frames", tools: tuple[Tool, ...] = TOOLS
) -> dict[str, Any]:
    return {"prompt": render_prompt(tools, request), "answer": said, "kind": "k", "source": source}


def samples(cases: list[dict[str, Any]], rows: list[dict[str, Any]]) -> list[Any]:
    return list(flow_samples(cases, {row["prompt"]: row for row in rows}, shipped()))


def test_an_answer_is_judged_as_the_flow_leaves_it() -> None:
    (found,) = samples(
        [case(ONE, 'set_timer {"minutes":5}')], [kept(ONE, 'set_timer {"minutes":"5"}')]
    )
    assert found.exact, "the flow made a number of the text"
    assert found.right == (True,)
    assert found.features[0]["calls"] == 1.0
    assert found.confidence(shipped()) == answer_confidence(shipped(), found.features)
    assert found.tools == {"settimer"}


def test_each_call_comes_with_its_own_features() -> None:
    (found,) = samples(
        [case(TWO, BOTH)], [kept(TWO, 'set_timer {"minutes":5}\nget_weather {"location":"Rome"}')]
    )
    assert found.right == (True, False)
    assert [one["ungrounded"] for one in found.features] == [0.0, 1.0]
    assert not found.exact


def test_no_call_is_right_where_none_is_due() -> None:
    for said, right in (("none", True), ('set_timer {"minutes":5}', False)):
        (found,) = samples([case(ONE, said)], [kept(ONE, "none")])
        assert (found.exact, found.right) == (right, (right,))
        assert found.features[0]["none"] == 1.0


def test_a_withheld_call_keeps_the_confidence_that_the_flow_gives_it() -> None:
    (found,) = samples(
        [case(ONE, "none")], [kept(ONE, 'set_timer {"minutes":5}', doubt=0.6, none=-0.5)]
    )
    assert found.exact
    assert found.features == ()
    assert found.confidence(shipped()) == pytest.approx(0.6065, abs=1e-3)


def test_a_doubted_answer_is_written_again_with_what_was_kept_for_that() -> None:
    doubtful = kept(ONE, HEAT, doubt=0.4)
    alone = kept(ONE, 'set_timer {"minutes":5}', tools=(WEATHER,))
    first, again = (samples([case(ONE, 'set_timer {"minutes":5}')], rows)[0] for rows in
                    ([doubtful], [doubtful, alone]))  # fmt: skip
    assert first.logprob == again.logprob, "the plain signal is that of the first answer"
    assert first.features != again.features


def test_cases_without_a_kept_answer_are_left_out() -> None:
    assert samples([case(ONE, "none"), case(TWO, BOTH)], [kept(ONE, "none")])[0].exact
    assert len(samples([case(ONE, "none"), case(TWO, BOTH)], [kept(ONE, "none")])) == 1


def test_what_is_kept_is_what_was_written(tmp_path: Path) -> None:
    told = KeepingFunctionModel(function_model('set_timer {"minutes":5}'), {})
    reply = answer(Asked.of(ONE, [TIMER]), told, shipped())
    write_kept(told.answers, tmp_path / "kept.jsonl.gz")
    again = read_kept(tmp_path / "kept.jsonl.gz")
    prompt = Asked.of(ONE, [TIMER]).read_prompt
    assert set(again) == {prompt}
    replayed = answer(Asked.of(ONE, [TIMER]), KeptFunctionModel(again), shipped())
    assert replayed.calls == reply.calls
    assert replayed.confidence == pytest.approx(reply.confidence)
    *tokens, finish = KeptFunctionModel(again).write_call(CallToWrite(prompt))
    assert isinstance(finish, Finish)
    written = "".join(token.text for token in tokens if isinstance(token, Token))
    assert read_calls(written) == [("set_timer", {"minutes": 5})]
    with pytest.raises(GenerationFailed):
        list(KeptFunctionModel(again).write_call(CallToWrite("another prompt")))
    assert read_kept(tmp_path / "missing.jsonl") == {}


def test_the_fit_takes_what_was_kept_and_writes_what_measures_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cases, rows = [], {}
    for number in range(120):
        request = f"Set a timer for {number + 2} minutes"
        tools = (replace(TIMER, name=f"set_timer_{number % 17}"), WEATHER)
        right = number % 3 > 0
        said = f'{tools[0].name} {{"minutes":{number + 2}}}' if number % 4 else "none"
        told = said if right else HEAT if number % 2 else "none"
        row = kept(request, told, tools=tools, doubt=0.002 if right else 0.08 + 0.001 * number)
        cases.append(case(request, said, "ab"[number % 5 > 1], tools))
        rows[row["prompt"]] = row
    write_kept(rows, tmp_path / "kept.jsonl.gz")
    for name, part in (("fit", cases[:100]), ("fresh", cases[100:])):
        text = "".join(json.dumps(one) + "\n" for one in part)
        (tmp_path / f"{name}.jsonl").write_text(text, "utf-8")
    out = tmp_path / "made.calls.json"
    main(["--cases", str(tmp_path / "fit.jsonl"), "--kept", str(tmp_path / "kept.jsonl.gz"),
          "--fresh", str(tmp_path / "fresh.jsonl"), "--traces", str(tmp_path / "traces.jsonl.gz"),
          "--name", "made", "--out", str(out)])  # fmt: skip
    report = json.loads(capsys.readouterr().out)
    assert report["command"].endswith(
        "--cases fit.jsonl --kept kept.jsonl.gz --fresh fresh.jsonl --name made --out FILE"
    )
    assert report["never_fitted"]["fresh"]["answers"] == 20
    assert parse_calibration(json.loads(out.read_text("utf-8")), "made", CALLS).fitted
    from_traces = read_traces(tmp_path / "traces.jsonl.gz")
    assert [row.fitted for row in from_traces] == [True] * 100 + [False] * 20
    assert from_traces[0].reference == "fit:0"


def test_a_rendered_conversation_is_read_back() -> None:
    messages = (
        Message("user", "a timer for five minutes"),
        Message("assistant", "", tool_calls=(ToolCall("set_timer", {"minutes": 5}),)),
        Message("tool", "done"),
        Message("assistant", "It runs."),
        Message("user", "make it ten"),
    )
    context = {
        "date": "2026-11-16",
        "entities": [{"name": "Desk Lamp", "area": "Study"}, {"name": "Door"}],
        "people": {"Ada": "555 0134"},
        "place": "Oslo",
    }
    prompt = render_conversation([TIMER], messages, context)
    read = read_asked(prompt)
    assert read.prompt == prompt
    assert read.context == context
    assert read.messages[1].tool_calls[0].arguments == {"minutes": 5}
