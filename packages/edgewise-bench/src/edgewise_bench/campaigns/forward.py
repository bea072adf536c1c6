"""`edgewise bench forward`: requests of agents, sent on in their own protocol, byte by byte.

A loopback cloud keeps what reaches it and answers with recorded bytes, in pieces of random sizes.
Requests and answers are those of clients of each protocol, with unknown fields put in at random.
What is changed beyond what docs/guide/server.md names is counted. The time to the first byte is
measured beside a plain reverse proxy to the same cloud, in turn.
"""

from __future__ import annotations

import copy
import json
import os
import random
import string
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx2

from edgewise import Settings
from edgewise.cloud.http import members
from edgewise.server import serve
from edgewise.testing import LoopbackCloud, Recorded, ScriptedBackend, ScriptedFunctionModel
from edgewise_bench.processes import started

TARGETS: dict[str, tuple[str, float]] = {
    "bytes_changed_request": ("<=", 0),
    "bytes_changed_reply": ("<=", 0),
    "not_answered": ("<=", 0),
    "first_byte_added_ms_p50": ("<=", 5),
    "first_byte_added_ms_p99": ("<=", 15),
}
PROVIDERS = {"chat": "openai", "responses": "openai", "messages": "anthropic"}
PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
}
MOST_FIELDS = 4  # unknown ones, in one object of a body or an event
WARM_UP = 20
_SCHEMAS = ("parameters", "input_schema", "schema")  # what is wrong in one is refused
_OURS = b'"edgewise":'


def recorded() -> dict[str, Any]:
    """By protocol: requests as clients send them, streams as lists of events, whole answers."""
    text = resources.files("edgewise_bench.campaigns").joinpath("forward.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


@contextmanager
def gateway(folder: Path, cloud: LoopbackCloud) -> Iterator[str]:
    """A server with both providers in its chain, and a device that is not sure."""
    variables = {
        "OPENAI_API_KEY": "sk-bench-0123456789",
        "OPENAI_BASE_URL": cloud.openai_url,
        "ANTHROPIC_API_KEY": "sk-ant-bench-0123456789",
        "ANTHROPIC_BASE_URL": cloud.anthropic_url,
    }
    settings = Settings.load(
        variables, data_dir=folder / "data", config_dir=folder / "config", server={"port": 0}
    )
    parts = {
        "backend": ScriptedBackend.doubtful("I do not know."),
        "function_model": ScriptedFunctionModel(["none"], logprobs=[[-0.001]]),
    }
    with serve.running(settings, lambda _: None, **parts) as url:
        yield url


def measure_forward(
    folder: Path,
    requests: int,
    seed: int,
    step: Callable[[], object] = lambda: None,
    *,
    timed: int = 0,
) -> dict[str, float]:
    """`timed` requests measure the time to the first byte."""
    rng, cases = random.Random(seed), recorded()
    metrics = {"requests": 0.0, "bytes_changed_request": 0.0, "bytes_changed_reply": 0.0}
    metrics |= {"not_answered": 0.0, "request_bytes": 0.0, "reply_bytes": 0.0}
    with LoopbackCloud() as cloud, gateway(folder, cloud) as url, httpx2.Client(timeout=60) as http:
        for number in range(requests):
            wire = list(cases)[number % len(cases)]
            one_round(rng, wire, cases[wire], cloud, http, url, metrics)
            step()
    if timed:
        metrics |= measure_first_byte(folder, timed)
    return metrics


def one_round(
    rng: random.Random,
    wire: str,
    case: Mapping[str, Any],
    cloud: LoopbackCloud,
    http: httpx2.Client,
    url: str,
    metrics: dict[str, float],
) -> None:
    body = fuzzed(rng, rng.choice(case["requests"]))
    stream = rng.random() < 0.7
    body["stream"] = stream
    body["model"] = model = case["model"]
    if wire == "chat" and stream:
        body["stream_options"] = {"include_usage": True}  # hiding it again is a test of its own
    if stream:
        reply = b"".join(written(event) for event in fuzzed(rng, rng.choice(case["streams"])))
    else:
        reply = json.dumps(fuzzed(rng, rng.choice(case["whole"])), ensure_ascii=False).encode()
    cloud.script(Recorded(pieces=cut(rng, reply) if stream else (reply,)))
    seen = len(cloud.requests)
    # Some streams by the model's bare name: the device is asked first then, and is not sure.
    first = stream and rng.random() < 0.5
    named = {**body, "model": model if first else f"cloud/{PROVIDERS[wire]}/{model}"}
    sent = json.dumps(named, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, None, 1]))
    kind = {"content-type": "application/json"}
    answer = http.post(url + PATHS[wire], content=sent.encode(), headers=kind)
    metrics["requests"] += 1
    left = cloud.requests[seen:]
    if answer.status_code != 200 or len(left) != 1:
        metrics["not_answered"] += 1
        cloud.clear_script()
        return
    metrics["request_bytes"] += len(left[0].content)
    metrics["reply_bytes"] += len(reply)
    metrics["bytes_changed_request"] += changed_values(body, sent, left[0].content.decode())
    metrics["bytes_changed_reply"] += changed(reply, without_ours(answer.content))


def changed_values(body: Mapping[str, Any], sent: str, left: str) -> int:
    """Bytes of the values, as they are written. The model is that of `body`, in any spelling."""
    ours, theirs = members(sent), members(left)
    if json.loads(theirs.pop("model", "null")) != body["model"]:
        return len(ours["model"])
    del ours["model"]
    names = {*ours, *theirs}
    return sum(changed(ours.get(n, "").encode(), theirs.get(n, "").encode()) for n in names)


def changed(wanted: bytes, found: bytes) -> int:
    """How many bytes lie between the common beginning and the common end."""
    if wanted == found:
        return 0
    shorter = min(len(wanted), len(found))
    start = next((n for n in range(shorter) if wanted[n] != found[n]), shorter)
    rest = shorter - start
    end = next((n for n in range(rest) if wanted[-1 - n] != found[-1 - n]), rest)
    return max(len(wanted), len(found)) - start - end


def without_ours(answer: bytes) -> bytes:
    """An answer with our objects taken out of its bytes."""
    decoder, kept, at = json.JSONDecoder(), [], 0
    while (found := answer.find(_OURS, at)) >= 0:
        kept.append(answer[at:found])
        text = answer[found + len(_OURS) :].decode()
        _, length = decoder.raw_decode(text)
        at = found + len(_OURS) + len(text[:length].encode())
        at += answer[at : at + 1] == b","
    return b"".join((*kept, answer[at:]))


def written(event: Mapping[str, Any] | str) -> bytes:
    """A comment, an end mark, or an event; one with a type has it in its first line too."""
    if isinstance(event, str):
        return event.encode() + b"\n\n"
    head = f"event: {event['type']}\n" if "type" in event else ""
    return f"{head}data: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


def cut(rng: random.Random, content: bytes) -> tuple[bytes, ...]:
    """In pieces as a network makes them: they end anywhere."""
    places = sorted(rng.sample(range(1, len(content)), rng.randint(0, min(20, len(content) - 1))))
    ends = [*places, len(content)]
    return tuple(content[start:end] for start, end in zip([0, *places], ends, strict=True))


def fuzzed(rng: random.Random, value: Any) -> Any:
    """The same with unknown fields in some of its objects."""
    value = copy.deepcopy(value)
    objects = [each for each in _objects(value) if "role" in each or rng.random() < 0.3]
    for each in objects:
        for _ in range(rng.randint(0, MOST_FIELDS)):
            each["zz_" + "".join(rng.choices(string.ascii_lowercase, k=6))] = _anything(rng, 3)
    return value


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(inner, dict | list) and name not in _SCHEMAS:
            yield from _objects(inner)


def _anything(rng: random.Random, depth: int) -> Any:
    kinds = 7 if depth else 5
    match rng.randrange(kinds):
        case 0:
            return rng.choice([True, False])
        case 1:
            return rng.randint(-(10**12), 10**12)
        case 2:
            return rng.choice([0.5, -1e-7, 1.0, 12345.678])
        case 3 | 4:
            letters = 'aB9 \n\t"\\/{}[]:,é漢🙂\u2028data: '
            return "".join(rng.choices(letters, k=rng.randint(0, 40)))
        case 5:
            return [_anything(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    return {f"k{number}": _anything(rng, depth - 1) for number in range(rng.randint(0, 3))}


# -- time to the first byte ------------------------------------------------------------------------


def measure_first_byte(folder: Path, timed: int) -> dict[str, float]:
    """Streams through a plain proxy and through our server, without a budget and with one, in turn.

    Each has a process of its own. A budget has its reservation on the disk before anything leaves.
    """
    body = {
        "model": "cloud/openai/loopback-large",
        "messages": [{"role": "user", "content": "word " * 2000}],
        "stream": True,
    }
    here = "edgewise_bench.campaigns"
    gate = ("-m", f"{here}.plain_gateway")
    with (
        started("-m", "edgewise.testing.loopback_cloud") as cloud,
        started("-m", f"{here}.plain_proxy", cloud.url) as proxy,
        started(*gate, str(folder / "ours"), cloud.url) as ours,
        started(*gate, str(folder / "paid"), cloud.url, "$9999/day") as paid,
        httpx2.Client(timeout=60) as http,
    ):
        took: dict[str, list[float]] = {proxy.url: [], ours.url: [], paid.url: []}
        for number in range(WARM_UP + timed):
            for url, times in took.items():
                seconds = _first_byte_s(http, url, body)
                if number >= WARM_UP:
                    times.append(1000 * seconds)
    metrics = {"load": os.getloadavg()[0]}
    named = {"proxy": proxy.url, "edgewise": ours.url, "with_budget": paid.url}
    for name, times in ((name, took[url]) for name, url in named.items()):
        metrics[f"first_byte_{name}_ms_p50"] = median(times)
        metrics[f"first_byte_{name}_ms_p99"] = quantiles(times, n=100)[98]
    for share in ("p50", "p99"):
        added = metrics[f"first_byte_edgewise_ms_{share}"] - metrics[f"first_byte_proxy_ms_{share}"]
        metrics[f"first_byte_added_ms_{share}"] = added
    return metrics


def _first_byte_s(http: httpx2.Client, url: str, body: object) -> float:
    begun = time.perf_counter()
    with http.stream("POST", url + PATHS["chat"], json=body) as answer:
        pieces = answer.iter_raw()
        next(pieces)
        took = time.perf_counter() - begun
        for _ in pieces:
            pass
    return took
