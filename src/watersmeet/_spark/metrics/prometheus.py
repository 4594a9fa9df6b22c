"""A query's numbers for Prometheus, read when it asks for them; names are those of Kafka Streams where it has such.

Prometheus' rules hold: base units (seconds, bytes), `_total` behind what only grows, what is summed over is a label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.util import find_spec
from typing import Any

from watersmeet._spark.metrics.metrics import Metrics
from watersmeet.errors import ConfigError
from watersmeet.extras import installing

Address = tuple[str, int]
LATENCY = "watersmeet_record_latency_seconds"
Sample = tuple[tuple[str, ...], float]


class Endpoint:
    """Serves the numbers of one query over HTTP until it is closed.

    Parameters
    ----------
    address : host and port; port 0: any free one.
    application : the topology's name, a label of all numbers.

    Raises
    ------
    ConfigError : the port is taken, the host is not this machine's, or the package is missing.
    """

    def __init__(self, address: Address, application: str) -> None:
        if find_spec("prometheus_client") is None:
            raise ConfigError(
                f"metrics_port={_text(address)} needs a package that is not installed: prometheus-client.",
                given=f"metrics_port={_text(address)}",
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
                given=f"metrics_port={_text(address)}",
                hint="Give each query a port of its own; metrics_port=0 takes a free one, and query.metrics_port "
                "has its number.",
            ) from None
        registry.register(self._collector)

    @property
    def port(self) -> int:
        """The port that it listens on."""
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
        now = self.read()
        latency = HistogramMetricFamily(LATENCY, _TEXT["latency"], labels=["application", "source"])
        for source, found in now.latency.items():
            counts = [(str(end), float(found.up_to(end))) for end in _ENDS] + [("+Inf", float(found.records))]
            latency.add_metric([self._application, source], counts, found.seconds)
        yield latency
        for name, text, labels, samples in families(now):
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            family = kind(name, text, labels=["application", *labels])
            for values, value in samples:
                family.add_metric([self._application, *values], value)
            yield family


def families(now: Metrics) -> Iterator[tuple[str, str, tuple[str, ...], list[Sample]]]:
    """(name, what it means, labels, samples) of all numbers."""
    yield from _records(now)
    yield from _times(now)
    yield from _of_process(now)
    tables = now.tables.items()
    yield "watersmeet_table_rows", _TEXT["rows"], ("table",), [((t,), found.rows) for t, found in tables]
    yield "watersmeet_table_bytes", _TEXT["bytes"], ("table",), [((t,), found.bytes) for t, found in tables]
    yield "watersmeet_suppression_buffer_count", _TEXT["held"], ("operator",), _by_name(now.held)
    yield "watersmeet_worker_memory_bytes", _TEXT["worker"], (), [((), now.worker_bytes)] if now.worker_bytes else []
    yield "watersmeet_state_store_memory_bytes", _TEXT["state"], (), [((), now.state_bytes)]


def _records(now: Metrics) -> Iterator[tuple[str, str, tuple[str, ...], list[Sample]]]:
    produced = {sink: count for sink, count in now.produced.items() if count is not None}
    operators = now.operators.items()
    yield "watersmeet_records_consumed_total", _TEXT["consumed"], ("source",), _by_name(now.consumed)
    yield "watersmeet_records_produced_total", _TEXT["produced"], ("sink",), _by_name(produced)
    yield "watersmeet_process_total", _TEXT["process"], ("operator",), [((o,), n.processed) for o, n in operators]
    yield "watersmeet_forward_total", _TEXT["forward"], ("operator",), [((o,), n.forwarded) for o, n in operators]
    dropped = [((node, reason), float(count)) for (node, reason), count in sorted(now.drops.items())]
    yield "watersmeet_dropped_records_total", _TEXT["dropped"], ("operator", "reason"), list(dropped)
    lag = [((topic, str(part)), float(n)) for topic, parts in now.lag.items() for part, n in parts.items()]
    yield "watersmeet_records_lag", _TEXT["lag"], ("topic", "partition"), list(lag)


def _times(now: Metrics) -> Iterator[tuple[str, str, tuple[str, ...], list[Sample]]]:
    late = now.record_lateness_max_ms, now.record_lateness_avg_ms
    yield "watersmeet_query_active", _TEXT["active"], (), [((), float(now.active))]
    yield "watersmeet_batches_total", _TEXT["batches"], (), [((), now.batches)]
    last = [] if now.batch is None else [now.batch]
    parts = [sample for batch in last for sample in _by_name(batch.seconds)]
    yield "watersmeet_process_rate", _TEXT["rate"], (), [((), batch.rate) for batch in last]
    yield "watersmeet_batch_duration_seconds", _TEXT["seconds"], ("part",), parts
    began = [((), batch.started_ms / 1_000) for batch in last]
    yield "watersmeet_batch_timestamp_seconds", _TEXT["batch"], (), list(began)
    yield "watersmeet_batch_under_way_seconds", _TEXT["under_way"], (), [((), now.under_way_seconds or 0.0)]
    yield "watersmeet_stream_time_seconds", _TEXT["time"], ("source",), _in_seconds(now.stream_time_ms)
    yield "watersmeet_stream_time_lag_seconds", _TEXT["behind"], ("source",), _in_seconds(now.stream_time_lag_ms)
    yield "watersmeet_record_lateness_max_seconds", _TEXT["lateness"], ("source",), _in_seconds(late[0])
    yield "watersmeet_record_lateness_avg_seconds", _TEXT["lateness_avg"], ("source",), _in_seconds(late[1])


def _of_process(now: Metrics) -> Iterator[tuple[str, str, tuple[str, ...], list[Sample]]]:
    last = [] if now.batch is None else [now.batch]
    quantiles = [
        ((source, str(share)), seconds)
        for batch in last
        for source, found in batch.latency.items()
        for share in (0.5, 0.99)
        if (seconds := found.quantile(share)) is not None
    ]
    # no key is a label: keys may be secret, and have no end
    hot: list[Sample] = [((name,), found.share) for batch in last for name, found in batch.hot_keys.items()]
    yield "watersmeet_hot_key_share", _TEXT["hot"], ("operator",), hot
    yield "watersmeet_batch_latency_seconds", _TEXT["latency_of_batch"], ("source", "quantile"), list(quantiles)
    writes = [sample for batch in last for sample in _by_name(batch.writes)]
    yield "watersmeet_write_duration_seconds", _TEXT["writes"], ("part",), writes
    taken: list[Sample] = [((), batch.takeovers) for batch in last]
    yield "watersmeet_transaction_takeovers", _TEXT["takeovers"], (), taken
    yield "watersmeet_restarts_total", _TEXT["restarts"], (), [((), now.restarts)]
    error = [] if now.last_error is None else [((now.last_error.error,), now.last_error.at_ms / 1_000)]
    yield "watersmeet_last_error_timestamp_seconds", _TEXT["error"], ("error",), list(error)
    yield "watersmeet_driver_memory_bytes", _TEXT["driver"], ("part",), _by_name(now.driver_bytes)


def _by_name(found: Mapping[str, float]) -> list[Sample]:
    return [((name,), value) for name, value in found.items()]


def _in_seconds(found: Mapping[str, float]) -> list[Sample]:
    return [((name,), value / 1_000) for name, value in found.items()]


def _text(address: Address) -> str:
    return f"{address[0]}:{address[1]}"


_ENDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0, 86_400.0)
"""Of the histogram's buckets, in seconds."""
_TEXT = {
    "latency": "From a record's timestamp to when all outputs had its batch.",
    "latency_of_batch": "The same of the records of the last batch: half of them, and 99 percent, took at most this.",
    "writes": "Seconds of the last batch for Kafka's longest transaction, the state of all tasks, and Spark's logs.",
    "takeovers": "How often a task of the last batch took a transactional id of Kafka over from another worker.",
    "restarts": "How often the checkpoint was started before this start.",
    "error": "When an error last ended the query, in this start or an earlier one.",
    "driver": "Memory of the driver: of Python, of the JVM, what this uses of its heap, and the heap's limit.",
    "hot": "The share of an operator's records of the last batch that one key has, if it is a tenth or more.",
    "consumed": "Records read from a source, dropped ones included.",
    "produced": "Records written to a sink.",
    "process": "Records that an operator was given.",
    "forward": "Records that an operator gave.",
    "dropped": "Records that ended, by operator and reason.",
    "lag": "Records of a partition that are yet to be read, as the last batch found them.",
    "active": "1 while the query runs.",
    "batches": "Batches that were finished since the start.",
    "rate": "Records per second of the last batch.",
    "seconds": "How long the parts of the last batch took, by Spark's names; triggerExecution is all of it.",
    "batch": "When the last batch that was finished had begun.",
    "under_way": "For how long the batch has run that is under way; 0 where none is.",
    "time": "The largest timestamp of a source's records.",
    "behind": "How far a source's stream time is behind the wall clock.",
    "lateness": "How far behind the stream time of its partition a record came at most since the start.",
    "lateness_avg": "How far behind the stream time of their partition records came on average since the start.",
    "rows": "Rows that a table's manifests list; overwritten rows count until they are merged away.",
    "bytes": "Bytes of these rows before compression.",
    "held": "Rows that wait for time to let them go.",
    "worker": "Resident memory of the largest worker of the last batch, without mapped files.",
    "state": "Memory of Spark's state stores.",
}
