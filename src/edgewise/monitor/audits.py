"""Opens the auditor, if the settings ask for one."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from edgewise.cloud.provider import Cloud
from edgewise.errors import ExtraMissing, ModelNotFound
from edgewise.local.backend import EmbedBackend
from edgewise.local.onnx_embedder import require_runtime
from edgewise.local.store.store import ModelStore
from edgewise.monitor.open_streams import OpenStreams
from edgewise.record.book import Book
from edgewise.record.recorder import Watcher
from edgewise.settings import (
    DEFAULT_EMBEDDER,
    Settings,
)
from edgewise.types.messages import Task

if TYPE_CHECKING:
    from edgewise.flows.audit import Auditor


class Host(Protocol):
    """What audits need of the engine."""

    settings: Settings
    ledger: Book

    def _open_embedder(self) -> EmbedBackend: ...

    def _cloud_for(self, task: Task) -> Cloud: ...


def open_auditor(
    host: Host, streams: OpenStreams, draw: Callable[[], float] = random.random
) -> Auditor | None:
    """None if nothing is to be audited. Closed with the other open streams."""
    if not host.settings.audit_share:
        return None
    from edgewise.flows.audit import Auditor, Parts  # noqa: PLC0415  # most engines need none

    auditor = Auditor(
        Parts(
            cloud=host._cloud_for,
            book=host.ledger,
            share=host.settings.audit_share,
            random=draw,
            similarity=lambda one, other: similarity(host, one, other),
        )
    )
    streams.add(auditor)
    return auditor


def watching(auditor: Auditor | None) -> tuple[Watcher, ...]:
    return () if auditor is None else (auditor.watch,)


def similarity(host: Host, one: str, other: str) -> float | None:
    """The cosine of two texts, if the default embedder is installed."""
    try:
        require_runtime()
        ModelStore(host.settings.models_dir).find(DEFAULT_EMBEDDER)  # do not fetch it for this
    except (ExtraMissing, ModelNotFound):
        return None
    embedder = host._open_embedder()
    if embedder.facts().model != DEFAULT_EMBEDDER:
        return None
    first, second = embedder.embed([one, other]).vectors
    return math.fsum(a * b for a, b in zip(first, second, strict=True))
