"""Every exception edgewise raises, and the stable code each one carries.

    EdgewiseError
    ├── SettingsError              a value in the environment, the TOML file or a call is wrong
    ├── InvalidRequest             the request itself is malformed
    ├── SpaceMismatch              vectors of the space asked for cannot be made here
    ├── DoesNotFit                 the device cannot serve it and the cloud may not
    ├── Cancelled                  the user has left
    ├── Unreadable                 an index cannot read this file
    ├── ToolServerFailed           an MCP server does not start, does not answer, or its tool failed
    ├── LocalError                 something on the device
    │   ├── ExtraMissing           a part that is installed on request; the message says how
    │   ├── NoMicrophone           nothing here records sound
    │   ├── ModelNotFound          no weights; the message says how to get them
    │   ├── ContextExceeded        the prompt is longer than the context window
    │   ├── SchemaUnsupported      the device cannot enforce this JSON Schema
    │   ├── StoreError             weights could not be fetched, joined or verified
    │   ├── GenerationFailed       the runtime broke off
    │   │   ├── RuntimeCrashed     this request ended the runtime's process
    │   │   ├── CrashedBefore      it did so a while ago, and is refused
    │   │   └── RuntimeDown        the runtime's process keeps crashing; it is tried again later
    │   ├── DeadlinePassed         function calls that were not written in time
    │   └── DeviceBusy             too many requests wait for the model (only on a server)
    ├── CloudError                 something over the network; always names its provider
    │   ├── CloudClosed            nothing was sent: private, no key, budget spent, breaker open
    │   ├── CloudUnreachable       DNS, refused, connect time-out, TLS
    │   ├── CloudTimeout           connected, but no first token (or no end) in time
    │   ├── CloudAuthFailed        401, 403
    │   ├── CloudRateLimited       429
    │   ├── CloudFailed            5xx
    │   ├── CloudRejected          any other 4xx: the request is at fault
    │   ├── CloudCut               the stream ended before the answer did
    │   ├── CloudMalformed         a reply that cannot be read
    │   └── CloudEmpty             a well-formed reply with nothing in it
    ├── IndexUnavailable           the index of a folder cannot be read or written
    └── LedgerError
        ├── LedgerUnavailable      the file cannot be written (disk full, read-only, locked)
        │   └── StoreAway          the shared database does not answer
        ├── BudgetExceeded         the reservation would pass a limit
        └── TooSoon                the last handoff was moments ago (cloud_every_s)

Codes are part of the public API: they appear in replies, in the ledger and in `--json`.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterable
from typing import Any


def place_of(error: BaseException) -> str:
    """Somebody else's error by its kind and place: its words may quote a request."""
    places = traceback.extract_tb(error.__traceback__)
    where = f" in {os.path.basename(places[-1].filename)}:{places[-1].lineno}" if places else ""
    return f"{type(error).__name__}{where}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name; empty if none of the known ones is near."""
    import difflib  # noqa: PLC0415  # only where a name is wrong

    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    near = near or [each for each in known if name and each.startswith(name)][:1]
    return f"; did you mean {near[0]!r}?" if near else ""


class EdgewiseError(Exception):
    """Base of every error raised on purpose."""

    code = "error"


class SettingsError(EdgewiseError):
    code = "bad_settings"


class InvalidRequest(EdgewiseError):
    code = "invalid_request"


class SpaceMismatch(EdgewiseError):
    """Vectors of two models do not mix. The message says how to get the right ones."""

    code = "space_mismatch"


class DoesNotFit(EdgewiseError):
    """The device cannot serve the request, and the cloud may not or did not answer."""

    code = "does_not_fit"


class Cancelled(EdgewiseError):
    """The user has left. The ledger records it; a server raises it to end the work."""

    code = "cancelled"


class Unreadable(EdgewiseError):
    """An index cannot read this file. The message says why."""

    code = "unreadable"


class ToolServerFailed(EdgewiseError):
    """An MCP server could not be used, or its tool failed. The message says which and why."""

    code = "tool_server_failed"


class LocalError(EdgewiseError):
    code = "local_failed"


class ExtraMissing(LocalError):
    code = "missing_extra"

    def __init__(self, extra: str, package: str) -> None:
        from edgewise.extras import how_to_get  # noqa: PLC0415 - reads metadata, for an error

        super().__init__(f"{package} is not installed: it comes with {how_to_get(extra)}")
        self.extra = extra
        self.package = package


class NoMicrophone(LocalError):
    code = "no_microphone"


class ModelNotFound(LocalError):
    code = "no_local_model"


class ContextExceeded(LocalError):
    code = "context_exceeded"

    def __init__(self, prompt_tokens: int, context_tokens: int, *, counted: bool = True) -> None:
        needs = f"{prompt_tokens}" if counted else f"at least {prompt_tokens}"
        super().__init__(
            f"the prompt needs {needs} tokens, the context window holds {context_tokens}"
        )
        self.prompt_tokens = prompt_tokens
        self.context_tokens = context_tokens
        self.counted = counted


class SchemaUnsupported(LocalError):
    """The message names the unknown keyword or the exceeded limit."""

    code = "schema_unsupported"


class StoreError(LocalError):
    code = "store_failed"


class GenerationFailed(LocalError):
    code = "generation_failed"


class RuntimeCrashed(GenerationFailed):
    """This request ended the process of the local runtime. A new process has been started."""

    code = "runtime_crashed"


class CrashedBefore(GenerationFailed):
    """A request like this one ended the process of the local runtime a while ago."""

    code = "runtime_crashed_before"


class RuntimeDown(GenerationFailed):
    """The process of the local runtime keeps crashing. It is started again in `retry_after_s`."""

    code = "runtime_down"

    def __init__(self, message: str, *, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class DeadlinePassed(LocalError):
    """The device was cut because the time was up. The request is planned again."""

    code = "deadline"


class DeviceBusy(LocalError):
    """Too many requests wait for the model. There may be room again in `retry_after_s`."""

    code = "device_busy"

    def __init__(self, message: str, *, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class CloudError(EdgewiseError):
    """A cloud request that gave no answer, or not a complete one.

    `begun`: the provider had accepted it and begun to answer, and may charge for that.
    `raw`: its own words (a `types.replies.Raw`), for a client of its own protocol.
    """

    code = "cloud_failed"
    begun = False
    raw: Any = None

    def __init__(
        self,
        message: str,
        *,
        provider: str = "",
        code: str | None = None,
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.status = status
        self.retry_after_s = retry_after_s
        if code is not None:
            self.code = code


class CloudClosed(CloudError):
    """Nothing was sent. `code` is one of private, no_key, budget_spent, breaker_open, …"""

    code = "cloud_closed"


class CloudUnreachable(CloudError):
    code = "cloud_unreachable"


class CloudTimeout(CloudError):
    code = "cloud_timeout"


class CloudAuthFailed(CloudError):
    code = "cloud_auth_failed"


class CloudRateLimited(CloudError):
    code = "cloud_rate_limited"


class CloudFailed(CloudError):
    code = "cloud_server_error"


class CloudRejected(CloudError):
    code = "cloud_rejected"


class CloudCut(CloudError):
    code = "cloud_cut"


class CloudMalformed(CloudError):
    code = "cloud_malformed"


class CloudEmpty(CloudError):
    code = "cloud_empty"


class IndexUnavailable(EdgewiseError):
    code = "index_unavailable"


class LedgerError(EdgewiseError):
    code = "ledger_failed"


class LedgerUnavailable(LedgerError):
    code = "ledger_unavailable"


class StoreAway(LedgerUnavailable):
    """The shared database does not answer. `asked`: what was asked of it may have happened."""

    code = "budget_store_away"

    def __init__(self, message: str, *, asked: bool = False) -> None:
        super().__init__(message)
        self.asked = asked


class BudgetExceeded(LedgerError):
    code = "budget_spent"


class TooSoon(LedgerError):
    code = "cooldown"
