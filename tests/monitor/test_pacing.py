"""Pacing and on_drift, through a whole engine and a scripted cloud."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from edgewise import Engine, Settings
from edgewise.decide.drift import quantiles_of
from edgewise.errors import LedgerUnavailable, SettingsError
from edgewise.record.ledger import Ledger
from edgewise.record.rows import parse_budget
from edgewise.testing import Answer, LoopbackCloud, ScriptedBackend
from edgewise.types.replies import Attempt, Reply
from tests.monitor.test_why import shipped

NAME = "mine"
PAID = Attempt(
    place="cloud", backend="openai", model="m", outcome="answered", cost_microdollars=500
)

NOON = count(
    int(dt.datetime.now(dt.UTC).replace(hour=12, minute=0).timestamp())
)  # then on, by seconds


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as server:
        server.always(Answer(text="Canberra.", input_tokens=1000, output_tokens=500))
        yield server


def settings_for(cloud: LoopbackCloud, folder: Path, **changes: Any) -> Settings:
    """A calibration whose confidences are spread evenly, so that a threshold is a share."""
    measured = {
        "name": NAME,
        "quantiles": quantiles_of(step / 1000 for step in range(1001)),
        "risk_rows": 1000,
        "risk": {},
        "watched": [[0.5, quantiles_of(step / 1000 for step in range(1001))]],
    }
    path = folder / "calibration.json"
    path.write_text(json.dumps(shipped() | measured), "utf-8")
    environment = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": cloud.openai_url}
    return Settings.load(environment, data_dir=folder, calibration=str(path), **changes)


def ask(engine: Engine, count: int = 1, threshold: float = 0.5) -> Reply:
    for _ in range(count):
        reply = engine.complete("What is the capital of Australia?", threshold=threshold)
    return reply


@contextmanager
def at_noon(settings: Settings) -> Iterator[Engine]:
    """A day with twelve hours left: late in the evening a budget lasts without pacing."""
    budgets = [parse_budget(text) for text in settings.budgets]
    ledger = Ledger(settings.ledger_path, budgets=budgets, clock=lambda: next(NOON))
    with (
        closing(ledger),
        Engine(settings, backend=ScriptedBackend.confident("Canberra."), ledger=ledger) as engine,
    ):
        yield engine


def test_a_paced_budget_keeps_what_would_have_left_and_says_so(
    cloud: LoopbackCloud, tmp_path: Path
) -> None:
    settings = settings_for(cloud, tmp_path, budgets=("$0.001/day",), pace_budget=True)
    with at_noon(settings) as engine:
        first = ask(engine, threshold=0.999)
        assert first.source == "cloud", "nothing is known yet, so the usual threshold stands"
        cost = first.usage.cost_microdollars
        assert cost > 0
    limit = 3 * cost
    settings = settings_for(cloud, tmp_path, budgets=(f"${limit / 1e6:.6f}/day",), pace_budget=True)
    with at_noon(settings) as engine:
        second = ask(engine, threshold=0.999)
    assert second.source == "local"
    assert second.degraded
    assert second.needs_cloud_handoff
    assert second.decision.code == "kept_in_doubt"
    assert second.decision.degraded_code == "budget_paced"
    assert second.decision.threshold is not None
    assert second.decision.threshold < 0.9
    assert "below 1.00" in second.decision.reason
    assert "pacing a budget of $" in second.decision.reason


def test_what_a_policy_keeps_was_not_kept_for_the_budget(
    cloud: LoopbackCloud, tmp_path: Path
) -> None:
    settings = settings_for(cloud, tmp_path, budgets=("$0.000001/day",), pace_budget=True)
    with Engine(settings, backend=ScriptedBackend.confident("Canberra.")) as engine:
        engine.ledger.settle("old/0", PAID)
        reply = engine.complete("Hello?", threshold=0.999, policy="local_only")
        assert reply.decision.objective, "it was paced"
    assert (reply.decision.code, reply.degraded) == ("policy_local_only", False)


def test_a_sure_answer_is_the_same_under_a_paced_budget(
    cloud: LoopbackCloud, tmp_path: Path
) -> None:
    settings = settings_for(cloud, tmp_path, budgets=("$0.000001/day",), pace_budget=True)
    with Engine(settings, backend=ScriptedBackend.confident("Canberra.")) as engine:
        engine.ledger.settle("old/0", PAID)
        reply = ask(engine)
        assert reply.decision.threshold == 0.0, "nothing is left, so nothing may leave"
    assert (reply.decision.code, reply.degraded) == ("kept_confident", False)


def drifted(engine: Engine) -> None:
    """Sixty answers that are surer than nearly all rows of the calibration."""
    ask(engine, 60)
    assert engine.parts.watch.check("chat", NAME).drifted


@pytest.mark.parametrize(
    ("action", "source", "code"),
    [
        ("report", "local", "kept_confident"),
        ("cloud", "cloud", "handoff_drifted"),
    ],
)
def test_on_drift_decides_what_drift_does(
    cloud: LoopbackCloud, tmp_path: Path, action: str, source: str, code: str
) -> None:
    settings = settings_for(cloud, tmp_path, on_drift=action)
    with Engine(settings, backend=ScriptedBackend.confident("Canberra.")) as engine:
        drifted(engine)
        reply = ask(engine)
        assert (reply.source, reply.decision.code) == (source, code)
    with Engine(settings, backend=ScriptedBackend.confident("Canberra.")) as engine:
        reply = ask(engine)
        assert (reply.source, reply.decision.code) == (source, code), "another process knows it too"


def test_a_drifted_calibration_needs_more_confidence(cloud: LoopbackCloud, tmp_path: Path) -> None:
    settings = settings_for(cloud, tmp_path, on_drift="widen")
    with Engine(settings, backend=ScriptedBackend.confident("Canberra.")) as engine:
        drifted(engine)
        reply = ask(engine)
    assert reply.decision.threshold == pytest.approx(0.75)
    assert "no longer fits" in reply.decision.objective


def test_a_ledger_that_fails_steers_nothing(cloud: LoopbackCloud, tmp_path: Path) -> None:
    settings = settings_for(cloud, tmp_path, budgets=("$1/day",), pace_budget=True)
    with Engine(settings, backend=ScriptedBackend.confident("Canberra.")) as engine:

        def broken() -> Any:
            raise LedgerUnavailable("disk full")

        engine.ledger.remaining = broken  # type: ignore[method-assign]
        assert engine.parts.request("hello").steering is None


def test_nothing_is_steered_unless_asked_for(cloud: LoopbackCloud, tmp_path: Path) -> None:
    settings = settings_for(cloud, tmp_path, budgets=("$1/day",))
    with Engine(settings, backend=ScriptedBackend.confident("Canberra.")) as engine:
        assert engine.parts.request("hello").steering is None
    with pytest.raises(SettingsError, match="report, widen or cloud"):
        Settings.load({}, on_drift="panic")  # type: ignore[arg-type]
