"""Adding up what the tasks of each batch report, and what its progress says.

Nothing is asked of Spark here: both are given. Sizes of tables are kept by the range, since a batch tells only of the
ranges that it touched.
"""

from __future__ import annotations

import json
from ast import literal_eval
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from watersmeet._plan.physical import Physical
from watersmeet._spark.metrics.metrics import (
    BatchMetrics,
    HotKey,
    LatencyMetrics,
    Metrics,
    OperatorMetrics,
    TableMetrics,
    TimerMetrics,
)
from watersmeet._worker.counts import (
    BYTES,
    CONSUMED,
    FORWARDED,
    HOT_SHARE,
    LATENCY,
    LATENESS,
    LATENESS_SUM,
    MEMORY,
    PROCESSED,
    PRODUCED,
    ROWS,
    STREAM_TIME,
    Counts,
    Measure,
)
from watersmeet._worker.formats.connect import LOOKS, AbsentColumns
from watersmeet._worker.pack import unit_warnings

# The fields of a progress of Spark: times of a batch, and offsets.

_LOGS = {"offsets": "walCommit", "commits": "commitOffsets"}
"""The writes into Spark's logs, and the names that Spark has for their time."""


def is_of_batch(progress: Any) -> bool:
    """Whether a batch has run; else Spark has only looked for new records."""
    return "addBatch" in progress["durationMs"]


def started_ms(progress: Any) -> int:
    """When the batch was triggered, in ms since 1970."""
    return int(datetime.fromisoformat(progress["timestamp"]).timestamp() * 1_000)


def ended_ms(progress: Any) -> int:
    """When all outputs had the batch: what follows is Spark's commit."""
    took = progress["durationMs"]
    return started_ms(progress) + int(took.get("triggerExecution", 0)) - int(took.get("commitOffsets", 0))


def writes_of(progress: Any) -> dict[str, float]:
    """Seconds of the writes of Spark into the checkpoint."""
    took = progress["durationMs"]
    logs = {name: took[part] / 1_000 for name, part in _LOGS.items() if part in took}
    states = [int(operator["commitTimeMs"]) for operator in progress["stateOperators"] if "commitTimeMs" in operator]
    return {**logs, "state": sum(states) / 1_000} if states else logs


def lag_between(end: Any, latest: Any) -> dict[str, dict[int, int]]:
    """Records by topic and partition between two offsets of Spark's Kafka source; nothing for those of other sources.

    >>> lag_between('{"orders": {"0": 5, "1": 7}}', '{"orders": {"0": 9, "1": 7, "2": 3}}')
    {'orders': {0: 4, 1: 0, 2: 3}}

    Older versions of PySpark give what they have read of the JSON, printed.

    >>> lag_between("{'orders': {'0': 5}}", "{'orders': {'0': 9}}"), lag_between('{"logOffset": 0}', "None")
    ({'orders': {0: 4}}, {})
    """
    read, available = (_offsets(text) for text in (end, latest))
    return {
        topic: {int(number): reach - read.get(topic, {}).get(number, 0) for number, reach in partitions.items()}
        for topic, partitions in available.items()
    }


def _offsets(text: Any) -> dict[str, dict[str, int]]:
    try:
        offsets = json.loads(text) if '"' in text else literal_eval(text)
    except (TypeError, ValueError, SyntaxError):
        return {}
    if not isinstance(offsets, dict) or not all(_are_offsets(partitions) for partitions in offsets.values()):
        return {}
    return offsets


def _are_offsets(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(offset, int) for offset in value.values())


_OF_SOURCES = (CONSUMED, STREAM_TIME, LATENESS, LATENESS_SUM, LATENCY)


@dataclass(frozen=True)
class CountedPlan:
    """The counted things of a plan."""

    names: tuple[Measure, ...]  # all of them, but for drops and buckets
    # by name of an input that is a topic or has one, whether it has a function `timestamp=`
    extracted: Mapping[str, bool] = field(default_factory=dict)
    # of a query with one task, where there are more cores: records of a full batch, and the cores
    one_task: tuple[int, int] | None = None

    @classmethod
    def of(cls, physical: Physical) -> CountedPlan:
        """Those of a plan."""
        # what becomes dead letters is read by the source whose these are
        sources = [source.name for source in physical.plan.sources if source.dead_letters_of is None]
        names = [Measure(kind, source) for source in sources for kind in _OF_SOURCES]
        for operator in physical.operators:
            names += [Measure(kind, operator.node, operator.stem) for kind in (PROCESSED, FORWARDED)]
            owned = [store.schema.name for store in physical.stores if store.owner == operator.id]
            names += [Measure(kind, operator.node, table) for table in owned for kind in (ROWS, BYTES)]
        names += [Measure(PRODUCED, sink) for sink in physical.sinks]
        timed = {s.name: s.origin.timestamp_extractor is not None for s in physical.plan.sources}
        topics = {s.name for s in physical.plan.sources if s.origin.topic is not None}
        extracted = {name: own for name, own in timed.items() if own or name in topics}
        return cls(tuple(dict.fromkeys(names)), extracted)


class InputWarnings:
    """Warnings of what a query's inputs are seen to have, each of them once."""

    def __init__(self) -> None:
        self._absent: dict[tuple[str, str], AbsentColumns] = {}
        self._times: dict[tuple[str, str], tuple[str, str]] = {}
        self._given = set[tuple[str, str]]()

    def take(self, counts: Counts, plan: CountedPlan) -> None:
        """Look at the counts of a batch."""
        full, cores = plan.one_task or (None, 1)
        if full is not None and sum(counts.of_nodes(CONSUMED).values()) >= full:
            self._times["", ""] = (
                f"tasks=1: one task has run a full batch of {full:,} records alone.",
                f"Start the query once with evolve=True, tasks={cores}, which divides its state among so many.",
            )
        for source, part, report in counts.absent:
            self._absent.setdefault((source, part), AbsentColumns()).add(report)
        for source, own in plan.extracted.items():
            latest = counts.largest.get(Measure(STREAM_TIME, source))
            if latest is not None:
                # a record that came so late had this time, or an earlier one
                earliest = latest - counts.largest.get(Measure(LATENESS, source), 0)
                for warning in unit_warnings(source, (earliest, latest), extracted=own):
                    self._times.setdefault((source, warning[1]), warning)

    def due(self, *, ended: bool) -> list[tuple[str, str]]:
        """The message and the cure of each new warning.

        Parameters
        ----------
        ended : whether there will be no more records: else the first ones have to be many.
        """
        new = [warning for at, warning in self._times.items() if at not in self._given]
        self._given |= set(self._times)
        for (source, part), absent in self._absent.items():
            if ended or absent.records >= LOOKS:
                warning = absent.warning(source, part)
                new += [warning] if warning is not None else []
        return new


@dataclass
class Totals:
    """The numbers of all batches so far."""

    plan: CountedPlan
    counts: Counts = field(default_factory=Counts)  # of all of them; memory as of the last
    batches: int = 0
    batch: BatchMetrics | None = None  # the last of them
    # numbers of the first and of the last batch that was counted; None: none yet
    first: int | None = None
    last: int | None = None
    _lag: dict[str, dict[int, int]] = field(default_factory=dict)
    _state_bytes: int = 0
    warnings: InputWarnings = field(default_factory=InputWarnings, compare=False)

    def count(self, number: int, counts: Counts, ended_ms: int) -> None:
        """Add the counts of a batch that its outputs have since a time."""
        self.warnings.take(counts, self.plan)
        self.counts.add(counts.with_latencies(ended_ms))
        self.counts.largest[Measure(MEMORY)] = counts.largest.get(Measure(MEMORY), 0)
        self.batches += 1
        self.first = number if self.first is None else self.first
        self.last = number

    def tell(self, progress: Any, counts: Counts) -> None:
        """Take from a batch's progress what only this says: how long it took, how far the sources are."""
        self._state_bytes = sum(int(operator["memoryUsedBytes"]) for operator in progress["stateOperators"])
        batch = counts.with_latencies(ended_ms(progress))
        self.batch = BatchMetrics(
            int(progress["batchId"]),
            started_ms(progress),
            counts.of_nodes(CONSUMED),
            counts.of_nodes(PRODUCED),
            dict(counts.drops),
            {part: ms / 1_000 for part, ms in progress["durationMs"].items()},
            {source: LatencyMetrics(buckets) for source, buckets in batch.latencies().items()},
            writes_of(progress),
            self._hot_keys(counts),
        )
        self.look_ahead(progress)

    def _hot_keys(self, counts: Counts) -> dict[str, HotKey]:
        """By operator, the key with the most records, if these are a good part of all."""
        names, shares = self._operator_names(), dict[str, HotKey]()
        for measure, (records, text) in counts.hot_keys.items():
            share = records / counts.sums[measure]
            if share >= HOT_SHARE:
                shares[names[measure]] = HotKey(text, records, round(share, 3))
        return shares

    def look_ahead(self, progress: Any) -> None:
        """Take from a progress, of a batch or of an idle query, how far the sources are."""
        for source in progress["sources"]:
            self._lag.update(lag_between(source["endOffset"], source["latestOffset"]))

    def add(self, other: Totals) -> None:
        """Add what another query of the same topology has counted after this one."""
        self.counts.add(other.counts)
        self.counts.largest[Measure(MEMORY)] = other.counts.largest.get(Measure(MEMORY), 0)
        self._lag.update(other._lag)
        self.batches, self.batch = self.batches + other.batches, other.batch or self.batch
        self._state_bytes = other._state_bytes

    def with_sizes(self, earlier: Totals) -> Totals:
        """These, with the sizes of tables that were known before."""
        self.counts.sizes = earlier.counts.of_names(self.plan.names).sizes | self.counts.sizes
        return self

    def to_json(self) -> dict[str, Any]:
        """All of it, to be read by `from_json`."""
        return {
            "first": self.first,
            "last": self.last,
            "batches": self.batches,
            "batch": None if self.batch is None else self.batch.to_json(),
            "names": self.plan.names,
            "counts": self.counts.to_json(),
            "lag": self._lag,
            "state_bytes": self._state_bytes,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any], plan: CountedPlan | None = None) -> Totals:
        """What `to_json` gave, as it comes back from a text.

        Parameters
        ----------
        plan : what is counted now; what has gone since is left out, but for drops. None: what was counted then.
        """
        plan = plan or CountedPlan(tuple(Measure(*name) for name in body["names"]))
        return cls(
            plan,
            Counts.from_json(body["counts"]).of_names(plan.names),
            body["batches"],
            None if body["batch"] is None else BatchMetrics.from_json(body["batch"]),
            body["first"],
            body["last"],
            {topic: {int(n): lag for n, lag in parts.items()} for topic, parts in body["lag"].items()},
            body["state_bytes"],
        )

    def metrics(self, *, active: bool, at_ms: int) -> Metrics:
        """All of it."""
        sums, largest = self.counts.sums, self.counts.largest
        delays = {source: sums[Measure(LATENESS_SUM, source)] for source in self._nodes(LATENESS, largest)}
        sizes = Counter[Measure]()
        for (measure, _), size in self.counts.sizes.items():
            sizes[measure] += size
        tables = {m: TableMetrics(sizes[m], sizes[m._replace(kind=BYTES)]) for m in self._measures(ROWS)}
        return Metrics(
            active=active,
            at_ms=at_ms,
            batches=self.batches,
            batch=self.batch,
            consumed=self._nodes(CONSUMED),
            produced=self._nodes(PRODUCED),
            operators={
                name: OperatorMetrics(sums[m], sums[m._replace(kind=FORWARDED)])
                for m, name in self._operator_names().items()
            },
            tables={measure.part: table for measure, table in tables.items()},
            held={m.node: table.rows for m, table in tables.items() if m.part == f"{m.node}.held"},
            stream_time_ms=self._nodes(STREAM_TIME, largest),
            record_lateness_max_ms=self._nodes(LATENESS, largest),
            record_lateness_avg_ms={s: ms / sums[Measure(CONSUMED, s)] for s, ms in delays.items()},
            lag={topic: dict(partitions) for topic, partitions in self._lag.items()},
            drops=dict(self.counts.drops),
            worker_bytes=largest.get(Measure(MEMORY), 0),
            state_bytes=self._state_bytes,
            latency={source: LatencyMetrics(buckets) for source, buckets in self.counts.latencies().items()},
            counters=self.counts.counters(),
            timers={
                operator: {name: TimerMetrics(*timer) for name, timer in timers.items()}
                for operator, timers in self.counts.timers().items()
            },
        )

    def _measures(self, kind: str) -> list[Measure]:
        return [measure for measure in self.plan.names if measure.kind == kind]

    def _nodes(self, kind: str, values: Mapping[Measure, int] | None = None) -> dict[str, int]:
        """By node, how many there are of a kind; or these values, as far as there are any."""
        if values is None:
            return {measure.node: self.counts.sums[measure] for measure in self._measures(kind)}
        return {measure.node: values[measure] for measure in self._measures(kind) if measure in values}

    def _operator_names(self) -> dict[Measure, str]:
        measures = self._measures(PROCESSED)
        ambiguous = {node for node, number in Counter(measure.node for measure in measures).items() if number > 1}
        return {m: f"{m.node}.{m.part}" if m.node in ambiguous else m.node for m in measures}
