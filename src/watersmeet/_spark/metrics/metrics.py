"""What `query.metrics()` gives: the numbers of a running query at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from watersmeet._worker.wire.ages import middle_ms


@dataclass(frozen=True)
class OperatorMetrics:
    """Records of an operator since the start.

    Parameters
    ----------
    processed : records it was given (Kafka Streams: process-total).
    forwarded : records it gave.
    """

    processed: int
    forwarded: int


@dataclass(frozen=True)
class TableMetrics:
    """A table, as the manifests of its ranges say behind the last batch that touched each.

    Parameters
    ----------
    rows : rows that are stored. Overwritten rows count until they are merged away, as do tombstones, so there are at
        least as many as keys (as with RocksDB's estimate-num-keys).
    bytes : of these rows, before compression.
    """

    rows: int
    bytes: int


@dataclass(frozen=True)
class HotKey:
    """The key that has most of an operator's records in a batch, where these are many: one task handles all of them.

    Parameters
    ----------
    key : the key as text, its first 56 bytes; "" if an operator's rows are placed by something else.
    records : its records in the batch.
    share : of all records of the operator in the batch.
    """

    key: str
    records: int
    share: float


@dataclass(frozen=True)
class LatencyMetrics:
    """Times between a record's timestamp and the moment when all outputs had its batch.

    Parameters
    ----------
    buckets : number of records by bucket, to 9 percent: an eighth of a doubling of milliseconds each.
    """

    buckets: Mapping[int, int] = field(default_factory=dict)

    @property
    def records(self) -> int:
        """Number of records."""
        return sum(self.buckets.values())

    @property
    def seconds(self) -> float:
        """Seconds of all records together."""
        return sum(middle_ms(bucket) * count for bucket, count in self.buckets.items()) / 1_000

    def quantile(self, share: float) -> float | None:
        """The seconds that this share of the records took at most; None: there are none.

        >>> LatencyMetrics({80: 99, 107: 1}).quantile(0.5)
        0.981
        >>> LatencyMetrics().quantile(0.99) is None
        True
        """
        wanted, seen = share * self.records, 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= wanted:
                return round(middle_ms(bucket) / 1_000, 3)
        return None

    def up_to(self, seconds: float) -> int:
        """The number of records that took no longer than this."""
        return sum(count for bucket, count in self.buckets.items() if middle_ms(bucket) <= seconds * 1_000)


@dataclass(frozen=True)
class ErrorMetrics:
    """The last error that ended the query, or an earlier start of the same checkpoint.

    Parameters
    ----------
    at_ms : when it was noticed, ms since 1970.
    error : the class of the error.
    reason : one line that says why.
    """

    at_ms: int
    error: str
    reason: str


@dataclass(frozen=True)
class BatchMetrics:
    """The last batch that was finished.

    Parameters
    ----------
    number : its number in the checkpoint.
    started_ms : when it was triggered, ms since 1970.
    consumed : records of each source in it.
    produced : records of each sink in it; those of sinks that are not counted are missing.
    drops : records dropped in it, by (operator, reason).
    seconds : how long its parts took, by Spark's names for them: triggerExecution is all of it, addBatch the running
        and writing, latestOffset the question how far the sources reach.
    latency : of the records of each source, from their timestamps to the outputs.
    writes : seconds of writing: `offsets` and `commits`, Spark's logs; `state`, the commits of all tasks together;
        `transactions`, the longest of Kafka's transactions, where there was one.
    takeovers : how often a task took a transactional id over from another worker, to write to Kafka exactly once.
    hot_keys : by operator, the key with the most records, if it has 10,000 of them and a tenth of the operator's.
    """

    number: int
    started_ms: int
    consumed: Mapping[str, int]
    produced: Mapping[str, int]
    drops: Mapping[tuple[str, str], int]
    seconds: Mapping[str, float]
    latency: Mapping[str, LatencyMetrics] = field(default_factory=dict)
    writes: Mapping[str, float] = field(default_factory=dict)
    hot_keys: Mapping[str, HotKey] = field(default_factory=dict)
    takeovers: int = 0

    @property
    def records(self) -> int:
        """Records of all sources."""
        return sum(self.consumed.values())

    @property
    def rate(self) -> float:
        """Records of all sources per second of the batch (Kafka Streams: process-rate); 0.0 if it took no time.

        >>> BatchMetrics(0, 0, {"orders": 30}, {}, {}, {"triggerExecution": 0.5}).rate
        60.0
        """
        seconds = self.seconds.get("triggerExecution", 0.0)
        return self.records / seconds if seconds else 0.0


@dataclass(frozen=True)
class Metrics:
    """The numbers of a query, counted since this start. Names are those of the topology; times in ms since 1970.

    Parameters
    ----------
    active : whether the query runs.
    at_ms : when this was asked.
    batches : how many it has finished.
    batch : the last of them; None before the first.
    consumed : records of each source, dropped ones included.
    produced : records of each sink. None where Spark makes the rows and nobody counts them.
    operators : by the operator's name; where a node of the topology has several, `name.stem`.
    tables : by the table's name.
    held : rows that wait for time to let them go, by operator, where they lie in a table of their own.
    stream_time_ms : the largest timestamp of each source's records; sources without one are missing.
    record_lateness_max_ms : how far behind the stream time of its partition a record came at most, by source.
    record_lateness_avg_ms : the same on average.
    lag : records that are yet to be read, by topic and partition, as the last batch found them.
    drops : dropped records by (operator, reason); what `query.drops` says.
    worker_bytes : resident memory of the largest worker that ran an operator in the last batch, without mapped files;
        0 where the system does not say.
    state_bytes : memory that Spark says its state stores have.
    under_way_seconds : for how long the batch has run that is under way; None: none runs, or the only output is one of
        Spark's own sinks.
    latency : of the records of each source, from their timestamps to when all outputs had their batch; nothing where
        the only output is one of Spark's own sinks.
    driver_bytes : memory of the driver: resident memory of `python` and of the `jvm`; `heap`, what the JVM uses of its
        heap, and `heap_limit`, how large that may become. Sizes that the system does not say are missing.
    restarts : how often the checkpoint was started before this start.
    last_error : the last error that ended the query, in this start or before; None: none is known.
    """

    active: bool
    at_ms: int
    batches: int
    batch: BatchMetrics | None
    consumed: Mapping[str, int]
    produced: Mapping[str, int | None]
    operators: Mapping[str, OperatorMetrics]
    tables: Mapping[str, TableMetrics]
    held: Mapping[str, int]
    stream_time_ms: Mapping[str, int]
    record_lateness_max_ms: Mapping[str, int]
    record_lateness_avg_ms: Mapping[str, float]
    lag: Mapping[str, Mapping[int, int]]
    drops: Mapping[tuple[str, str], int]
    worker_bytes: int
    state_bytes: int
    under_way_seconds: float | None = None
    latency: Mapping[str, LatencyMetrics] = field(default_factory=dict)
    driver_bytes: Mapping[str, int] = field(default_factory=dict)
    restarts: int = 0
    last_error: ErrorMetrics | None = None

    @property
    def stream_time_lag_ms(self) -> Mapping[str, int]:
        """How far each source's stream time was behind the wall clock."""
        return {source: self.at_ms - time for source, time in self.stream_time_ms.items()}

    @property
    def total_lag(self) -> int:
        """Records of all partitions that are yet to be read."""
        return sum(sum(partitions.values()) for partitions in self.lag.values())
