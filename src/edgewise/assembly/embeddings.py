"""Embeddings for the engine: puts the flow's parts together. Loaded with the first text."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, Unpack

from edgewise import plugins
from edgewise.assembly.arguments import checked
from edgewise.cloud.door import Door
from edgewise.cloud.provider import Cloud
from edgewise.errors import CloudClosed, InvalidRequest
from edgewise.flows import embed as flow
from edgewise.local.backend import EmbedBackend
from edgewise.types.embeddings import (
    Embeddings,
    EmbedOptions,
)
from edgewise.types.messages import Message, Request, RequestOptions, Task
from edgewise.types.replies import Attempt


class Host(Protocol):
    """What embedding needs of the engine."""

    def _request(self, prompt: Sequence[Message], **options: Unpack[RequestOptions]) -> Request: ...

    def _open_embedder(self) -> EmbedBackend: ...

    def _cloud_for(self, task: Task) -> Cloud: ...

    def _keep(
        self, request: Request, work: Callable[[list[Attempt]], Embeddings]
    ) -> Embeddings: ...


def embed(host: Host, texts: str | Sequence[str], options: EmbedOptions) -> Embeddings:
    """One vector per text, in order. A single text may be given alone."""
    given = checked(options, EmbedOptions)
    space, int8 = given.pop("space", ""), given.pop("int8", False)
    dimensions = given.pop("dimensions", None)
    if dimensions is not None and dimensions < 1:
        raise InvalidRequest(f"dimensions = {dimensions}: at least 1")
    messages = _messages([texts] if isinstance(texts, str) else texts)
    request = replace(host._request(messages, **given), task="embed", dimensions=dimensions)
    parts = flow.Parts(
        embedder=host._open_embedder,
        cloud=lambda pinned: pinned_to(host._cloud_for("embed"), pinned),
        policy=plugins.load("policies", request.policy),
        clock=time.perf_counter,
    )
    return host._keep(
        request, lambda attempts: flow.embed(request, parts, attempts, space=space, int8=int8)
    )


def _messages(texts: Sequence[str]) -> tuple[Message, ...]:
    if not texts:
        raise InvalidRequest("there is no text to embed")
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            raise InvalidRequest(f"text {number} is a {type(text).__name__}")
        if not text.strip():
            raise InvalidRequest(f"text {number} is empty")
    return tuple(Message("user", text) for text in texts)


def pinned_to(cloud: Cloud, space: str) -> Cloud:
    """The same door with only those providers that make vectors of the space."""
    if space and hasattr(cloud, "door"):  # a server's door, wrapped so that it can be cancelled
        wrapped: Any = cloud
        pinned: Cloud = replace(wrapped, door=pinned_to(wrapped.door, space))
        return pinned
    if not space or not isinstance(cloud, Door):
        return cloud
    name = re.sub(r"-\d+$", "", space)
    lanes = [lane for lane in cloud.lanes if f"{lane.config.name}/{lane.config.model}" == name]
    return replace(cloud, lanes=lanes) if lanes else NoSuchSpace()


class NoSuchSpace:
    """The cloud if no provider of the chain makes vectors of the requested space."""

    def closed(self, request: Request) -> CloudClosed | None:
        return CloudClosed(
            "no provider of the chain makes vectors of that space", code="other_space"
        )

    def stream(self, request: Request, journal: list[Attempt], **_: object) -> Any:
        raise self.closed(request) or AssertionError("it is always closed")
