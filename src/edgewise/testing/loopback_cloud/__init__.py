"""A scripted cloud on this machine: real HTTP, four providers' protocols, every way to fail."""

from edgewise.testing.loopback_cloud.server import LoopbackCloud, Reply
from edgewise.testing.loopback_cloud.wire import (
    Answer,
    Cut,
    Empty,
    Fault,
    Malformed,
    Scripted,
    SeenRequest,
    Silence,
    Status,
)

__all__ = [
    "Answer",
    "Cut",
    "Empty",
    "Fault",
    "LoopbackCloud",
    "Malformed",
    "Reply",
    "Scripted",
    "SeenRequest",
    "Silence",
    "Status",
]
