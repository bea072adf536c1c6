"""What everybody promises who decides: both wires, and a chat model in their place."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from openai.types import decision_create_params as theirs
from pydantic import TypeAdapter, ValidationError

from edgewise.cloud.conversation import most_input_tokens, most_output_tokens
from edgewise.cloud.decisions import ByChat, chat_request, listed_payload, open_provider
from edgewise.cloud.provider import ChecksKeys, Chunk, CloudProvider, ProviderConfig, TimeLimits
from edgewise.cloud.providers import LibraryPrices, highest
from edgewise.cloud.redact import Redactor
from edgewise.errors import (
    CloudAuthFailed,
    CloudCut,
    CloudError,
    CloudFailed,
    CloudMalformed,
    CloudRateLimited,
    CloudRejected,
)
from edgewise.testing import Answer, Cut, Empty, LoopbackCloud, Malformed, Scripted, Silence, Status
from edgewise.types.messages import Choice, Message, Question, Request, Score, YesNo
from edgewise.types.replies import Judged
from tests.cloud.adapter_cases import KEY, Reader, finish_of, open_adapter

WIRES = ("systemone", "decisions")
QUESTIONS: Mapping[str, Question] = {
    "refund": YesNo("Does the customer want money back?", true="asks for it"),
    "team": Choice({"billing": "payments", "tech": None}, "Who should take it?"),
    "anger": Score(["calm", "annoyed", "furious"], "How angry?"),
}
CHANCES = ({"true": 0.97, "false": 0.03}, {"billing": 0.75, "tech": 0.25}, {"1": 0.25, "2": 0.75})


def asked(
    questions: Mapping[str, Question] = QUESTIONS, state: str = "Charged twice!", **options: Any
) -> Request:
    messages = (Message("user", state),)
    return Request(messages=messages, task="decide", questions=questions, **options)


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as running:
        yield running


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextlib.contextmanager
def opened(wire: str, base_url: str, name: str = "own") -> Iterator[CloudProvider]:
    config = ProviderConfig(
        name=name,
        protocol=wire,
        model="m",
        base_url=base_url,
        key=KEY,
        limits=TimeLimits(connect_s=2.0),
    )
    with contextlib.closing(open_provider(config)) as provider:
        yield provider


@contextlib.contextmanager
def by_chat(name: str, base_url: str) -> Iterator[CloudProvider]:
    with contextlib.closing(ByChat(open_adapter(name, base_url))) as provider:
        yield provider


@pytest.fixture
def provider(cloud: LoopbackCloud, wire: str) -> Iterator[CloudProvider]:
    with opened(wire, cloud.openai_url) as made:
        yield made


def judged_in(chunks: list[Chunk]) -> Judged:
    (judged,) = [chunk for chunk in chunks if isinstance(chunk, Judged)]
    return judged


# -- both wires ------------------------------------------------------------------------------------


def test_each_question_gets_a_chance_for_each_option(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    cloud.script(Answer(chances=CHANCES, input_tokens=90))
    chunks = list(provider.stream(asked(), "try-1"))
    judged = judged_in(chunks)
    assert list(judged.chances) == ["refund", "team", "anger"] and not judged.guessed
    assert judged.chances["refund"] == {"true": 0.97, "false": pytest.approx(0.03)}
    assert judged.chances["team"] == {"billing": 0.75, "tech": 0.25}
    assert judged.chances["anger"] == {"0": 0.0, "1": 0.25, "2": 0.75}
    finish = finish_of(chunks)
    assert (finish.input_tokens, finish.estimated) == (90, False)


def test_what_is_asked_arrives_once_and_with_the_key(
    cloud: LoopbackCloud, provider: CloudProvider, wire: str
) -> None:
    list(provider.stream(asked(), "try-1"))
    (seen,) = cloud.requests
    assert seen.path == f"/v1/{wire}"
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert seen.body["model"] == "m"
    said = json.dumps(dict(seen.body))
    for words in ("Charged twice!", "money back?", "asks for it", "payments", "furious"):
        assert said.count(words) == 1, words


def test_chances_that_were_rounded_are_whole_again(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    cloud.script(Answer(chances=({"a": 0.33, "b": 0.33, "c": 0.33},)))
    chances = judged_in(list(provider.stream(asked({"q": Choice(("a", "b", "c"), "?")}), "try-1")))
    assert sum(chances.chances["q"].values()) == pytest.approx(1.0)


def test_a_question_that_is_refused_is_left_out(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    cloud.script(Answer(chances=(None, *CHANCES[1:])))
    assert set(judged_in(list(provider.stream(asked(), "try-1"))).chances) == {"team", "anger"}


@pytest.mark.parametrize("chances", [(), ({"true": 7.0}, *CHANCES[1:]), (CHANCES[0], {}, {})])
def test_answers_that_cannot_be_are_malformed(
    cloud: LoopbackCloud, provider: CloudProvider, chances: tuple[Mapping[str, float], ...]
) -> None:
    cloud.script(Answer(chances=chances))
    with pytest.raises(CloudMalformed):
        list(provider.stream(asked(), "try-1"))


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Status(400), CloudRejected),
        (Status(401), CloudAuthFailed),
        (Status(422), CloudRejected),
        (Status(429), CloudRateLimited),
        (Status(500), CloudFailed),
        (Malformed(), CloudMalformed),
        (Empty(), CloudMalformed),
        (Cut(how="reset"), CloudCut),
    ],
)
def test_a_fault_is_told_by_its_own_name(
    cloud: LoopbackCloud, provider: CloudProvider, fault: Scripted, error: type[CloudError]
) -> None:
    cloud.script(fault)
    with pytest.raises(error):
        list(provider.stream(asked(), "try-1"))
    assert len(cloud.requests) == 1


def test_the_providers_own_words_of_what_is_wrong_are_told(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    cloud.script(Status(422, message=f"too many options for {KEY}"))
    with pytest.raises(CloudRejected, match=r"own answered 422: too many options for \*\*\*"):
        list(provider.stream(asked(), "try-1"))


def test_usage_that_nobody_told_is_estimated(cloud: LoopbackCloud, provider: CloudProvider) -> None:
    cloud.script(Answer(usage="untold"))
    finish = finish_of(list(provider.stream(asked(), "try-1")))
    assert finish.estimated and finish.input_tokens > 0


def test_an_abort_from_another_thread_ends_the_wait(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    cloud.script(Silence())
    reader = Reader(lambda: provider.stream(asked(), "try-1"))
    cloud.wait_for(lambda server: len(server.requests) == 1)
    provider.abort("try-1")
    assert reader.ended_within(5)
    assert isinstance(reader.error, CloudCut)


def test_whoever_decides_does_nothing_else(cloud: LoopbackCloud, provider: CloudProvider) -> None:
    with pytest.raises(CloudRejected, match="own does not chat"):
        list(provider.stream(Request(messages=(Message("user", "Hello"),)), "try-1"))
    assert not cloud.requests


def test_a_key_is_checked_for_free(cloud: LoopbackCloud, provider: CloudProvider) -> None:
    assert isinstance(provider, ChecksKeys)
    provider.check_key()
    cloud.always(Status(401))
    with pytest.raises(CloudAuthFailed):
        provider.check_key()
    assert {seen.path for seen in cloud.requests} == {"/v1/models"}


# -- what each wire says in its own way ------------------------------------------------------------


def test_by_name_a_question_is_an_object_and_so_are_its_options(cloud: LoopbackCloud) -> None:
    with opened("systemone", cloud.openai_url) as provider:
        list(provider.stream(asked(), "try-1"))
    assert cloud.requests[0].body["questions"] == {
        "refund": {
            "type": "noul",
            "instructions": "Does the customer want money back?",
            "criteria": {"true": "asks for it", "false": None},
        },
        "team": {
            "type": "choice",
            "instructions": "Who should take it?",
            "criteria": {"billing": "payments", "tech": None},
        },
        "anger": {
            "type": "score",
            "instructions": "How angry?",
            "criteria": ["calm", "annoyed", "furious"],
        },
    }


def test_as_a_list_a_question_has_no_name_and_its_outcomes_are_words(cloud: LoopbackCloud) -> None:
    questions = {**QUESTIONS, "sure": Choice(["this"]), "so": YesNo(true="so", false="not so")}
    with opened("decisions", cloud.openai_url) as provider:
        judged = judged_in(list(provider.stream(asked(questions), "try-1")))
    assert cloud.requests[0].body["questions"] == [
        {
            "type": "predicate",
            "instructions": "Does the customer want money back?\ntrue: asks for it",
        },
        {
            "type": "choice",
            "instructions": "Who should take it?",
            "choices": [{"value": "billing", "description": "payments"}, {"value": "tech"}],
        },
        {
            "type": "score",
            "instructions": "How angry?",
            "levels": [{"label": "calm"}, {"label": "annoyed"}, {"label": "furious"}],
        },
        {"type": "predicate", "instructions": "Is it so?\ntrue: so\nfalse: not so"},
    ]
    assert judged.chances["sure"] == {"this": 1.0}, "one option is no question for that wire"
    assert judged.chances["so"]["true"] == 0.9


def test_what_leaves_as_a_list_is_what_openais_own_client_would_send() -> None:
    body = {"model": "gpt-6-luna", **listed_payload(asked())}
    question: TypeAdapter[Any] = TypeAdapter(theirs.Question)
    for each in body["questions"]:
        question.validate_python(each)
    with pytest.raises(ValidationError):
        question.validate_python({"type": "predicate"})
    assert set(body) <= set(theirs.DecisionCreateParams.__annotations__)


def test_openrouters_wire_stands_beside_its_version(cloud: LoopbackCloud) -> None:
    with opened("systemone", f"{cloud.url}/api/v1", "openrouter") as provider:
        list(provider.stream(asked(), "try-1"))
    with opened("decisions", cloud.openai_url, "openrouter") as provider:
        list(provider.stream(asked(), "try-2"))
    paths = [seen.path for seen in cloud.requests]
    assert paths == ["/api/alpha/decisions", "/v1/decisions"], "the other wire has its usual place"


# -- a chat model in their place -------------------------------------------------------------------


@pytest.fixture(params=["openai", "gemini", "anthropic", "cactus_cloud"])
def chatting(cloud: LoopbackCloud, request: pytest.FixtureRequest) -> Iterator[CloudProvider]:
    urls = {"openai": cloud.openai_url, "cactus_cloud": cloud.cactus_url}
    name = str(request.param)
    with by_chat(name, urls.get(name, cloud.url)) as made:
        yield made


@pytest.mark.parametrize("fence", ["{}", "```json\n{}\n```"])
def test_a_chat_model_names_one_option_for_each_question(
    cloud: LoopbackCloud, chatting: CloudProvider, fence: str
) -> None:
    cloud.script(Answer(text=fence.format('{"1": "no", "2": "tech", "3": "2"}')))
    judged = judged_in(list(chatting.stream(asked(), "try-1")))
    assert judged.guessed, "what it names says nothing about how sure it is"
    assert judged.chances == {
        "refund": {"true": 0.0, "false": 1.0},
        "team": {"billing": 0.0, "tech": 1.0},
        "anger": {"0": 0.0, "1": 0.0, "2": 1.0},
    }


@pytest.mark.parametrize("text", ["It is billing.", "{}", '{"1": "no", "2": "sales", "3": "2"}'])
def test_words_of_a_chat_model_that_name_no_option_are_malformed(
    cloud: LoopbackCloud, chatting: CloudProvider, text: str
) -> None:
    cloud.script(Answer(text=text))
    with pytest.raises(CloudMalformed):
        list(chatting.stream(asked(), "try-1"))


def test_a_chat_model_is_held_to_the_options_and_to_what_was_reserved(
    cloud: LoopbackCloud,
) -> None:
    cloud.script('{"1": "yes", "2": "tech", "3": "0"}')
    with by_chat("openai", cloud.openai_url) as provider:
        list(provider.stream(asked(), "try-1"))
    body = cloud.requests[0].body
    schema = body["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["2"] == {"type": "string", "enum": ["billing", "tech"]}
    assert body["max_completion_tokens"] == most_output_tokens(asked())
    assert "Charged twice!" in body["messages"][-1]["content"]


# -- what leaves, and what it may cost -------------------------------------------------------------

SECRET = asked(
    {"from ann@example.com": Choice({"bob@example.com": "he", "eve@example.com": None}, "Who?")},
    state="ann@example.com wrote this",
    redact=("EMAIL",),
)


@pytest.mark.parametrize("wire", ["systemone", "decisions", "chat"])
def test_personal_data_leaves_as_placeholders_and_the_answer_is_for_the_real_options(
    cloud: LoopbackCloud, wire: str
) -> None:
    chat = by_chat("openai", cloud.openai_url)
    cloud.script(
        Answer(text='{"1": "[EMAIL_2]"}', chances=({"[EMAIL_2]": 0.75, "[EMAIL_3]": 0.25},))
    )
    sealed = Redactor().seal(SECRET)
    with chat if wire == "chat" else opened(wire, cloud.openai_url) as provider:
        stream = (part for part in provider.stream(sealed.request, "try-1"))
        (chances,) = judged_in(list(sealed.open(stream))).chances.items()
    share = 1.0 if wire == "chat" else 0.75
    assert chances == (
        "from ann@example.com",
        {"bob@example.com": share, "eve@example.com": 1 - share},
    )
    assert b"example.com" not in cloud.requests[0].content


def test_a_kind_that_stays_keeps_a_question_in(cloud: LoopbackCloud) -> None:
    for questions in (
        {"q": YesNo("Is it ann@example.com?")},
        {"q": YesNo("Is it?", true="as ann@example.com says")},
        {"q": Score(["low", "ann@example.com"])},
        {"q": Choice(["ann@example.com", "other"])},
        {"ann@example.com": YesNo("Is it?")},
    ):
        request = asked(questions, private_kinds=("EMAIL",))
        shut = Redactor().closed(request)
        assert shut is not None and shut.code == "private_kind", questions
    assert Redactor().closed(asked(private_kinds=("EMAIL",))) is None


@pytest.mark.parametrize("wire", WIRES)
def test_no_more_bytes_leave_than_tokens_are_reserved(cloud: LoopbackCloud, wire: str) -> None:
    odd = {f"\N{SNOWFLAKE}{n}": Choice([f'"{n}\\', f"\N{SNOWFLAKE}{n}"], "?") for n in range(30)}
    for request in (asked(), asked({"q": YesNo("?")}), asked(odd, state="\N{SNOWFLAKE}" * 500)):
        with opened(wire, cloud.openai_url) as provider:
            list(provider.stream(request, "try-1"))
        assert len(cloud.requests[-1].content) < most_input_tokens(request)
        chat = chat_request(request)
        assert chat.response_format is not None
        said = json.dumps([each.content for each in chat.messages])
        schema = json.dumps(dict(chat.response_format.schema))
        assert len(said) + len(schema) < most_input_tokens(request)


@pytest.mark.parametrize(
    ("name", "wire", "model"),
    [
        ("typesafe", "systemone", "jev-latest"),
        ("openai", "decisions", "gpt-6-luna"),
        ("openrouter", "systemone", "typesafe/jev-1.14"),
    ],
)
def test_what_is_reserved_covers_a_state_that_is_read_for_each_question(
    name: str, wire: str, model: str
) -> None:
    config = ProviderConfig(name=name, protocol=wire, model=model)
    prices = LibraryPrices()
    assert prices.known(config)
    state = "Charged twice! " * 1000
    request = asked({f"q{n}": YesNo("Is it so?") for n in range(20)}, state=state)
    bill = prices.cost(config, 20 * len(state), 20)
    assert 0 < bill <= highest(prices, config, request)
