"""Which key, and who behind it, asked, spent and saved how much; and caps for those people."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.errors import BudgetExceeded
from edgewise.record.ledger import Ledger
from edgewise.record.rows import Budget
from tests.record.ledger_cases import (
    DAY,
    NOON,
    PROVIDER,
    Books,
    TurnedClock,
    asking,
    cloud_attempt,
    replying,
)


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock()


def kept(ledger: Ledger, name: str, *, avoided: int = 5, doubt: bool = False, **who: str) -> None:
    reply = replying(name, degraded=doubt)
    ledger.record(asking(name, **who), reply, cost_avoided_microdollars=avoided)


def paid(ledger: Ledger, name: str, cost: int, **who: str) -> None:
    request = asking(name, **who)
    ledger.reserve(f"{name}/0", request, PROVIDER, cost)
    attempt = cloud_attempt(cost)
    ledger.settle(f"{name}/0", attempt)
    ledger.record(request, replying(name, source="cloud", attempts=(attempt,)))


def test_each_key_has_its_own_figures(books: Books, clock: TurnedClock) -> None:
    ledger = books.open(clock=clock)
    for index in range(3):
        kept(ledger, f"wiki-{index}", budget_key="wiki", doubt=index == 0)
    paid(ledger, "bot-1", 40, budget_key="bot")
    paid(ledger, "bot-2", 2, budget_key="bot")
    paid(ledger, "nobody", 7)
    bot, nobody, wiki = ledger.usage()
    assert (bot.key, bot.requests, bot.kept, bot.cloud, bot.spent_microdollars) == (
        *("bot", 2, 0, 2),
        42,
    )
    assert (nobody.key, nobody.requests, nobody.spent_microdollars) == ("", 1, 7)
    assert (wiki.key, wiki.requests, wiki.kept, wiki.doubtful) == ("wiki", 3, 3, 1)
    assert (wiki.spent_microdollars, wiki.avoided_microdollars) == (0, 15)
    assert ledger.usage(key="wiki") == [wiki]


def test_the_trend_is_by_day_and_by_week(books: Books, clock: TurnedClock) -> None:
    ledger = books.open(clock=clock)  # NOON is a Tuesday
    for index, days in enumerate((0, 1, 7)):
        clock.now = NOON + days * DAY
        paid(ledger, f"r{index}", 10 + index, budget_key="app")
    by_day = [(each.period, each.spent_microdollars) for each in ledger.usage(every="day")]
    assert by_day == [("2026-11-10", 12), ("2026-11-04", 11), ("2026-11-03", 10)]
    by_week = [(each.period, each.spent_microdollars) for each in ledger.usage(every="week")]
    assert by_week == [("2026-W46", 12), ("2026-W45", 21)]
    (latest,) = ledger.usage(since=clock.now - DAY)
    assert (latest.requests, latest.spent_microdollars) == (1, 12)


def test_the_people_behind_a_key_have_their_own_figures(books: Books, clock: TurnedClock) -> None:
    ledger = books.open(clock=clock)
    paid(ledger, "a", 30, budget_key="webui", user="ann@team.example", group="research")
    paid(ledger, "b", 4, budget_key="webui", user="bob@team.example", group="research")
    paid(ledger, "c", 3, budget_key="webui")
    users = {each.user: each.spent_microdollars for each in ledger.usage(by="user")}
    assert users == {"ann@team.example": 30, "bob@team.example": 4, "": 3}
    groups = {each.group: each.spent_microdollars for each in ledger.usage(by="group")}
    assert groups == {"research": 34, "": 3}
    (whole,) = ledger.usage()
    assert whole.spent_microdollars == 37
    assert ledger.verify() == []


def test_a_user_s_cap_and_a_group_s_hold_beside_the_key_s(books: Books, clock: TurnedClock) -> None:
    rules = [
        Budget(1_000, "day", "webui"),
        Budget(50, "day", "webui", of="user"),
        Budget(80, "day", "webui", of="user", name="ann"),
        Budget(100, "month", "webui", of="group"),
    ]
    ledger = books.open(budgets=rules, clock=clock)
    paid(ledger, "1", 50, budget_key="webui", user="bob", group="sales")
    with pytest.raises(BudgetExceeded, match="for user 'bob' for key 'webui'"):
        paid(ledger, "2", 1, budget_key="webui", user="bob", group="sales")
    with pytest.raises(BudgetExceeded, match="for group 'sales'"):
        paid(ledger, "3", 51, budget_key="webui", user="ann", group="sales")
    paid(ledger, "4", 80, budget_key="webui", user="ann", group="support")
    with pytest.raises(BudgetExceeded, match="for user 'ann'"):
        paid(ledger, "5", 1, budget_key="webui", user="ann", group="support")
    paid(ledger, "6", 60, budget_key="bot", user="bob")  # of another key: another bob
    left = [(each.budget.name, each.remaining) for each in ledger.remaining() if each.budget.of]
    # Ann has a rule of her own: the one for each user does not list her.
    assert left == [("bob", 0), ("ann", 0), ("support", 20), ("sales", 50)]
    clock.now += DAY
    paid(ledger, "7", 50, budget_key="webui", user="bob", group="sales")


def test_racing_calls_of_one_user_never_pass_the_cap(books: Books) -> None:
    rules = [Budget(500, "day", "webui", of="user"), Budget(900, "day", "webui")]
    ledger = books.open(budgets=rules)
    refused = []

    def ask(person: str, number: int) -> None:
        request = asking(f"{person}-{number}", budget_key="webui", user=person)
        try:
            ledger.reserve(f"{request.id}/0", request, PROVIDER, 30)
        except BudgetExceeded:
            refused.append(request.id)
        else:
            ledger.settle(f"{request.id}/0", cloud_attempt(30))

    threads = [
        threading.Thread(target=ask, args=(person, number))
        for number in range(25)
        for person in ("ann", "bob")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spent = {each.user: each.spent_microdollars for each in ledger.usage(by="user")}
    assert all(0 < amount <= 500 for amount in spent.values())
    assert sum(spent.values()) == 900  # 30 at a time, as many as the key's own budget holds
    assert len(refused) == 50 - 30
    assert ledger.verify() == []


def test_figures_of_requests_from_before_are_counted_once(tmp_path: Path) -> None:
    import sqlite3

    from edgewise.record.store import MIGRATIONS, migrate

    path = tmp_path / "old.sqlite3"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    migrate(connection, 5.0, [step for step in MIGRATIONS if step.name < "m011"])
    columns = [row[1:4] for row in connection.execute("PRAGMA table_info(requests)")]
    for number in range(3):
        empty = {name: 0 if kind != "TEXT" else "" for name, kind, _ in columns}
        facts = {"id": str(number), "created_at": NOON, "budget_key": "app", "source": "local"}
        values: dict[str, object] = {**empty, **facts}
        connection.execute(
            f"INSERT INTO requests VALUES ({', '.join('?' * len(values))})", [*values.values()]
        )
    connection.close()
    ledger = Ledger(path)
    kept(ledger, "new", budget_key="app")
    by_day = {each.period: each.requests for each in ledger.usage(every="day")}
    assert by_day["2026-11-03"] == 3
    assert sum(by_day.values()) == 4
    ledger.close()


def test_a_guessed_price_is_marked_in_the_ledger(books: Books) -> None:
    ledger = books.open()
    attempt = replace(cloud_attempt(9), price_guessed=True)
    ledger.reserve("g/0", asking("g"), PROVIDER, 9)
    ledger.settle("g/0", attempt)
    ledger.record(asking("g"), replying("g", source="cloud", attempts=(attempt,)))
    row = ledger.get("g")
    assert row is not None
    assert row["price_guessed"] is True
    assert [each["price_guessed"] for each in row["attempts"]] == [True]


def test_old_rows_go_and_the_books_stay_right(books: Books, clock: TurnedClock) -> None:
    rules = [Budget(1_000, "month"), Budget(900, "month", "webui", of="user")]
    ledger = books.open(budgets=rules, clock=clock)
    clock.now = NOON - 100 * DAY
    paid(ledger, "old", 70, budget_key="webui", user="ann")
    clock.now = NOON
    paid(ledger, "early", 30, budget_key="webui", user="ann")
    clock.now = NOON + 2 * DAY
    paid(ledger, "late", 4, budget_key="webui", user="ann")
    ledger.reserve("open/0", asking("open"), PROVIDER, 5)
    before = (ledger.usage(), ledger.usage(by="user", every="day"), ledger.remaining())
    assert ledger.prune(NOON + DAY) == 2
    assert (ledger.usage(), ledger.usage(by="user", every="day"), ledger.remaining()) == before
    assert ledger.get("old") is None and ledger.get("early") is None
    assert ledger.get("late") is not None
    assert ledger.verify() == []
    assert ledger.prune(NOON + DAY) == 0
    assert [row["id"] for row in ledger.recent()] == ["late"]
