"""The scripted function caller does what a real one would."""

from __future__ import annotations

import pytest

from edgewise.errors import ContextExceeded, GenerationFailed
from edgewise.local.backend import CallBackend, DeviceFacts
from edgewise.testing import ScriptedFunctionModel
from edgewise.types.tokens import Finish, Token

ANSWER = 'set_timer {"minutes":5}'


def written(items: list[Token | Finish]) -> tuple[list[Token], Finish]:
    *tokens, finish = items
    assert isinstance(finish, Finish)
    return [token for token in tokens if isinstance(token, Token)], finish


def text_of(items: list[Token | Finish]) -> str:
    return "".join(item.text for item in items if isinstance(item, Token))


def test_it_is_a_call_backend_that_ends_with_an_end_token_and_a_finish() -> None:
    function_model: CallBackend = ScriptedFunctionModel([ANSWER])
    tokens, finish = written(list(function_model.write_call("five minutes please")))
    assert text_of(list(tokens)) == ANSWER
    assert tokens[-1].text == ""
    assert finish == Finish("stop", input_tokens=3, output_tokens=len(tokens))
    assert function_model.facts().backend == "scripted"


def test_answers_come_in_turn_and_what_was_asked_is_kept() -> None:
    function_model = ScriptedFunctionModel(["one", "none"])
    texts = [
        text_of(list(function_model.write_call(prompt, grammar="g"))) for prompt in ("a", "b", "c")
    ]
    assert texts == ["one", "none", "none"]
    assert [asked.prompt for asked in function_model.asked] == ["a", "b", "c"]
    assert function_model.asked[0].grammar == "g"


def test_every_token_has_the_logprob_given_and_the_last_one_repeats() -> None:
    function_model = ScriptedFunctionModel(["a b c"], logprobs=[[-0.1, -2.0]])
    tokens, _ = written(list(function_model.write_call("x")))
    assert [token.logprob for token in tokens] == [-0.1] + [-2.0] * 5
    assert tokens[0].margin > tokens[1].margin
    assert tokens[0].entropy < tokens[1].entropy


def test_doubt_shows() -> None:
    sure, *_ = ScriptedFunctionModel(["a"]).write_call("x")
    unsure, *_ = ScriptedFunctionModel.doubtful("a").write_call("x")
    assert isinstance(sure, Token) and isinstance(unsure, Token)
    assert sure.logprob > unsure.logprob


def test_a_begun_answer_is_continued() -> None:
    function_model = ScriptedFunctionModel([ANSWER])
    assert text_of(list(function_model.write_call("x", already="set_timer "))) == '{"minutes":5}'


def test_max_tokens_cut_and_closing_is_counted() -> None:
    function_model = ScriptedFunctionModel([ANSWER])
    tokens, finish = written(list(function_model.write_call("x", max_tokens=2)))
    assert (len(tokens), finish.reason) == (2, "length")
    stream = function_model.write_call("x")
    next(stream)
    stream.close()
    assert function_model.closed_early == 1
    function_model.close()
    assert function_model.closed


def test_it_fails_when_told_to_and_refuses_what_does_not_fit() -> None:
    with pytest.raises(GenerationFailed):
        list(ScriptedFunctionModel(["a"], fails=True).write_call("x"))
    small = DeviceFacts(backend="b", model="m", quantisation="q", context_tokens=2)
    function_model = ScriptedFunctionModel(["a"], facts=small)
    with pytest.raises(ContextExceeded):
        list(function_model.write_call("one two three"))
    assert function_model.asked == []


def test_answers_and_logprobs_must_match() -> None:
    with pytest.raises(ValueError, match="at least one"):
        ScriptedFunctionModel([])
    with pytest.raises(ValueError, match="2 lists of logprobs for 1"):
        ScriptedFunctionModel(["a"], logprobs=[[-1.0], [-1.0]])
