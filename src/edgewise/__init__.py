"""edgewise: answers on the device, measures its confidence, hands off when it is in doubt.

Importing this package loads no runtime, no HTTP client and no numpy: the names below are
resolved when they are first used.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

__version__ = "0.1.1"

# Before anything of ours can import them: onnxruntime reads this once, when it is loaded, and then
# writes a device id and looks its vendor up; the hub's client asks the hub for more than the file.
os.environ |= {"ORT_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}  # noqa: TID251 - sets

if TYPE_CHECKING:
    from edgewise.conversation import Conversation
    from edgewise.engine import Engine
    from edgewise.errors import CloudError, DoesNotFit, EdgewiseError
    from edgewise.settings import Settings
    from edgewise.types.messages import Image, Message, Tool, ToolCall
    from edgewise.types.replies import CallReply, Finished, Reply, Switched, TextDelta, ToolResult

_HOMES = {
    "CallReply": "edgewise.types.replies",
    "CloudError": "edgewise.errors",
    "Conversation": "edgewise.conversation",
    "DoesNotFit": "edgewise.errors",
    "EdgewiseError": "edgewise.errors",
    "Engine": "edgewise.engine",
    "Finished": "edgewise.types.replies",
    "Image": "edgewise.types.messages",
    "Message": "edgewise.types.messages",
    "Reply": "edgewise.types.replies",
    "Settings": "edgewise.settings",
    "Switched": "edgewise.types.replies",
    "TextDelta": "edgewise.types.replies",
    "Tool": "edgewise.types.messages",
    "ToolCall": "edgewise.types.messages",
    "ToolResult": "edgewise.types.replies",
}

__all__ = [
    "CallReply",
    "CloudError",
    "Conversation",
    "DoesNotFit",
    "EdgewiseError",
    "Engine",
    "Finished",
    "Image",
    "Message",
    "Reply",
    "Settings",
    "Switched",
    "TextDelta",
    "Tool",
    "ToolCall",
    "ToolResult",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'edgewise' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
