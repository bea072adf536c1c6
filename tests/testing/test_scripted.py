"""Scripted models."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.errors import ContextExceeded, GenerationFailed
from edgewise.local.backend import CallBackend, CallToWrite, ChatBackend, DeviceFacts
from edgewise.testing import ScriptedBackend, ScriptedFunctionModel, word_tokens
from edgewise.types.messages import Message, Request
from edgewise.types.replies import Finish, Token


def request(text: str = "Capital of Norway?", *, max_tokens: int = 256) -> Request:
    return Request(messages=(Message("user", text),), max_tokens=max_tokens)


def text_of(items: list[Token | Finish]) -> str:
    return "".join(item.text for item in items if isinstance(item, Token))


def test_it_is_a_chat_backend() -> None:
    backend: ChatBackend = ScriptedBackend(["Oslo."])
    assert backend.facts().backend == "scripted"


def test_tokens_come_first_and_one_finish_with_counts_last() -> None:
    *tokens, finish = ScriptedBackend(["It is Oslo."]).generate(request("Capital of Norway?"))
    assert [token.text for token in tokens if isinstance(token, Token)] == ["It", " is", " Oslo."]
    assert finish == Finish("stop", input_tokens=3, output_tokens=3)


def test_given_tokens_are_yielded_as_they_are() -> None:
    tokens = (Token("Os", -0.1, 1.0, 0.5), Token("lo", -3.0, 0.0, 2.0))
    assert tuple(ScriptedBackend([tokens]).generate(request()))[:-1] == tokens


def test_a_string_gets_the_logprob_asked_for() -> None:
    first, *_ = ScriptedBackend(["Oslo."], logprob=-1.5).generate(request())
    assert isinstance(first, Token) and first.logprob == -1.5


def test_doubt_shows_in_every_measure() -> None:
    sure, *_ = ScriptedBackend.confident("Oslo.").generate(request())
    unsure, *_ = ScriptedBackend.doubtful("Oslo.").generate(request())
    assert isinstance(sure, Token) and isinstance(unsure, Token)
    assert sure.logprob > unsure.logprob
    assert sure.margin > unsure.margin
    assert sure.entropy < unsure.entropy


def test_answers_come_in_turn_and_the_last_repeats() -> None:
    backend = ScriptedBackend(["one", "two"])
    texts = [text_of(list(backend.generate(request()))) for _ in range(3)]
    assert texts == ["one", "two", "two"]
    assert (backend.started, backend.generated, backend.closed_early) == (3, 3, 0)


def test_the_same_request_asked_anew_gets_the_next_answer() -> None:
    backend = ScriptedBackend(["one", "two"])
    asked = request()
    assert text_of(list(backend.generate(asked))) == "one"
    assert text_of(list(backend.generate(asked))) == "two"


def test_requests_are_kept() -> None:
    backend = ScriptedBackend.confident("one")
    asked = request()
    list(backend.generate(asked))
    assert backend.requests == [asked]


def test_max_tokens_ends_an_answer_for_its_length() -> None:
    *_, finish = ScriptedBackend(["one two three"]).generate(request(max_tokens=2))
    assert finish == Finish("length", input_tokens=3, output_tokens=2)
    *_, finish = ScriptedBackend(["one two"]).generate(request(max_tokens=2))
    assert isinstance(finish, Finish) and finish.reason == "stop"


def test_closing_stops_the_model_and_is_counted() -> None:
    backend = ScriptedBackend(["one two three"])
    tokens = backend.generate(request())
    next(tokens)
    tokens.close()
    assert (backend.closed_early, backend.generated) == (1, 1)


def test_closing_after_the_finish_is_not_early() -> None:
    backend = ScriptedBackend(["one"])
    tokens = backend.generate(request())
    assert isinstance(next(tokens), Token)
    assert isinstance(next(tokens), Finish)
    tokens.close()
    assert backend.closed_early == 0


@pytest.mark.parametrize("count", [0, 2, 3])
def test_it_fails_after_as_many_tokens_as_told(count: int) -> None:
    backend = ScriptedBackend(["one two three"], fail_after=count)
    items: list[Token | Finish] = []
    with pytest.raises(GenerationFailed, match=f"after {count}"):
        for item in backend.generate(request()):
            items.append(item)
    assert len(items) == count
    assert backend.closed_early == 0


def test_a_prompt_longer_than_the_context_is_refused_before_any_work() -> None:
    backend = ScriptedBackend(["Oslo."], context_tokens=2)
    with pytest.raises(ContextExceeded) as caught:
        list(backend.generate(request("one two three")))
    assert (caught.value.prompt_tokens, caught.value.context_tokens) == (3, 2)
    assert (backend.started, backend.generated) == (0, 0)
    assert backend.facts().context_tokens == 2
    assert text_of(list(backend.generate(request("one two")))) == "Oslo."


def test_facts_are_those_given() -> None:
    facts = DeviceFacts(
        backend="b", model="m", quantisation="q4", context_tokens=99, images=True, tools=True
    )
    assert ScriptedBackend(["x"], facts=facts).facts() == facts


def test_each_token_takes_its_time() -> None:
    began = time.monotonic()
    list(ScriptedBackend(["one two three"], delay_s=0.05).generate(request()))
    assert time.monotonic() - began >= 0.15


def test_a_begun_answer_of_the_same_request_is_continued() -> None:
    backend = ScriptedBackend(["It is Oslo.", "another answer"])
    asked = request()
    next(backend.generate(asked))
    rest = list(backend.generate(asked, already="It is"))
    assert text_of(rest) == " Oslo."
    assert rest[-1] == Finish("stop", input_tokens=5, output_tokens=1)
    assert text_of(list(backend.generate(request()))) == "another answer"


def test_a_token_cut_in_two_keeps_its_evidence() -> None:
    backend = ScriptedBackend([(Token("Norway", -0.5, 0.4, 0.3), Token(".", -0.1))])
    rest = list(backend.generate(request(), already="Nor"))
    assert rest[:-1] == [Token("way", -0.5, 0.4, 0.3), Token(".", -0.1)]


def test_words_of_somebody_else_are_followed_by_the_whole_answer() -> None:
    backend = ScriptedBackend(["It is Oslo."])
    assert text_of(list(backend.generate(request(), already="The capital"))) == " It is Oslo."


def test_without_answers_it_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="at least one"):
        ScriptedBackend([])


def test_close_is_remembered() -> None:
    backend = ScriptedBackend(["x"])
    assert not backend.closed
    backend.close()
    assert backend.closed


@given(st.text())
def test_word_tokens_join_to_their_text(text: str) -> None:
    assert "".join(token.text for token in word_tokens(text)) == text


@given(st.text(), st.data())
def test_a_prefix_and_its_continuation_are_the_answer(text: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text)))
    rest = list(ScriptedBackend([text]).generate(request(max_tokens=10_000), already=text[:cut]))
    assert text[:cut] + text_of(rest) == text


ANSWER = 'set_timer {"minutes":5}'


def written(items: list[Token | Finish]) -> tuple[list[Token], Finish]:
    *tokens, finish = items
    assert isinstance(finish, Finish)
    return [token for token in tokens if isinstance(token, Token)], finish


def test_it_is_a_call_backend_that_ends_with_an_end_token_and_a_finish() -> None:
    function_model: CallBackend = ScriptedFunctionModel([ANSWER])
    tokens, finish = written(list(function_model.write_call(CallToWrite("five minutes please"))))
    assert text_of(list(tokens)) == ANSWER
    assert tokens[-1].text == ""
    assert finish == Finish("stop", input_tokens=3, output_tokens=len(tokens))
    assert function_model.facts().backend == "scripted"


def test_answers_come_in_turn_and_what_was_asked_is_kept() -> None:
    function_model = ScriptedFunctionModel(["one", "none"])
    texts = [
        text_of(list(function_model.write_call(CallToWrite(prompt, grammar="g", drafts=("two",)))))
        for prompt in ("a", "b", "c")
    ]
    assert texts == ["one", "none", "none"]
    assert [asked.prompt for asked in function_model.asked] == ["a", "b", "c"]
    assert (function_model.asked[0].grammar, function_model.asked[0].drafts) == ("g", ("two",))


def test_every_token_has_the_logprob_given_and_the_last_one_repeats() -> None:
    function_model = ScriptedFunctionModel(["a b c"], logprobs=[[-0.1, -2.0]])
    tokens, _ = written(list(function_model.write_call(CallToWrite("x"))))
    assert [token.logprob for token in tokens] == [-0.1] + [-2.0] * 5
    assert tokens[0].margin > tokens[1].margin
    assert tokens[0].entropy < tokens[1].entropy


def test_doubt_shows() -> None:
    sure, *_ = ScriptedFunctionModel(["a"]).write_call(CallToWrite("x"))
    unsure, *_ = ScriptedFunctionModel.doubtful("a").write_call(CallToWrite("x"))
    assert isinstance(sure, Token) and isinstance(unsure, Token)
    assert sure.logprob > unsure.logprob


def test_a_begun_answer_is_continued() -> None:
    function_model = ScriptedFunctionModel([ANSWER])
    assert (
        text_of(list(function_model.write_call(CallToWrite("x", already="set_timer "))))
        == '{"minutes":5}'
    )


def test_max_tokens_cut_and_closing_is_counted() -> None:
    function_model = ScriptedFunctionModel([ANSWER])
    tokens, finish = written(list(function_model.write_call(CallToWrite("x", max_tokens=2))))
    assert (len(tokens), finish.reason) == (2, "length")
    stream = function_model.write_call(CallToWrite("x"))
    next(stream)
    stream.close()
    assert function_model.closed_early == 1
    function_model.close()
    assert function_model.closed


def test_it_fails_when_told_to_and_refuses_what_does_not_fit() -> None:
    with pytest.raises(GenerationFailed):
        list(ScriptedFunctionModel(["a"], fails=True).write_call(CallToWrite("x")))
    small = DeviceFacts(backend="b", model="m", quantisation="q", context_tokens=2)
    function_model = ScriptedFunctionModel(["a"], facts=small)
    with pytest.raises(ContextExceeded):
        list(function_model.write_call(CallToWrite("one two three")))
    assert function_model.asked == []


def test_answers_and_logprobs_must_match() -> None:
    with pytest.raises(ValueError, match="at least one"):
        ScriptedFunctionModel([])
    with pytest.raises(ValueError, match="2 lists of logprobs for 1"):
        ScriptedFunctionModel(["a"], logprobs=[[-1.0], [-1.0]])
