"""What `query.metrics()` gives: the numbers of a running query at one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, NoReturn

from watersmeet._plan.pictures import Box, Picture
from watersmeet._worker.counts import middle_ms
from watersmeet.errors import WrongCall
from watersmeet.hints import answering


@dataclass(frozen=True)
class OperatorMetrics:
    """Records of an operator since the start."""

    processed: int  # records it was given (Kafka Streams: process-total)
    forwarded: int  # records it gave


@dataclass(frozen=True)
class TableMetrics:
    """A table, as the manifests of its ranges say behind the last batch that touched each."""

    # rows that are stored. Overwritten rows count until they are merged away, as do tombstones, so there are at least
    # as many as keys (as with RocksDB's estimate-num-keys)
    rows: int
    bytes: int  # of these rows, before compression


@dataclass(frozen=True)
class TimerMetrics:
    """A timer of a processor's own."""

    calls: int  # how often it has timed something
    seconds: float  # all of that together


@dataclass(frozen=True)
class HotKey:
    """The key that has most of an operator's records in a batch, where these are many: one task handles all of them."""

    key: str  # the key as text, its first 56 bytes; "" if an operator's rows are placed by something else
    records: int  # its records in the batch
    share: float  # of all records of the operator in the batch


@dataclass(frozen=True)
class LatencyMetrics:
    """Times from a record's timestamp to the moment when all outputs had its batch.

    A record that is older than the query's start counts from when its batch began to read.
    """

    # number of records by bucket, to 9 percent: an eighth of a doubling of milliseconds each
    buckets: Mapping[int, int] = field(default_factory=dict)

    @property
    def records(self) -> int:
        return sum(self.buckets.values())

    @property
    def seconds(self) -> float:
        return sum(middle_ms(bucket) * count for bucket, count in self.buckets.items()) / 1_000

    def quantile(self, share: float) -> float | None:
        """The seconds that this share of the records took at most; None: there are none.

        >>> LatencyMetrics({80: 99, 107: 1}).quantile(0.5)
        0.981
        >>> LatencyMetrics().quantile(0.99) is None
        True
        """
        rank, count = share * self.records, 0
        for bucket in sorted(self.buckets):
            count += self.buckets[bucket]
            if count >= rank:
                return round(middle_ms(bucket) / 1_000, 3)
        return None

    def up_to(self, seconds: float) -> int:
        """The number of records that took no longer than this."""
        return sum(count for bucket, count in self.buckets.items() if middle_ms(bucket) <= seconds * 1_000)


@dataclass(frozen=True)
class ErrorMetrics:
    """The last error that ended the query, or an earlier start of the same checkpoint."""

    at_ms: int  # when it was noticed, ms since 1970
    error: str  # the class of the error
    reason: str  # one line that says why


@dataclass(frozen=True)
class BatchMetrics:
    """The last batch that was finished."""

    number: int  # its number in the checkpoint
    started_ms: int  # when it was triggered, ms since 1970
    consumed: Mapping[str, int]  # records of each source in it
    produced: Mapping[str, int]  # records of each sink in it
    drops: Mapping[tuple[str, str], int]  # records dropped in it, by (operator, reason)
    # how long its parts took, by Spark's names for them: triggerExecution is all of it, addBatch the running and
    # writing, latestOffset the question how far the sources reach
    seconds: Mapping[str, float]
    # of the records of each source, from their timestamps, or the read of older ones, to the outputs
    latency: Mapping[str, LatencyMetrics] = field(default_factory=dict)
    # seconds of writing: `offsets` and `commits`, Spark's logs; `state`, the commits of all tasks together;
    # `transactions`, the longest of Kafka's transactions, where there was one
    writes: Mapping[str, float] = field(default_factory=dict)
    # by operator, the key with the most records, if it has 10,000 of them and a tenth of the operator's
    hot_keys: Mapping[str, HotKey] = field(default_factory=dict)
    # how often a task took a transactional id over from another worker, to write to Kafka exactly once
    takeovers: int = 0

    @property
    def records(self) -> int:
        return sum(self.consumed.values())

    @property
    def rate(self) -> float:
        """Records of all sources per second of the batch (Kafka Streams: process-rate); 0.0 if it took no time.

        >>> BatchMetrics(0, 0, {"orders": 30}, {}, {}, {"triggerExecution": 0.5}).rate
        60.0
        """
        seconds = self.seconds.get("triggerExecution", 0.0)
        return self.records / seconds if seconds else 0.0

    def to_json(self) -> dict[str, Any]:
        """All of it, to be read by `from_json`; latencies with their quantiles."""
        body = asdict(replace(self, drops={}))
        return body | {"drops": drops_as_json(self.drops), "latency": _latency_as_json(self.latency)}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> BatchMetrics:
        """What `to_json` gave, as it comes back from a text."""
        hot = {name: HotKey(**entry) for name, entry in body["hot_keys"].items()}
        read = {"drops": _drops(body["drops"]), "latency": _latency(body["latency"]), "hot_keys": hot}
        return cls(**{**body, **read})


@answering
@dataclass(frozen=True)
class Metrics:
    """The numbers of a query, counted since this start. Names are those of the topology; times in ms since 1970."""

    active: bool  # whether the query runs
    at_ms: int  # when this was asked
    batches: int  # how many it has finished
    batch: BatchMetrics | None  # the last of them; None before the first
    consumed: Mapping[str, int]  # records of each source, dropped ones included
    produced: Mapping[str, int]  # records of each sink
    # by the operator's name; where a node of the topology has several, `name.stem`
    operators: Mapping[str, OperatorMetrics]
    tables: Mapping[str, TableMetrics]  # by the table's name
    # rows that wait for time to let them go, by operator, where they lie in a table of their own
    held: Mapping[str, int]
    # the largest timestamp of each source's records; sources without one are missing
    stream_time_ms: Mapping[str, int]
    # how far behind the stream time of its partition a record came at most, by source
    record_lateness_max_ms: Mapping[str, int]
    record_lateness_avg_ms: Mapping[str, float]  # the same on average
    # records that are yet to be read, by topic and partition, as the last batch found them
    lag: Mapping[str, Mapping[int, int]]
    drops: Mapping[tuple[str, str], int]  # dropped records by (operator, reason); what `query.drops` says
    # resident memory of the largest worker that ran an operator in the last batch, without mapped files; 0 where the
    # system does not say
    worker_bytes: int
    state_bytes: int  # memory that Spark says its state stores have
    # for how long the batch has run that is under way; None: none runs, or the only output is one of Spark's own
    # sinks
    under_way_seconds: float | None = None
    # of the records of each source, from their timestamps to when all outputs had their batch; nothing where the only
    # output is one of Spark's own sinks
    latency: Mapping[str, LatencyMetrics] = field(default_factory=dict)
    # memory of the driver: resident memory of `python` and of the `jvm`; `heap`, what the JVM uses of its heap, and
    # `heap_limit`, how large that may become. Sizes that the system does not say are missing
    driver_bytes: Mapping[str, int] = field(default_factory=dict)
    # counters and timers of processors' own (`context.metrics`), by operator and name
    counters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    timers: Mapping[str, Mapping[str, TimerMetrics]] = field(default_factory=dict)
    restarts: int = 0  # starts of the checkpoint behind an end that nobody asked for: an error, or a kill
    # the last error that ended the query, in this start or before; None: none is known
    last_error: ErrorMetrics | None = None

    def __getitem__(self, name: object) -> NoReturn:
        raise WrongCall(f"Metrics has no [{name!r:.80}].", hint=f"The numbers are attributes: metrics.{name!s:.40}.")

    @property
    def stream_time_lag_ms(self) -> Mapping[str, int]:
        """How far each source's stream time was behind the wall clock."""
        return {source: self.at_ms - time for source, time in self.stream_time_ms.items()}

    @property
    def total_lag(self) -> int:
        """Records of all partitions that are yet to be read."""
        return sum(sum(partitions.values()) for partitions in self.lag.values())


# The numbers of a query as JSON has them, for the command line and for the page of served tables.

_OF_A_RUN = ("under_way_seconds", "driver_bytes", "restarts", "last_error")


def drops_as_json(drops: Mapping[tuple[str, str], int]) -> list[dict[str, Any]]:
    """Drops as JSON has them: a key of two parts is no key of JSON's.

    >>> drops_as_json({("orders", "null_key"): 3})
    [{'operator': 'orders', 'reason': 'null_key', 'records': 3}]
    """
    return [{"operator": node, "reason": reason, "records": count} for (node, reason), count in sorted(drops.items())]


def metrics_as_json(metrics: Metrics) -> dict[str, Any]:
    """All numbers as JSON has them; what is true of a running query alone is left out."""
    body = asdict(replace(metrics, drops={}, batch=None))
    body["batch"] = None if metrics.batch is None else metrics.batch.to_json()
    body["stream_time_lag_ms"] = dict(metrics.stream_time_lag_ms)
    body["drops"] = drops_as_json(metrics.drops)
    body["latency"] = _latency_as_json(metrics.latency)
    for name in ("active", *_OF_A_RUN):
        del body[name]
    return body


def without_keys(metrics: Metrics) -> Metrics:
    """The same without the texts of hot keys, for readers who may see numbers and no records."""
    if metrics.batch is None:
        return metrics
    hot = {name: replace(hot_key, key="") for name, hot_key in metrics.batch.hot_keys.items()}
    return replace(metrics, batch=replace(metrics.batch, hot_keys=hot))


def run_as_json(metrics: Metrics) -> dict[str, Any]:
    """The numbers of a running query alone, as JSON has them."""
    return {name: getattr(metrics, name) for name in _OF_A_RUN} | {
        "last_error": None if metrics.last_error is None else asdict(metrics.last_error)
    }


def _latency_as_json(latency: Mapping[str, LatencyMetrics]) -> dict[str, Any]:
    """Seconds by source, of which half of the records, and 99 percent, took at most; and the buckets."""
    return {
        source: {
            "p50": distribution.quantile(0.5),
            "p99": distribution.quantile(0.99),
            "buckets": dict(distribution.buckets),
        }
        for source, distribution in latency.items()
    }


def metrics_of_json(body: Mapping[str, Any]) -> Metrics:
    """The numbers that `metrics_as_json` gave; `active` beside them means that the query runs."""
    values = {attribute.name: body[attribute.name] for attribute in fields(Metrics) if attribute.name in body}
    batch, error = body["batch"], body.get("last_error")
    values |= {
        "active": bool(body.get("active")),
        "batch": None if batch is None else BatchMetrics.from_json(batch),
        "latency": _latency(body["latency"]),
        "last_error": None if error is None else ErrorMetrics(**error),
        "operators": {name: OperatorMetrics(**operator) for name, operator in body["operators"].items()},
        "tables": {name: TableMetrics(**table) for name, table in body["tables"].items()},
        "lag": {topic: {int(part): lag for part, lag in parts.items()} for topic, parts in body["lag"].items()},
        "drops": _drops(body["drops"]),
        "timers": {
            operator: {name: TimerMetrics(**timer) for name, timer in timers.items()}
            for operator, timers in body.get("timers", {}).items()
        },
    }
    return Metrics(**values)


def _latency(sources: Mapping[str, Any]) -> dict[str, LatencyMetrics]:
    return {
        source: LatencyMetrics({int(bucket): count for bucket, count in latency["buckets"].items()})
        for source, latency in sources.items()
    }


def _drops(entries: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], int]:
    return {(entry["operator"], entry["reason"]): entry["records"] for entry in entries}


# The numbers of a query for the boxes and arrows of its topology's picture.


@dataclass(frozen=True)
class PictureCounts:
    """Counts in the order of the picture."""

    # records that the output has got, or that the box above has read or forwarded. None: nobody counts them
    arrows: tuple[int | None, ...]
    drops: tuple[int, ...]  # records that ended at each box


def picture_counts(picture: Picture, metrics: Metrics) -> PictureCounts:
    """The counts of a picture."""
    boxes = picture.boxes
    arrows = [_output_count(boxes[arrow.tail], metrics) for arrow in picture.arrows]
    for at, arrow in enumerate(picture.arrows):
        head = boxes[arrow.head]
        if head.kind == "output":
            arrows[at] = metrics.produced.get(head.node, arrows[at])
    by_node: dict[str, int] = {}
    for (node, _), count in metrics.drops.items():
        by_node[node] = by_node.get(node, 0) + count
    # of a node that is several boxes the last one shows them
    last = {box.node: at for at, box in enumerate(boxes)}
    drops = tuple(
        sum(by_node.get(node, 0) for node in (box.node, *box.helpers)) if last[box.node] == at else 0
        for at, box in enumerate(boxes)
    )
    return PictureCounts(tuple(arrows), drops)


def _output_count(box: Box, metrics: Metrics) -> int | None:
    if box.kind == "input":
        return metrics.consumed.get(box.node)
    operator = metrics.operators.get(f"{box.node}.{box.part}" if box.part else box.node)
    return None if operator is None else operator.forwarded
