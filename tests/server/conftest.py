"""A real server on a loopback port, with a scripted device and a scripted cloud behind it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from edgewise.settings import Settings
from edgewise.testing import LoopbackCloud, ScriptedBackend
from tests.server.served import Served


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as server:
        yield server


class Serving:
    """Starts servers, and stops them when the test is over."""

    def __init__(self, stack: ExitStack, cloud: LoopbackCloud, home: Path) -> None:
        self._stack = stack
        self._cloud = cloud
        self._home = home

    def __call__(
        self,
        backend: Any = None,
        *,
        environment: dict[str, str] | None = None,
        settings: dict[str, Any] | None = None,
        function_model: Any = None,
        transcriber: Any = None,
        embedder: Any = None,
        voice: Any = None,
        **server: Any,
    ) -> Served:
        variables = {"OPENAI_API_KEY": "sk-cloud-key-0123456789", **(environment or {})}
        variables |= {"OPENAI_BASE_URL": self._cloud.openai_url}
        loaded = Settings.load(
            variables,
            data_dir=self._home / "data",
            config_dir=self._home / "config",
            server={"port": 0, "drain_s": 2.0, **server},
            **(settings or {}),
        )
        backend = backend or ScriptedBackend.confident("Paris is the capital of France.")
        parts = {"function_model": function_model, "transcriber": transcriber}
        parts |= {"embedder": embedder, "voice": voice}
        return self._stack.enter_context(Served.started(loaded, backend, **parts))


@pytest.fixture
def serving(cloud: LoopbackCloud, tmp_path: Path) -> Iterator[Serving]:
    with ExitStack() as stack:
        yield Serving(stack, cloud, tmp_path)


@pytest.fixture
def served(serving: Serving) -> Served:
    """A server whose device is sure of its answer."""
    return serving()


@pytest.fixture(scope="session")
def session_served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for the many small things that are refused: it must survive them all."""
    settings = Settings.load({}, data_dir=tmp_path_factory.mktemp("data"), server={"port": 0})
    with Served.started(settings, ScriptedBackend.confident("Paris.")) as served:
        yield served
