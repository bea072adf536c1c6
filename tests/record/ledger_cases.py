"""Requests, replies and attempts for the ledger's tests, and a clock they can set."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgewise.cloud.provider import ProviderConfig
from edgewise.record.ledger import Ledger
from edgewise.types.messages import Message, Request
from edgewise.types.replies import Attempt, Decision, Reply, Usage
from edgewise_cluster.postgres import PostgresLedger

NOON = 1_793_707_200.0  # 2026-11-03 12:00:00 UTC
DAY = 86_400.0
PROVIDER = ProviderConfig(name="openai", protocol="openai", model="gpt-5-nano", key="sk-not-stored")


@dataclass
class TurnedClock:
    """A clock that stands still until it is set."""

    now: float = NOON

    def __call__(self) -> float:
        return self.now


def asking(request_id: str, **options: Any) -> Request:
    return Request(id=request_id, messages=(Message("user", "What is the capital?"),), **options)


def cloud_attempt(cost: int = 0, **options: Any) -> Attempt:
    facts: dict[str, Any] = {
        "place": "cloud",
        "backend": "openai",
        "model": "gpt-5-nano",
        "outcome": "answered",
        "first_token_ms": 310.0,
        "total_ms": 800.0,
        "input_tokens": 12,
        "output_tokens": 7,
    }
    return Attempt(**(facts | {"cost_microdollars": cost} | options))


def local_attempt(**options: Any) -> Attempt:
    facts: dict[str, Any] = {
        "place": "local",
        "backend": "llama_cpp",
        "model": "qwen3",
        "outcome": "answered",
        "total_ms": 200.0,
        "input_tokens": 12,
        "output_tokens": 5,
    }
    return Attempt(**(facts | options))


def replying(request_id: str, **options: Any) -> Reply:
    facts: dict[str, Any] = {
        "id": request_id,
        "text": "Paris",
        "source": "local",
        "decision": Decision(
            policy="prefer_local",
            handoff="automatic",
            code="confident",
            reason="confidence 0.91 is above 0.6",
            threshold=0.6,
            confidence=0.91,
            calibration="qwen3-q4",
            features={"mean_logprob": -0.1},
        ),
        "confidence": 0.91,
        "attempts": (local_attempt(),),
        "usage": Usage(input_tokens=12, output_tokens=5),
        "total_ms": 210.0,
        "first_token_ms": 40.0,
    }
    return Reply(**(facts | options))


@dataclass(frozen=True)
class Books:
    """One ledger, wherever it is."""

    path: Path
    url: str

    opened: list[Ledger] = field(default_factory=list)

    def open(self, **rules: Any) -> Ledger:
        book = PostgresLedger(self.url, **rules) if self.url else Ledger(self.path, **rules)
        self.opened.append(book)
        return book

    def close(self) -> None:
        for book in self.opened:
            book.close()
