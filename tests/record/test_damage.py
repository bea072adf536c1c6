"""A damaged or lost ledger: the device answers and says so, and nothing with a budget leaves."""

from __future__ import annotations

import logging
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edgewise import Engine, Settings
from edgewise.errors import LedgerUnavailable
from edgewise.record.ledger import Ledger
from edgewise.record.rows import Budget
from edgewise.testing import Answer, LoopbackCloud, ScriptedBackend
from tests.campaigns import rounds
from tests.record.ledger_cases import PROVIDER, asking, cloud_attempt, replying

REPOSITORY = Path(__file__).parents[2]
DAMAGES = rounds(160)
SEED = 20261118
SECRET = "My diagnosis is a rare one"


def engine_in(folder: Path, **settings: Any) -> Engine:
    environment = {"OPENAI_API_KEY": "test-key", "OPENAI_BASE_URL": "http://127.0.0.1:9"}
    chosen: dict[str, Any] = {
        "budgets": ("$1/day",),
        "pace_budget": True,
        "cloud_every_s": ("2",),
    } | settings
    loaded = Settings.load(environment, data_dir=folder, config_dir=folder, **chosen)
    return Engine(loaded, backend=ScriptedBackend.confident("In Paris."))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a ledger with some of everything in it."""
    folder = tmp_path_factory.mktemp("sound")
    with engine_in(folder) as engine:
        for number in range(40):
            engine.complete(SECRET, store_text=True)
            engine.ledger.settle(f"{number}/0", cloud_attempt(5))
        engine.ledger.note("drift", "some", "a little")
    return engine.settings.ledger_path.read_bytes()


def in_sql(statement: str) -> Callable[[Path], object]:
    def damage(path: Path) -> None:
        with sqlite3.connect(path) as connection:
            connection.execute(statement)
        connection.close()

    return damage


def at_random(seed: int) -> Callable[[Path], object]:
    chance = random.Random(seed)

    def damage(path: Path) -> None:
        content = bytearray(path.read_bytes())
        page = 4096 * chance.randrange(len(content) // 4096)
        match chance.randrange(4):
            case 0:
                for _ in range(chance.randrange(1, 30)):
                    content[chance.randrange(len(content))] = chance.randrange(256)
            case 1:
                del content[chance.randrange(1, len(content)) :]
            case 2:
                content[page : page + 4096] = bytes(4096)
            case 3:
                content[page : page + 4096] = chance.randbytes(4096)
        path.write_bytes(content)

    return damage


NOT_UTF_8 = "CAST(x'ff9a' || {0} AS TEXT)"


@pytest.mark.parametrize(
    "damage",
    [
        *(
            in_sql(f"UPDATE {table} SET {column} = {NOT_UTF_8.format(column)}")
            for table, column in (
                ("requests", "prompt_text"),
                ("requests", "features"),
                ("requests", "source"),
                ("spend", "settled_microdollars"),
                ("edgewise_migrations", "name"),
            )
        ),
        in_sql("UPDATE spend SET settled_microdollars = 'much'"),
        in_sql("UPDATE requests SET features = '{', calibration = 7"),
        *(
            in_sql(f"DROP TABLE {table}")
            for table in ("requests", "attempts", "spend", "notes", "edgewise_migrations")
        ),
        *(at_random(SEED + number) for number in range(DAMAGES)),
    ],
)
def test_whatever_is_damaged_the_device_answers_and_every_trouble_has_one_name(
    sound: bytes, tmp_path: Path, damage: Callable[[Path], object], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "ledger.sqlite3"
    path.write_bytes(sound)
    damage(path)
    with caplog.at_level(logging.WARNING, "edgewise"), engine_in(tmp_path) as engine:
        replies = [
            engine.complete("Where is it?"),
            engine.complete("Where is it?", request_id="mine", store_text=True),
            engine.complete("Where is it?"),
        ]
        book = engine.ledger
        for look in (book.report, book.recent, book.remaining, book.audits, book.verify,
                     lambda: book.get("mine"), lambda: book.judged(0)):  # fmt: skip
            try:
                look()
            except LedgerUnavailable as error:
                assert SECRET not in str(error)
    assert [reply.source for reply in replies] == ["local"] * 3
    assert SECRET not in caplog.text
    for reply in replies:
        assert reply.to_dict()["recorded"] is (reply.unrecorded == "")
    untold = [line for line in caplog.messages if "is not in the ledger" in line]
    assert len(untold) <= 2, "once for each cause"
    assert bool(untold) >= any(reply.unrecorded for reply in replies)


def test_who_cannot_write_says_so_in_the_reply_and_once_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with engine_in(tmp_path) as engine:
        assert engine.complete("One?").unrecorded == ""
        assert isinstance(engine.ledger, Ledger)
        with engine.ledger._store.reading() as connection:
            connection.execute("PRAGMA query_only = ON")  # as a read-only file: root may write
        with caplog.at_level(logging.WARNING, "edgewise"):
            replies = [engine.complete("Two?") for _ in range(3)]
        assert all("readonly" in reply.unrecorded for reply in replies)
        recorder = [each for each in caplog.messages if not each.startswith("drift")]
        assert len(recorder) == 1
        with engine.ledger._store.reading() as connection:
            connection.execute("PRAGMA query_only = OFF")
        assert engine.complete("Three?").unrecorded == ""


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger(tmp_path / "ledger.db", budgets=[Budget(100, "day")])
    yield opened
    opened.close()


def spend(ledger: Ledger, name: str) -> None:
    ledger.reserve(f"{name}/0", asking(name), PROVIDER, 60)
    ledger.settle(f"{name}/0", cloud_attempt(60))


def test_a_new_ledger_has_its_whole_budget(ledger: Ledger, tmp_path: Path) -> None:
    spend(ledger, "first")
    assert (ledger.lost(), ledger.accept()) == ("", "")
    ledger.close()
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.db"]


def test_an_emptied_ledger_closes_its_budgets_until_that_is_accepted(
    ledger: Ledger, tmp_path: Path
) -> None:
    spend(ledger, "first")
    ledger.close()
    ledger.path.write_bytes(b"")
    for name in ("second", "third"):
        with pytest.raises(LedgerUnavailable, match="edgewise ledger --accept"):
            spend(ledger, name)
        ledger.close()  # a restart changes nothing
    ledger.record(asking("local"), replying("local"))
    assert ledger.seen("local"), "what stays is recorded"
    (aside,) = tmp_path.glob("ledger.db.lost-*")
    assert str(aside) in ledger.lost() == ledger.accept()
    spend(ledger, "fourth")
    assert (ledger.lost(), ledger.verify()) == ("", [])
    ledger.close()
    ledger.path.write_bytes(b"")
    with pytest.raises(LedgerUnavailable):
        spend(ledger, "fifth")


def test_without_a_budget_a_lost_ledger_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").touch()
    ledger = Ledger(tmp_path / "ledger.db", budgets=[Budget(100, "day", "app")])
    spend(ledger, "free")
    assert ledger.lost()
    ledger.close()


DIES = """
import os, signal, sys
from pathlib import Path
from edgewise.record.ledger import Ledger
from tests.record.ledger_cases import cloud_attempt
ledger = Ledger(Path(sys.argv[1]))
ledger.settle("first/0", cloud_attempt(60))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("gone", [False, True])
def test_the_log_of_a_lost_ledger_is_kept(ledger: Ledger, tmp_path: Path, gone: bool) -> None:
    """SQLite would delete it, and it may hold every row: the file was not yet written."""
    command = [sys.executable, "-c", DIES, str(ledger.path)]
    died = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(REPOSITORY)}, check=False)
    assert died.returncode == -signal.SIGKILL
    log = (tmp_path / "ledger.db-wal").read_bytes()
    assert log
    if gone:
        ledger.path.unlink()
    else:
        ledger.path.write_bytes(b"")
    with pytest.raises(LedgerUnavailable, match="--accept"):
        spend(ledger, "second")
    (kept,) = tmp_path.glob("ledger.db.lost-*-wal")
    assert kept.read_bytes() == log


def test_an_engine_with_a_lost_ledger_answers_on_the_device(tmp_path: Path) -> None:
    (tmp_path / "ledger.sqlite3").touch()
    with LoopbackCloud() as cloud:
        cloud.always(Answer(text="The cloud knows.", input_tokens=20, output_tokens=5))
        environment = {"OPENAI_API_KEY": "test-key", "OPENAI_BASE_URL": cloud.openai_url}
        settings = Settings.load(environment, data_dir=tmp_path, budgets=("$1/day",))
        doubtful = ScriptedBackend.doubtful("I am not at all sure but perhaps it is there")
        with Engine(settings, backend=doubtful) as engine:
            reply = engine.complete("Where is it?")
            assert (reply.source, reply.degraded) == ("local", True)
            assert reply.decision.degraded_code == "ledger_unavailable"
            assert cloud.requests == []
            engine.ledger.accept()
            assert engine.complete("Where is it?").source == "cloud"
