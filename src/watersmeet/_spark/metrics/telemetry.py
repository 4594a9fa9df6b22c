"""A query for OpenTelemetry: a trace of each batch with its parts as spans, and its numbers as metrics.

Spark says how long each part of a batch took, and not when it began: the spans of the parts stand one after another, in
the order in which Spark runs them. Metrics are those of Prometheus, under names with dots: a collector that writes them
for Prometheus makes the same names of them.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from watersmeet._spark.metrics.metrics import Metrics
from watersmeet._spark.metrics.prometheus import Sample, families
from watersmeet.errors import ConfigError
from watersmeet.extras import installing, missing

LOG = logging.getLogger("watersmeet.telemetry")
SCOPE = "watersmeet"
_PARTS = ("latestOffset", "walCommit", "getBatch", "queryPlanning", "addBatch", "commitOffsets")
"""Parts of a batch in the order in which Spark runs them."""
_LAST_SECONDS = 2.0
"""For what is left to be sent at the end, all providers together."""
_WHOLE = "triggerExecution"
_UNITS = {"seconds": "s", "bytes": "By"}


class Telemetry:
    """Sends one query's batches and numbers until it is closed.

    Parameters
    ----------
    application : the topology's name.
    read : gives the query's numbers.
    tracers, meters : the providers; None: ones that send by OTLP over HTTP, to where OpenTelemetry's environment says.

    Raises
    ------
    ConfigError : a package is missing.
    """

    def __init__(self, application: str, read: Callable[[], Metrics], tracers: Any, meters: Any) -> None:
        check(own=tracers is None or meters is None)
        self._application, self._read = application, read
        self._closed = False
        self._samples: dict[str, list[Sample]] = {}
        self._lock = threading.Lock()
        self._own = []
        if tracers is None:
            tracers = _tracers(application)
            self._own.append(tracers)
        if meters is None:
            meters = _meters(application)
            self._own.append(meters)
        self._tracer = tracers.get_tracer(SCOPE)
        meter = meters.get_meter(SCOPE)
        for name, text, labels, _ in families(read()):
            make = meter.create_observable_counter if name.endswith("_total") else meter.create_observable_gauge
            dotted, unit = _otel_name(name)
            make(dotted, [self._callback(name, labels)], unit=unit, description=text)

    def trace(self, now: Metrics) -> None:
        """Send the last batch of these numbers as a trace."""
        from opentelemetry.trace import set_span_in_context

        batch = now.batch
        if batch is None or self._closed:
            return
        begin = batch.started_ms * 1_000_000
        said = {"watersmeet.application": self._application, "watersmeet.batch": batch.number}
        said |= {f"watersmeet.consumed.{source}": count for source, count in batch.consumed.items()}
        said |= {f"watersmeet.produced.{sink}": count for sink, count in batch.produced.items()}
        said |= {f"watersmeet.dropped.{node}.{why}": count for (node, why), count in batch.drops.items()}
        root = self._tracer.start_span("batch", start_time=begin, attributes=said)
        inside = set_span_in_context(root)
        at = begin
        for part, seconds in in_order(batch.seconds):
            span = self._tracer.start_span(part, inside, start_time=at)
            at += round(seconds * 1e9)
            span.end(end_time=at)
        # a whole that is rounded down ends with its last part
        root.end(end_time=max(at, begin + round(batch.seconds.get(_WHOLE, 0.0) * 1e9)))

    def close(self) -> None:
        """Send what is left, and no more behind it; again is no error."""
        if not self._closed:
            # the last numbers are sent first; a collector that is down holds a provider up for longer
            ends = [threading.Thread(target=_shut_down, args=(each,), daemon=True) for each in self._own]
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
            for values, value in self._taken(name):
                said = {"application": self._application, **dict(zip(labels, values, strict=True))}
                yield Observation(value, said)

        return observed

    def _taken(self, name: str) -> list[Sample]:
        """The numbers of one name; a collection asks for each name once, and all numbers are read for the first."""
        with self._lock:
            if name not in self._samples:
                self._samples = {each: some for each, _, _, some in families(self._read())}
            return self._samples.pop(name)


def _shut_down(provider: Any) -> None:
    try:
        provider.shutdown()
    except Exception as error:  # of whatever exporter
        LOG.warning("The last numbers were not sent to OpenTelemetry: %s: %s", type(error).__name__, error)


def in_order(seconds: Mapping[str, float]) -> list[tuple[str, float]]:
    """The parts of a batch in the order in which Spark runs them; those of other versions of Spark come last.

    >>> in_order({"addBatch": 0.4, "other": 0.1, "triggerExecution": 0.6, "latestOffset": 0.05})
    [('latestOffset', 0.05), ('addBatch', 0.4), ('other', 0.1)]
    """
    known = [part for part in _PARTS if part in seconds]
    return [(part, seconds[part]) for part in (*known, *(seconds.keys() - {*known, _WHOLE}))]


def check(*, own: bool) -> None:
    """Raise unless the packages are there.

    Parameters
    ----------
    own : whether something is sent by the exporters of OTLP.

    Raises
    ------
    ConfigError : one is missing.
    """
    needed = ["opentelemetry.sdk", *(["opentelemetry.exporter.otlp.proto.http"] if own else [])]
    lacking = missing(needed)
    if lacking:
        raise ConfigError(
            f"query.telemetry() needs packages that are not installed: {', '.join(lacking)}.",
            given="query.telemetry()",
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

    made = TracerProvider(resource=_resource(application))
    made.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return made


def _meters(application: str) -> Any:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    reader = PeriodicExportingMetricReader(OTLPMetricExporter())
    return MeterProvider([reader], resource=_resource(application))
