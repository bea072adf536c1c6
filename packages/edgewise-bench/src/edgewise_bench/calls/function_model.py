"""`edgewise bench caller`: how fast the function model writes calls, and what it takes."""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy
from gguf import GGUFReader

from edgewise.calls.draft import draft_answers
from edgewise.calls.prompt import render_prompt, shared_prompt
from edgewise.children import python_child
from edgewise.engine import Engine
from edgewise.grammar.tools import compile_grammar
from edgewise.local.backend import CallBackend, CallToWrite
from edgewise.local.catalogue import read_manifest
from edgewise.local.llama_server import LlamaServer
from edgewise.local.store import LLAMA_CPP, split_runtime
from edgewise.parts import find_function_model, open_function_model
from edgewise.settings import Settings
from edgewise.types.messages import Tool
from edgewise.types.replies import Finish

TARGETS: dict[str, tuple[str, float]] = {
    "call_ratio": ("<", 0.55),
    "call_ms_p50": ("<", 150.0),
    "passes_p50": ("<", 3.5),
    "equal_share": (">", 0.999),
    "own_ms_p50": ("<", 8.0),
    "restart_ratio": ("<", 1.3),
    "hard_ms_p95": ("<", 2500.0),
}

_ARRAY_BYTES = 1 << 28  # far more than any cache holds
# Resident memory of a process that has written one call and does nothing else.
_RESIDENT = """
import sys
from pathlib import Path
from edgewise.local.backend import CallToWrite
from edgewise.parts import open_function_model
from edgewise.settings import Settings
settings = Settings(function_model=sys.argv[1], threads=1, cache_dir=Path(sys.argv[2]))
model = open_function_model(settings)
list(model.write_call(CallToWrite(sys.argv[3], max_tokens=24)))
lines = Path("/proc/self/status").read_text().splitlines()
print(next(line for line in lines if line.startswith("VmRSS")).split()[1])
model.close()
"""
# The same work for every run: thirty requests, and below five tools for them.
REQUESTS = (
    "what's the weather in Oslo?",
    "set a timer for 12 minutes",
    "text Maria that I'm running ten minutes late",
    "play some Miles Davis",
    "dim the kitchen lights to 30 percent",
    "is it raining in Lisbon right now",
    "start a 45 minute timer for the bread",
    "tell Jonas the meeting moved to Friday",
    "put on my morning playlist and shuffle it",
    "turn off the lights in the bedroom",
    "how warm is it in Nairobi in fahrenheit",
    "timer for 3 minutes please, it's for the tea",
    "message Aunt Ingrid: happy birthday",
    "I'd like to hear Clair de Lune",
    "set the living room lights to full brightness",
    "weather for Buenos Aires",
    "remind me in 20 minutes to check the oven",
    "let Priya know dinner is at seven",
    "play jazz for studying",
    "hallway lights at 15 percent",
    "do I need a coat in Reykjavik today?",
    "give me a five minute countdown",
    "send Tom a message saying the keys are under the mat",
    "shuffle the Beatles",
    "make the office a bit darker, 60 percent",
    "weather in Kyoto and in Osaka",
    "set a timer for 8 minutes and play Radiohead",
    "write to Elena that I have landed safely",
    "turn the garage lights off and text Sam good night",
    "what is the capital of Peru?",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """How often everything is asked, of how many requests, and how long an answer may get."""

    times: int = 3
    requests: int = len(REQUESTS)
    max_tokens: int = 400

    @property
    def steps(self) -> int:
        """How often `progress` is called."""
        return 3 * self.times * self.requests + 4


QUICK = Rounds(times=1, requests=3, max_tokens=24)


@dataclass(frozen=True, slots=True)
class Written:
    """One call: seconds until its first token and for the rest, and what was computed."""

    first_s: float
    rest_s: float
    fresh_tokens: int
    output_tokens: int
    processor_s: float = 0.0
    passes: int = 0
    text: str = ""

    @property
    def seconds(self) -> float:
        return self.first_s + self.rest_s


def measure_function_model(
    settings: Settings, rounds: Rounds, progress: Callable[[], None] = lambda: None
) -> dict[str, float]:
    """All metrics, of the function model that `settings` choose."""
    # The bare runtime reads the GGUF file, whatever runs the model here.
    base = f"{split_runtime(settings.function_model)[0]}@{LLAMA_CPP}"
    model = find_function_model(settings.with_changes(function_model=base))
    function_model = open_function_model(settings)
    context_tokens = function_model.facts().context_tokens
    bare = LlamaServer(model, threads=settings.threads, context_tokens=context_tokens)
    ours: list[Written] = []
    theirs: list[Written] = []
    try:
        warm_up = "dim the bathroom lights to 20 percent"
        first = write(function_model, TOOLS, warm_up, rounds.max_tokens)
        write(bare, TOOLS, warm_up, rounds.max_tokens, step_by_step=True)
        progress()
        for _ in range(rounds.times):
            for request in REQUESTS[: rounds.requests]:
                ours.append(write(function_model, TOOLS, request, rounds.max_tokens))
                progress()
                theirs.append(write(bare, TOOLS, request, rounds.max_tokens, step_by_step=True))
                progress()
        # Another order of the tools shares no prefix, so the whole prompt is computed.
        cold = [
            write(bare, turned, REQUESTS[0], 1, step_by_step=True) for turned in _turned(rounds)
        ]
        progress()
        restarted = measure_restart(settings, function_model, rounds)
        progress()
        own = measure_own_time(settings, function_model, rounds, progress)
    finally:
        function_model.close()
        bare.close()
    found = {
        "first_call_ms": 1000 * first.seconds,
        **compare(ours, theirs),
        "restart_ratio": restarted,
        "own_ms_p50": statistics.median(own),
        "own_ms_mean": statistics.fmean(own),
        **speeds(theirs, cold),
    }
    bandwidth = measure_bandwidth()
    found["memory_gb_per_second"] = bandwidth / 1e9
    read_per_second = tensor_bytes(model.path) * found["output_tokens_per_second"]
    found["bandwidth_share"] = read_per_second / bandwidth
    if Path("/proc/self/status").exists():
        found["rss_mib"] = measure_resident(settings)
    progress()
    manifest = read_manifest(model.path.parent)
    if manifest is not None and "merge_s" in manifest.source:
        found["merge_s"] = float(manifest.source["merge_s"])
    return found


def write(
    function_model: CallBackend,
    tools: Iterable[Tool],
    request: str,
    max_tokens: int,
    *,
    step_by_step: bool = False,
) -> Written:
    """Write one call as the engine does: grammar, draft, then the model. The first one loads it.

    `step_by_step`: the runtime alone, token by token under the same grammar.
    """
    offered = tuple(tools)
    started, processor = time.perf_counter(), time.process_time()
    grammar = compile_grammar(offered, request)
    prompt = render_prompt(offered, request)
    if step_by_step:
        stream = function_model.write_call(
            CallToWrite(prompt, grammar=grammar, max_tokens=max_tokens)
        )
    else:
        stream = function_model.write_call(
            CallToWrite(
                prompt,
                grammar=grammar,
                max_tokens=max_tokens,
                drafts=tuple(draft_answers(request, offered)),
                prefix=shared_prompt(offered),
            )
        )
    first = finish = None
    text = ""
    for item in stream:
        first = first or time.perf_counter()
        if isinstance(item, Finish):
            finish = item
        else:
            text += item.text
    processor, ended = time.process_time() - processor, time.perf_counter()
    assert isinstance(finish, Finish) and first is not None  # the protocol says so
    fresh = finish.input_tokens - finish.cached_tokens
    return Written(
        first - started, ended - first, fresh, finish.output_tokens, processor, finish.passes, text
    )


def measure_restart(settings: Settings, warm: CallBackend, rounds: Rounds) -> float:
    """The first call of a known tool set after a start, against a warm one; weights loaded."""
    request, ratios = REQUESTS[1], []
    for _ in range(rounds.times):
        write(warm, TOOLS, REQUESTS[0], rounds.max_tokens)
        usual = write(warm, TOOLS, request, rounds.max_tokens)
        started = open_function_model(settings)
        try:
            write(started, TOOLS[:1], REQUESTS[0], 1)  # loads the weights, for another tool set
            first = write(started, TOOLS, request, rounds.max_tokens)
        finally:
            started.close()
        ratios.append(first.processor_s / usual.processor_s)
    return statistics.median(ratios)


def measure_own_time(
    settings: Settings,
    function_model: CallBackend,
    rounds: Rounds,
    progress: Callable[[], None] = lambda: None,
) -> list[float]:
    """Milliseconds of processor time that `Engine.call` takes on the thread of its caller.

    The decode loop has a thread of its own, so this is all but the model: reading the request,
    prompt, grammar and draft, normalizing and judging, the ledger. The tools come as JSON that is
    parsed anew, as in a server.
    """
    sent = json.dumps(
        [
            {"name": one.name, "description": one.description, "parameters": one.parameters}
            for one in TOOLS
        ]
    )
    found = []
    with TemporaryDirectory() as folder:
        apart = settings.with_changes(data_dir=folder, policy="local_only")
        with Engine(apart, function_model=function_model) as engine:
            engine.call(REQUESTS[0], json.loads(sent))
            for request in REQUESTS[: rounds.requests] * rounds.times:
                tools = json.loads(sent)
                started = time.thread_time()
                engine.call(request, tools)
                found.append(1000 * (time.thread_time() - started))
                progress()
    return found


def compare(ours: list[Written], theirs: list[Written]) -> dict[str, float]:
    """Our calls against the same calls token by token. Ratios are of processor time."""
    ordered = sorted(1000 * each.seconds for each in ours)
    same = [one.text == other.text for one, other in zip(ours, theirs, strict=True)]
    return {
        "call_ratio": sum(each.processor_s for each in ours)
        / sum(each.processor_s for each in theirs),
        "call_ms_p50": statistics.median(ordered),
        "call_ms_p95": ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))],
        "passes_p50": statistics.median(each.passes for each in ours),
        "passes_mean": statistics.fmean(each.passes for each in ours),
        "equal_share": sum(same) / len(same),
    }


def speeds(warm: list[Written], cold: list[Written]) -> dict[str, float]:
    """The bare runtime: medians of a call and its two parts, and tokens per second."""
    later = sum(each.output_tokens - 1 for each in warm)
    return {
        "bare_ms_p50": statistics.median(1000 * each.seconds for each in warm),
        "read_ms_p50": statistics.median(1000 * each.first_s for each in warm),
        "write_ms_p50": statistics.median(1000 * each.rest_s for each in warm),
        "turn_tokens_p50": statistics.median(each.fresh_tokens for each in warm),
        "output_tokens_p50": statistics.median(each.output_tokens for each in warm),
        "prompt_tokens_per_second": sum(each.fresh_tokens for each in cold)
        / sum(each.first_s for each in cold),
        "output_tokens_per_second": later / sum(each.rest_s for each in warm),
    }


def measure_bandwidth() -> float:
    """Bytes per second one thread reads from memory: the best of several sums over an array."""
    values = numpy.ones(_ARRAY_BYTES // 8)
    best = float("inf")
    for _ in range(7):
        started = time.perf_counter()
        values.sum()
        best = min(best, time.perf_counter() - started)
    return values.nbytes / best


def tensor_bytes(path: Path) -> int:
    """What is read for each token: every weight once, for these models share the embedding."""
    return sum(int(tensor.n_bytes) for tensor in GGUFReader(path).tensors)


def measure_resident(settings: Settings) -> float:
    """Mebibytes of a fresh process that has written one call."""
    prompt = render_prompt(TOOLS, REQUESTS[0])
    arguments = [settings.function_model, str(settings.cache_dir), prompt]
    done = subprocess.run(
        python_child("-c", _RESIDENT, *arguments), check=True, capture_output=True, text=True
    )
    return int(done.stdout) / 1024


def _turned(rounds: Rounds) -> list[tuple[Tool, ...]]:
    count = len(TOOLS) if rounds.requests > 3 else 2
    return [TOOLS[number:] + TOOLS[:number] for number in range(1, count)]


def _tool(name: str, description: str, required: list[str], **properties: Any) -> Tool:
    schema = {"type": "object", "properties": properties, "required": required}
    return Tool(name=name, description=description, parameters=schema)


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _whole(description: str) -> dict[str, Any]:
    return {"type": "integer", "description": description}


TOOLS = (
    _tool(
        "get_weather",
        "Get the current weather for a place",
        ["place"],
        place=_text("City or region"),
        unit={"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
    ),
    _tool(
        "set_timer",
        "Start a countdown timer",
        ["minutes"],
        minutes=_whole("Length in minutes"),
        label=_text("What the timer is for"),
    ),
    _tool(
        "send_message",
        "Send a text message to a contact",
        ["recipient", "text"],
        recipient=_text("Name of the contact"),
        text=_text("What to say"),
    ),
    _tool(
        "play_music",
        "Play a song, an artist or a playlist",
        ["query"],
        query=_text("What to play"),
        shuffle={"type": "boolean", "default": False},
    ),
    _tool(
        "set_lights",
        "Switch or dim the lights of a room",
        ["room", "brightness"],
        room=_text("Which room"),
        brightness=_whole("Per cent, 0 is off"),
    ),
)
