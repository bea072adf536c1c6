"""`edgewise bench caller --hard FILE`: requests with nested tools, from the first word to the end.

Each request brings tools that the model has not read before. It is asked with `handoff="signal"`:
what the device does not keep is handed off at the moment when the reply says so. So the time is
that until there is an answer, or until the cloud would have been asked.
"""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgewise import Engine
from edgewise.errors import SettingsError
from edgewise.local.llama_cpp import open_backend
from edgewise.parts import find_function_model, open_function_model
from edgewise.settings import Settings
from edgewise.types.messages import Tool
from edgewise.types.replies import CallReply
from edgewise_bench.calls.cases import read_tool, reading, spread

MOST = 60


@dataclass(frozen=True, slots=True)
class HardRequest:
    query: str
    tools: tuple[Tool, ...]


def read_hard_requests(path: Path, limit: int = MOST) -> list[HardRequest]:
    """The requests of a file that offer a tool with an object inside an object.

    The file is JSON with `cases`, or JSON lines, also gzipped. A case has `query` and `tools`.
    """
    with reading(path):
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
        found = [
            HardRequest(row["query"], tuple(map(read_tool, row["tools"])))
            for row in _rows(text)
            if any(is_nested(read_tool(tool).parameters) for tool in row["tools"])
        ]
    if not found:
        raise SettingsError(f"{path} has no request with a nested tool")
    return spread(found, limit)


def _rows(text: str) -> Iterator[Mapping[str, Any]]:
    try:
        yield from json.loads(text)["cases"]
    except ValueError:  # not one document
        for line in text.splitlines():
            if line.strip():
                yield json.loads(line)


def is_nested(schema: Any) -> bool:
    """Whether a parameter is an object with properties, or a list of such."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    fields = properties.values() if isinstance(properties, Mapping) else ()
    inner = [each for each in fields if isinstance(each, Mapping)]
    inner += [each["items"] for each in inner if isinstance(each.get("items"), Mapping)]
    return any(each.get("properties") for each in inner)


def measure_hard_schemas(
    settings: Settings, requests: Sequence[HardRequest], progress: Callable[[], None]
) -> dict[str, float]:
    """Times, and the shares that were kept and cut; with the load of the machine meanwhile."""
    model = find_function_model(settings)
    opened = open_function_model(settings)
    context_tokens = opened.facts().context_tokens
    opened.close()
    loads, replies = [], []
    with tempfile.TemporaryDirectory(prefix="edgewise-bench-") as folder:
        path = Path(folder) / model.path.name  # in a folder of its own no prefix is kept
        path.symlink_to(model.path)
        function_model = open_backend(
            replace(model, path=path), threads=settings.threads, context_tokens=context_tokens
        )
        with Engine(
            settings.with_changes(data_dir=folder), function_model=function_model
        ) as engine:
            engine.call("Hello", [Tool("nothing", "Does nothing", {})], policy="local_only")
            for request in requests:
                replies.append(engine.call(request.query, request.tools, handoff="signal"))
                loads.append(_load())
                progress()
        function_model.close()
    return summarize(replies) | {"load_mean": sum(loads) / len(loads)}


def _load() -> float:
    """Programs that want a processor, as a mean of the last minute; 0 where nobody knows."""
    return float(os.getloadavg()[0]) if hasattr(os, "getloadavg") else 0.0


def summarize(replies: Sequence[CallReply]) -> dict[str, float]:
    taken = sorted(reply.total_ms for reply in replies)
    count = len(replies)
    return {
        "hard_requests": float(count),
        "hard_ms_p50": taken[count // 2],
        "hard_ms_p95": taken[min(count - 1, int(0.95 * count))],
        "hard_kept_share": sum(not reply.signalled for reply in replies) / count,
        "hard_cut_share": sum(reply.decision.code == "signalled_deadline" for reply in replies)
        / count,
    }
