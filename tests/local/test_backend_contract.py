"""What every backend promises, whichever runtime is behind it. `drivers.py` lists them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from edgewise.errors import ContextExceeded, GenerationFailed, InvalidRequest
from edgewise.grammar.tools import compile_grammar
from edgewise.local.backend import CallBackend, CallToWrite
from edgewise.local.llama_cpp import LlamaLoop
from edgewise.local.store import InstalledModel
from edgewise.types.messages import Message, Request, ResponseFormat, Tool
from edgewise.types.replies import Finish, Token
from tests.local.drivers import DRIVERS, IN_PROCESS, NEAR, OUR_LOOP, Driver

pytestmark = pytest.mark.real_model

Opened = Any  # a ChatBackend and a CallBackend; its streams can be aborted


@pytest.fixture(scope="module", params=DRIVERS)
def driver(request: pytest.FixtureRequest) -> Driver:
    return DRIVERS[request.param]


@pytest.fixture(scope="module")
def backend(driver: Driver, default_model: InstalledModel) -> Iterator[Opened]:
    opened = driver(default_model, threads=1, context_tokens=512)
    yield opened
    opened.close()


def ask(text: str, **options: Any) -> Request:
    return Request(messages=(Message("user", text),), **({"max_tokens": 24} | options))


def split(items: list[Token | Finish]) -> tuple[list[Token], Finish]:
    *tokens, finish = items
    assert isinstance(finish, Finish)
    return [token for token in tokens if isinstance(token, Token)], finish


def test_tokens_carry_evidence_and_one_finish_ends_them(backend: Opened) -> None:
    question = ask("What is the chemical symbol for gold?", max_tokens=90)
    tokens, finish = split(list(backend.generate(question)))
    assert "Au" in "".join(token.text for token in tokens)
    for token in tokens:
        assert token.logprob <= 0 and token.margin >= 0 and 0 <= token.entropy < 12
    assert (finish.reason, finish.output_tokens) == ("stop", len(tokens) + 1)
    assert finish.input_tokens > 20
    facts = backend.facts()
    assert facts.output_tokens_per_second and facts.prompt_tokens_per_second


def test_an_answer_is_cut_at_max_tokens(backend: Opened) -> None:
    tokens, finish = split(list(backend.generate(ask("Tell me a story.", max_tokens=5))))
    assert (finish.reason, len(tokens)) == ("length", 5)


def test_closing_stops_the_model_and_the_next_request_runs(backend: Opened) -> None:
    stream = backend.generate(ask("Tell me a very long story.", max_tokens=400))
    next(stream)
    stream.close()
    tokens, _ = split(list(backend.generate(ask("Name a colour.", max_tokens=4))))
    assert len(tokens) == 4
    deadline = time.monotonic() + 10
    while any(t.name == "edgewise-decoder" for t in threading.enumerate()):
        assert time.monotonic() < deadline, "the cancelled generation still runs"
        time.sleep(0.01)


def test_the_next_turn_reuses_the_prefix(backend: Opened) -> None:
    first = Message("user", "Tell me something about the river Danube, please.")
    list(backend.generate(Request(messages=(first,), max_tokens=8)))
    history = (first, Message("assistant", "It is long."), Message("user", "How long?"))
    _, finish = split(list(backend.generate(Request(messages=history, max_tokens=4))))
    assert finish.cached_tokens > finish.input_tokens / 2


def test_an_answer_can_be_continued(backend: Opened) -> None:
    question = ask("What is the chemical symbol for gold?")
    tokens, _ = split(list(backend.generate(question, already="The chemical symbol for gold is")))
    assert "".join(token.text for token in tokens).strip().startswith("Au")


def test_a_prompt_that_is_too_long_is_counted_exactly_and_refused(backend: Opened) -> None:
    with pytest.raises(ContextExceeded) as caught:
        list(backend.generate(ask("word " * 600)))
    assert caught.value.context_tokens == 512
    assert caught.value.prompt_tokens > 600


def test_every_character_survives_however_it_is_cut_into_tokens(backend: Opened) -> None:
    tokens, _ = split(list(backend.generate(ask("Repeat: 東京 🙂 naïve", max_tokens=40))))
    text = "".join(token.text for token in tokens)
    assert "\ufffd" not in text


def test_seeds_make_sampling_repeatable(backend: Opened) -> None:
    def sample(seed: int) -> str:
        request = ask("Tell me a story.", temperature=1.0, seed=seed, max_tokens=12)
        return "".join(token.text for token in split(list(backend.generate(request)))[0])

    assert sample(1) == sample(1)
    assert len({sample(seed) for seed in range(1, 5)}) > 1


def test_stop_strings_stop(backend: Opened) -> None:
    request = ask("Count from one to ten, in digits.", stop=("5",), max_tokens=60)
    tokens, _ = split(list(backend.generate(request)))
    assert "5" not in "".join(token.text for token in tokens)


def turn(text: str) -> str:
    """A prompt as text, special tokens included."""
    return f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"


def text_of(tokens: list[Token]) -> str:
    return "".join(token.text for token in tokens)


def test_a_raw_prompt_is_continued_until_the_end_token_which_is_evidence_too(
    backend: Opened,
) -> None:
    function_model: CallBackend = backend
    tokens, finish = split(
        list(function_model.write_call(CallToWrite(turn("What is the chemical symbol for gold?"))))
    )
    assert "Au" in text_of(tokens) and "<|" not in text_of(tokens)
    assert (tokens[-1].text, tokens[-1].has_evidence) == ("", True)
    assert all(token.logprob <= 0 and token.margin >= 0 for token in tokens)
    assert any(token.logprob < 0 for token in tokens)
    assert (finish.reason, finish.output_tokens) == ("stop", len(tokens))


def test_special_tokens_of_a_raw_prompt_are_single_tokens(backend: Opened) -> None:
    *_, finish = backend.write_call(CallToWrite("<|im_start|><|im_end|>", max_tokens=1))
    assert isinstance(finish, Finish) and finish.input_tokens == 2


@pytest.mark.parametrize("question", ["Is fire hot?", "Name a colour.", "Write a poem."])
def test_a_grammar_binds(backend: Opened, question: str) -> None:
    prompt = turn(question)
    free = text_of(split(list(backend.write_call(CallToWrite(prompt, max_tokens=8))))[0])
    assert free not in ("yes", "no")
    bound, finish = split(
        list(backend.write_call(CallToWrite(prompt, grammar='root ::= "yes" | "no"')))
    )
    assert text_of(bound) in ("yes", "no")
    assert finish.reason == "stop"


def test_what_is_written_does_not_depend_on_the_draft(backend: Opened) -> None:
    prompt, rule = turn("Is fire hot?"), 'root ::= "yes" | "no"'
    alone = text_of(split(list(backend.write_call(CallToWrite(prompt, grammar=rule))))[0])
    other = "no" if alone == "yes" else "yes"
    for draft in (alone, other, "maybe"):
        drafted, _ = split(
            list(backend.write_call(CallToWrite(prompt, grammar=rule, drafts=(draft,))))
        )
        assert text_of(drafted) == alone


def test_evidence_under_a_grammar_is_the_models_own_from_before_the_mask(
    backend: Opened,
) -> None:
    prompt = turn("What is the chemical symbol for gold?")
    free, *_ = backend.write_call(CallToWrite(prompt, max_tokens=1))
    forced, *_ = backend.write_call(CallToWrite(prompt, grammar='root ::= "zebra"'))
    assert isinstance(free, Token) and isinstance(forced, Token)
    assert forced.logprob < -5  # after the mask it would be 0: only one word was allowed
    assert (forced.margin, forced.entropy) == pytest.approx((free.margin, free.entropy), abs=0.05)


def test_a_grammar_that_allows_what_the_model_says_changes_nothing(backend: Opened) -> None:
    prompt = turn("What is the chemical symbol for gold?")
    free = split(list(backend.write_call(CallToWrite(prompt, max_tokens=12))))[0]
    bound = split(
        list(backend.write_call(CallToWrite(prompt, max_tokens=12, grammar="root ::= [^\\x00]*")))
    )[0]
    assert text_of(bound) == text_of(free)
    logprobs = [token.logprob for token in free]
    assert [token.logprob for token in bound] == pytest.approx(logprobs, abs=0.02)


def test_a_grammar_that_cannot_be_read_is_a_clear_error(backend: Opened) -> None:
    with pytest.raises(GenerationFailed, match="grammar"):
        list(backend.write_call(CallToWrite(turn("hi"), grammar="root ::= nowhere")))
    assert list(backend.write_call(CallToWrite(turn("hi"), max_tokens=1)))


def test_calls_reuse_the_prefix_and_go_on_from_what_is_there_already(backend: Opened) -> None:
    shared = "<|im_start|>system\nYou know the chemical elements well.<|im_end|>\n"
    list(backend.write_call(CallToWrite(shared + turn("Name a metal."), max_tokens=2)))
    question = shared + turn("What is the chemical symbol for gold?")
    items = list(
        backend.write_call(CallToWrite(question, already="The chemical symbol for gold is"))
    )
    tokens, finish = split(items)
    assert text_of(tokens).strip().startswith("Au")
    assert finish.cached_tokens >= 11


def test_closing_a_call_stops_the_model(backend: Opened) -> None:
    stream = backend.write_call(CallToWrite(turn("Tell me a very long story.")))
    next(stream)
    stream.close()
    assert len(list(backend.write_call(CallToWrite(turn("Name a colour."), max_tokens=3)))) == 4


def test_a_raw_prompt_that_is_too_long_is_refused(backend: Opened) -> None:
    with pytest.raises(ContextExceeded):
        list(backend.write_call(CallToWrite(turn("word " * 600))))


def test_chat_and_calls_run_on_two_models_at_once(
    backend: Opened,
    driver: Driver,
    default_model: InstalledModel,
) -> None:
    function_model = driver(default_model, threads=1, context_tokens=512)
    try:
        chat = backend.generate(ask("What is the chemical symbol for gold?"))
        call = function_model.write_call(
            CallToWrite(turn("What is the chemical symbol for gold?"), max_tokens=24)
        )
        said: tuple[list[Token | Finish], list[Token | Finish]] = ([], [])
        for pair in zip(chat, call, strict=False):
            for items, item in zip(said, pair, strict=True):
                items.append(item)
        assert all("Au" in text_of([t for t in s if isinstance(t, Token)]) for s in said)
        chat.close()
        call.close()
    finally:
        function_model.close()


# -- schemas, slots, breaking off -------------------------------------------------------------

CITY = ResponseFormat(
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "population": {"type": "integer"}},
        "required": ["city", "population"],
    }
)


def test_an_answer_follows_its_schema(backend: Opened) -> None:
    request = ask("Name a city and say how many live there.", response_format=CITY, max_tokens=60)
    answer = json.loads(text_of(split(list(backend.generate(request)))[0]))
    assert isinstance(answer["city"], str) and isinstance(answer["population"], int)


@pytest.mark.parametrize("least", [0, 1])
def test_the_longest_list_that_is_allowed_is_a_grammar_that_the_runtime_reads(
    backend: Opened, least: int
) -> None:
    schema = {"type": "array", "items": {"type": "integer"}, "minItems": least, "maxItems": 2000}
    request = ask("Count.", response_format=ResponseFormat(schema), max_tokens=6)
    assert text_of(split(list(backend.generate(request)))[0]).startswith("[")


def test_an_empty_schema_is_any_object(backend: Opened) -> None:
    request = ask("Name a colour, as JSON.", response_format=ResponseFormat(), max_tokens=120)
    text = text_of(split(list(backend.generate(request)))[0])
    assert text.lstrip().startswith("{")


def test_a_schema_that_is_none_is_the_request_s_fault(backend: Opened) -> None:
    with pytest.raises(InvalidRequest, match="nonsense"):
        list(backend.generate(ask("Hello.", response_format=ResponseFormat({"type": "nonsense"}))))


def test_a_grammar_does_not_go_on_where_a_text_broke_off(backend: Opened) -> None:
    with pytest.raises(GenerationFailed, match="broke off"):
        list(backend.generate(ask("Name a city.", response_format=CITY), already='{"city'))


def test_alternatives_come_where_evidence_is_asked_for(backend: Opened) -> None:
    plain, _ = split(list(backend.generate(ask("Name a colour.", max_tokens=3))))
    full, _ = split(list(backend.generate(ask("Name a colour.", max_tokens=3, evidence=True))))
    assert not any(token.alternatives for token in plain)
    for token in full:
        best = [logprob for _, logprob in token.alternatives]
        assert len(best) > 1 and best == sorted(best, reverse=True)
        assert best[0] == pytest.approx(token.logprob)  # greedy: it took the best


def test_another_thread_can_break_a_generation_off_while_the_prompt_is_read(
    backend: Opened,
) -> None:
    stream = backend.generate(ask("word " * 400, max_tokens=400))
    threading.Timer(0.05, stream.abort).start()
    with pytest.raises(GenerationFailed, match="called off"):
        list(stream)
    tokens, _ = split(list(backend.generate(ask("Name a colour.", max_tokens=4))))
    assert len(tokens) == 4


def test_slots_answer_at_the_same_time_and_as_one_would(
    driver: Driver, default_model: InstalledModel
) -> None:
    opened = driver(default_model, threads=1, context_tokens=256, slots=2)
    try:
        assert opened.facts().slots == 2
        first = opened.generate(ask("Tell me a very long story.", max_tokens=200))
        assert isinstance(next(first), Token)
        other = opened.generate(ask("What is the chemical symbol for gold?", max_tokens=12))
        assert "Au" in text_of(split(list(other))[0])
        # With one slot the second would have waited for the end of the first.
        assert isinstance(next(first), Token)
        first.close()
        with pytest.raises(ContextExceeded) as caught:
            list(opened.generate(ask("word " * 300)))
        assert caught.value.context_tokens == 256
    finally:
        opened.close()


# -- several at once, owners, closing -------------------------------------------------------------


def test_two_threads_are_answered_by_one_slot(backend: Opened) -> None:
    questions = ("What is the chemical symbol for gold?", "Name a colour.")
    alone = [text_of(split(list(backend.generate(ask(each))))[0]) for each in questions]
    found: dict[str, str] = {}

    def answer(question: str) -> None:
        found[question] = text_of(split(list(backend.generate(ask(question))))[0])

    threads = [threading.Thread(target=answer, args=(each,)) for each in questions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[each] for each in questions] == alone


def test_a_longer_draft_changes_nothing_either(backend: Opened) -> None:
    near = NEAR.get(backend.facts().backend, 0.05)
    prompt = turn("What is the chemical symbol for gold?")
    plain = split(list(backend.write_call(CallToWrite(prompt, max_tokens=16))))[0]
    text = text_of(plain)
    for draft in (text, text[:9] + "xyz" + text[9:], text + text):
        drafted = split(
            list(backend.write_call(CallToWrite(prompt, max_tokens=16, drafts=(draft,))))
        )[0]
        assert [token.text for token in drafted] == [token.text for token in plain], draft
        logprobs = [token.logprob for token in plain]
        assert [token.logprob for token in drafted] == pytest.approx(logprobs, abs=near)


def test_a_prompt_longer_than_one_pass_is_read_whole(backend: Opened) -> None:
    week = "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday, "
    prompt = week * 12 + "Monday, Tuesday,"
    tokens, finish = split(list(backend.write_call(CallToWrite(prompt, max_tokens=4))))
    assert text_of(tokens) == " Wednesday, Thursday,"
    assert finish.input_tokens > 150


@pytest.fixture(params=IN_PROCESS)
def in_process(request: pytest.FixtureRequest) -> Driver:
    return DRIVERS[request.param]


def test_a_closed_model_is_loaded_again_by_the_next_request(
    in_process: Driver, default_model: InstalledModel
) -> None:
    opened = in_process(default_model, threads=1, context_tokens=256)
    try:
        before = text_of(split(list(opened.generate(ask("Name a colour.", max_tokens=4))))[0])
        opened.close()
        after = text_of(split(list(opened.generate(ask("Name a colour.", max_tokens=4))))[0])
        assert before == after
    finally:
        opened.close()


@pytest.fixture(params=OUR_LOOP)
def our_loop(request: pytest.FixtureRequest) -> Driver:
    return DRIVERS[request.param]


def test_what_is_kept_of_a_prompt_serves_its_owner_only(
    our_loop: Driver, default_model: InstalledModel
) -> None:
    opened = our_loop(default_model, threads=1, context_tokens=256, slots=2)
    secret = "My diagnosis is " + "a rare one, and nobody may know of it. " * 8

    def cached(owner: str) -> int:
        request = ask(secret, max_tokens=1, owner=owner)
        return split(list(opened.generate(request)))[1].cached_tokens

    try:
        assert [cached("alice"), cached("mallory")] == [0, 0]
        assert cached("alice") > 60
    finally:
        opened.close()


def test_a_full_context_cuts_the_answer(our_loop: Driver, default_model: InstalledModel) -> None:
    opened = our_loop(default_model, threads=1, context_tokens=256)
    try:
        finish = split(list(opened.write_call(CallToWrite("one two three " * 70, max_tokens=400))))[
            1
        ]
        assert finish.reason == "length"
        assert finish.input_tokens + finish.output_tokens <= 257
    finally:
        opened.close()


def test_tokens_are_counted_without_answering(
    our_loop: Driver, default_model: InstalledModel
) -> None:
    opened = our_loop(default_model, threads=1, context_tokens=512)
    try:
        question = ask("Repeat: 東京 🙂 naïve", max_tokens=1)
        counted = opened.count_tokens(question)
        assert counted == split(list(opened.generate(question)))[1].input_tokens
        assert opened.passes() > 0
    finally:
        opened.close()


# -- the function model ---------------------------------------------------------------------------

TOOLS = [
    Tool("get_weather", "The weather.", {"properties": {"place": {"type": "string"}}}),
    Tool("set_timer", "A timer.", {"properties": {"minutes": {"type": "integer"}}}),
]


def test_the_function_model_writes_the_same_calls_as_on_llama_cpp(
    our_loop: Driver, default_function_model: InstalledModel
) -> None:
    grammar = compile_grammar(TOOLS)
    answers = []
    for opener in (LlamaLoop, our_loop):
        opened = opener(default_function_model, threads=1, context_tokens=512)
        try:
            answers.append(
                [
                    text_of(
                        split(list(opened.write_call(CallToWrite(turn(each), grammar=grammar))))[0]
                    )
                    for each in ("What is the weather in Oslo?", "Set a timer for 5 minutes.")
                ]
            )
        finally:
            opened.close()
    assert answers[0] == answers[1]
