"""What a client is told when something is wrong: a status, a code, and words without secrets."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, cast

from annotated_types import MinLen
from pydantic import Field
from typing_extensions import TypedDict

from edgewise.cloud.provider import LOOP_STATUS
from edgewise.errors import (
    CloudAuthFailed,
    CloudClosed,
    CloudError,
    CloudRateLimited,
    CloudRejected,
    CloudTimeout,
    ContextExceeded,
    CrashedBefore,
    DeviceBusy,
    DoesNotFit,
    EdgewiseError,
    ExtraMissing,
    InvalidRequest,
    LedgerError,
    ModelNotFound,
    RuntimeDown,
    SchemaUnsupported,
    SettingsError,
    SpaceMismatch,
)
from edgewise.record.rows import masked_start, short_error
from edgewise.server.body import BadField
from edgewise.types.replies import Raw

# OpenAI's words for the kind of an error, and Anthropic's.
_KINDS = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}
AnthropicKind = Literal[
    "invalid_request_error",
    "authentication_error",
    "permission_error",
    "not_found_error",
    "request_too_large",
    "rate_limit_error",
    "overloaded_error",
    "timeout_error",
    "api_error",
]
_ANTHROPIC_KINDS: dict[int, AnthropicKind] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    529: "overloaded_error",
    504: "timeout_error",
}
_GOOGLE_KINDS = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    429: "RESOURCE_EXHAUSTED",
    501: "UNIMPLEMENTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_GOOGLE_METHOD = re.compile(r"/v1/models/.*:[A-Za-z]+")
OVERLOADED = 529  # Anthropic's status of its own
_CLOSED = {
    "private": 400,
    "private_kind": 400,
    "not_redactable": 400,
    "parts_unsupported": 400,
    "budget_spent": 429,
    "cooldown": 429,
}
# A path from the root: with blanks between quotes, without them elsewhere. No web address is one.
_QUOTED_PATH = re.compile(r"""(['"])(?:[A-Za-z]:)?[/\\][^'"]*[/\\]([^'"/\\]+)\1""")
_FOLDERS = re.compile(
    r"""(?<![\w:/\\.~-])(?:[A-Za-z]:)?(?:[/\\]+[^\s/\\'"]+)+[/\\]+(?=[^\s/\\'"])"""
)
# A second try cannot help: the official clients would make two.
_NOT_WORTH_RETRYING = {
    "budget_spent",
    "cloud_loop",
    "cooldown",
    "missing_extra",
    "no_key",
    "no_local_model",
    "provider_unusable",
    "redaction_failed",
    "runtime_crashed",  # it would be refused
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One error, before it is written in the shape of an API. `raw`: in the provider's own words,
    which are in that shape already. `loc` is the place of what is wrong, in pieces."""

    status: int
    code: str
    message: str
    param: str = ""
    retry_after_s: float | None = None
    retry: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: Raw | None = None
    loc: tuple[str | int, ...] = ()

    @property
    def theirs(self) -> Any:
        """The provider's own error object, if it said one."""
        value = self.raw.value if self.raw is not None else None
        return value if isinstance(value, dict) and isinstance(value.get("error"), dict) else None

    @property
    def body(self) -> bytes:
        """The provider's own body; empty: it is ours to write."""
        written = b"" if self.theirs is None or self.raw is None else self.raw.written
        return written if written.lstrip().startswith(b"{") else b""

    @property
    def event(self) -> bytes:
        """The provider's own event; empty, as above."""
        written = b"" if self.raw is None else self.raw.written
        return b"" if written.lstrip().startswith(b"{") else written

    @property
    def kind(self) -> str:
        if self.status == 429:
            return "insufficient_quota" if self.code == "budget_spent" else "rate_limit_error"
        if self.status >= 500:
            return "server_error"
        return _KINDS.get(self.status, "invalid_request_error")

    def all_headers(self) -> dict[str, str]:
        headers = dict(self.headers)
        if self.retry_after_s is not None and "retry-after" not in headers:
            headers["retry-after"] = str(max(1, math.ceil(self.retry_after_s)))
        if not self.retry:
            headers["x-should-retry"] = "false"
        return headers


class ErrorDetails(TypedDict):
    message: str
    type: Annotated[str, MinLen(1)]
    param: str | None
    code: Annotated[str, MinLen(1), Field(description="see decision-codes.md and server.md")]


class Error(TypedDict):
    """OpenAI's shape."""

    error: ErrorDetails


class AnthropicErrorDetails(TypedDict):
    type: AnthropicKind
    message: str
    code: Annotated[str, MinLen(1)]


class AnthropicError(TypedDict):
    """Anthropic's shape."""

    type: Literal["error"]
    error: AnthropicErrorDetails


class GoogleErrorDetails(TypedDict):
    code: int
    message: str
    status: Annotated[str, MinLen(1)]
    details: list[dict[str, Any]]


class GoogleError(TypedDict):
    """Google's shape. Our code is the reason among the details."""

    error: GoogleErrorDetails


class OllamaError(TypedDict):
    """Ollama's shape, with our code beside it."""

    error: str
    code: Annotated[str, MinLen(1)]


class SystemOneError(TypedDict):
    """TypeSafe's shape, with our code beside it."""

    detail: str
    code: Annotated[str, MinLen(1)]


class SystemOneWrong(TypedDict):
    loc: list[str | int]
    msg: str
    type: Annotated[str, MinLen(1)]


class SystemOneInvalid(TypedDict):
    """The same for what is wrong with a request, as FastAPI says it."""

    detail: list[SystemOneWrong]


def openai_error(fault: Fault) -> Error:
    if fault.theirs is not None:
        return cast(Error, fault.theirs)
    return {
        "error": {
            "message": fault.message,
            "type": fault.kind,
            "param": fault.param or None,
            "code": fault.code,
        }
    }


def anthropic_error(fault: Fault) -> AnthropicError:
    if fault.theirs is not None:
        return cast(AnthropicError, fault.theirs)
    other: AnthropicKind = "api_error" if fault.status >= 500 else "invalid_request_error"
    kind = _ANTHROPIC_KINDS.get(fault.status, other)
    return {
        "type": "error",
        "error": {"type": kind, "message": fault.message, "code": fault.code},
    }


def ollama_error(fault: Fault) -> OllamaError:
    return {"error": fault.message, "code": fault.code}


def google_error(fault: Fault) -> GoogleError:
    if fault.theirs is not None:
        return cast(GoogleError, fault.theirs)
    other = "INTERNAL" if fault.status >= 500 else "INVALID_ARGUMENT"
    reason: Any = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": fault.code,
        "domain": "edgewise",
    }
    details: list[dict[str, Any]] = [reason]
    if fault.retry_after_s is not None:
        wait = {"retryDelay": f"{max(0.0, fault.retry_after_s):g}s"}
        details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", **wait})
    return {
        "error": {
            "code": fault.status,
            "message": fault.message,
            "status": _GOOGLE_KINDS.get(fault.status, other),
            "details": details,
        }
    }


def systemone_error(fault: Fault) -> SystemOneError | SystemOneInvalid:
    if fault.status != 422:
        return {"detail": fault.message, "code": fault.code}
    words = fault.message.removeprefix(f"{fault.param}: ")
    kind = "missing" if words == "is required" else "value_error"
    return {"detail": [{"loc": ["body", *fault.loc], "msg": words, "type": kind}]}


def is_google(path: str) -> bool:
    """Whether a path is of Gemini's API, in either of its versions."""
    return path.startswith("/v1beta/") or bool(_GOOGLE_METHOD.fullmatch(path))


def error_body(
    path: str, fault: Fault
) -> Error | AnthropicError | OllamaError | GoogleError | SystemOneError | SystemOneInvalid:
    """An error in the shape of the API that a path belongs to."""
    if path == "/v1/systemone":
        return systemone_error(fault)
    if path.startswith("/api/"):
        return ollama_error(fault)
    if is_google(path):
        return google_error(fault)
    return anthropic_error(fault) if path.startswith("/v1/messages") else openai_error(fault)


class Refusal(EdgewiseError):
    """Raised where the server itself says no."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


def _for_clients(error: Exception) -> str:
    """The line that installs something is for whoever keeps the server: it names folders."""
    if isinstance(error, ExtraMissing):
        return (
            f"{error.package} is not installed on this server: it comes with the extra "
            f"{error.extra!r}; `edgewise doctor` says there how to add it"
        )
    return str(error)


def without_folders(text: str) -> str:
    """Files by their names: where they are on this machine is no client's affair."""
    return _FOLDERS.sub("", _QUOTED_PATH.sub(r"\1\2\1", text))


def shown_reason(text: str) -> str:
    """A decision's reason. It may quote a provider's error, and that a key; or a file."""
    return without_folders(masked_start(text)[0])


def refuse(status: int, code: str, message: str, *, param: str = "") -> Refusal:
    return Refusal(Fault(status=status, code=code, message=message, param=param))


def fault_of(error: EdgewiseError) -> Fault:
    """The status that fits an error, and its words with everything like a key masked."""
    if isinstance(error, Refusal):
        return error.fault
    code = "context_length_exceeded" if isinstance(error, ContextExceeded) else error.code
    own = isinstance(error, InvalidRequest)  # it quotes what the client sent
    raw: Raw | None = getattr(error, "raw", None)
    status = getattr(error, "status", None) if raw is not None else None
    return Fault(
        status=status or _status(error),
        code=code,
        message=short_error(str(error))
        if own
        else without_folders(short_error(_for_clients(error))),
        param=error.path if isinstance(error, BadField) else "",
        loc=error.loc if isinstance(error, BadField) else (),
        retry_after_s=_wait(error),
        retry=error.code not in _NOT_WORTH_RETRYING,
        headers=raw.headers if raw is not None else {},
        raw=raw,
    )


BROKEN = Fault(status=500, code="internal_error", message="the server failed; its log says how")
LATE = Fault(status=504, code="timeout", message="the answer took longer than the server allows")


def _wait(error: EdgewiseError) -> float | None:
    if isinstance(error, CloudClosed) and error.code == "breaker_open":
        return error.retry_after_s or 1.0
    return getattr(error, "retry_after_s", None)


def _status(error: EdgewiseError) -> int:
    if isinstance(error, CloudError):
        return _cloud_status(error)
    for kinds, status in (
        ((InvalidRequest, SettingsError, SpaceMismatch), 400),
        ((DoesNotFit, ContextExceeded, SchemaUnsupported, CrashedBefore), 400),
        ((DeviceBusy,), 429),
        ((ExtraMissing,), 501),
        ((ModelNotFound, LedgerError, RuntimeDown), 503),
    ):
        if isinstance(error, kinds):
            return status
    return 500


def _cloud_status(error: CloudError) -> int:
    if isinstance(error, CloudClosed):
        return _CLOSED.get(error.code, 503)
    if isinstance(error, CloudRateLimited):
        return 429
    if isinstance(error, CloudTimeout):
        return 504
    if error.status == LOOP_STATUS:
        return LOOP_STATUS
    if isinstance(error, CloudRejected):
        return error.status if error.status and 400 <= error.status < 500 else 400
    if error.status == OVERLOADED:
        return OVERLOADED
    return 503 if isinstance(error, CloudAuthFailed) else 502
