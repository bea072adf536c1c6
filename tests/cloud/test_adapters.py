"""What all four adapters promise, with the real SDKs over real HTTP."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from typing_extensions import override

from edgewise.cloud.provider import ChecksKeys, Chunk, CloudProvider
from edgewise.errors import (
    CloudAuthFailed,
    CloudCut,
    CloudError,
    CloudFailed,
    CloudMalformed,
    CloudRateLimited,
    CloudRejected,
    CloudTimeout,
    CloudUnreachable,
)
from edgewise.testing import (
    Answer,
    Cut,
    Empty,
    Fault,
    LoopbackCloud,
    Malformed,
    Silence,
    Status,
    black_hole,
    refused_url,
    unresolvable_url,
)
from edgewise.types.messages import Image, Message, Request, Tool, ToolCall
from edgewise.types.replies import FinishReason
from tests.cloud.adapter_cases import (
    ADAPTERS,
    KEY,
    QUESTION,
    STREAMING,
    Reader,
    address,
    arrived_in,
    calls_of,
    finish_of,
    open_adapter,
    passed_on,
    text_of,
)
from tests.cloud.raw_server import RawServer, reply

WEATHER = Tool(
    "get_weather",
    "The weather in a place.",
    {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]},
)


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as running:
        yield running


@pytest.fixture(params=ADAPTERS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextlib.contextmanager
def opened(name: str, base_url: str, **options: float | str) -> Iterator[CloudProvider]:
    provider = open_adapter(name, base_url, **options)  # type: ignore[arg-type]
    try:
        yield provider
    finally:
        provider.close()


@pytest.fixture
def provider(cloud: LoopbackCloud, name: str) -> Iterator[CloudProvider]:
    with opened(name, address(cloud, name)) as opened_provider:
        yield opened_provider


# -- answers --------------------------------------------------------------------------------------


def test_the_text_comes_whole_and_one_finish_comes_last(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    cloud.script(Answer(text="Because blue light is scattered most.", chunk_size=5))
    chunks = list(provider.stream(QUESTION, "try-1"))
    assert text_of(chunks) == "Because blue light is scattered most."
    assert finish_of(chunks).reason == "stop"


@pytest.mark.parametrize("name", STREAMING)
def test_text_is_yielded_while_the_rest_is_still_to_come(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    cloud.script(Silence(after_chunks=2))
    stream = provider.stream(QUESTION, "try-1")
    assert len([next(stream), next(stream)]) == 2
    stream.close()  # type: ignore[attr-defined]


def test_the_system_prompt_and_the_question_arrive_once(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    messages = (Message("system", "Answer in one word."), Message("user", "Capital of France?"))
    list(provider.stream(Request(messages=messages), "try-1"))
    sent = json.dumps(cloud.requests[0].body)
    assert sent.count("Answer in one word.") == 1
    assert sent.count("Capital of France?") == 1


@pytest.mark.parametrize("name", STREAMING)
def test_usage_is_the_providers_own(cloud: LoopbackCloud, provider: CloudProvider) -> None:
    cloud.script(Answer(input_tokens=100, cached_tokens=40, output_tokens=30, reasoning_tokens=10))
    finish = finish_of(list(provider.stream(QUESTION, "try-1")))
    assert (finish.input_tokens, finish.cached_tokens, finish.output_tokens) == (100, 40, 30)
    assert not finish.estimated


@pytest.mark.parametrize("name", STREAMING)
@pytest.mark.parametrize("reason", ["stop", "length", "filtered"])
def test_the_reason_for_the_end_is_translated(
    cloud: LoopbackCloud, provider: CloudProvider, reason: FinishReason
) -> None:
    cloud.script(Answer(finish=reason))
    assert finish_of(list(provider.stream(QUESTION, "try-1"))).reason == reason


def test_a_limit_that_nobody_asked_for_is_not_sent(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    list(provider.stream(QUESTION, "try-1"))
    body = json.dumps(dict(cloud.requests[0].body))
    limit = re.findall(r'"(?:max_tokens|max_completion_tokens|maxOutputTokens)": (\d+)', body)
    # Anthropic's protocol cannot do without: it gets what the model allows.
    assert limit == (["32000"] if provider.config.protocol == "anthropic" else [])


class CutCall(Answer):
    """The limit falls into the arguments of the last call."""

    @override
    def pieces(self, text: str) -> list[str]:
        return super().pieces(text[:5] if '"second"' in text else text)


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_a_call_that_the_limit_cut_is_left_out(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    made = tuple(ToolCall("write", {"text": text}, text) for text in ("  first\n", "second"))
    cloud.script(CutCall(tool_calls=made, finish="length"), CutCall(tool_calls=made))
    chunks = list(provider.stream(QUESTION, "try-1"))
    assert [dict(call.arguments) for call in calls_of(chunks)] == [{"text": "  first\n"}]
    assert finish_of(chunks).reason == "length"
    with pytest.raises(CloudMalformed):
        list(provider.stream(QUESTION, "try-2"))


def test_an_empty_answer_is_only_a_finish(cloud: LoopbackCloud, provider: CloudProvider) -> None:
    cloud.script(Empty())
    chunks = list(provider.stream(QUESTION, "try-1"))
    assert passed_on(chunks) == [finish_of(chunks)]
    assert arrived_in(chunks) == 0


@pytest.mark.parametrize("name", STREAMING)
def test_what_is_not_passed_on_is_told_as_it_comes(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    thoughts = "First the sky \N{SNOWFLAKE}, then the sea."
    call = ToolCall("get_weather", {"place": "Paris " * 20})
    cloud.script(Answer(text="Look.", thoughts=thoughts, tool_calls=(call,), chunk_size=4))
    request = Request(messages=QUESTION.messages, tools=(WEATHER,))
    chunks = list(provider.stream(request, "try-1"))
    text, given = chunks.index("Look"), chunks.index(calls_of(chunks)[0])
    assert text_of(chunks) == "Look.", "a thought is no part of the answer"
    assert arrived_in(chunks[:text]) == len(thoughts.encode())
    assert arrived_in(chunks[text:given]) >= len(call.name) + len("Paris " * 20)
    assert arrived_in(chunks[given:]) == 0


def test_tool_calls_come_whole_after_the_text(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    paris = ToolCall("get_weather", {"place": "Paris", "days": [1, 2], "exact": True})
    oslo = ToolCall("get_weather", {"place": "Oslo \N{SNOWFLAKE}"})
    cloud.script(Answer(text="Let me look.", tool_calls=(paris, oslo), chunk_size=3))
    request = Request(messages=QUESTION.messages, tools=(WEATHER,))
    chunks = list(provider.stream(request, "try-1"))
    calls = calls_of(chunks)
    assert text_of(chunks) == "Let me look."
    assert [(call.name, call.arguments) for call in calls] == [
        ("get_weather", paris.arguments),
        ("get_weather", oslo.arguments),
    ]
    assert {call.source for call in calls} == {"cloud"}
    assert len({call.id for call in calls} - {""}) == 2
    assert finish_of(chunks).reason == "tool_calls"
    assert "The weather in a place." in json.dumps(cloud.requests[0].body)


@pytest.mark.parametrize("name", STREAMING)
def test_every_image_is_sent(cloud: LoopbackCloud, provider: CloudProvider) -> None:
    images = (Image(b"first picture"), Image(b"second", "image/jpeg"), Image(b"third picture"))
    messages = (
        Message("user", "Compare these.", images=images[:2]),
        Message("assistant", "They differ."),
        Message("user", "And this?", images=images[2:]),
    )
    list(provider.stream(Request(messages=messages), "try-1"))
    sent = json.dumps(cloud.requests[0].body)
    for image in images:
        assert base64.b64encode(image.data).decode() in sent
    assert sent.count("image/png") == 2
    assert sent.count("image/jpeg") == 1


# -- failures -------------------------------------------------------------------------------------

FAULTS: list[tuple[Fault, type[CloudError], str, int | None]] = [
    (Status(400), CloudRejected, "cloud_rejected", 400),
    (Status(401), CloudAuthFailed, "cloud_auth_failed", 401),
    (Status(403), CloudAuthFailed, "cloud_auth_failed", 403),
    (Status(404), CloudRejected, "cloud_rejected", 404),
    (Status(429), CloudRateLimited, "cloud_rate_limited", 429),
    (Status(500), CloudFailed, "cloud_server_error", 500),
    (Status(503), CloudFailed, "cloud_server_error", 503),
    (Cut(how="reset"), CloudCut, "cloud_cut", None),
    (Cut(how="close"), CloudCut, "cloud_cut", None),
    (Cut(how="reset", after_chunks=0), CloudCut, "cloud_cut", None),
    (Malformed(), CloudMalformed, "cloud_malformed", None),
    (Malformed(after_chunks=2), CloudMalformed, "cloud_malformed", None),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda row: str(row[0]))
def test_every_fault_becomes_its_error(
    cloud: LoopbackCloud,
    provider: CloudProvider,
    fault: tuple[Fault, type[CloudError], str, int | None],
) -> None:
    scripted, kind, code, status = fault
    cloud.script(scripted)
    with pytest.raises(CloudError) as caught:
        list(provider.stream(QUESTION, "try-1"))
    assert type(caught.value) is kind
    assert (caught.value.code, caught.value.status) == (code, status)
    assert caught.value.provider == provider.config.name
    assert len(cloud.requests) == 1, "the SDK must not try again on its own"


@pytest.mark.parametrize("name", STREAMING)
def test_a_stream_that_ends_without_the_end_mark_was_cut(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    cloud.script(Cut(how="end", after_chunks=3))
    chunks: list[Chunk] = []
    with pytest.raises(CloudCut):
        for chunk in provider.stream(QUESTION, "try-1"):
            chunks.append(chunk)
    assert len(passed_on(chunks)) == 3


@pytest.mark.parametrize("name", STREAMING)
@pytest.mark.parametrize(
    ("status", "kind"), [(429, CloudRateLimited), (529, CloudFailed), (400, CloudRejected)]
)
def test_an_error_inside_a_stream_is_the_error_it_names(
    cloud: LoopbackCloud, provider: CloudProvider, status: int, kind: type[CloudError]
) -> None:
    cloud.script(Status(status, after_chunks=2))
    chunks: list[Chunk] = []
    with pytest.raises(kind):
        for chunk in provider.stream(QUESTION, "try-1"):
            chunks.append(chunk)
    assert len(passed_on(chunks)) == 2


def test_a_rate_limit_says_how_long_to_wait(cloud: LoopbackCloud, provider: CloudProvider) -> None:
    cloud.script(Status(429, retry_after_s=7.5))
    with pytest.raises(CloudRateLimited) as caught:
        list(provider.stream(QUESTION, "try-1"))
    assert caught.value.retry_after_s == 7.5


def test_the_providers_words_are_kept_short_and_without_the_key(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    cloud.script(Status(401, message=f"Incorrect key {KEY} given. " + "More. " * 200))
    with pytest.raises(CloudAuthFailed) as caught:
        list(provider.stream(QUESTION, "try-1"))
    assert "Incorrect key *** given." in str(caught.value)
    assert len(str(caught.value)) <= 300
    assert KEY not in repr(provider.config)


def test_a_refused_connection_is_named(name: str) -> None:
    with (
        opened(name, refused_url()) as provider,
        pytest.raises(CloudUnreachable) as caught,
    ):
        list(provider.stream(QUESTION, "try-1"))
    assert caught.value.code == "cloud_refused"


def test_a_name_without_an_address_is_named(name: str) -> None:
    with (
        opened(name, unresolvable_url()) as provider,
        pytest.raises(CloudUnreachable) as caught,
    ):
        list(provider.stream(QUESTION, "try-1"))
    assert caught.value.code == "cloud_dns_failed"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can be made to drop a SYN")
def test_a_connection_that_never_comes_is_given_up(name: str) -> None:
    with (
        black_hole() as url,
        opened(name, url, connect_s=0.2) as provider,
        pytest.raises(CloudUnreachable) as caught,
    ):
        list(provider.stream(QUESTION, "try-1"))
    assert caught.value.code == "cloud_connect_timeout"


def test_a_silent_provider_times_out(cloud: LoopbackCloud, name: str) -> None:
    cloud.script(Silence())
    with (
        opened(name, address(cloud, name), first_token_s=0.2) as provider,
        pytest.raises(CloudTimeout) as caught,
    ):
        list(provider.stream(QUESTION, "try-1"))
    assert caught.value.code == "cloud_timeout"
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("name", STREAMING)
def test_a_stream_that_stalls_times_out(cloud: LoopbackCloud, name: str) -> None:
    cloud.script(Silence(after_chunks=2))
    chunks: list[Chunk] = []
    with (
        opened(name, address(cloud, name), first_token_s=0.2) as provider,
        pytest.raises(CloudTimeout),
    ):
        for chunk in provider.stream(QUESTION, "try-1"):
            chunks.append(chunk)
    assert len(passed_on(chunks)) == 2


def test_a_page_of_html_is_not_an_answer(name: str) -> None:
    page = reply("<html><body>Welcome to the hotel.</body></html>", kind="text/html")
    with (
        RawServer(page) as server,
        opened(name, server.url) as provider,
        pytest.raises(CloudMalformed),
    ):
        list(provider.stream(QUESTION, "try-1"))


def test_a_redirect_is_not_followed(cloud: LoopbackCloud, name: str) -> None:
    elsewhere = reply("", status="307 Temporary Redirect", headers={"location": cloud.url})
    with (
        RawServer(elsewhere) as server,
        opened(name, server.url) as provider,
        pytest.raises(CloudRejected),
    ):
        list(provider.stream(QUESTION, "try-1"))
    assert cloud.requests == []


# -- connections ----------------------------------------------------------------------------------


def test_five_requests_share_one_connection(cloud: LoopbackCloud, provider: CloudProvider) -> None:
    cloud.script(Answer(), Status(429), Answer(), Empty(), Answer())
    for number in range(5):
        with contextlib.suppress(CloudRateLimited):
            list(provider.stream(QUESTION, f"try-{number}"))
    assert len(cloud.requests) == 5
    assert cloud.connections == 1
    assert cloud.disconnects == 0


def test_the_wire_id_travels_in_a_header(cloud: LoopbackCloud, provider: CloudProvider) -> None:
    list(provider.stream(QUESTION, "request-7/0.1"))
    assert cloud.requests[0].headers["x-client-request-id"] == "request-7/0.1"


@pytest.mark.parametrize("name", STREAMING)
def test_closing_the_stream_leaves_the_provider(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    cloud.script(Silence(after_chunks=2))
    stream = provider.stream(QUESTION, "try-1")
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert cloud.wait_for(lambda seen: seen.disconnects == 1)


@pytest.mark.parametrize("reused", [False, True], ids=["fresh", "reused"])
def test_an_abort_wakes_a_read_that_waits_for_the_first_byte(
    cloud: LoopbackCloud, provider: CloudProvider, reused: bool
) -> None:
    if reused:
        list(provider.stream(QUESTION, "try-0"))
    cloud.script(Silence())
    reader = Reader(lambda: provider.stream(QUESTION, "try-1"))
    cloud.wait_for(lambda seen: len(seen.requests) == 1 + reused)
    provider.abort("another try")
    assert not reader.ended_within(0.1)
    provider.abort("try-1")
    assert reader.ended_within(1.0)
    assert isinstance(reader.error, CloudCut)
    assert cloud.connections == 1
    assert cloud.wait_for(lambda seen: seen.disconnects == 1)


@pytest.mark.parametrize("name", STREAMING)
def test_an_abort_wakes_a_read_in_the_middle_of_an_answer(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    cloud.script(Silence(after_chunks=2))
    reader = Reader(lambda: provider.stream(QUESTION, "try-1"))
    cloud.wait_for(lambda seen: len(seen.requests) == 1)
    assert not reader.ended_within(0.1)
    provider.abort("try-1")
    assert reader.ended_within(1.0)
    assert isinstance(reader.error, CloudCut)


def test_an_abort_that_comes_first_keeps_the_request_from_being_sent(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    provider.abort("try-1")
    with pytest.raises(CloudCut):
        list(provider.stream(QUESTION, "try-1"))
    assert cloud.requests == []


def test_an_abort_that_comes_late_does_not_hurt_the_next_try(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    list(provider.stream(QUESTION, "try-1"))
    cloud.script(Answer(text="Still here.", delay_first_s=0.2))
    reader = Reader(lambda: provider.stream(QUESTION, "try-2"))
    cloud.wait_for(lambda seen: len(seen.requests) == 2)
    provider.abort("try-1")
    assert reader.ended_within(5.0)
    assert text_of(reader.chunks) == "Still here."
    assert cloud.connections == 1


def test_a_provider_works_on_after_an_abort(cloud: LoopbackCloud, provider: CloudProvider) -> None:
    cloud.script(Silence(), Answer(text="Back again."))
    reader = Reader(lambda: provider.stream(QUESTION, "try-1"))
    cloud.wait_for(lambda seen: len(seen.requests) == 1)
    provider.abort("try-1")
    assert reader.ended_within(1.0)
    assert text_of(list(provider.stream(QUESTION, "try-2"))) == "Back again."


def test_closing_the_provider_ends_what_is_under_way(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    cloud.script(Silence())
    reader = Reader(lambda: provider.stream(QUESTION, "try-1"))
    cloud.wait_for(lambda seen: len(seen.requests) == 1)
    provider.close()
    assert reader.ended_within(1.0)
    assert isinstance(reader.error, CloudCut)


# -- manners --------------------------------------------------------------------------------------


def test_importing_an_adapter_loads_no_sdk(name: str) -> None:
    program = (
        f"import sys, edgewise.cloud.{name}\n"
        "print(sorted({'openai', 'anthropic', 'google.genai', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_an_adapter_without_a_key_takes_none_from_the_environment(
    cloud: LoopbackCloud, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(variable, "the-key-of-someone-else")
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    keyless = open_adapter(name, address(cloud, name), key="")
    list(keyless.stream(QUESTION, "try-1"))
    keyless.close()
    assert "the-key-of-someone-else" not in str(cloud.requests[0].headers)


# -- a free look whether a key is good ------------------------------------------------------------


@pytest.mark.parametrize("name", STREAMING)
def test_a_good_key_passes_by_a_list_of_models(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    assert isinstance(provider, ChecksKeys)
    provider.check_key()
    (seen,) = cloud.requests
    assert (seen.method, seen.path.rpartition("/")[2]) == ("GET", "models")
    assert KEY in str(seen.headers)


@pytest.mark.parametrize("name", STREAMING)
def test_a_wrong_key_is_refused_in_the_providers_words(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    cloud.always(Status(401, message=f"Incorrect key {KEY}."))
    assert isinstance(provider, ChecksKeys)
    with pytest.raises(CloudAuthFailed, match=r"answered 401: Incorrect key \*\*\*\."):
        provider.check_key()


@pytest.mark.parametrize("name", STREAMING)
def test_a_key_is_not_called_good_by_a_log_in_page_or_by_nobody(name: str) -> None:
    page = reply("<html><body>Welcome to the hotel.</body></html>", kind="text/html")
    with RawServer(page) as server, opened(name, server.url) as provider:
        assert isinstance(provider, ChecksKeys)
        with pytest.raises(CloudMalformed):
            provider.check_key()
    with opened(name, refused_url()) as provider:
        assert isinstance(provider, ChecksKeys)
        with pytest.raises(CloudUnreachable):
            provider.check_key()


def test_openrouter_is_asked_where_it_looks_at_the_key(cloud: LoopbackCloud) -> None:
    with opened("openai", cloud.openai_url, called="openrouter") as provider:
        assert isinstance(provider, ChecksKeys)
        with pytest.raises(CloudRejected):  # the loopback cloud has no such page
            provider.check_key()
    assert [seen.path for seen in cloud.requests] == ["/v1/key"]


def test_cactus_cloud_has_no_free_request(cloud: LoopbackCloud) -> None:
    with opened("cactus_cloud", cloud.cactus_url) as provider:
        assert not isinstance(provider, ChecksKeys)


def test_a_strange_wire_id_is_sent_as_its_hash(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    cloud.script(Silence())
    strange = "zwölf\r\nX-Injected: 1"
    reader = Reader(lambda: provider.stream(QUESTION, strange))
    cloud.wait_for(lambda seen: len(seen.requests) == 1)
    assert "x-injected" not in cloud.requests[0].headers
    assert len(cloud.requests[0].headers["x-client-request-id"]) == 64
    provider.abort(strange)
    assert reader.ended_within(1.0)
