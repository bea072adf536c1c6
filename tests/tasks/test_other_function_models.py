"""Function models that are not ours, through the whole engine: asked, read, gated, handed off."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise import Engine, Message, Settings, parts
from edgewise.calls.formats import FORMATS, GEMMA_CALL, GEMMA_CALL_END, GEMMA_NOTATION, RESPONSE
from edgewise.calls.parse import repair
from edgewise.errors import ModelNotFound
from edgewise.grammar.tools import write_grammar
from edgewise.local.backend import CallToWrite, DeviceFacts
from edgewise.local.catalogue import MODELS
from edgewise.local.llama_cpp import LlamaLoop, with_call_format
from edgewise.local.store import InstalledModel, ModelStore
from edgewise.tasks import reads_results
from edgewise.testing import LoopbackCloud, ScriptedFunctionModel
from edgewise.testing.scripted import SCRIPTED_FUNCTION_MODEL_FACTS
from edgewise.types.replies import Token
from tests.calls.test_tools_template import TEMPLATE
from tests.flows.calling import FIVE, LONDON, TOOLS, TWO, WEATHER, calls, made, said, settings_for
from tests.local.tiny_qwen import write_tiny_qwen

GEMMA = replace(SCRIPTED_FUNCTION_MODEL_FACTS, call_format="functiongemma")
QWEN = replace(SCRIPTED_FUNCTION_MODEL_FACTS, call_format="tools_template", chat_template=TEMPLATE)
GEMMA_TIMER = "<start_function_call>call:set_timer{minutes:5}<end_function_call>"
GEMMA_LONDON = (
    "<start_function_call>call:get_weather{location:<escape>London<escape>}<end_function_call>"
)
GEMMA_BOTH = f"{GEMMA_TIMER}{GEMMA_LONDON}<start_function_response>"
QWEN_BOTH = (
    '<tool_call>\n{"name": "set_timer", "arguments": {"minutes": 5}}\n</tool_call>\n'
    '<tool_call>\n{"name": "get_weather", "arguments": {"location": "London"}}\n</tool_call>'
)


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as server:
        server.always(calls(FIVE, LONDON))
        yield server


@pytest.mark.parametrize(("facts", "answer"), [(GEMMA, GEMMA_BOTH), (QWEN, QWEN_BOTH)])
def test_sure_calls_of_any_format_stay_on_the_device(
    cloud: LoopbackCloud, facts: DeviceFacts, answer: str
) -> None:
    device = ScriptedFunctionModel([answer], logprobs=[[-0.0001]], facts=facts)
    with Engine(settings_for(cloud), function_model=device) as engine:
        reply = engine.call(TWO, TOOLS)
    assert made(reply) == [
        ("set_timer", {"minutes": 5}, "local"),
        ("get_weather", {"location": "London"}, "local"),
    ]
    assert not cloud.requests
    assert not reply.decision.verified, "nobody has measured this model's confidence"
    asked = device.asked[0]
    assert asked.prompt.startswith(asked.prefix)
    assert "set_timer" in asked.prefix
    assert TWO not in asked.prefix


@pytest.mark.parametrize(("facts", "answer"), [(GEMMA, GEMMA_BOTH), (QWEN, QWEN_BOTH)])
def test_doubtful_calls_of_any_format_are_handed_off(
    cloud: LoopbackCloud, facts: DeviceFacts, answer: str
) -> None:
    device = ScriptedFunctionModel([answer], logprobs=[[-2.5]], facts=facts)
    with Engine(settings_for(cloud), function_model=device) as engine:
        reply = engine.call(TWO, TOOLS)
    assert {call.source for call in reply.calls} == {"cloud"}
    assert reply.decision.code == "handoff_low_confidence"
    assert reply.confidence is not None
    assert reply.confidence < 0.3


def test_only_the_doubtful_part_is_handed_off(cloud: LoopbackCloud) -> None:
    cloud.always(calls(LONDON))
    before = re.findall(r"\w+|\s+|[^\w\s]", GEMMA_BOTH.partition("London")[0])
    chances = [*[-0.0001] * len(before), -4.0, -0.0001]
    device = ScriptedFunctionModel([GEMMA_BOTH], logprobs=[chances], facts=GEMMA)
    with Engine(settings_for(cloud), function_model=device) as engine:
        reply = engine.call(TWO, TOOLS)
    assert made(reply) == [
        ("set_timer", {"minutes": 5}, "local"),
        ("get_weather", {"location": "London"}, "cloud"),
    ]


def test_slips_are_repaired_and_gates_hold(cloud: LoopbackCloud) -> None:
    slip = "<start_function_call>call:set_timer{minutes:<escape>5<escape>}<end_function_call>"
    device = ScriptedFunctionModel([slip], logprobs=[[-0.0001]], facts=GEMMA)
    with Engine(settings_for(cloud), function_model=device) as engine:
        reply = engine.call("Set a timer for 5 minutes", TOOLS)
        assert made(reply) == [("set_timer", {"minutes": 5}, "local")]
        assert reply.calls[0].repairs == ("coerced:minutes",)
    wrong = slip.replace("5", "a while")
    device = ScriptedFunctionModel([wrong], logprobs=[[-0.0001]], facts=GEMMA)
    with Engine(settings_for(cloud), function_model=device) as engine:
        reply = engine.call("Set a timer for a while", TOOLS)
    assert {call.source for call in reply.calls} == {"cloud"}, "no number of minutes"


@pytest.mark.parametrize("facts", [GEMMA, QWEN])
def test_a_refusal_in_words_asks_the_cloud_if_there_is_one(
    cloud: LoopbackCloud, facts: DeviceFacts
) -> None:
    device = ScriptedFunctionModel(
        ["I cannot set timers."],
        logprobs=[[-0.0001]],
        facts=facts,
    )
    with Engine(settings_for(cloud), function_model=device) as engine:
        alone = engine.call(TWO, TOOLS, policy="local_only")
        assert alone.calls == ()
        assert {one.code for one in alone.complaints} == {"refusal"}
        assert {call.source for call in engine.call(TWO, TOOLS).calls} == {"cloud"}
    assert said(cloud) == [TWO]


def test_a_template_that_fails_leaves_the_request_to_the_cloud(cloud: LoopbackCloud) -> None:
    facts = replace(QWEN, chat_template="{{ raise_exception('only one turn') }}")
    device = ScriptedFunctionModel([QWEN_BOTH], facts=facts)
    with Engine(settings_for(cloud), function_model=device) as engine:
        reply = engine.call(TWO, TOOLS, deadline_ms=60_000)
    assert {call.source for call in reply.calls} == {"cloud"}
    assert not device.asked


def test_a_conversation_goes_on_in_the_models_own_format(cloud: LoopbackCloud) -> None:
    device = ScriptedFunctionModel([GEMMA_LONDON], logprobs=[[-0.0001]], facts=GEMMA)
    messages = [
        Message("user", "Weather in Oslo?"),
        Message("assistant", "It is sunny."),
        Message("user", "And in London?"),
    ]
    with Engine(settings_for(cloud), function_model=device) as engine:
        engine.call(messages, TOOLS, policy="local_only", context={"place": "Oslo"})
        assert reads_results(engine.parts.function_model)
    prompt = device.asked[0].prompt
    assert "<start_of_turn>developer\nplace: Oslo\nYou are a model" in prompt
    assert "<start_of_turn>model\nIt is sunny.<end_of_turn>\n<start_of_turn>user\nAnd in" in prompt


# -- which format a file has -----------------------------------------------------------------------


def own_file(path: Path, template: str) -> InstalledModel:
    write_tiny_qwen(path, template=template)
    return with_call_format(ModelStore(path.parent).find(path))


def test_a_users_own_file_is_asked_as_its_template_says(tmp_path: Path) -> None:
    model = own_file(tmp_path / "mine.gguf", TEMPLATE)
    assert (model.call_format, model.chat_template) == ("tools_template", TEMPLATE)
    assert own_file(tmp_path / "plain.gguf", "{{ messages }}").call_format == "lines"
    assert own_file(tmp_path / "none.gguf", "").call_format == "lines"
    declared = own_file(tmp_path / "gemma.gguf", "{{ '<start_function_declaration>' }}")
    assert declared.call_format == "functiongemma"


def test_a_model_that_edgewise_trained_keeps_its_own_format(tmp_path: Path) -> None:
    """Its base's template may know tools, but it was trained on lines."""
    path = tmp_path / "trained.gguf"
    write_tiny_qwen(path, template=TEMPLATE, adapter="0" * 64)
    assert with_call_format(ModelStore(tmp_path).find(path)).call_format == "lines"


def test_the_function_model_that_settings_name_says_how_it_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "mine.gguf"
    write_tiny_qwen(path, template=TEMPLATE)
    device = parts.open_function_model(Settings(function_model=str(path), threads=1))
    assert device.facts().call_format == "tools_template"
    assert device.facts().chat_template == TEMPLATE


def test_a_model_that_hears_cannot_write_calls(default_transcriber: InstalledModel) -> None:
    with pytest.raises(ModelNotFound, match="cannot write calls"):
        parts.open_function_model(Settings.load(function_model=default_transcriber.name))


def test_models_of_the_catalogue_that_know_tools_are_asked_in_their_own_format() -> None:
    formats = {row.name: row.call_format for row in MODELS.values() if row.tools}
    assert formats.pop("functiongemma-270m-it") == "functiongemma"
    assert set(formats.values()) == {"tools_template"}


def test_the_runtime_holds_a_model_to_its_own_format(tmp_path: Path) -> None:
    """Random weights, but real control tokens: they come as text, and a call is written."""
    path, spoken = tmp_path / "gemma.gguf", FORMATS["functiongemma"]
    control = ["<escape>", GEMMA_CALL, GEMMA_CALL_END, RESPONSE]
    write_tiny_qwen(path, template="<start_function_declaration>", special=control)
    model = with_call_format(ModelStore(tmp_path).find(path))
    # Words would be likelier than a call: there are more letters.
    grammar = write_grammar("", [WEATHER], replace(GEMMA_NOTATION, nothing='"?"'))
    device = LlamaLoop(model, threads=1, context_tokens=2048)
    try:
        stream = device.write_call(CallToWrite(spoken.prompt([WEATHER], "Hello"), grammar=grammar))
        tokens = [item for item in stream if isinstance(item, Token)]
    finally:
        device.close()
    assert "<escape>" in [token.text for token in tokens]
    calls = repair(spoken.read(tokens).text, [WEATHER]).calls
    assert [(call.name, [*call.arguments]) for call in calls] == [("get_weather", ["location"])]
