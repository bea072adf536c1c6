"""Opens the four adapters the same way, for the tests that hold for all of them."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator

from edgewise.cloud.provider import Arrived, Chunk, CloudProvider, ProviderConfig, TimeLimits
from edgewise.cloud.providers import PROVIDERS
from edgewise.errors import CloudError
from edgewise.testing import LoopbackCloud
from edgewise.types.messages import Message, Request, ToolCall
from edgewise.types.replies import Finish

KEY = "sk-loopback-0123456789"
ADAPTERS = ("openai", "gemini", "anthropic", "cactus_cloud")
STREAMING = ADAPTERS[:3]
QUESTION = Request(messages=(Message("user", "Why is the sky blue?"),))


def open_adapter(
    name: str,
    base_url: str,
    *,
    model: str = "",
    key: str = KEY,
    connect_s: float = 2.0,
    first_token_s: float = 15.0,
    called: str = "",
) -> CloudProvider:
    """`called` is the provider's name, if it differs from its protocol's."""
    module = importlib.import_module(f"edgewise.cloud.{name}")
    row = PROVIDERS[called or name]
    config = ProviderConfig(
        name=row.name,
        protocol=row.protocol,
        model=model or row.default_model or "some-model",
        base_url=base_url,
        key=key,
        limits=TimeLimits(connect_s=connect_s, first_token_s=first_token_s),
    )
    provider: CloudProvider = module.open_provider(config)
    return provider


def address(cloud: LoopbackCloud, name: str) -> str:
    urls = {
        "openai": cloud.openai_url,
        "gemini": cloud.gemini_url,
        "anthropic": cloud.anthropic_url,
        "cactus_cloud": cloud.cactus_url,
    }
    return urls[name]


def text_of(chunks: list[Chunk]) -> str:
    return "".join(chunk for chunk in chunks if isinstance(chunk, str))


def passed_on(chunks: list[Chunk]) -> list[Chunk]:
    """Without what only says that something arrived."""
    return [chunk for chunk in chunks if not isinstance(chunk, Arrived)]


def arrived_in(chunks: list[Chunk]) -> int:
    """The bytes that came and are not shown as text."""
    return sum(chunk.size for chunk in chunks if isinstance(chunk, Arrived))


def calls_of(chunks: list[Chunk]) -> list[ToolCall]:
    return [chunk for chunk in chunks if isinstance(chunk, ToolCall)]


def finish_of(chunks: list[Chunk]) -> Finish:
    (finish,) = [chunk for chunk in chunks if isinstance(chunk, Finish)]
    assert chunks[-1] is finish
    return finish


class Reader:
    """Reads a stream on a thread of its own, as the door does."""

    def __init__(self, stream: Callable[[], Iterator[Chunk]]) -> None:
        self.chunks: list[Chunk] = []
        self.error: CloudError | None = None
        self._stream = stream
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            for chunk in self._stream():
                self.chunks.append(chunk)
        except CloudError as error:
            self.error = error

    def ended_within(self, seconds: float) -> bool:
        self._thread.join(seconds)
        return not self._thread.is_alive()
