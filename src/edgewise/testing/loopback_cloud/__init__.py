"""A scripted cloud on this machine: real HTTP, four providers' protocols, every way to fail."""

from edgewise.testing.loopback_cloud.faults import (
    Answer,
    Cut,
    Empty,
    Fault,
    Malformed,
    Scripted,
    Silence,
    Status,
)
from edgewise.testing.loopback_cloud.server import LoopbackCloud, Reply
from edgewise.testing.loopback_cloud.wire import SeenRequest

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
