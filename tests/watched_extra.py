"""Real work with one extra, then silence until told to stop. Run by test_dependency_traffic.py.

The top imports nothing of edgewise: `bare` must load onnxruntime without it.
"""

from __future__ import annotations

import contextlib
import fcntl
import http.server
import importlib
import json
import os
import socket
import struct
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from ctypes.util import find_library
from pathlib import Path
from typing import Any

from typing_extensions import override

ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
UP = 1  # IFF_UP
GET_FLAGS, SET_FLAGS = 0x8913, 0x8914  # SIOCGIFFLAGS, SIOCSIFFLAGS


def bare() -> None:
    """What the watcher must see: the runtime without us before it."""
    import onnxruntime

    assert "edgewise" not in sys.modules
    assert onnxruntime.__version__


def base() -> None:
    """A chat on the device, the three vendors' clients, the hub's client and the keyring."""
    import keyring
    from gguf import GGUFReader

    from edgewise import Engine, Settings
    from edgewise.cli.main import cli
    from edgewise.local.fetch import fetch_from_hub
    from edgewise.local.store import ModelStore
    from edgewise.testing import LoopbackCloud
    from tests.local.fake_hub import DATA, SOURCE, Hub

    settings = Settings.load(policy="local_only")
    with Engine(settings) as engine:
        assert engine.complete("What is the capital of France?").source == "local"
    with contextlib.suppress(SystemExit):
        cli(["ask", "--private", "--why", "What is two and two?"])
    GGUFReader(ModelStore(settings.models_dir).find(settings.model).path)
    keyring.get_keyring()  # chosen, but not written to: it may be somebody's own
    with LoopbackCloud() as cloud:
        given = {
            f"EDGEWISE_{name.upper()}_BASE_URL": url
            for name, url in (
                ("openai", cloud.openai_url),
                ("anthropic", cloud.anthropic_url),
                ("gemini", cloud.gemini_url),
            )
        }
        keys = {f"{name}_API_KEY": "a-key" for name in ("OPENAI", "ANTHROPIC", "GEMINI")}
        for name in ("openai", "anthropic", "gemini"):
            chosen = Settings.load(
                {**os.environ, **given, **keys}, policy="cloud_only", chain=(name,)
            )
            with Engine(chosen) as engine:
                assert engine.complete("What is the capital of France?").source == "cloud"
    hub = Hub()
    try:
        file = fetch_from_hub(SOURCE, None, settings.data_dir / "hub", endpoint=hub.front.url)
        assert file.path.read_bytes() == DATA
    finally:
        hub.stop()


def embed() -> None:
    from edgewise import Engine

    with Engine() as engine:
        assert len(engine.embed(["a cat sat", "on the mat"], policy="local_only").vectors) == 2


def microphone() -> None:
    """No machine of ours has a microphone: what is asked for is the clear error, or an open one."""
    from edgewise.errors import NoMicrophone
    from edgewise.speech.audio import open_microphone

    missing = find_library("portaudio") is None
    with contextlib.suppress(NoMicrophone), open_microphone():
        assert not missing
    if not missing:
        import sounddevice

        assert list(sounddevice.query_devices()) is not None


def mcp() -> None:
    """Both ways: tools of a server that is a process, and our own server over HTTP."""
    import asyncio

    from mcp import Client

    from edgewise import AsyncEngine, Engine, ToolServers
    from edgewise.mcp_server import serve_http
    from edgewise.testing import ScriptedBackend, ScriptedFunctionModel
    from tests.test_mcp_client import command

    model = ScriptedFunctionModel(['get_weather {"place":"Oslo"}'])
    with Engine(function_model=model) as engine, ToolServers([command("good")]) as servers:
        asked = "What is the weather in Oslo?"
        reply = engine.call(asked, servers.tools, execute=True, policy="local_only")
        assert reply.results[0].value == "It rains in Oslo."

    async def serve_and_ask() -> None:
        addresses: asyncio.Queue[str] = asyncio.Queue()
        engine = AsyncEngine(backend=ScriptedBackend.confident("Paris."))
        serving = asyncio.create_task(serve_http(engine, 0, addresses.put_nowait))
        async with Client(await addresses.get()) as client:
            assert not (await client.call_tool("ask", {"question": "Which capital?"})).is_error
        serving.cancel()
        await asyncio.wait([serving])

    asyncio.run(serve_and_ask())


def onnx() -> None:
    """Converts a small model, and asks it under a grammar."""
    from edgewise.local.backend import CallToWrite
    from edgewise.local.store import ModelStore
    from edgewise_engines.onnx import open_backend
    from tests.local.tiny_qwen import write_tiny_qwen

    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder) / "own.gguf"
        write_tiny_qwen(own)
        model = ModelStore(Path(folder) / "models").pull(f"{own}@onnx")
        backend = open_backend(model, threads=1, context_tokens=128)
        assert list(backend.write_call(CallToWrite("no", grammar='root ::= "none"', max_tokens=4)))
        backend.close()


def openvino() -> None:
    """Reads the GGUF, and reads tokens with what came of it."""
    from edgewise import Settings
    from edgewise.local.catalogue import silent
    from edgewise.local.store import ModelStore
    from edgewise_engines.openvino import OpenVinoSteps, convert

    settings = Settings.load()
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    source = ModelStore(settings.models_dir).find(settings.model).path
    path = settings.data_dir / convert(source, settings.data_dir, silent)
    steps = OpenVinoSteps(path, threads=1)
    assert steps.read(0, 0, [504, 3575, 282, 4649, 314], 1).argmax() == 7042  # " Paris"
    steps.close()


def otel() -> None:
    """A request through the server becomes spans, which go where the user says and only there."""
    from opentelemetry import metrics, trace

    from edgewise.server.tracing import export_over_http, trace_requests
    from edgewise.testing import ScriptedBackend

    with collector() as (url, paths):
        os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = url
        export_over_http()
        ask_a_server(trace_requests, backend=ScriptedBackend.confident("Paris."))
        providers: tuple[Any, Any] = (trace.get_tracer_provider(), metrics.get_meter_provider())
        for provider in providers:
            provider.force_flush()
        assert set(paths) == {"/v1/traces", "/v1/metrics"}, paths
        for provider in providers:
            provider.shutdown()  # or the next minute's metrics would miss the collector


def postgres() -> None:
    """A request whose ledger is a database that lets us in and breaks off at the first query."""
    from edgewise import Engine, Settings
    from edgewise.testing import ScriptedBackend

    # Otherwise libpq asks the system who runs it, which goes the way of a name lookup.
    os.environ["PGUSER"] = "edgewise"

    def break_off(listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)  # the start-up message
                connection.sendall(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I")
                connection.recv(4096)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        threading.Thread(target=break_off, args=(listener,), daemon=True).start()
        url = f"postgresql://edgewise:word@127.0.0.1:{port}/edgewise?sslmode=disable"
        with Engine(Settings.load(ledger=url), backend=ScriptedBackend(["Paris."])) as engine:
            assert engine.complete("What is the capital of France?").source == "local"
            assert engine.ledger.recent()


def server() -> None:
    ask_a_server(packed=True)


def plots() -> None:
    from edgewise_bench.plots import check_drawing, draw_confidence
    from edgewise_bench.speech.traces import word_errors

    check_drawing()
    drawn = draw_confidence(Path("plots"), (0.9, 0.8, 0.3), (True, True, False), "three answers")
    assert word_errors("ever tried", "ever cried").errors == 1
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in drawn)


def speech() -> None:
    """Voice activity, Whisper, and Moonshine where somebody has pulled it."""
    from edgewise import Engine, Settings
    from edgewise.local.store import ModelStore
    from edgewise.speech.audio import VoiceActivity
    from tests.speech.made_voice import silence, voice, wav

    sound = voice(3.0)
    assert max(VoiceActivity().feed(sound)) > 0.5
    settings = Settings.load(policy="local_only")
    installed = {model.name for model in ModelStore(settings.models_dir).installed()}
    moonshine = sorted(name for name in installed if name.startswith("moonshine"))
    for name in (settings.speech_model, *moonshine[:1]):
        with Engine(settings.with_changes(speech_model=name)) as engine:
            heard = engine.transcribe(wav(silence(0.5), sound, silence(0.5)))
        assert heard.source == "local" and heard.speech_seconds > 1


def vision() -> None:
    import io

    from edgewise import Engine, Settings
    from edgewise.documents import pages_as_pictures
    from edgewise.types.replies import SeenReply
    from tests.pictures import page

    scan = io.BytesIO()
    page("NO PARKING", width=280).save(scan, "PDF")
    (sign,) = pages_as_pictures(scan.getvalue(), "scan.pdf")
    with Engine(Settings.load(policy="local_only")) as engine:
        assert engine.complete("What does the sign say?", images=[sign]).text == "NO PARKING"
        listed = engine.complete("What objects are there?", images=[sign])
        assert isinstance(listed, SeenReply) and listed.skill == "names objects"


def wyoming() -> None:
    import asyncio
    import tempfile

    from wyoming.asr import Transcript
    from wyoming.event import Event

    from tests.server.test_wyoming import ask, scripted, served

    async def serve_and_ask() -> list[Event]:
        with tempfile.TemporaryDirectory() as folder:
            async with served(Path(folder), function_model=scripted()) as address:
                return await ask(address, Transcript("hum a tune"))

    (answer,) = asyncio.run(serve_and_ask())
    assert answer.type == "not-recognized"


def ask_a_server(
    look: Callable[[Any], None] = lambda _: None, *, packed: bool = False, **parts: Any
) -> None:
    import httpx2

    from edgewise import Settings
    from edgewise.server.serve import running

    settings = Settings.load(policy="local_only", server={"port": 0})
    asked = {"model": "auto", "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 8}
    with running(settings, look, **parts) as url, httpx2.Client(base_url=url, timeout=120) as http:
        http.get("/healthz").raise_for_status()
        http.post("/v1/chat/completions", json=asked).raise_for_status()
        if packed:
            zstd = importlib.import_module(ZSTD)
            body, heads = zstd.compress(json.dumps(asked).encode()), {"content-encoding": "zstd"}
            http.post("/v1/chat/completions", content=body, headers=heads).raise_for_status()


@contextlib.contextmanager
def collector() -> Iterator[tuple[str, list[str]]]:
    """Takes spans and metrics: its address, and the paths that were posted to."""
    paths: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            paths.append(self.path)
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        @override
        def log_message(self, format: str, *arguments: object) -> None:
            pass

    listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.server_port}", paths
    finally:
        listener.shutdown()
        listener.server_close()


def raise_loopback() -> None:
    """A new network namespace has a loopback device, but it is down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        (flags,) = struct.unpack_from("16xh", fcntl.ioctl(any_socket, GET_FLAGS, request))
        if not flags & UP:
            fcntl.ioctl(any_socket, SET_FLAGS, struct.pack("16sh14x", b"lo", flags | UP))


def main() -> None:
    raise_loopback()
    # http.server asks who 127.0.0.1 is; that look-up would be the test's own.
    socket.getfqdn = lambda name="": name
    work = globals()[sys.argv[1]]
    with contextlib.redirect_stdout(sys.stderr):
        work()
    sys.stdout.write(json.dumps({"loaded": sorted(sys.modules)}) + "\n")
    sys.stdout.flush()
    sys.stdin.read()  # until nobody watches any more


if __name__ == "__main__":
    main()
