"""What a program may give: plain messages work, and a wrong argument is named in one line."""

from __future__ import annotations

import base64
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgewise import (
    AsyncConversation,
    AsyncEngine,
    Conversation,
    EdgewiseError,
    Engine,
    Image,
    InvalidRequest,
    Message,
    SettingsError,
)
from edgewise.requests import OPTIONS, as_messages
from edgewise.testing import (
    ScriptedBackend,
    ScriptedEmbedder,
    ScriptedFunctionModel,
    ScriptedTranscriber,
)
from edgewise.types.answers import DecideOptions
from edgewise.types.embeddings import EmbedOptions
from edgewise.types.messages import (
    DEVICE_TOKENS,
    CallOptions,
    ListenOptions,
    RequestOptions,
    SpeakOptions,
    SpeechOptions,
)

HISTORY: list[dict[str, Any]] = [
    {"role": "developer", "content": "Answer in one word."},
    {"role": "user", "content": [{"type": "text", "text": "Capital of France?"}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "capital", "arguments": '{"country": "France"}'},
            }
        ],
        "refusal": None,
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "Paris"},
    {"role": "user", "content": "And of Australia?"},
]
PIXEL = b"\x89PNG\r\n\x1a\n"


def scripted() -> tuple[Engine, ScriptedBackend]:
    backend = ScriptedBackend.confident("Canberra.")
    return Engine(backend=backend), backend


def test_plain_messages_work_as_in_openai_requests() -> None:
    engine, backend = scripted()
    with engine:
        assert engine.complete([{"role": "user", "content": "Where?"}]).text == "Canberra."
        assert engine.complete({"role": "user", "content": "Where?"}).text == "Canberra."
        assert engine.complete([*HISTORY, Message("user", "Well?")]).text == "Canberra."
        assert [*engine.stream(HISTORY)]
    said = backend.requests[-1].messages
    assert [one.role for one in said] == ["system", "user", "assistant", "tool", "user"]
    assert said[1].content == "Capital of France?"
    assert (said[2].tool_calls[0].name, said[2].tool_calls[0].id) == ("capital", "call_1")
    assert said[2].tool_calls[0].arguments == {"country": "France"}
    assert said[3].tool_call_id == "call_1"


def test_calls_are_found_in_plain_messages_too() -> None:
    model = ScriptedFunctionModel(['[{"name": "go", "arguments": {}}]'])
    with Engine(backend=ScriptedBackend(["x"]), function_model=model) as engine:
        reply = engine.call([{"role": "user", "content": "Please go."}], [{"name": "go"}])
    assert [call.name for call in reply.calls] == ["go"]


def test_a_conversation_goes_on_from_plain_messages() -> None:
    engine, backend = scripted()
    with engine:
        talk = Conversation(engine)
        talk.messages += HISTORY[:2]  # type: ignore[arg-type]
        talk.messages.append({"role": "assistant", "content": "Paris."})  # type: ignore[arg-type]
        assert talk.ask("And of Australia?").text == "Canberra."
    assert [one.content for one in backend.requests[-1].messages][-2:] == [
        "Paris.",
        "And of Australia?",
    ]
    assert all(isinstance(one, Message) for one in talk.messages)


async def ask_plainly() -> str:
    async with AsyncEngine(backend=ScriptedBackend.confident("Canberra.")) as engine:
        return (await engine.complete([{"role": "user", "content": "Where?"}])).text


def test_plain_messages_work_where_it_is_awaited() -> None:
    import asyncio

    assert asyncio.run(ask_plainly()) == "Canberra."


def test_pictures_may_be_paths_addresses_and_bytes(tmp_path: Path) -> None:
    from edgewise.requests import as_images

    file = tmp_path / "a.png"
    file.write_bytes(PIXEL)
    written = f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"
    found = as_images([str(file), file, PIXEL, written, "https://x.example/a.png", Image(PIXEL)])
    assert [image.data for image in found] == [PIXEL, PIXEL, PIXEL, PIXEL, b"", PIXEL]
    assert (found[0].name, found[4].url) == (str(file), "https://x.example/a.png")
    part = {"type": "image_url", "image_url": {"url": written}}
    (message,) = as_messages({"role": "user", "content": ["What is it?", part]})
    assert (message.content, message.images[0].data) == ("What is it?", PIXEL)


def test_a_message_opens_no_file(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    file.write_bytes(PIXEL)
    part = {"type": "image_url", "image_url": {"url": str(file)}}
    with pytest.raises(InvalidRequest, match=r"prompt\[0\].content\[0\].image_url: expected an"):
        as_messages([{"role": "user", "content": [part]}], "prompt")


def refusal(ask: Callable[[Engine], object]) -> str:
    engine, backend = scripted()
    with engine, pytest.raises(EdgewiseError) as refused:
        ask(engine)
    assert backend.started == 0, "nothing was asked"
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        (None, "prompt: expected text or messages, got None"),
        (7, "prompt: expected text or messages, got 7"),
        (b"x", "prompt: expected text or messages, got a bytes"),
        ([None], "prompt[0]: expected a message, got None"),
        ([{"role": "user"}], "prompt[0]: there is no content"),
        (
            [{"role": "robot", "content": "x"}],
            "prompt[0].role: expected one of system, user, assistant, tool, got 'robot'",
        ),
        (
            [{"role": "user", "content": 5}],
            "prompt[0].content: expected text or a list of parts, got 5",
        ),
        (
            [{"role": "user", "content": [{"type": "video"}]}],
            "prompt[0].content[0]: expected text or image_url, got 'video'",
        ),
        (
            [{"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": "{"}}]}],
            "prompt[0].tool_calls[0].arguments: not JSON",
        ),
        (Message("user", None), "prompt.content: expected text, got None"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_prompt_is_named(prompt: Any, words: str) -> None:
    assert refusal(lambda engine: engine.complete(prompt)).startswith(words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threshold": "x"}, "threshold: expected a number, got 'x'"),
        ({"threshold": float("nan")}, "threshold: expected a number, got nan"),
        ({"max_tokens": "4"}, "max_tokens: expected a whole number, got '4'"),
        ({"max_tokens": 4.5}, "max_tokens: expected a whole number, got 4.5"),
        ({"private": "no"}, "private: expected True or False, got 'no'"),
        ({"policy": 5}, "policy: expected text, got 5"),
        ({"handoff": "never"}, "handoff: expected 'automatic' or 'signal', got 'never'"),
        ({"stop": 5}, "stop: expected a list of texts, got 5"),
        ({"images": "a.png"}, "images: expected a list of pictures, got 'a.png'"),
        ({"images": ["a.png"]}, "images[0]: a.png: No such file or directory"),
        ({"images": [5]}, "images[0]: expected a path, an address, bytes or an Image, got 5"),
        ({"response_format": str}, "response_format: the class str is not a pydantic model"),
        ({"system": ["x"]}, "system: expected text, got a list"),
        ({"max_token": 4}, "max_token: there is no such option; did you mean max_tokens?"),
        ({"schema": {}}, "schema: there is no such option; did you mean response_format?"),
        ({"zzz": 1}, "zzz: there is no such option; there are budget_key, cloud_share"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], words: str) -> None:
    assert refusal(lambda engine: engine.complete("Where?", **options)).startswith(words)
    talk = lambda engine: Conversation(engine).ask("Where?", **options)  # noqa: E731
    assert refusal(talk).startswith(words)


def test_every_method_names_its_own_options() -> None:
    wrong: Any = {"imagez": []}
    assert "no such option" in refusal(lambda engine: engine.call("Go.", [], **wrong))
    wrong = {"languag": "en"}
    found = refusal(lambda engine: engine.transcribe("a.wav", **wrong))
    assert found == "languag: there is no such option; did you mean language?"
    assert "mean language?" in refusal(lambda engine: engine.listen(**wrong))
    wrong = {"dimension": 3}
    assert "mean dimensions?" in refusal(lambda engine: engine.embed("x", **wrong))


def test_an_option_that_is_none_is_not_given() -> None:
    engine, backend = scripted()
    nothing: Any = {"max_tokens": None, "stop": None, "tools": None, "images": None}
    with engine:
        assert engine.complete("Where?", **nothing).text == "Canberra."
    assert engine.settings.max_tokens is None
    assert backend.requests[0].max_tokens == DEVICE_TOKENS


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (
            {"settings": "qwen3-0.6b"},
            "settings: expected Settings, got 'qwen3-0.6b'; for a model: ",
        ),
        ({"settings": {}}, "settings: expected Settings, got a dict"),
        ({"backend": 1}, "backend: expected a ChatBackend, got 1"),
        ({"backend": "x"}, "backend = 'x': there is no such backend"),
        ({"function_model": 1}, "function_model: expected a CallBackend, got 1"),
        ({"transcriber": "x"}, "transcriber: expected a SpeechBackend, got 'x'"),
        ({"embedder": "x"}, "embedder: expected a EmbedBackend, got 'x'"),
        ({"cloud": "openai"}, "cloud: expected a Cloud, got 'openai'"),
        ({"ledger": 1}, "ledger: expected a Ledger, got 1"),
    ],
)
def test_a_wrong_part_of_an_engine_is_named(parts: dict[str, Any], words: str) -> None:
    for kind in (Engine, AsyncEngine):
        with pytest.raises(SettingsError) as refused:
            kind(**parts)
        assert str(refused.value).startswith(words)


def test_scripted_parts_are_taken() -> None:
    Engine(
        backend=ScriptedBackend(["x"]),
        function_model=ScriptedFunctionModel(["[]"]),
        transcriber=ScriptedTranscriber([[]]),
        embedder=ScriptedEmbedder(),
    ).close()


METHODS: list[tuple[Callable[..., Any], type]] = [
    *(
        (getattr(kind, name), RequestOptions)
        for kind in (Engine, AsyncEngine)
        for name in ("complete", "stream")
    ),
    *((kind.call, CallOptions) for kind in (Engine, AsyncEngine)),
    *((kind.transcribe, SpeechOptions) for kind in (Engine, AsyncEngine)),
    *((kind.listen, ListenOptions) for kind in (Engine, AsyncEngine)),
    *((kind.speak, SpeakOptions) for kind in (Engine, AsyncEngine)),
    *((kind.embed, EmbedOptions) for kind in (Engine, AsyncEngine)),
    *((kind.decide, DecideOptions) for kind in (Engine, AsyncEngine)),
    *(
        (getattr(kind, name), RequestOptions)
        for kind in (Conversation, AsyncConversation)
        for name in ("__init__", "ask", "stream", "resume")
    ),
]


@pytest.mark.parametrize(
    ("method", "options"), METHODS, ids=[method.__qualname__ for method, _ in METHODS]
)
def test_help_shows_every_option_and_what_it_means(
    method: Callable[..., Any], options: type
) -> None:
    shown = inspect.signature(method).parameters
    listed = inspect.getdoc(method) or ""
    for name in options.__annotations__:
        assert shown[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert f"\n    {name}: {OPTIONS[name]}" in listed
    assert "Unpack" not in str(inspect.signature(method))
    said, _, options_said = listed.partition("\n\nOptions:\n")
    described = [line.strip().partition(":")[0] for line in options_said.splitlines()]
    assert said and sorted(described) == sorted(options.__annotations__), "no more and no less"


def test_no_option_is_described_that_nobody_takes() -> None:
    taken = {name for _, options in METHODS for name in options.__annotations__}
    assert set(OPTIONS) == taken
