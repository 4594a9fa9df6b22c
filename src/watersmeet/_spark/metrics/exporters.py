"""A query's numbers for Prometheus, OpenTelemetry and a line of progress, by Kafka Streams' names where it has such.

Prometheus' rules hold: base units (seconds, bytes), `_total` behind what only grows, what is summed over is a label.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, TextIO

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from watersmeet._spark.metrics.metrics import Metrics
from watersmeet._spark.metrics.texts import WHOLE, in_order
from watersmeet.errors import ConfigError, installing, missing_packages

Address = tuple[str, int]
LATENCY = "watersmeet_record_latency_seconds"
Sample = tuple[tuple[str, ...], float]
Family = tuple[str, tuple[str, ...], list[Sample]]


class Endpoint:
    """Serves the numbers of one query over HTTP until it is closed.

    Parameters
    ----------
    address : host and port; port 0: any free one.
    application : the topology's name, a label of all numbers.
    """

    def __init__(self, address: Address, application: str) -> None:
        if find_spec("prometheus_client") is None:
            raise ConfigError(
                f"metrics_port={_text(address)} needs a package that is not installed: prometheus-client.",
                hint=f"{installing('watch')}; or leave metrics_port out and read query.metrics().",
            )
        from prometheus_client import CollectorRegistry, start_http_server

        self._collector = _Collector(application)
        registry = CollectorRegistry(auto_describe=False)
        host, port = address
        try:
            self._server, self._thread = start_http_server(port, host, registry)
        except OSError as error:
            raise ConfigError(
                f"metrics_port={_text(address)} cannot be served: " + (error.strerror or str(error)) + ".",
                hint="Give each query a port of its own; metrics_port=0 takes a free one, and query.metrics_port "
                "has its number.",
            ) from None
        registry.register(self._collector)

    @property
    def port(self) -> int:
        return int(self._server.server_port)

    def serve(self, read: Callable[[], Metrics]) -> None:
        """Serve these numbers from now on; before, there is nothing to read."""
        self._collector.read = read

    def close(self) -> None:
        """Stop listening; again is no error."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def text_of(application: str, read: Callable[[], Metrics]) -> Callable[[], bytes]:
    """A function that returns the numbers of a query as Prometheus reads them; the package is there."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry, collector = CollectorRegistry(auto_describe=False), _Collector(application)
    registry.register(collector)
    collector.read = read
    return lambda: generate_latest(registry)


class _Collector:
    """Makes samples of the numbers at each scrape."""

    def __init__(self, application: str) -> None:
        self._application = application
        self.read: Callable[[], Metrics] | None = None

    def describe(self) -> Iterable[Any]:
        """Nothing: asked for when it is registered, before there is a query."""
        return ()

    def collect(self) -> Iterator[Any]:
        """Samples by family."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        if self.read is None:
            return
        metrics = self.read()
        latency = HistogramMetricFamily(LATENCY, _TEXT[LATENCY], labels=["application", "source"])
        for source, distribution in metrics.latency.items():
            counts = [(str(end), float(distribution.up_to(end))) for end in _ENDS] + [
                ("+Inf", float(distribution.records))
            ]
            latency.add_metric([self._application, source], counts, distribution.seconds)
        yield latency
        for name, text, labels, samples in families(metrics):
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            family = kind(name, text, labels=["application", *labels])
            for values, value in samples:
                family.add_metric([self._application, *values], value)
            yield family


def families(metrics: Metrics) -> Iterator[tuple[str, str, tuple[str, ...], list[Sample]]]:
    """(name, what it means, labels, samples) of all numbers."""
    for name, labels, samples in _numbers(metrics):
        yield name, _TEXT[name], labels, samples


def _numbers(metrics: Metrics) -> Iterator[Family]:
    yield from _records(metrics)
    yield from _times(metrics)
    yield from _of_process(metrics)
    yield from _of_processors(metrics)
    tables = metrics.tables.items()
    yield "watersmeet_table_rows", ("table",), [((t,), table.rows) for t, table in tables]
    yield "watersmeet_table_bytes", ("table",), [((t,), table.bytes) for t, table in tables]
    yield "watersmeet_suppression_buffer_count", ("operator",), _prometheus_by_name(metrics.held)
    workers: list[Sample] = [((), metrics.worker_bytes)] if metrics.worker_bytes else []
    yield "watersmeet_worker_memory_bytes", (), workers
    yield "watersmeet_state_store_memory_bytes", (), [((), metrics.state_bytes)]


def _records(metrics: Metrics) -> Iterator[Family]:
    operators = metrics.operators.items()
    yield "watersmeet_records_consumed_total", ("source",), _prometheus_by_name(metrics.consumed)
    yield "watersmeet_records_produced_total", ("sink",), _prometheus_by_name(metrics.produced)
    yield "watersmeet_process_total", ("operator",), [((o,), n.processed) for o, n in operators]
    yield "watersmeet_forward_total", ("operator",), [((o,), n.forwarded) for o, n in operators]
    dropped = [((node, reason), float(count)) for (node, reason), count in sorted(metrics.drops.items())]
    yield "watersmeet_dropped_records_total", ("operator", "reason"), list(dropped)
    lag = [((topic, str(part)), float(n)) for topic, parts in metrics.lag.items() for part, n in parts.items()]
    yield "watersmeet_records_lag", ("topic", "partition"), list(lag)


def _of_processors(metrics: Metrics) -> Iterator[Family]:
    """Counters and timers of processors' own."""
    labels = ("operator", "name")
    counters = [((o, name), n) for o, numbers in metrics.counters.items() for name, n in numbers.items()]
    timers = [((o, name), timer) for o, by_name in metrics.timers.items() for name, timer in by_name.items()]
    yield "watersmeet_counter_total", labels, [(at, float(number)) for at, number in counters]
    yield "watersmeet_timer_calls_total", labels, [(at, float(timer.calls)) for at, timer in timers]
    yield "watersmeet_timer_seconds_total", labels, [(at, timer.seconds) for at, timer in timers]


def _times(metrics: Metrics) -> Iterator[Family]:
    lateness = metrics.record_lateness_max_ms, metrics.record_lateness_avg_ms
    yield "watersmeet_query_active", (), [((), float(metrics.active))]
    yield "watersmeet_batches_total", (), [((), metrics.batches)]
    last = [] if metrics.batch is None else [metrics.batch]
    parts = [sample for batch in last for sample in _prometheus_by_name(batch.seconds)]
    yield "watersmeet_process_rate", (), [((), batch.rate) for batch in last]
    yield "watersmeet_batch_duration_seconds", ("part",), parts
    began = [((), batch.started_ms / 1_000) for batch in last]
    yield "watersmeet_batch_timestamp_seconds", (), list(began)
    yield "watersmeet_batch_under_way_seconds", (), [((), metrics.under_way_seconds or 0.0)]
    yield "watersmeet_stream_time_seconds", ("source",), _in_seconds(metrics.stream_time_ms)
    yield "watersmeet_stream_time_lag_seconds", ("source",), _in_seconds(metrics.stream_time_lag_ms)
    yield "watersmeet_record_lateness_max_seconds", ("source",), _in_seconds(lateness[0])
    yield "watersmeet_record_lateness_avg_seconds", ("source",), _in_seconds(lateness[1])


def _of_process(metrics: Metrics) -> Iterator[Family]:
    last = [] if metrics.batch is None else [metrics.batch]
    quantiles = [
        ((source, str(share)), seconds)
        for batch in last
        for source, latency in batch.latency.items()
        for share in (0.5, 0.99)
        if (seconds := latency.quantile(share)) is not None
    ]
    # no key is a label: keys may be secret, and have no end
    hot: list[Sample] = [((name,), hot_key.share) for batch in last for name, hot_key in batch.hot_keys.items()]
    yield "watersmeet_hot_key_share", ("operator",), hot
    yield "watersmeet_batch_latency_seconds", ("source", "quantile"), list(quantiles)
    writes = [sample for batch in last for sample in _prometheus_by_name(batch.writes)]
    yield "watersmeet_write_duration_seconds", ("part",), writes
    takeovers: list[Sample] = [((), batch.takeovers) for batch in last]
    yield "watersmeet_transaction_takeovers", (), takeovers
    yield "watersmeet_restarts_total", (), [((), metrics.restarts)]
    error = [] if metrics.last_error is None else [((metrics.last_error.error,), metrics.last_error.at_ms / 1_000)]
    yield "watersmeet_last_error_timestamp_seconds", ("error",), list(error)
    yield "watersmeet_driver_memory_bytes", ("part",), _prometheus_by_name(metrics.driver_bytes)


def _prometheus_by_name(values: Mapping[str, float]) -> list[Sample]:
    return [((name,), value) for name, value in values.items()]


def _in_seconds(millis: Mapping[str, float]) -> list[Sample]:
    return [((name,), value / 1_000) for name, value in millis.items()]


def _text(address: Address) -> str:
    return f"{address[0]}:{address[1]}"


_ENDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0, 86_400.0)
"""Of the histogram's buckets, in seconds."""
_TEXT = {
    LATENCY: "To when all outputs had its batch, from a record's timestamp, or its read if older than the start.",
    "watersmeet_batch_latency_seconds": (
        "The same of the records of the last batch: half of them, and 99 percent, took at most this."
    ),
    "watersmeet_write_duration_seconds": (
        "Seconds of the last batch for Kafka's longest transaction, the state of all tasks, and Spark's logs."
    ),
    "watersmeet_transaction_takeovers": (
        "How often a task of the last batch took a transactional id of Kafka over from another worker."
    ),
    "watersmeet_restarts_total": "Starts of the checkpoint behind an end that nobody asked for: an error, or a kill.",
    "watersmeet_last_error_timestamp_seconds": "When an error last ended the query, in this start or an earlier one.",
    "watersmeet_driver_memory_bytes": (
        "Memory of the driver: of Python, of the JVM, what this uses of its heap, and the heap's limit."
    ),
    "watersmeet_hot_key_share": (
        "The share of an operator's records of the last batch that one key has, if it is a tenth or more."
    ),
    "watersmeet_records_consumed_total": "Records read from a source, dropped ones included.",
    "watersmeet_records_produced_total": "Records written to a sink.",
    "watersmeet_process_total": "Records that an operator received.",
    "watersmeet_forward_total": "Records that an operator sent on.",
    "watersmeet_dropped_records_total": "Records that ended, by operator and reason.",
    "watersmeet_counter_total": "A counter that a processor keeps.",
    "watersmeet_timer_calls_total": "Calls that a timer of a processor has measured.",
    "watersmeet_timer_seconds_total": "Seconds that a timer of a processor has measured in all calls.",
    "watersmeet_records_lag": "Records of a partition that are yet to be read, as the last batch found them.",
    "watersmeet_query_active": "1 while the query runs.",
    "watersmeet_batches_total": "Batches that were finished since the start.",
    "watersmeet_process_rate": "Records per second of the last batch.",
    "watersmeet_batch_duration_seconds": (
        "How long the parts of the last batch took, by Spark's names; triggerExecution is all of it."
    ),
    "watersmeet_batch_timestamp_seconds": "When the last batch that was finished had begun.",
    "watersmeet_batch_under_way_seconds": "For how long the batch has run that is under way; 0 where none is.",
    "watersmeet_stream_time_seconds": "The largest timestamp of a source's records.",
    "watersmeet_stream_time_lag_seconds": "How far a source's stream time is behind the wall clock.",
    "watersmeet_record_lateness_max_seconds": (
        "How far behind the stream time of its partition a record came at most since the start."
    ),
    "watersmeet_record_lateness_avg_seconds": (
        "How far behind the stream time of their partition records came on average since the start."
    ),
    "watersmeet_table_rows": "Rows that a table's manifests list; overwritten rows count until they are merged away.",
    "watersmeet_table_bytes": "Bytes of these rows before compression.",
    "watersmeet_suppression_buffer_count": "Rows that wait for time to let them go.",
    "watersmeet_worker_memory_bytes": "Resident memory of the largest worker of the last batch, without mapped files.",
    "watersmeet_state_store_memory_bytes": "Memory of Spark's state stores.",
}


# A query for OpenTelemetry: a trace of each batch with its parts as spans, and its numbers as metrics.
#
# Spark says how long each part of a batch took, and not when it began: the spans of the parts stand one after another,
# in the order in which Spark runs them. Metrics are those of Prometheus, under names with dots: a collector that writes
# them for Prometheus makes the same names of them.

TELEMETRY_LOG = logging.getLogger("watersmeet.telemetry")
SCOPE = "watersmeet"
_LAST_SECONDS = 2.0
"""For what is left to be sent at the end, all providers together."""
_UNITS = {"seconds": "s", "bytes": "By"}


class Telemetry:
    """Sends one query's batches and numbers until it is closed.

    Parameters
    ----------
    application : the topology's name.
    read : gives the query's numbers.
    tracers, meters : the providers; None: ones that send by OTLP over HTTP, to where OpenTelemetry's environment says.
    """

    def __init__(self, application: str, read: Callable[[], Metrics], tracers: Any, meters: Any) -> None:
        check_telemetry(with_exporters=tracers is None or meters is None)
        for option, provider, method in (
            ("tracer_provider", tracers, "get_tracer"),
            ("meter_provider", meters, "get_meter"),
        ):
            if provider is not None and not hasattr(provider, method):
                raise ConfigError(
                    f"{option}={provider!r:.120} is no provider of OpenTelemetry.",
                    hint=f"Leave {option}= out: OTEL_EXPORTER_OTLP_ENDPOINT='http://localhost:4318' says where to.",
                )
        self._application, self._read = application, read
        self._closed = False
        self._samples: dict[str, list[Sample]] = {}
        self._lock = threading.Lock()
        self._providers = []
        if tracers is None:
            tracers = _tracers(application)
            self._providers.append(tracers)
        if meters is None:
            meters = _meters(application)
            self._providers.append(meters)
        self._tracer = tracers.get_tracer(SCOPE)
        meter = meters.get_meter(SCOPE)
        for name, text, labels, _ in families(read()):
            make = meter.create_observable_counter if name.endswith("_total") else meter.create_observable_gauge
            dotted, unit = _otel_name(name)
            make(dotted, [self._callback(name, labels)], unit=unit, description=text)

    def trace(self, metrics: Metrics) -> None:
        """Send the last batch of these numbers as a trace."""
        from opentelemetry.trace import set_span_in_context

        batch = metrics.batch
        if batch is None or self._closed:
            return
        start = batch.started_ms * 1_000_000
        attributes = {"watersmeet.application": self._application, "watersmeet.batch": batch.number}
        attributes |= {f"watersmeet.consumed.{source}": count for source, count in batch.consumed.items()}
        attributes |= {f"watersmeet.produced.{sink}": count for sink, count in batch.produced.items()}
        attributes |= {f"watersmeet.dropped.{node}.{reason}": count for (node, reason), count in batch.drops.items()}
        root = self._tracer.start_span("batch", start_time=start, attributes=attributes)
        inside = set_span_in_context(root)
        at = start
        for part, seconds in in_order(batch.seconds):
            span = self._tracer.start_span(part, inside, start_time=at)
            at += round(seconds * 1e9)
            span.end(end_time=at)
        # a whole that is rounded down ends with its last part
        root.end(end_time=max(at, start + round(batch.seconds.get(WHOLE, 0.0) * 1e9)))

    def close(self) -> None:
        """Send what is left, and no more behind it; again is no error."""
        if not self._closed:
            # the last numbers are sent first; a collector that is down holds a provider up for longer
            ends = [threading.Thread(target=_shut_down, args=(provider,), daemon=True) for provider in self._providers]
            for thread in ends:
                thread.start()
            until = time.monotonic() + _LAST_SECONDS
            for thread in ends:
                thread.join(max(0.0, until - time.monotonic()))
            self._closed = True

    def _callback(self, name: str, labels: tuple[str, ...]) -> Callable[[Any], Iterable[Any]]:
        from opentelemetry.metrics import Observation

        def observed(options: Any) -> Iterable[Any]:
            if self._closed:
                return
            for values, value in self._pop_samples(name):
                attributes = {"application": self._application, **dict(zip(labels, values, strict=True))}
                yield Observation(value, attributes)

        return observed

    def _pop_samples(self, name: str) -> list[Sample]:
        """The numbers of one name; a collection asks for each name once, and all numbers are read for the first."""
        with self._lock:
            if name not in self._samples:
                self._samples = {family: samples for family, _, _, samples in families(self._read())}
            return self._samples.pop(name)


def _shut_down(provider: Any) -> None:
    try:
        provider.shutdown()
    except Exception as error:  # of whatever exporter
        TELEMETRY_LOG.warning("The last numbers were not sent to OpenTelemetry: %s: %s", type(error).__name__, error)


def check_telemetry(*, with_exporters: bool) -> None:
    """Raise unless the packages are there.

    Parameters
    ----------
    with_exporters : whether something is sent by the exporters of OTLP.
    """
    needed = ["opentelemetry.sdk", *(["opentelemetry.exporter.otlp.proto.http"] if with_exporters else [])]
    lacking = missing_packages(needed)
    if lacking:
        raise ConfigError(
            f"query.telemetry() needs packages that are not installed: {', '.join(lacking)}.",
            hint=f"{installing('otel')}.",
        )


def _otel_name(name: str) -> tuple[str, str]:
    """A name of Prometheus as OpenTelemetry has it, and its unit.

    >>> _otel_name("watersmeet_batch_duration_seconds"), _otel_name("watersmeet_batches_total")
    (('watersmeet.batch.duration', 's'), ('watersmeet.batches', ''))
    """
    *words, last = name.removesuffix("_total").split("_")
    # "table.bytes" says more than "table"; the collector does not say the unit twice
    return ".".join(words if last == "seconds" else [*words, last]), _UNITS.get(last, "")


def _resource(application: str) -> Any:
    from opentelemetry.sdk.resources import Resource

    return Resource.create({} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": application})


def _tracers(application: str) -> Any:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=_resource(application))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def _meters(application: str) -> Any:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    reader = PeriodicExportingMetricReader(OTLPMetricExporter())
    return MeterProvider([reader], resource=_resource(application))


# A line in the terminal or the notebook that says how far a query is, drawn anew while it runs (`progress=True`).
#
# Where there is neither, as in a service's log, nothing is drawn and nothing is asked. Spark's own numbers are read:
# those of the last batch, and how many tasks of the batch under way have ended.

DRAW_EVERY = 0.5
"""Seconds between two lines."""
_FORMAT = "{desc}: {n:,} records [{elapsed}, {rate_fmt}{postfix}]"


def check_live() -> None:
    """Raise where nothing can be drawn."""
    if find_spec("tqdm") is None:
        raise ConfigError(
            "progress=True needs a package that is not installed: tqdm.",
            hint=f"{installing('watch')}; or leave progress out and read query.metrics().",
        )


def is_interactive(out: TextIO) -> bool:
    """Whether somebody looks: at a terminal, or in a notebook."""
    shell = sys.modules.get("IPython")
    kernel = shell is not None and "IPKernelApp" in getattr(shell.get_ipython(), "config", {})
    return kernel or out.isatty()


class Live:
    """The line, until it is closed or the query has ended.

    Parameters
    ----------
    spark : the query's session.
    title : what the line begins with.
    read : gives the query's numbers.
    out : where it is drawn; a notebook has a place of its own.
    """

    def __init__(self, spark: SparkSession, title: str, read: Callable[[], Metrics], out: TextIO) -> None:
        from tqdm.auto import tqdm  # type: ignore[import-untyped]

        self._spark, self._read = spark, read
        self._bar: Any = tqdm(desc=title, unit=" records", unit_scale=True, file=out, bar_format=_FORMAT, mininterval=0)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._draw, name=f"line of {title}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """The line stays as it is; again is no error."""
        if not self._closed.is_set():
            self._closed.set()
            self._thread.join()
            self._show(self._read())
            self._bar.close()

    def _draw(self) -> None:
        with suppress(PySparkException, OSError):  # Spark itself has ended
            while not self._closed.wait(DRAW_EVERY):
                metrics = self._read()
                if not metrics.active:
                    return
                self._show(metrics)

    def _show(self, metrics: Metrics) -> None:
        self._bar.n = sum(metrics.consumed.values())
        self._bar.set_postfix_str(
            text(metrics, *(running_stages(self._spark) if metrics.active else (0, 0.0))), refresh=False
        )
        self._bar.refresh()


def text(metrics: Metrics, stages: int, completed: float) -> str:
    """The text beside the number of records.

    Parameters
    ----------
    stages, completed : of the jobs that run, and how many of them have ended.
    """
    segments = [f"{metrics.batches} batches"]
    if stages:
        segments.append(f"stage {min(int(completed) + 1, stages)} of {stages}")
    if metrics.lag:
        segments.append(f"lag {metrics.total_lag:,}")
    if metrics.drops:
        segments.append(f"{sum(metrics.drops.values()):,} dropped")
    return ", ".join(segments)


def running_stages(spark: SparkSession) -> tuple[int, float]:
    """Stages of the jobs that are running, and how many of them have ended, by their tasks."""
    tracker, total, completed = spark.sparkContext.statusTracker(), 0, 0.0
    # a job may end between two questions
    jobs = [job for number in tracker.getActiveJobsIds() if (job := tracker.getJobInfo(number)) is not None]
    for stage in (stage for job in jobs for stage in job.stageIds):
        total += 1
        info = tracker.getStageInfo(stage)
        if info is not None and info.numTasks:
            completed += info.numCompletedTasks / info.numTasks
    return total, completed


# Where a query's numbers are shown while it runs: to Prometheus, in a line of the terminal.


class MetricsView:
    """The view of one query's numbers; usually none.

    Parameters
    ----------
    address : where Prometheus asks; None: it does not.
    progress : whether a line is drawn, where somebody sees it.
    application : the topology's name.
    """

    def __init__(self, address: Address | None, application: str, *, progress: bool) -> None:
        if progress:
            check_live()
        self._progress, self._application = progress, application
        self._live: Live | None = None
        # before the query starts: a port that is taken is no reason to stop one
        self._endpoint = None if address is None else Endpoint(address, application)

    @property
    def port(self) -> int | None:
        """The port at which Prometheus asks, if it does."""
        return None if self._endpoint is None else self._endpoint.port

    def begin(self, spark: SparkSession, read: Callable[[], Metrics]) -> None:
        """Show these numbers."""
        if self._endpoint is not None:
            self._endpoint.serve(read)
        if self._progress and is_interactive(sys.stderr):
            self._live = Live(spark, self._application, read, sys.stderr)

    def close(self) -> None:
        """End showing them; nothing listens or draws behind this."""
        if self._endpoint is not None:
            self._endpoint.close()
        if self._live is not None:
            self._live.close()
