"""The protocol a local runtime fulfils. A new runtime is one file that does this."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol

from edgewise.types.messages import Request
from edgewise.types.tokens import Finish, Token

TokenStream = Generator[Token | Finish, None, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """What the loaded model can take and how fast it has been; judges read this, not the model."""

    backend: str
    model: str
    quantisation: str
    context_tokens: int
    images: bool = False
    tools: bool = False
    # Measured while serving, moving averages; None until something has run.
    prompt_tokens_per_second: float | None = None
    output_tokens_per_second: float | None = None


class ChatBackend(Protocol):
    """Generates text token by token, with evidence."""

    def facts(self) -> DeviceFacts:
        """Cheap; may be called for every request."""
        ...

    def generate(self, request: Request, *, already: str = "") -> TokenStream:
        """Yield tokens, then one `Finish`. Closing the iterator stops the model at once.

        `already` is the beginning of the answer, to be continued: after a handoff that failed.
        Raises ContextExceeded before any work is done on a prompt that is too long.
        """
        ...

    def close(self) -> None: ...
