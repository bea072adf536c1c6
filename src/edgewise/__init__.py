"""edgewise: answers on the device, measures its confidence, hands off when it is in doubt.

Importing this package loads no runtime, no HTTP client and no numpy: the names below are
resolved when they are first used.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

__version__ = "0.7.0"

# Before anything of ours can import them: onnxruntime reads this once, when it is loaded, and then
# writes a device id and looks its vendor up; the hub's client asks the hub for more than the file.
os.environ |= {  # noqa: TID251 - sets
    "CACTUS_NO_CLOUD_TELE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "ORT_DISABLE_TELEMETRY": "1",
}

# Where each public name lives; `__init__.pyi` tells type checkers the same, and a test compares.
_MODULES = {
    "edgewise.aio": "AsyncConversation AsyncEngine AsyncLiveTranscriber",
    "edgewise.requests": "Prompt",
    "edgewise.cloud.provider": "Cloud",
    "edgewise.conversation": "Conversation",
    "edgewise.engine": "Engine",
    "edgewise.errors": (
        "BudgetExceeded Cancelled CloudAuthFailed CloudClosed CloudCut CloudEmpty CloudError "
        "CloudFailed CloudMalformed CloudRateLimited CloudRejected CloudTimeout "
        "CloudUnreachable ContextExceeded CrashedBefore DeadlinePassed DeviceBusy DoesNotFit "
        "EdgewiseError "
        "ExtraMissing GenerationFailed IndexUnavailable InvalidRequest LedgerError "
        "LedgerUnavailable LocalError ModelNotFound NoMicrophone RuntimeCrashed RuntimeDown "
        "SchemaUnsupported "
        "SettingsError SpaceMismatch StoreAway StoreError ToolServerFailed TooSoon "
        "Unreadable"
    ),
    "edgewise.flows.listen": "LiveTranscriber",
    "edgewise.folder_search": "FolderIndex",
    "edgewise.local.backend": "CallBackend ChatBackend EmbedBackend SpeechBackend VoiceBackend",
    "edgewise.mcp_client": "ToolServers",
    "edgewise.record.ledger": "Book Ledger",
    "edgewise.settings": "EngineOptions ProviderSettings ServerSettings Settings SettingsOptions",
    "edgewise.types.answers": "Answer Answers DecideOptions",
    "edgewise.types.embeddings": "EmbedOptions Embeddings Hit IndexReport Passage",
    "edgewise.types.messages": (
        "Audio AudioLike CallOptions ChatOptions Choice Described Image ImageLike "
        "ListenOptions Message MessageDict QuestionLike RequestOptions ResponseFormat "
        "ResponseFormatLike RunnableTool Score SpeakOptions SpeechOptions State Tool ToolCall "
        "ToolLike Word YesNo"
    ),
    "edgewise.types.replies": (
        "Attempt CallReply Complaint Decision Event Finished Intent Line Reply SeenReply Sight "
        "Switched TextDelta Thing Token ToolResult Usage"
    ),
    "edgewise.types.transcripts": (
        "Correction LiveUpdate Segment Spoken SpokenReply Transcript Utterance"
    ),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = ["__version__", *sorted(_HOMES)]  # all of them are text


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'edgewise' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
