"""Whatever is given for an argument of the library: an answer, or an error of ours."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_type_hints

import numpy
from typing_extensions import override

from edgewise import (
    Audio,
    CallOptions,
    Conversation,
    EdgewiseError,
    EmbedOptions,
    Engine,
    FolderIndex,
    Image,
    ListenOptions,
    Message,
    RequestOptions,
    ResponseFormat,
    Settings,
    SpeakOptions,
    SpeechOptions,
    Tool,
    ToolCall,
)
from edgewise.testing import (
    ScriptedBackend,
    ScriptedEmbedder,
    ScriptedFunctionModel,
    ScriptedTranscriber,
    ScriptedVoice,
    heard,
)


class Unspeakable:
    """Whoever quotes it breaks."""

    @override
    def __repr__(self) -> str:
        raise ZeroDivisionError

    def encode(self, *_: Any, **__: Any) -> bytes:
        raise ZeroDivisionError


def _nested() -> list[Any]:
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    return deep


LOOP: list[Any] = []
LOOP.append(LOOP)
HALF = "half \ud800 a pair"
ODD: tuple[Any, ...] = (
    None, True, False, 0, 5, -1, 10**400, 1.5, -0.0, math.nan, math.inf, 1j,
    decimal.Decimal("NaN"), datetime.date(2026, 11, 19),
    "", " ", "x", HALF, "\0", "x" * 5_000, "required", "/dev/null", "/proc/self/mem", "~nobody/x",
    "file\0name", "a/" * 3_000, "data:,", "data:image/png;base64,é", "http://[", "http://\0/",
    b"", b"\xff\xfe", bytearray(b"RIFF"), memoryview(b"12"),
    [], [None], [5], [""], [HALF], [[]], ["x", 5], (), ("x",), {}, {"a": 1}, {1: 2}, {HALF: HALF},
    {"a": object()}, {"role": "user"}, {"role": "user", "content": HALF}, {"type": "object"},
    {"role": "user", "content": [{"type": "text", "text": 5}]},
    {"role": "assistant", "tool_calls": [{"function": {"name": HALF, "arguments": "[1"}}]},
    {"role": [], "content": "x"}, {"type": "json_schema", "json_schema": {"schema": LOOP}},
    {"type": "object", "properties": {HALF: {"type": "string"}}},
    set(), {1, "a"}, frozenset({"x"}), range(3), iter(["x"]), object(), object, print, Ellipsis,
    Path("."), Path("no\0ne"), Path("/"), LOOP, _nested(), Unspeakable(), Unspeakable,
    Message("user", HALF), Message(5, 5), Message("user", "x", images=5), Message([], "x"),  # type: ignore[arg-type]
    Message("assistant", "", tool_calls=(ToolCall("f", 5),)),  # type: ignore[arg-type]
    Message("tool", "x", tool_call_id=5),  # type: ignore[arg-type]
    Image(b""), Image(5), Image(b"x", name=5, url=5), Image(b"", url="http://["),  # type: ignore[arg-type]
    Audio(b""), Audio(5), Audio(b"RIFF", 5, "x"),  # type: ignore[arg-type]
    Tool("x"), Tool(5), Tool("x", 5, 5), ResponseFormat(5), ResponseFormat({"type": 5}),  # type: ignore[arg-type]
    numpy.zeros(3), numpy.zeros((2, 2, 2)), numpy.float32(1), numpy.array(None),
    numpy.zeros(3, complex), numpy.array(["x"]), numpy.zeros(2, "datetime64[s]"),
)  # fmt: skip


@contextlib.contextmanager
def scripted_engine(folder: Path) -> Iterator[Engine]:
    parts: dict[str, Any] = {
        "backend": ScriptedBackend.confident("Paris."),
        "function_model": ScriptedFunctionModel(['f {"a":1}'] * 1_000),
        "transcriber": ScriptedTranscriber([[heard("Hello.", 0.0, 1.0)]] * 1_000),
        "embedder": ScriptedEmbedder(),
        "voice": ScriptedVoice(),
    }
    settings = Settings.load({}, data_dir=folder / "data", config_dir=folder / "config")
    with Engine(settings, **parts) as engine:
        yield engine


def tries_of(engine: Engine, folder: Path) -> dict[str, Callable[[Any], Any]]:
    """What takes anything: each argument and each option of each method."""
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}
    sound = b"RIFF"

    def heard(chunk: Any) -> None:
        live = engine.listen().start()
        try:
            live.process(chunk)
        finally:
            live.close()

    tries: dict[str, Callable[[Any], Any]] = {
        "complete.prompt": lambda odd: engine.complete(odd, policy="local_only"),
        "stream.prompt": lambda odd: list(engine.stream(odd, policy="local_only")),
        "call.prompt": lambda odd: engine.call(odd, [tool], policy="local_only"),
        "call.tools": lambda odd: engine.call("x", odd, policy="local_only"),
        "call.tools[0]": lambda odd: engine.call("x", [odd], policy="local_only"),
        "call.tools[0].parameters": lambda odd: engine.call(
            "x", [{"name": "f", "parameters": odd}], policy="local_only"
        ),
        "call.execute": lambda odd: engine.call("x", [tool], execute=odd, policy="local_only"),
        "call.approve": lambda odd: engine.call("x", [tool], execute=True, approve=odd),
        "transcribe.audio": lambda odd: engine.transcribe(odd, policy="local_only"),
        "embed.texts": lambda odd: engine.embed(odd, policy="local_only"),
        "embed.texts[0]": lambda odd: engine.embed([odd], policy="local_only"),
        "listen.process": heard,
        "listen.stop": lambda odd: engine.listen().start().stop(odd),
        "Engine.settings": lambda odd: Engine(odd).close(),
        "Engine.backend": lambda odd: Engine(backend=odd).close(),
        "Engine.cloud": lambda odd: Engine(cloud=odd).close(),
        "Engine.ledger": lambda odd: Engine(ledger=odd).close(),
        "Conversation.engine": lambda odd: Conversation(odd),
        "Conversation.ask": lambda odd: Conversation(engine).ask(odd),
        "Conversation.system": lambda odd: Conversation(engine, system=odd).ask("x"),
        "FolderIndex.folder": lambda odd: FolderIndex(engine, odd).close(),
        "FolderIndex.find": lambda odd: FolderIndex(engine, folder).find(odd),
        "FolderIndex.find.most": lambda odd: FolderIndex(engine, folder).find("x", odd),
    }
    methods: tuple[tuple[str, type, Callable[..., Any]], ...] = (
        ("complete", RequestOptions, lambda **given: engine.complete("x", **given)),
        ("call", CallOptions, lambda **given: engine.call("x", [tool], **given)),
        ("transcribe", SpeechOptions, lambda **given: engine.transcribe(sound, **given)),
        ("speak", SpeakOptions, lambda **given: engine.speak("x", **given)),
        ("embed", EmbedOptions, lambda **given: engine.embed("x", **given)),
        ("listen", ListenOptions, lambda **given: engine.listen(**given).start().close()),
    )
    for name, options, method in methods:
        for option in get_type_hints(options):

            def one(odd: Any, option: str = option, method: Any = method) -> Any:
                return method(**{"policy": "local_only", option: odd})

            tries[f"{name}.{option}"] = one
    return tries


def foreign(name: str, ask: Callable[[Any], Any], odd: Any) -> str:
    """What is wrong with what came of it; empty if nothing is."""
    try:
        ask(odd)
    except EdgewiseError as error:
        return "" if str(error) else f"{name}: no words"
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        return f"{name}({_told(odd)}): {type(error).__name__}: {_told(error)}"
    return ""


def _told(value: Any) -> str:
    try:
        return " ".join(ascii(value).split())[:90]
    except (ZeroDivisionError, RecursionError):
        return type(value).__name__
