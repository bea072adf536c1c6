"""OpenTelemetry: a span per request with one below it per attempt, and the same as metrics.

Names are those of the GenAI conventions, still in development; what they have no word for
(source, confidence, reason, price) is under `edgewise.`. No span holds any text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgewise import __version__
from edgewise.errors import SettingsError
from edgewise.extras import how_to_get
from edgewise.server.access import Served
from edgewise.server.state import ServerState
from edgewise.types.replies import Attempt, Reply

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

SECOND = 1_000_000_000  # spans are timed in nanoseconds
OPERATIONS = {"embeddings": "embeddings", "systemone": "decide", "decisions": "decide"}


def trace_requests(
    state: ServerState, tracers: TracerProvider | None = None, meters: MeterProvider | None = None
) -> None:
    """From now on every request that ends becomes spans; of the global providers unless given."""
    try:
        from opentelemetry import metrics, trace  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise SettingsError(f"otel = true needs its extra: {how_to_get('otel')}") from error
    name = "edgewise.server"
    tracer = (tracers or trace.get_tracer_provider()).get_tracer(name, __version__)
    meter = (meters or metrics.get_meter_provider()).get_meter(name, __version__)
    state.access_log.listeners.append(Tracing(tracer, meter).note)


class Tracing:
    """Writes spans after the fact: a request's thread has better things to do while it runs."""

    def __init__(self, tracer: Any, meter: Any) -> None:
        self._tracer = tracer
        self._duration = meter.create_histogram("gen_ai.server.request.duration", "s")
        self._first = meter.create_histogram("gen_ai.server.time_to_first_token", "s")
        self._tokens = meter.create_histogram("gen_ai.client.token.usage", "{token}")

    def note(self, served: Served) -> None:
        from opentelemetry import trace  # noqa: PLC0415 - an extra

        begun = int(served.at * SECOND)
        ended = begun + int(served.total_s * SECOND)
        known = _request_attributes(served)
        failed = served.reply is None
        span = self._tracer.start_span(
            f"{known['gen_ai.operation.name']} {served.model}".strip(),
            kind=trace.SpanKind.SERVER,
            start_time=begun,
            attributes=known,
        )
        if failed:
            span.set_status(trace.StatusCode.ERROR, served.code)
        if served.reply is not None:
            below = trace.set_span_in_context(span)
            self._attempts(served.reply, below, begun)
        span.end(end_time=ended)
        self._measure(served, known)

    def _attempts(self, reply: Reply, below: Any, begun: int) -> None:
        """One after the other from the beginning: attempts say how long they took, not when."""
        from opentelemetry import trace  # noqa: PLC0415 - an extra

        at = begun
        for attempt in reply.attempts:
            ended = at + int(attempt.total_ms * SECOND / 1000)
            span = self._tracer.start_span(
                f"chat {attempt.model}",
                context=below,
                kind=trace.SpanKind.CLIENT if attempt.place == "cloud" else trace.SpanKind.INTERNAL,
                start_time=at,
                attributes=_attempt_attributes(attempt),
            )
            if attempt.error:
                span.set_status(trace.StatusCode.ERROR, attempt.outcome)
            span.end(end_time=ended)
            at = ended

    def _measure(self, served: Served, known: dict[str, Any]) -> None:
        labels = {name: known[name] for name in _LABELS if name in known}
        self._duration.record(served.total_s, labels)
        if served.first_s is not None:
            self._first.record(served.first_s, labels)
        if served.reply is not None:
            used = served.reply.usage
            for kind, count in (("input", used.input_tokens), ("output", used.output_tokens)):
                self._tokens.record(count, labels | {"gen_ai.token.type": kind})


_LABELS = (
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.response.model",
    "error.type",
    "edgewise.source",
)


def _request_attributes(served: Served) -> dict[str, Any]:
    known: dict[str, Any] = {
        "gen_ai.operation.name": OPERATIONS.get(served.endpoint, "chat"),
        "gen_ai.provider.name": "edgewise",
        "gen_ai.request.model": served.model,
        "gen_ai.request.stream": served.stream,
        "gen_ai.response.id": served.id,
        "http.response.status_code": served.status,
        "edgewise.endpoint": served.endpoint,
        "edgewise.client": served.client,
        "edgewise.decision.code": served.code,
    }
    if served.first_s is not None:
        known["gen_ai.response.time_to_first_chunk"] = served.first_s
    if served.reply is None:
        return known | {"error.type": served.code}
    reply = served.reply
    known |= {
        "gen_ai.response.model": reply.model,
        "gen_ai.response.finish_reasons": [reply.finish_reason],
        "gen_ai.usage.input_tokens": reply.usage.input_tokens,
        "gen_ai.usage.output_tokens": reply.usage.output_tokens,
        "edgewise.source": reply.source,
        "edgewise.cost_microdollars": reply.usage.cost_microdollars,
        "edgewise.degraded": reply.decision.degraded_code,
    }
    if reply.confidence is not None:
        known["edgewise.confidence"] = reply.confidence
        known["edgewise.confidence_verified"] = reply.confidence_verified
    return known


def _attempt_attributes(attempt: Attempt) -> dict[str, Any]:
    known: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": attempt.backend,
        "gen_ai.request.model": attempt.model,
        "gen_ai.response.model": attempt.model,
        "gen_ai.usage.input_tokens": attempt.input_tokens,
        "gen_ai.usage.output_tokens": attempt.output_tokens,
        "edgewise.place": attempt.place,
        "edgewise.outcome": attempt.outcome,
        "edgewise.tries": attempt.tries,
        "edgewise.cost_microdollars": attempt.cost_microdollars,
    }
    if attempt.first_token_ms is not None:
        known["gen_ai.response.time_to_first_chunk"] = attempt.first_token_ms / 1000
    return known | ({"error.type": attempt.outcome} if attempt.error else {})


def export_over_http() -> None:
    """Providers that send to where OTEL_EXPORTER_OTLP_ENDPOINT says, unless there are some."""
    try:
        from opentelemetry import metrics, trace  # noqa: PLC0415 - an extra
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError as error:
        raise SettingsError(f"otel = true needs its extra: {how_to_get('otel')}") from error
    tracers = TracerProvider()
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(tracers)
    reader = PeriodicExportingMetricReader(OTLPMetricExporter())
    metrics.set_meter_provider(MeterProvider([reader]))
