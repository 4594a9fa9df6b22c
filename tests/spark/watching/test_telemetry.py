"""Traces and metrics for OpenTelemetry, read by the in-memory exporters of its SDK."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pyspark.sql import SparkSession

import watersmeet as wm
from tests.spark.serving.kit import Inputs, RunningQuery
from tests.spark.serving.standing import numbers
from watersmeet import errors
from watersmeet._spark.metrics import exporters
from watersmeet._spark.metrics.exporters import Telemetry
from watersmeet.errors import ConfigError


def in_memory() -> tuple[TracerProvider, InMemorySpanExporter, MeterProvider, InMemoryMetricReader]:
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    return tracers, spans, MeterProvider([reader]), reader


def points(reader: InMemoryMetricReader) -> dict[str, list[tuple[dict[str, Any], float]]]:
    """By name and unit of a metric, attributes and values."""
    data = reader.get_metrics_data()
    metrics = [each for r in data.resource_metrics for s in r.scope_metrics for each in s.metrics] if data else []
    return {
        f"{each.name} {each.unit}".strip(): [(dict(p.attributes or {}), p.value) for p in each.data.data_points]
        for each in metrics
    }


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return {name.removeprefix("watersmeet."): value for name, value in (span.attributes or {}).items()}


def test_a_batch_is_a_trace_and_its_parts_are_spans_one_after_another() -> None:
    tracers, spans, meters, _ = in_memory()
    sent = Telemetry("orders", numbers, tracers, meters)
    batch = numbers().batch
    assert batch is not None
    seconds = {"triggerExecution": 0.75, "addBatch": 0.5, "latestOffset": 0.125, "commitOffsets": 0.0625}
    sent.trace(replace(numbers(), batch=replace(batch, seconds=seconds)))
    *parts, root = spans.get_finished_spans()
    begin = 5_000 * 1_000_000
    told = [(span.name, ((span.start_time or 0) - begin) / 1e9, ((span.end_time or 0) - begin) / 1e9) for span in parts]
    assert told == [("latestOffset", 0.0, 0.125), ("addBatch", 0.125, 0.625), ("commitOffsets", 0.625, 0.6875)]
    assert (root.name, root.start_time, root.end_time) == ("batch", begin, begin + 750_000_000)
    assert {span.parent.span_id if span.parent else None for span in parts} == {root.context.span_id}
    assert len({span.context.trace_id for span in (root, *parts)}) == 1
    assert attributes(root) == {
        "application": "orders",
        "batch": 1,
        "consumed.clicks": 4,
        "produced.output": 3,
        "dropped.count.null_key": 3,
    }


def test_metrics_are_those_of_prometheus_under_names_with_dots() -> None:
    tracers, _, meters, reader = in_memory()
    sent = Telemetry("orders", numbers, tracers, meters)
    found = points(reader)
    here = {"application": "orders"}
    assert found["watersmeet.records.consumed"] == [({**here, "source": "clicks"}, 10)]
    assert found["watersmeet.dropped.records"] == [({**here, "operator": "count", "reason": "null_key"}, 3)]
    assert found["watersmeet.table.bytes By"] == [({**here, "table": "counts"}, 240)]
    assert found["watersmeet.stream.time.lag s"] == [({**here, "source": "clicks"}, 3.0)]
    assert found["watersmeet.batch.duration s"] == [
        ({**here, "part": "triggerExecution"}, 0.5),
        ({**here, "part": "addBatch"}, 0.4),
    ]
    assert found["watersmeet.query.active"] == [(here, 1.0)]
    sent.close()
    assert points(reader) == {}


def test_before_the_first_batch_there_is_no_trace_and_metrics_of_batches_come_with_it() -> None:
    tracers, spans, meters, reader = in_memory()
    now = [replace(numbers(), batch=None, batches=0)]
    sent = Telemetry("orders", lambda: now[0], tracers, meters)
    sent.trace(now[0])
    assert spans.get_finished_spans() == ()
    assert "watersmeet.process.rate" not in points(reader)
    now[0] = numbers()
    assert points(reader)["watersmeet.process.rate"] == [({"application": "orders"}, 8.0)]


def test_a_collection_reads_the_numbers_once_and_the_next_one_reads_them_anew() -> None:
    tracers, _, meters, reader = in_memory()
    reads: list[int] = []

    def counted() -> Any:
        reads.append(1)
        return replace(numbers(), batches=len(reads))

    sent = Telemetry("orders", counted, tracers, meters)
    reads.clear()
    seen = [points(reader)["watersmeet.batches"][0][1] for _ in range(3)]
    assert (seen, len(reads)) == ([1, 2, 3], 3)
    sent.close()


def test_a_package_that_is_missing_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"(?s)opentelemetry.sdk, opentelemetry.exporter.*\[otel\]"):
        Telemetry("orders", numbers, None, None)


def test_the_end_waits_for_no_collector_that_is_down_and_raises_nothing_of_an_exporter(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers, begun = threading.Event(), threading.Event()

    class Waits(TracerProvider):
        def shutdown(self) -> None:
            begun.set()
            answers.wait()

    class Raises(MeterProvider):
        def shutdown(self, timeout_millis: float = 0, **more: Any) -> None:
            raise RuntimeError("no route")

    monkeypatch.setattr(exporters, "_tracers", lambda application: Waits(shutdown_on_exit=False))
    monkeypatch.setattr(exporters, "_meters", lambda application: Raises(shutdown_on_exit=False))
    monkeypatch.setattr(exporters, "_LAST_SECONDS", 0.1)
    Telemetry("orders", numbers, None, None).close()
    begun.wait()
    assert not answers.is_set()
    answers.set()
    assert "The last numbers were not sent to OpenTelemetry: RuntimeError: no route" in caplog.text


def test_each_batch_of_a_query_that_runs_is_one_trace_whatever_else_is_told_and_fails(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    running = RunningQuery(spark, tmp_path, Inputs(spark, tmp_path / "in"))
    builder = wm.StreamsBuilder("traced")
    frame = running.inputs.read("events", "k string, v long, ts long")
    events = builder.stream(frame, name="events", key="k", value="v", timestamp="ts")
    events.to(wm.ForeachBatch(lambda rows, batch: rows.count()), name="out")
    query = running.start(builder.build())
    tracers, spans, meters, reader = in_memory()
    try:
        query._counts.tell(lambda now: 1 // 0)
        query.telemetry(tracer_provider=tracers, meter_provider=meters)
        for number in range(2):
            running.inputs.put("events", {"k": "a", "v": number, "ts": number}, {"k": "b", "v": number, "ts": number})
            query.processAllAvailable()
        assert points(reader)["watersmeet.records.consumed"] == [({"application": "traced", "source": "events"}, 4)]
    finally:
        query.stop()
    roots = [attributes(span) for span in spans.get_finished_spans() if span.name == "batch"]
    assert [(root["batch"], root["consumed.events"]) for root in roots] == [(0, 2), (1, 2)]
    assert "A batch was not sent: ZeroDivisionError" in caplog.text
