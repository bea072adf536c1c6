"""What operators see: health, readiness, counts, and one line per request without any words."""

from __future__ import annotations

import json
import logging
from functools import partial
from pathlib import Path

import pytest

from edgewise.decide.drift import Drift
from edgewise.server import metrics, state
from edgewise.server.metrics import Energy, Gauge, Metrics, series_of
from edgewise.server.serve import JsonLines
from edgewise.testing import LoopbackCloud, ScriptedBackend, Status
from tests.server.conftest import Serving
from tests.server.served import Served, wait_until


def test_it_lives_and_is_ready(served: Served) -> None:
    assert served.http.get("/healthz").json() == {"status": "ok"}
    assert served.http.get("/readyz").json() == {"status": "ready", "local_model": "scripted-1"}


def test_drift_is_told_by_calibration(served: Served) -> None:
    served.state.engine.parts.watch.found["mine"] = Drift(
        calibration="mine", distance=0.3, bound=0.1, reasons=("far",)
    )
    assert served.metric('edgewise_drift{calibration="mine"}') == 1
    assert served.metric('edgewise_drift_distance{calibration="mine"}') == 0.3
    assert served.metric('edgewise_drift_bound{calibration="mine"}') == 0.1


def test_it_is_not_ready_while_it_drains(served: Served) -> None:
    served.state.draining = True
    response = served.http.get("/readyz")
    assert (response.status_code, response.json()["status"]) == (503, "draining")


def test_a_key_sees_its_own_budgets_and_not_who_else_there_is(serving: Serving) -> None:
    keys = {
        name: {"key_env": f"{name}_KEY", "budgets": ["$1/day"]} for name in ("secret_name", "app")
    }
    environment = {"secret_name_KEY": "key-s", "app_KEY": "key-a", "EDGEWISE_SERVER_KEY": "owner"}
    served = serving(keys=keys, environment=environment, settings={"budgets": ["$3/day"]})

    def seen(key: str) -> str:
        return served.http.get("/metrics", headers={"authorization": f"Bearer {key}"}).text

    assert 'key="app"' in seen("key-a") and 'key=""' in seen("key-a")
    assert "secret_name" not in seen("key-a")
    assert "secret_name" in seen("owner"), "the server's own key sees all"


def test_what_happened_is_counted(serving: Serving, cloud: LoopbackCloud) -> None:
    served = serving(ScriptedBackend.doubtful("Perhaps."), settings={"budgets": ["$3/day"]})
    served.chat()
    served.chat(model="local")
    served.chat(model="local", temperature="hot")
    cloud.always(Status(503))
    served.chat()
    served.settle()
    assert served.metric('edgewise_requests_total{code="handoff_low_confidence"') == 1
    assert served.metric('edgewise_requests_total{code="policy_local_only"') == 1
    assert served.metric('edgewise_requests_total{code="invalid_request"') == 1
    assert served.metric('edgewise_degraded_total{code="cloud_server_error"}') == 1
    assert served.metric("edgewise_cost_microdollars_total") > 0
    assert served.metric("edgewise_request_seconds_count") == 4
    assert served.metric("edgewise_confidence_count") == 3
    assert served.metric('edgewise_slots{model="scripted-1"}') == 1
    assert 0 < served.metric("edgewise_budget_remaining_microdollars") < 3_000_000
    assert served.metric("edgewise_budget_limit_microdollars") == 3_000_000
    assert served.metric('edgewise_breaker_open{provider="openai"}') in (0, 1)
    assert served.metric("edgewise_refused_total") == 0
    served.http.get("/v1/models", headers={"host": "evil.example"})
    assert served.metric('edgewise_refused_total{code="host_not_allowed",status="403"}') == 1


def test_the_text_is_well_formed() -> None:
    metrics = Metrics(lambda: [("edgewise_slots", {"model": 'a"b\\c\nd'}, 4)])
    where = {"endpoint": "chat", "source": "local"}
    metrics.requests.labels(**where, code="kept", status="200").inc()
    metrics.seconds.labels(**where).observe(0.3)
    metrics.seconds.labels(**where).observe(1000)
    lines = metrics.written().decode().splitlines()
    labels = 'code="kept",endpoint="chat",source="local",status="200"'
    assert f"edgewise_requests_total{{{labels}}} 1.0" in lines
    bucket = 'edgewise_request_seconds_bucket{endpoint="chat",le="%s",source="local"}'
    assert f"{bucket % '0.5'} 1.0" in lines
    assert f"{bucket % '+Inf'} 2.0" in lines
    assert 'edgewise_slots{model="a\\"b\\\\c\\nd"} 4.0' in lines
    assert lines.count("# TYPE edgewise_request_seconds histogram") == 1


def test_a_server_counts_for_itself_and_nothing_but_what_is_described(serving: Serving) -> None:
    first, second = serving(), serving()
    first.chat()
    first.settle()
    assert first.metric("edgewise_requests_total") == 1
    assert second.metric("edgewise_requests_total") == 0
    lines = first.http.get("/metrics").text.splitlines()
    names = {line.partition("{")[0].split()[0] for line in lines if not line.startswith("#")}
    assert all(name.startswith("edgewise_") for name in names)
    assert not any(name.endswith("_created") for name in names)


def test_every_request_is_one_line_without_words_or_secrets(
    serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    served = serving(key="server-secret-key-12345")
    with caplog.at_level(logging.INFO, "edgewise.server"):
        headers = {"authorization": "Bearer server-secret-key-12345"}
        secret = [{"role": "user", "content": "My password is swordfish, sk-abcdefgh12345678."}]
        served.chat(messages=secret, headers=headers)
        served.chat(messages=secret, headers={"authorization": "Bearer wrong-secret"})
        wait_until(lambda: len(caplog.records) >= 2)
    refused, answered = sorted(
        (json.loads(record.getMessage()) for record in caplog.records), key=lambda line: len(line)
    )
    assert (answered["status"], answered["source"], answered["client"]) == (200, "local", "key")
    assert answered["code"] == "kept_confident" and answered["total_ms"] > 0
    assert (refused["status"], refused["code"]) == (401, "invalid_api_key")
    for word in ("password", "swordfish", "secret", "Paris", "sk-"):
        assert word not in caplog.text


def test_log_lines_are_json_whatever_they_say() -> None:
    def line(message: str) -> dict[str, object]:
        record = logging.LogRecord("x", logging.WARNING, "", 0, message, None, None)
        found: dict[str, object] = json.loads(JsonLines().format(record))
        return found

    assert line('{"status": 200}') == {"status": 200}
    assert line("two\nlines") == {"level": "warning", "message": "two\nlines"}


def test_models_can_be_listed_and_looked_up(served: Served) -> None:
    client = served.openai()
    names = [model.id for model in client.models.list()]
    pulled = [name for name in names if name.startswith("local/")]  # what this machine has, too
    assert names == ["auto", *pulled, "cloud/openai/gpt-6-luna"]
    assert pulled[0] == "local/scripted-1"
    for name in names:
        assert client.models.retrieve(name).id == name
    missing = served.http.get("/v1/models/nothing")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "model_not_found")


def test_counts_of_several_servers_are_written_as_one_with_their_replicas() -> None:
    def gauges() -> list[Gauge]:
        return [("edgewise_slots", {"model": "tiny"}, 4.0)]

    here, there = Metrics(gauges, replica="front-1"), Metrics(gauges, replica="chat-1")
    there.requests.labels("chat", "local", "kept", "200").inc()
    # Whoever asks all replicas asks itself too.
    here.others = lambda: [
        *series_of(there.own(), but="front-1"),
        *series_of(here.own(), but="front-1"),
    ]
    written = here.written().decode()
    slots = [line for line in written.splitlines() if line.startswith("edgewise_slots")]
    assert slots == [
        'edgewise_slots{model="tiny",replica="front-1"} 4.0',
        'edgewise_slots{model="tiny",replica="chat-1"} 4.0',
    ]
    assert written.count("# TYPE edgewise_slots gauge") == 1
    assert written.count("# TYPE edgewise_requests_total counter") == 1
    assert 'endpoint="chat",replica="chat-1"' in written


def test_joules_are_counted_while_the_device_works_and_only_where_they_are_told(
    tmp_path: Path,
) -> None:
    working = [True]
    assert not Energy(lambda: True, tmp_path).told
    for name, most in (("intel-rapl:0", 1_000_000_000), ("intel-rapl:0:0", 5), ("dtpm", 5)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "max_energy_range_uj").write_text(str(most))
        (tmp_path / name / "energy_uj").write_text("0")
    energy = Energy(lambda: working[0], tmp_path)

    def spend(microjoules: int) -> None:
        (tmp_path / "intel-rapl:0" / "energy_uj").write_text(str(microjoules))
        energy.look()

    assert energy.told and energy.joules_per_answer is None
    spend(100_000_000)
    spend(130_000_000)
    working[0] = False
    spend(900_000_000)
    working[0] = True
    spend(10_000_000)  # the counter began anew
    energy.answered()
    energy.answered()
    assert energy.joules == pytest.approx(30 + 110)
    assert energy.joules_per_answer == pytest.approx(70)


def test_the_joules_of_an_answer_between_two_looks_are_not_lost(
    serving: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "intel-rapl:0").mkdir()
    counter = tmp_path / "intel-rapl:0" / "energy_uj"
    counter.write_text("0")
    monkeypatch.setattr(metrics, "LOOK_AT_ENERGY_S", 600.0)  # nobody looks but who asks
    monkeypatch.setattr(state, "Energy", partial(Energy, folder=tmp_path))
    used = iter([5_000_000, 7_000_000, 50_000_000, 53_000_000])
    looked = Energy.look

    def look(self: Energy, *, worked: bool = False) -> None:
        counter.write_text(str(next(used)))
        looked(self, worked=worked)

    monkeypatch.setattr(Energy, "look", look)
    served = serving()
    for _ in range(2):
        served.chat()
        served.settle()
    assert served.state.energy.joules == pytest.approx(2 + 3), "not what was used in between"
    assert served.state.energy.joules_per_answer == pytest.approx(2.5)
    overview = served.http.get("/edgewise/overview/1h").json()
    assert overview["device"]["joules_per_answer"] == pytest.approx(2.5)
