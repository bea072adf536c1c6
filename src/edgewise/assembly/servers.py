"""Models that edgewise does not keep: those of a running server, and of engines with own stores.

The model's name says where it is: a URL (`http://127.0.0.1:8080`, with `#NAME` for one of several
models), a server and a model (`ollama:qwen3:4b`), or a folder or a name and an engine
(`/models/smol@cactus`). Whether a server counts as the device is decided here too.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from edgewise.assembly.calibrations import model_key
from edgewise.cloud.providers import is_loopback
from edgewise.errors import ModelNotFound, SettingsError
from edgewise.local.store.store import ModelStore
from edgewise.settings import Settings

if TYPE_CHECKING:  # brings an HTTP client, which loads with the first model
    from edgewise.local.running_server import RunningServer

# Where each server listens unless it is told otherwise.
USUAL_URLS: Mapping[str, str] = {
    "llama-server": "http://127.0.0.1:8080",
    "ollama": "http://127.0.0.1:11434",
    "vllm": "http://127.0.0.1:8000",
    "lmstudio": "http://127.0.0.1:1234",
    "lemonade": "http://127.0.0.1:8000/api",
    "geniex": "http://127.0.0.1:18181",
    "cactus": "http://127.0.0.1:8080",
}


# Engines in process whose models edgewise neither pulls nor converts.
OWN_STORES = frozenset({"cactus", "geniex"})


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is, and which of its models is meant; an empty `kind` is found out."""

    url: str
    model: str = ""
    kind: str = ""


def address_of(name: str) -> Address | None:
    """The address that a model's name gives; None if it names no server."""
    if name.startswith(("http://", "https://")):
        url, _, model = name.partition("#")
        return Address(url.rstrip("/").removesuffix("/v1"), model)
    kind, colon, model = name.partition(":")
    return Address(USUAL_URLS[kind], model, kind) if colon and kind in USUAL_URLS else None


def engine_of(name: str) -> tuple[str, str]:
    """A model's name without its engine, and an engine with a store of its own; empty: none."""
    model, at, engine = name.rpartition("@")
    return (model, engine) if at and engine in OWN_STORES else (name, "")


def is_elsewhere(name: str) -> bool:
    """Whether the name says that edgewise does not keep the model."""
    return address_of(name) is not None or bool(engine_of(name)[1])


def open_server(settings: Settings, address: Address, *, calls: bool = False) -> RunningServer:
    """The server as a backend. `calls`: it must write function calls under our grammars."""
    host = urlsplit(address.url).hostname or ""
    if not (is_loopback(address.url) or host in settings.device_hosts):
        raise SettingsError(
            f"{address.url} is another machine, so it is not the device; if it counts as one, "
            f"write device_hosts = [{host!r}]"
        )
    from edgewise.local.running_server import open_backend  # noqa: PLC0415  # an HTTP client

    server = open_backend(
        address.url,
        model=address.model,
        kind=address.kind,
        context_tokens=settings.context_tokens,
        slots=settings.slots,
    )
    if is_loopback(address.url) and (key := _same_file(settings, server)):
        server.know_bits(key)
    if calls and server.facts().backend != "llama-server":
        server.close()
        raise ModelNotFound(
            f"{server.facts().backend} cannot write calls under a grammar of ours; llama-server can"
        )
    return server


def _same_file(settings: Settings, server: RunningServer) -> str:
    """The key of the pulled model whose very file the server has loaded; empty: another file.

    The store has verified its own files, so nothing is read here.
    """
    facts, path = server.facts(), server.model_path
    for model in ModelStore(settings.models_dir).installed() if path else ():
        with contextlib.suppress(OSError):  # a server in a container has other paths
            if model.quantisation == facts.quantisation and os.path.samefile(model.path, path):
                home = replace(facts, backend="llama_cpp", model=model.name)
                return model_key(home)
    return ""
