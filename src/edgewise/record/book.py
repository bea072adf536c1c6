"""What an engine needs of a ledger: a purse, rows, and a reader. SQLite and PostgreSQL have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from edgewise.record.audits import MOST_AUDITS, Audit
from edgewise.record.budget import BudgetState
from edgewise.record.report import (
    Confidence,
    JudgedRequest,
    Note,
    Report,
    Stretch,
    Traffic,
)
from edgewise.record.tool_counts import Counts, ToolKey
from edgewise.types.messages import Request
from edgewise.types.replies import Attempt, Reply


class Payee(Protocol):
    """What the ledger reads of a provider's configuration."""

    @property
    def name(self) -> str: ...

    @property
    def model(self) -> str: ...


class Purse(Protocol):
    """Money: set aside before a cloud call, settled after it. Idempotent by the attempt's id."""

    def reserve(
        self, attempt_id: str, request: Request, config: Payee, microdollars: int
    ) -> None: ...

    def settle(self, attempt_id: str, attempt: Attempt) -> None: ...

    def sweep(self, now: float | None = None) -> int: ...

    def remaining(self) -> list[BudgetState]: ...

    def wait_s(self, request: Request) -> float: ...


class Rows(Protocol):
    """What is written of requests, and what came of them. A known id changes nothing."""

    def record(
        self, request: Request, reply: Reply, *, cost_avoided_microdollars: int = 0
    ) -> None: ...

    def record_failure(
        self, request: Request, error: BaseException, attempts: Sequence[Attempt]
    ) -> None: ...

    def count_calls(self, changes: Mapping[ToolKey, Counts]) -> None: ...

    def record_audit(self, audit: Audit) -> None: ...

    def note(self, kind: str, subject: str, words: str) -> bool: ...


class Reader(Protocol):
    """What is read: for reports, the dashboard and the monitors."""

    def seen(self, request_id: str) -> bool: ...

    def report(self, since: float | None = None) -> Report: ...

    def recent(self, limit: int = 20) -> list[dict[str, Any]]: ...

    def get(self, request_id: str) -> dict[str, Any] | None: ...

    def judged(self, since: float) -> list[JudgedRequest]: ...

    def timeline(self, since: float, stretches: int) -> list[Stretch]: ...

    def traffic(self, state: BudgetState) -> Traffic: ...

    def calibrations(self) -> list[tuple[str, str]]: ...

    def confidences(self, task: str, calibration: str, limit: int) -> list[Confidence]: ...

    def noted(self, kind: str, subject: str) -> Note | None: ...

    def audits(
        self, since: float = 0.0, task: str = "", most: int = MOST_AUDITS
    ) -> list[Audit]: ...

    def tool_counts(self) -> dict[ToolKey, Counts]: ...


class Shared(Protocol):
    """Rates of clients and circuits of providers, of all processes together."""

    def take(self, client: str, per_minute: int) -> float: ...

    def look(self, provider: str) -> float | None: ...

    def probe(self, provider: str, lease_s: float) -> bool: ...

    def fail(
        self,
        provider: str,
        at_once: bool,
        most: int,
        cooldown_s: float,
        longest_s: float,
        retry_s: float | None,
    ) -> None: ...

    def release(self, provider: str) -> None: ...

    def succeed(self, provider: str) -> None: ...


class Book(Purse, Rows, Reader, Protocol):
    """A whole ledger. Every method raises LedgerUnavailable if it cannot do its work."""

    @property
    def path(self) -> Path:
        """The file on this machine."""
        ...

    @property
    def where(self) -> str:
        """Where it is, in words: the file, or the address of a database without its password."""
        ...

    @property
    def shared(self) -> Shared | None:
        """What processes of one ledger share besides it; None: nothing."""
        ...

    def away(self) -> str:
        """Why what is read comes from this machine's file alone; empty: it does not."""
        ...

    def waiting(self) -> int:
        """How many rows of this machine have not reached the shared database yet."""
        ...

    def lost(self) -> str: ...

    def accept(self) -> str: ...

    def verify(self) -> list[str]: ...

    def close(self) -> None: ...
