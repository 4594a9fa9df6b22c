"""What `query.metrics()` gives: the numbers of a running query at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


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
    """

    number: int
    started_ms: int
    consumed: Mapping[str, int]
    produced: Mapping[str, int]
    drops: Mapping[tuple[str, str], int]
    seconds: Mapping[str, float]

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

    @property
    def stream_time_lag_ms(self) -> Mapping[str, int]:
        """How far each source's stream time was behind the wall clock."""
        return {source: self.at_ms - time for source, time in self.stream_time_ms.items()}

    @property
    def total_lag(self) -> int:
        """Records of all partitions that are yet to be read."""
        return sum(sum(partitions.values()) for partitions in self.lag.values())
