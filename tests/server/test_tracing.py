"""Spans and metrics in OpenTelemetry's GenAI words: one per request, one below per attempt."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from edgewise.server.tracing import trace_requests
from edgewise.testing import LoopbackCloud, ScriptedBackend, Status
from tests.server.conftest import Serving
from tests.server.served import Served


class Watched:
    """A server whose spans and metrics are kept."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.spans = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        trace_requests(served.state, tracers, MeterProvider([self.reader]))

    def finished(self) -> list[Any]:
        self.served.settle()
        return list(self.spans.get_finished_spans())

    def metrics(self) -> set[str]:
        data = self.reader.get_metrics_data()
        assert data is not None
        return {
            metric.name
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@pytest.fixture
def watched(serving: Serving) -> Watched:
    return Watched(serving(ScriptedBackend.doubtful("Perhaps Lyon.")))


def test_a_request_is_a_span_and_each_attempt_one_below(watched: Watched) -> None:
    watched.served.chat(stream=True)
    first, second, parent = watched.finished()
    assert {first.parent.span_id, second.parent.span_id} == {parent.context.span_id}
    known = parent.attributes
    assert (parent.name, known["gen_ai.operation.name"]) == ("chat auto", "chat")
    assert known["gen_ai.response.model"] == "gpt-6-luna"
    assert known["gen_ai.request.stream"] is True
    assert known["edgewise.source"] == "cloud"
    assert known["edgewise.decision.code"] == "handoff_low_confidence"
    assert known["edgewise.cost_microdollars"] > 0
    assert (first.attributes["edgewise.place"], first.attributes["edgewise.outcome"]) == (
        "local",
        "handed_off",
    )
    assert second.attributes["gen_ai.provider.name"] == "openai"
    assert parent.start_time <= first.start_time <= first.end_time <= second.start_time


def test_a_decision_is_no_chat(watched: Watched) -> None:
    questions = {"refund": {"type": "noul", "instructions": "Money back?"}}
    watched.served.http.post("/v1/systemone", json={"state": "Twice!", "questions": questions})
    parent = watched.finished()[-1]
    assert parent.attributes["gen_ai.operation.name"] == "decide"


def test_a_fault_is_an_error_with_its_type(watched: Watched, cloud: LoopbackCloud) -> None:
    cloud.always(Status(500))
    watched.served.chat(model="cloud/openai")
    (parent,) = watched.finished()
    assert parent.attributes["error.type"] == "cloud_server_error"
    assert not parent.status.is_ok


def test_metrics_have_the_names_of_the_conventions(watched: Watched) -> None:
    watched.served.chat()
    watched.served.settle()
    assert watched.metrics() == {
        "gen_ai.server.request.duration",
        "gen_ai.server.time_to_first_token",
        "gen_ai.client.token.usage",
    }


def test_no_span_holds_any_words(watched: Watched) -> None:
    watched.served.chat(messages=[{"role": "user", "content": "My password is swordfish."}])
    text = " ".join(str(span.to_json()) for span in watched.finished())
    for word in ("password", "swordfish", "Lyon", "loopback cloud heard"):
        assert word not in text
