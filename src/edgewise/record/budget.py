"""Budgets: a limit in micro-dollars per calendar day or month, and what is left of it."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import get_args

from edgewise.errors import BudgetExceeded, SettingsError
from edgewise.record.rows import Window, window_name

_BUDGET = re.compile(r"\$?\s*([0-9]{1,9})(?:\.([0-9]{1,6}))?\s*/\s*([a-z]+)")


_AMOUNT = re.compile(r"(?:\$?\s*([0-9]{1,9})(?:\.([0-9]{1,6}))?)?")


@dataclass(frozen=True, slots=True)
class Budget:
    """At most this much per window. Key "" counts all requests, any other key only its own."""

    limit_microdollars: int
    window: Window
    key: str = ""

    def __post_init__(self) -> None:
        if self.limit_microdollars < 0:
            raise SettingsError(f"a budget cannot be negative: {self.limit_microdollars!r}")
        if self.window not in get_args(Window):
            raise SettingsError(f"a budget is per 'day' or 'month', not per {self.window!r}")

    def applies_to(self, budget_key: str) -> bool:
        return self.key in ("", budget_key)

    def in_words(self) -> str:
        key = f" for key {self.key!r}" if self.key else ""
        return f"{dollars(self.limit_microdollars)} per {self.window}{key}"


@dataclass(frozen=True, slots=True)
class BudgetState:
    """One budget in its current window; amounts in micro-dollars, `resets_at` in Unix seconds."""

    budget: Budget
    spent: int
    reserved: int
    remaining: int
    resets_at: float


def parse_budget(text: str, *, key: str = "") -> Budget:
    """Read "$3/day" or "$0.50/month"; raises SettingsError on anything else."""
    match = _BUDGET.fullmatch(text.strip())
    window = match[3] if match else ""
    if match is None or window not in get_args(Window):
        raise SettingsError(
            f"cannot read the budget {text!r}: write an amount with at most six decimals and "
            "a window, like '$3/day' or '$0.50/month'"
        )
    microdollars = int(match[1]) * 1_000_000 + int((match[2] or "").ljust(6, "0"))
    return Budget(microdollars, "day" if window == "day" else "month", key)


def parse_amount(text: str) -> int:
    """Read "$0.50" as micro-dollars; empty is nothing. Raises SettingsError."""
    match = _AMOUNT.fullmatch(text.strip())
    if match is None:
        raise SettingsError(
            f"store_away_allowance = {text!r}: write an amount with at most six decimals, "
            "like '$0.50'"
        )
    return int(match[1] or 0) * 1_000_000 + int((match[2] or "").ljust(6, "0"))


def dollars(microdollars: int) -> str:
    """Exact, with two to six decimals: 3_000_000 → "$3.00", 125 → "$0.000125"."""
    whole, fraction = divmod(abs(microdollars), 1_000_000)
    digits = f"{fraction:06d}"
    sign = "-" if microdollars < 0 else ""
    return f"{sign}${whole}.{digits[:2]}{digits[2:].rstrip('0')}"


def window_end(now: float, window: Window) -> float:
    """When the window of this moment ends, and the budget resets."""
    today = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if window == "day":
        return (today + timedelta(days=1)).timestamp()
    # The 28th plus four days is always in the next month.
    return (today.replace(day=28) + timedelta(days=4)).replace(day=1).timestamp()


def budget_states(
    connection: sqlite3.Connection, budgets: Sequence[Budget], now: float
) -> list[BudgetState]:
    """What each budget has left. Inside a transaction the answer holds until it ends."""
    return [_state(connection, budget, now) for budget in budgets]


def _state(connection: sqlite3.Connection, budget: Budget, now: float) -> BudgetState:
    row = connection.execute(
        "SELECT settled_microdollars, reserved_microdollars FROM spend"
        " WHERE window_name = ? AND budget_key = ?",
        (window_name(now, budget.window), budget.key),
    ).fetchone()
    spent, reserved = row or (0, 0)
    return BudgetState(
        budget=budget,
        spent=spent,
        reserved=reserved,
        remaining=max(0, budget.limit_microdollars - spent - reserved),
        resets_at=window_end(now, budget.window),
    )


def refuse_if_over(states: Sequence[BudgetState], microdollars: int) -> None:
    """Raise BudgetExceeded if a reservation would pass a limit; names the last budget to reset."""
    over = [state for state in states if _is_over(state, microdollars)]
    if not over:
        return
    state = max(over, key=lambda each: each.resets_at)
    resets_at = datetime.fromtimestamp(state.resets_at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    raise BudgetExceeded(
        f"the budget of {state.budget.in_words()} does not cover this call: "
        f"{dollars(state.spent)} spent, {dollars(state.reserved)} reserved, "
        f"this call may cost {dollars(microdollars)}; "
        f"it resets at {resets_at}"
    )


def _is_over(state: BudgetState, microdollars: int) -> bool:
    return state.spent + state.reserved + microdollars > state.budget.limit_microdollars
