"""`edgewise bench clients` in its short form: libraries, which need nothing but themselves."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgewise.testing import Answer, LoopbackCloud, SeenRequest
from edgewise.types.messages import ToolCall
from edgewise_bench.clients.compare import Found, calls_in, ending, lost
from edgewise_bench.clients.measure import TARGETS
from edgewise_bench.clients.programs import AGENTS, CLIENTS, LIBRARIES, Place, environment
from edgewise_bench.clients.script import Script, as_sent, results
from edgewise_bench.clients.tap import Exchange, Tap
from edgewise_bench.commands import bench
from edgewise_bench.scorecard import reached

CALL = ToolCall("write_file", {"path": "A.py", "text": "    x = 1\n", "size": 10_000}, id="call_1")
TOOL = {"type": "function", "function": {"name": "write_file"}}
ASKED = {"model": "auto", "messages": [{"role": "user", "content": "  Hi\n"}], "tools": [TOOL]}


@pytest.mark.real_model
def test_what_the_official_libraries_send_arrives_as_it_was_sent() -> None:
    arguments = ["clients", "--clients", ",".join(LIBRARIES), "--json"]
    result = CliRunner().invoke(bench, arguments, catch_exceptions=False)
    card = json.loads(result.stdout)
    metrics = card["metrics"]
    assert metrics["clients_run"] == metrics["tasks_done"] == len(LIBRARIES)
    assert metrics["requests_sent"] >= len(LIBRARIES)
    missed = {name: metrics[name] for name in TARGETS if not reached(name, metrics[name], TARGETS)}
    assert missed == {"agents_done": 0}, result.stderr
    assert set(LIBRARIES) < set(card["versions"])


def test_a_client_that_is_not_installed_is_named_with_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = CliRunner().invoke(
        bench,
        ["clients", "--clients", ",".join(AGENTS), "--folder", str(tmp_path), "--json"],
        catch_exceptions=False,
    )
    assert json.loads(result.stdout)["metrics"]["clients_run"] == 0
    for name in AGENTS:
        assert f"{name} is not installed" in result.stderr
        assert CLIENTS[name].package in result.stderr


def test_a_program_is_found_where_its_installer_puts_it(tmp_path: Path) -> None:
    for name, inside in (("claude_code", "node_modules/.bin"), ("aider", "aider-chat/bin")):
        program = tmp_path / inside / CLIENTS[name].program
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        assert CLIENTS[name].find(tmp_path) == str(program)


def test_a_client_gets_no_variable_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "of-the-user")
    found = environment(Place(tmp_path, "http://127.0.0.1:1", sys.executable))
    assert "of-the-user" not in found.values()
    assert found["HOME"] == str(tmp_path) and found["HTTPS_PROXY"] == "http://127.0.0.1:1"


def seen(body: Mapping[str, object], **headers: str) -> SeenRequest:
    return SeenRequest(path="", protocol="", headers=headers, body=body, stream=False, connection=1)


def exchange(body: Mapping[str, object], reply: bytes = b"{}", **headers: str) -> Exchange:
    return Exchange(
        method="POST",
        path="/v1/chat/completions",
        headers=headers,
        body=json.dumps(body).encode(),
        asked=0.0,
        status=200,
        reply_headers={},
        reply=reply,
    )


def test_what_is_lost_changed_or_cut_is_counted() -> None:
    found = Found()
    found.compare(exchange({**ASKED, "max_tokens": 9}), seen({**ASKED, "max_tokens": 9}), [])
    assert found == Found(), "the same body"
    arrived = {"model": "other", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 256}
    said = {"choices": [{"message": {"tool_calls": [{"function": {"name": "write_file"}}]}}]}
    asked = exchange({**ASKED, "top_p": 0.9}, json.dumps(said).encode(), **{"openai-beta": "x"})
    found.compare(asked, seen(arrived), [CALL])
    assert found.tools_lost == 1 and found.cut_by_us == 1
    assert found.arguments_changed == 1
    assert found.fields_lost == {"tools", "top_p", "messages[].content", "openai-beta"}

    invented = Found()
    invented.compare(exchange(ASKED, json.dumps(said).encode()), seen(ASKED), [])
    assert invented.arguments_changed == 1


def test_a_number_is_not_lost_by_its_name_and_a_picture_not_by_its_bytes() -> None:
    found = Found()
    found.compare(exchange({"max_tokens": 9}), seen({"max_completion_tokens": 9}), [])
    assert found.fields_lost == set()
    assert list(lost({"a": 1}, {"a": 1.0})) == ["a"]
    assert list(lost({"a": [{"b": None}]}, {"a": [{}]})) == []
    assert list(lost(["data:image/png;base64,AA"], ["data:image/png;base64,BB"])) == []
    assert list(lost(["data:image/png;base64,AA"], [""])) == ["[]"]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
def test_a_call_is_read_as_the_scripted_cloud_wrote_it(path: str, stream: bool) -> None:
    body = {**ASKED, "input": "Hi", "max_tokens": 9, "stream": stream}
    with LoopbackCloud() as cloud, Tap(cloud.url).listening() as tap:
        cloud.always(Answer(text="Well.", tool_calls=(CALL,), finish="length"))
        with Tap(tap.url).listening() as other:
            answered(other.url + path, json.dumps(body).encode())
    [heard], [once_more] = tap.exchanges, other.exchanges
    assert heard.reply == once_more.reply and heard.body == once_more.body
    assert list(calls_in(heard.reply)) == [as_sent(CALL)]
    assert ending(heard.reply) in ("length", "max_tokens", "max_output_tokens")


def answered(url: str, body: bytes, proxy: str = "") -> bytes:
    handler = urllib.request.ProxyHandler({"http": proxy} if proxy else {})
    request = urllib.request.Request(url, body, {"content-type": "application/json"})
    with urllib.request.build_opener(handler).open(request, timeout=60) as response:
        read: bytes = response.read()
        return read


def test_who_asks_somebody_else_is_told_no_and_seen() -> None:
    with (
        Tap("http://127.0.0.1:1").listening() as tap,
        pytest.raises(urllib.error.HTTPError, match="403"),
    ):
        answered("http://elsewhere.invalid/telemetry", b"{}", proxy=tap.url)
    assert tap.elsewhere == {"elsewhere.invalid"} and tap.exchanges == []


def test_the_script_makes_one_call_after_each_result_and_ends_with_a_word() -> None:
    script = Script(({"other": {}, "write_file": {"n": 1}}, {"write_file": {"n": 2}}), "Done.")
    call = {"role": "assistant", "tool_calls": [{}]}
    result = {"role": "tool", "content": "ok"}
    turns: list[object] = [{"role": "user", "content": "Hi"}]
    for number in (1, 2):
        answer = script.answer(seen({"messages": turns, "tools": [TOOL]}))
        assert [dict(each.arguments) for each in answer.tool_calls] == [{"n": number}]
        turns += [call, result]
    assert script.answer(seen({"messages": turns, "tools": [TOOL]})).text == "Done."
    assert script.answer(seen({"messages": turns})).tool_calls == (), "a request for a title"
    assert script.at_a_loss == set()
    script.answer(seen({"messages": [], "tools": [{"name": "unheard_of"}]}))
    assert script.at_a_loss == {"unheard_of"}


def test_results_are_counted_in_every_protocol() -> None:
    block = {"type": "tool_result", "tool_use_id": "1"}
    assert results({"messages": [{"role": "user", "content": [block, block]}]}) == 2
    assert results({"input": [{"type": "function_call_output"}, {"role": "user"}]}) == 1
    assert results({"input": "Hi"}) == 0
