"""Retries: only what can change within moments, and only within the time that is left."""

from __future__ import annotations

import pytest

from edgewise.cloud.door import PAUSE_S, pause_before_retry
from edgewise.errors import (
    CloudAuthFailed,
    CloudCut,
    CloudError,
    CloudFailed,
    CloudMalformed,
    CloudRateLimited,
    CloudRejected,
    CloudTimeout,
    CloudUnreachable,
)


@pytest.mark.parametrize(
    "error",
    [CloudAuthFailed, CloudCut, CloudMalformed, CloudRejected, CloudTimeout, CloudUnreachable],
)
def test_what_cannot_change_or_may_have_been_paid_for_is_not_retried(
    error: type[CloudError],
) -> None:
    assert pause_before_retry(error("x"), 1, 60.0) is None


def test_a_server_error_is_retried_once() -> None:
    assert pause_before_retry(CloudFailed("500"), 1, 60.0) == PAUSE_S
    assert pause_before_retry(CloudFailed("500"), 2, 60.0) is None


@pytest.mark.parametrize(
    ("retry_after", "left", "pause"),
    [(0.5, 60.0, 0.5), (None, 60.0, PAUSE_S), (30.0, 60.0, None), (1.5, 1.0, None)],
)
def test_retry_after_is_honoured_where_it_fits(
    retry_after: float | None, left: float, pause: float | None
) -> None:
    error = CloudRateLimited("429", retry_after_s=retry_after)
    assert pause_before_retry(error, 1, left) == pause
