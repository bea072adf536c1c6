"""A scripted cloud and a plain HTTP client for the tests that look at the server itself."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest

from edgewise.testing import LoopbackCloud


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as cloud:
        yield cloud


@pytest.fixture
def client() -> Iterator[httpx2.Client]:
    with httpx2.Client(timeout=30) as client:
        yield client
