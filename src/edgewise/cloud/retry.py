"""When the same provider may be asked again: only before it said anything, and only if it pays."""

from __future__ import annotations

from edgewise.errors import CloudError, CloudFailed, CloudRateLimited

MOST_TRIES = 2
PAUSE_S = 0.25
LONGEST_PAUSE_S = 2.0


def pause_before_retry(error: CloudError, tries: int, seconds_left: float) -> float | None:
    """Seconds to wait before the next try, or None for no further one.

    Retried: 429 whose Retry-After fits, and 5xx. Not retried: what cannot change within moments
    (DNS, refused, no route, keys, bad requests) or what may have been paid for (time-outs, cuts).
    """
    if tries >= MOST_TRIES:
        return None
    if isinstance(error, CloudRateLimited):
        pause = PAUSE_S if error.retry_after_s is None else error.retry_after_s
    elif isinstance(error, CloudFailed):
        pause = PAUSE_S
    else:
        return None
    return pause if pause <= min(LONGEST_PAUSE_S, seconds_left) else None
