"""`python -m tools.house`: how large the house is, and how many files each kind of request crosses.

Prints a table for docs/architecture.md. Values (types, errors) do nothing, so they are not crossed;
scripted models and the loopback cloud are the measurement's own. `--files` names the files.
"""

from __future__ import annotations

import argparse
import io
import statistics
import sys
import tempfile
import threading
import wave
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy
from starlette.testclient import TestClient

import edgewise
from edgewise import Engine, Settings
from edgewise.server.app import make_app
from edgewise.server.state import ServerState
from edgewise.testing import (
    Answer,
    LoopbackCloud,
    ScriptedBackend,
    ScriptedFunctionModel,
    ScriptedTranscriber,
    heard,
)
from edgewise.types.messages import Tool, ToolCall

SOURCE = Path(edgewise.__file__).parent
NOT_CROSSED = ("types", "testing", "errors", "")
TIMER = Tool(
    "set_timer",
    "Set a timer.",
    {"type": "object", "properties": {"minutes": {"type": "integer"}}, "required": ["minutes"]},
)
SAID = 'set_timer {"minutes":5}'


@contextmanager
def watching(found: set[str]) -> Iterator[None]:
    """Notes every module of ours in which a function is entered, on whatever thread."""

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        name = str(frame.f_globals.get("__name__", ""))
        if event == "call" and name.startswith("edgewise."):
            found.add(name)

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def crossed(work: Callable[[], object]) -> list[str]:
    """The second run counts: the first one loads."""
    work()
    found: set[str] = set()
    with watching(found):
        work()
    return sorted(name for name in found if name.split(".")[1] not in NOT_CROSSED)


def walks() -> Iterator[tuple[str, list[str]]]:
    with LoopbackCloud() as cloud, tempfile.TemporaryDirectory() as folder:
        cloud.always(lambda seen: _reply(seen.body))
        environment = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": cloud.openai_url}
        for name, backend in (
            ("chat kept", ScriptedBackend.confident("Paris.")),
            ("chat handed off", ScriptedBackend.doubtful("Paris.")),
        ):
            settings = Settings.load(environment, data_dir=Path(folder) / name.replace(" ", "-"))
            with Engine(settings, backend=backend) as engine:
                yield name, crossed(lambda e=engine: e.complete("What is the capital of France?"))  # type: ignore[misc]
        for name, doubt in (("call kept", [0.0]), ("call rescued", [-3.0])):
            settings = Settings.load(environment, data_dir=Path(folder) / name.replace(" ", "-"))
            model = ScriptedFunctionModel([SAID] * 20, logprobs=[doubt] * 20)
            with Engine(settings, function_model=model) as engine:
                yield name, crossed(lambda e=engine: e.call("Set a timer for 5 minutes", [TIMER]))  # type: ignore[misc]
        yield from _served(environment, Path(folder))
        talk = [[heard("the first part", 0.7, 2.0, 0.99)]] * 20
        settings = Settings.load(environment, data_dir=Path(folder) / "speech")
        with Engine(settings, transcriber=ScriptedTranscriber(talk)) as engine:
            yield "transcribe kept", crossed(lambda: engine.transcribe(_sound()))


def _served(environment: dict[str, str], folder: Path) -> Iterator[tuple[str, list[str]]]:
    for name, backend in (
        ("POST kept", ScriptedBackend.confident("Paris.")),
        ("POST handed off", ScriptedBackend.doubtful("Paris.")),
    ):
        settings = Settings.load(environment, data_dir=folder / name.replace(" ", "-"))
        body = {"model": "auto", "messages": [{"role": "user", "content": "Capital of France?"}]}
        state = ServerState(settings, backend=backend)
        with TestClient(make_app(state), base_url="http://127.0.0.1") as client:

            def post(client: TestClient = client, body: dict[str, Any] = body) -> None:
                answer = client.post("/v1/chat/completions", json=body)
                assert answer.status_code == 200, answer.text

            yield name, crossed(post)


def _reply(body: Any) -> Answer:
    if isinstance(body, dict) and body.get("tools"):
        return Answer(tool_calls=(ToolCall("set_timer", {"minutes": 5}),))
    return Answer(text="Paris.")


def _sound() -> bytes:
    """Three seconds of a hum between silences, as a WAV."""
    rate = 16_000
    time = numpy.arange(rate * 4) / rate
    waves = [numpy.sin(2 * numpy.pi * 120 * k * time) / k for k in range(1, 9)]
    hum = 4000 * numpy.sum(waves, axis=0)
    hum[: rate // 2] = hum[-rate // 2 :] = 0
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(rate)
        writer.writeframes(hum.astype("<i2").tobytes())
    return file.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", action="store_true", help="name the files that are crossed")
    options = parser.parse_args()
    lengths = [len(path.read_text("utf-8").splitlines()) for path in SOURCE.rglob("*.py")]
    rows: list[tuple[str, object]] = [
        ("modules", len(lengths)),
        ("lines", f"{sum(lengths):,}"),
        ("lines of the median module", round(statistics.median(lengths))),
    ]
    for name, files in walks():
        rows.append((f"files crossed: {name}", len(files)))
        if options.files:
            print(f"{name}: {', '.join(each.removeprefix('edgewise.') for each in files)}\n")
    print("| | now |\n|---|---|")
    for name, value in rows:
        print(f"| {name} | {value} |")


if __name__ == "__main__":
    main()
