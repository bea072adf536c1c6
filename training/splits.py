"""Which part of the material a name belongs to: decided by the name alone."""

from __future__ import annotations

from hashlib import sha256


def share_of(name: str) -> float:
    """A number in [0, 1) that depends on nothing but the name."""
    return int(sha256(name.encode()).hexdigest()[:8], 16) / 2**32
