"""Steering: reads for every request what is left of budgets, and what has drifted.

Loaded with the engine, used only if `pace_budget` or `on_drift` asks for it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace

from edgewise.errors import LedgerError
from edgewise.monitor.drift import DriftWatch
from edgewise.record.book import Book
from edgewise.record.budget import Budget, BudgetState
from edgewise.record.report import Traffic
from edgewise.settings import Settings
from edgewise.types.messages import Request
from edgewise.types.objectives import (
    Money,
    Steering,
)

_log = logging.getLogger("edgewise")

FRESH_S = 60.0  # how long an expectation is valid; what is left is read every time


def open_steer(
    settings: Settings, ledger: Book, watch: DriftWatch
) -> Callable[[Request], Request] | None:
    """None if nothing is to be steered, which is the default."""
    if not settings.pace_budget and settings.on_drift == "report":
        return None
    return Steer(settings, ledger, watch)


class Steer:
    """Adds to a request what moves its threshold. If the ledger fails, nothing is moved."""

    def __init__(
        self,
        settings: Settings,
        ledger: Book,
        watch: DriftWatch,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._ledger = ledger
        self._watch = watch
        self._clock = clock
        self._looked = False
        self._expected: dict[Budget, tuple[float, Traffic]] = {}

    def __call__(self, request: Request) -> Request:
        try:
            drifted, money = self._drifted(), self._money(request.budget_key)
        except LedgerError as error:
            _log.warning("nothing is paced and no drift is acted on: %s", error)
            return request
        if not drifted and money is None:
            return request
        steering = Steering(money=money, on_drift=self._settings.on_drift, drifted=drifted)
        return replace(request, steering=steering)

    def _drifted(self) -> dict[str, str]:
        if self._settings.on_drift == "report":
            return {}
        if not self._looked:  # what an earlier process has seen counts from the first request on
            self._looked = True
            for task, name in self._ledger.calibrations():
                self._watch.check(task, name)
        found = list(self._watch.found.items())
        return {name: drift.words for name, drift in found if drift.drifted}

    def _money(self, key: str) -> Money | None:
        """Of the budget that allows the least."""
        if not self._settings.pace_budget:
            return None
        states = [state for state in self._ledger.remaining() if state.budget.applies_to(key)]
        return min(map(self._left, states), key=lambda one: one.allowed_share, default=None)

    def _left(self, state: BudgetState) -> Money:
        now = self._clock()
        since, expected = self._expected.get(state.budget, (-FRESH_S, Traffic(0.0, 0.0)))
        if state.budget not in self._expected or now - since >= FRESH_S:
            expected = self._ledger.traffic(state)
            self._expected[state.budget] = (now, expected)
        return Money(
            state.remaining,
            1 + expected.requests_left,
            expected.handoff_microdollars,
            f"a budget of {state.budget.in_words()}",
        )
