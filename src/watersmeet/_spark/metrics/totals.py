"""Adding up what the progress of each batch says: counts since the start, and the last word of each place.

Nothing is asked of Spark here: a progress is given. Gauges (rows of tables) are kept by the place that told them, since
a batch tells only of the ranges that it touched.
"""

from __future__ import annotations

import json
from ast import literal_eval
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from watersmeet._plan.physical import Physical
from watersmeet._spark.credentials import drops_in, measured_in, total_of
from watersmeet._spark.metrics.metrics import (
    BatchMetrics,
    HotKey,
    LatencyMetrics,
    Metrics,
    OperatorMetrics,
    TableMetrics,
)
from watersmeet._worker.formats.connect import LOOKS, AbsentColumns
from watersmeet._worker.pack import unit_warnings
from watersmeet._worker.wire import (
    ABSENT,
    AGE,
    BEGUN,
    BYTES,
    CONSUMED,
    FORWARDED,
    HOT_KEY,
    HOT_SHARE,
    IN_PIECES,
    LATE,
    LATENESS,
    MEMORY,
    PROCESSED,
    PRODUCED,
    ROWS,
    SENT,
    STREAM_TIME,
    Measure,
    Measures,
    aged,
    bucket_of,
    middle_ms,
    of_piece,
    report_of,
    unpacked_key,
)

# The fields of a progress of Spark: times of a batch, offsets, and what was observed.

_LOGS = {"offsets": "walCommit", "commits": "commitOffsets"}
"""The writes into Spark's logs, and the names that Spark has for their time."""


def observed_in(progress: Any) -> dict[str, Any]:
    return {name: _as_mapping(row) for name, row in progress["observedMetrics"].items()}


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


def _as_mapping(row: Any) -> dict[str, Any]:
    return row.asDict() if hasattr(row, "asDict") else dict(row)


_ADDED = frozenset((CONSUMED, PRODUCED, PROCESSED, FORWARDED, LATE, SENT))
_LARGEST = frozenset((STREAM_TIME, LATENESS))
_BY_PLACE = frozenset((ROWS, BYTES))
Sizes = Mapping[tuple[Measure, int], int]
"""By measure and place."""


@dataclass(frozen=True)
class Counted:
    """The numbers in the progress of a query."""

    drops: tuple[tuple[str, str], ...]  # (node, reason) of each number
    measures: Measures  # what the numbers behind them are
    # by name of an input that is a topic or has one, whether it has a function `timestamp=`
    extracted: Mapping[str, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, physical: Physical, drops: tuple[tuple[str, str], ...]) -> Counted:
        """The numbers in the progress of a plan's query."""
        timed = {s.name: s.origin.timestamp_extractor is not None for s in physical.plan.sources}
        topics = {s.name for s in physical.plan.sources if s.origin.topic is not None}
        extracted = {name: own for name, own in timed.items() if own or name in topics}
        return cls(drops, Measures.of(physical, len(drops)), extracted)


@dataclass(frozen=True)
class _Read:
    """The numbers of one batch: to be added, the largest, the last of each place, of the workers."""

    drops: Mapping[tuple[str, str], int]
    sums: Counter[Measure]
    largest: Mapping[Measure, int]
    places: Mapping[tuple[Measure, int], int]
    worker_bytes: int
    ages: Mapping[str, Counter[int]]
    begun_ms: int | None
    hot: Mapping[tuple[Measure, int], int]

    def hot_key(self, measure: Measure) -> HotKey | None:
        """The key with the most records of an operator, if these are a good part of all; None: there is none."""
        top = max(
            (unpacked_key(number) for (operator, _), number in self.hot.items() if operator == measure), default=None
        )
        records = self.sums[measure._replace(kind=PROCESSED)]
        if top is None or top[0] < HOT_SHARE * records:
            return None
        return HotKey(top[1], top[0], round(top[0] / records, 3))

    def latency(self, ended_ms: int) -> dict[str, LatencyMetrics]:
        """Of the records of each source, if all outputs had the batch at this time."""
        took = 0 if self.begun_ms is None else max(0, ended_ms - self.begun_ms)
        latencies = dict[str, LatencyMetrics]()
        for source, ages in self.ages.items():
            buckets = Counter[int]()
            for bucket, count in ages.items():
                buckets[bucket_of(middle_ms(bucket) + took)] += count
            latencies[source] = LatencyMetrics(dict(buckets))
        return latencies


class InputWarnings:
    """Warnings of what a query's inputs are seen to have, each of them once."""

    def __init__(self) -> None:
        self._absent: dict[Measure, AbsentColumns] = {}
        self._times: dict[tuple[str, str], tuple[str, str]] = {}
        self._given = set[tuple[str, str]]()

    def take(self, read: _Read, extracted: Mapping[str, bool]) -> None:
        """Look at the numbers of a batch.

        Parameters
        ----------
        extracted : as `Counted` has it.
        """
        for (measure, _), number in read.hot.items():
            if measure.kind == ABSENT:
                self._absent.setdefault(measure, AbsentColumns()).add(report_of(number))
        for source, own in extracted.items():
            latest = read.largest.get(Measure(STREAM_TIME, source))
            if latest is not None:
                # a record that came so late had this time, or an earlier one
                earliest = latest - read.largest.get(Measure(LATENESS, source), 0)
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
        for measure, absent in self._absent.items():
            if ended or absent.records >= LOOKS:
                warning = absent.warning(measure.node, measure.part)
                new += [warning] if warning is not None else []
        return new


@dataclass
class Totals:
    """The numbers of all batches so far.

    Attributes
    ----------
    first, last : numbers of the first and of the last batch that was counted; None: none yet.
    """

    counted: Counted
    drops: dict[tuple[str, str], int] = field(default_factory=dict)
    batches: int = 0
    batch: BatchMetrics | None = None
    first: int | None = None
    last: int | None = None
    _sums: Counter[Measure] = field(default_factory=Counter)
    _largest: dict[Measure, int] = field(default_factory=dict)
    _places: dict[tuple[Measure, int], int] = field(default_factory=dict)
    _lag: dict[str, dict[int, int]] = field(default_factory=dict)
    _worker_bytes: int = 0
    _state_bytes: int = 0
    _latency: dict[str, Counter[int]] = field(default_factory=dict)
    warnings: InputWarnings = field(default_factory=InputWarnings, compare=False)

    def going_on(self, counted: Counted) -> Totals:
        """The same, before what a query with other numbers for the same counts."""
        return replace(self, counted=counted)

    def take(self, progress: Any) -> None:
        self._add(int(progress["batchId"]), self._read(observed_in(progress)), ended_ms(progress))
        self.tell(progress)

    def count(self, number: int, observed: Mapping[str, Any], ended_ms: int) -> Counter[Measure]:
        """Add the observed numbers of a batch with its progress still to come, that its outputs have since a time.

        Returns
        -------
        Counter : those of them that are sums.
        """
        read = self._read(observed)
        self._add(number, read, ended_ms)
        return read.sums

    def tell(self, progress: Any) -> None:
        """Take from a batch's progress what only this says: how long it took, how far the sources are."""
        read = self._read(observed_in(progress))
        self._state_bytes = sum(int(operator["memoryUsedBytes"]) for operator in progress["stateOperators"])
        self.batch = BatchMetrics(
            int(progress["batchId"]),
            started_ms(progress),
            _by_node(read.sums, CONSUMED),
            _by_node(read.sums, PRODUCED),
            read.drops,
            {part: ms / 1_000 for part, ms in progress["durationMs"].items()},
            read.latency(ended_ms(progress)),
            writes_of(progress),
            {
                name: hot
                for m, name in self._operator_names().items()
                if (hot := read.hot_key(m._replace(kind=HOT_KEY)))
            },
        )
        self.look_ahead(progress)

    def _add(self, number: int, read: _Read, ended_ms: int) -> None:
        self.warnings.take(read, self.counted.extracted)
        self.drops = total_of([self.drops, read.drops])
        self._sums.update(read.sums)
        self._places.update(read.places)
        self._keep_largest(read.largest)
        self._keep_latency({source: latency.buckets for source, latency in read.latency(ended_ms).items()})
        self._worker_bytes = read.worker_bytes
        self.batches += 1
        self.first = number if self.first is None else self.first
        self.last = number

    def _keep_largest(self, values: Mapping[Measure, int]) -> None:
        for measure, value in values.items():
            self._largest[measure] = max(value, self._largest.get(measure, value))

    def _keep_latency(self, latencies: Mapping[str, Mapping[int, int]]) -> None:
        for source, buckets in latencies.items():
            self._latency.setdefault(source, Counter()).update(buckets)

    def look_ahead(self, progress: Any) -> None:
        """Take from a progress, of a batch or of an idle query, how far the sources are."""
        for source in progress["sources"]:
            self._lag.update(lag_between(source["endOffset"], source["latestOffset"]))

    def add(self, other: Totals) -> None:
        """Add what another query of the same topology has counted after this one."""
        self.drops = total_of([self.drops, other.drops])
        self._sums.update(other._sums)
        self._places.update(other._places)
        self._lag.update(other._lag)
        self._keep_largest(other._largest)
        self._keep_latency(other._latency)
        self.batches, self.batch = self.batches + other.batches, other.batch or self.batch
        self._worker_bytes, self._state_bytes = other._worker_bytes, other._state_bytes

    def sizes(self) -> Sizes:
        """How large tables are, by measure and place."""
        return dict(self._places)

    def forget_sizes(self) -> None:
        """Tables lie in other places from now on; each is known when a batch has touched it."""
        self._places.clear()

    def with_sizes(self, sizes: Sizes) -> Totals:
        """These, with the sizes of tables that were known before."""
        measures = frozenset(self.counted.measures.names)
        self._places = {at: size for at, size in sizes.items() if at[0] in measures} | self._places
        return self

    def as_json(self) -> dict[str, Any]:
        """All of it, to be read by `of_json`."""
        names = self.counted.measures.names
        places: dict[Measure, dict[int, int]] = {}
        for (measure, place), size in self._places.items():
            places.setdefault(measure, {})[place] = size
        return {
            "first": self.first,
            "last": self.last,
            "batches": self.batches,
            "batch": None if self.batch is None else _batch_as_json(self.batch),
            "drops": _listed(self.drops),
            "measures": names,
            "sums": _by_number(names, self._sums),
            "largest": _by_number(names, self._largest),
            "places": _by_number(names, places),
            "lag": self._lag,
            "worker_bytes": self._worker_bytes,
            "state_bytes": self._state_bytes,
            "latency": self._latency,
        }

    @classmethod
    def of_json(cls, body: Mapping[str, Any], counted: Counted | None = None) -> Totals:
        """What `as_json` gave, with numbers as the texts that JSON makes of them.

        Parameters
        ----------
        counted : what is counted now; what has gone since is left out, but for drops. None: what was counted then.
        """
        names = [Measure(*entry) for entry in body["measures"]]
        if counted is None:
            counted = Counted((), Measures(0, tuple(names), {}, frozenset()))
        measures = frozenset(counted.measures.names)
        values = {
            kind: {names[int(n)]: value for n, value in body[kind].items() if names[int(n)] in measures}
            for kind in ("sums", "largest", "places")
        }
        batch = body["batch"]
        return cls(
            counted,
            _drops(body["drops"]),
            body["batches"],
            None if batch is None else _batch_of_json(batch),
            body["first"],
            body["last"],
            Counter(values["sums"]),
            values["largest"],
            {(measure, int(at)): size for measure, sizes in values["places"].items() for at, size in sizes.items()},
            {topic: {int(n): lag for n, lag in parts.items()} for topic, parts in body["lag"].items()},
            body["worker_bytes"],
            body["state_bytes"],
            {source: Counter(_buckets(buckets)) for source, buckets in body.get("latency", {}).items()},
        )

    def metrics(self, *, active: bool, at_ms: int) -> Metrics:
        """All of it."""
        largest = {kind: _by_node(self._largest, kind) for kind in _LARGEST}
        consumed, lateness = _by_node(self._sums, CONSUMED), _by_node(self._sums, LATE)
        tables = self._tables()
        return Metrics(
            active=active,
            at_ms=at_ms,
            batches=self.batches,
            batch=self.batch,
            consumed={m.node: consumed.get(m.node, 0) for m in self._measures(CONSUMED)},
            produced={m.node: self._sums[m] for m in self._measures(PRODUCED)},
            operators=self._operators(),
            tables={measure.part: table for measure, table in tables.items()},
            held={m.node: table.rows for m, table in tables.items() if m.part == f"{m.node}.held"},
            stream_time_ms=largest[STREAM_TIME],
            record_lateness_max_ms=largest[LATENESS],
            record_lateness_avg_ms={s: lateness.get(s, 0) / consumed[s] for s in largest[LATENESS] if consumed.get(s)},
            lag={topic: dict(partitions) for topic, partitions in self._lag.items()},
            drops=dict(self.drops),
            worker_bytes=self._worker_bytes,
            state_bytes=self._state_bytes,
            latency={source: LatencyMetrics(dict(buckets)) for source, buckets in self._latency.items()},
        )

    def _read(self, observed: Mapping[str, Any]) -> _Read:
        """The observed numbers of a batch."""
        sums: Counter[Measure] = Counter()
        largest: dict[Measure, int] = {}
        places: dict[tuple[Measure, int], int] = {}
        workers, starts = [0], list[int]()
        ages: dict[str, Counter[int]] = {}
        hot: Counter[tuple[Measure, int]] = Counter()
        for counts in measured_in(observed, self.counted.drops):
            for place, number, count in counts:
                measure = self.counted.measures.read(number)
                if measure.kind in _ADDED:
                    sums[measure] += count
                elif measure.kind in _LARGEST:
                    largest[measure] = max(count, largest.get(measure, count))
                elif measure.kind in _BY_PLACE:
                    places[(measure, place)] = count
                elif measure.kind == MEMORY:
                    workers.append(count)
                elif measure.kind == BEGUN:
                    starts.append(count)
                elif measure.kind in IN_PIECES:
                    hot[(measure, place)] += of_piece(count)
                elif measure.kind == AGE:
                    bucket, records = aged(count)
                    ages.setdefault(measure.node, Counter())[bucket] += records
        dropped = drops_in(observed, self.counted.drops)
        return _Read(dropped, sums, largest, places, max(workers), ages, max(starts, default=None), hot)

    def _measures(self, kind: str) -> list[Measure]:
        return [measure for measure in self.counted.measures.names if measure.kind == kind]

    def _operators(self) -> dict[str, OperatorMetrics]:
        return {
            name: OperatorMetrics(self._sums[m], self._sums[Measure(FORWARDED, m.node, m.part)])
            for m, name in self._operator_names().items()
        }

    def _operator_names(self) -> dict[Measure, str]:
        measures = self._measures(PROCESSED)
        ambiguous = {node for node, number in Counter(measure.node for measure in measures).items() if number > 1}
        return {m: f"{m.node}.{m.part}" if m.node in ambiguous else m.node for m in measures}

    def _tables(self) -> dict[Measure, TableMetrics]:
        """By the measure of its rows."""
        sums: Counter[Measure] = Counter()
        for (measure, _), value in self._places.items():
            sums[measure] += value
        return {m: TableMetrics(sums[m], sums[Measure(BYTES, m.node, m.part)]) for m in self._measures(ROWS)}


def _batch_as_json(batch: BatchMetrics) -> dict[str, Any]:
    latency = {source: entry.buckets for source, entry in batch.latency.items()}
    hot = {name: vars(entry) for name, entry in batch.hot_keys.items()}
    return {**vars(batch), "drops": _listed(batch.drops), "latency": latency, "hot_keys": hot}


def _batch_of_json(body: Mapping[str, Any]) -> BatchMetrics:
    latency = {source: LatencyMetrics(_buckets(buckets)) for source, buckets in body.get("latency", {}).items()}
    hot = {name: HotKey(**entry) for name, entry in body.get("hot_keys", {}).items()}
    return BatchMetrics(**{**body, "drops": _drops(body["drops"]), "latency": latency, "hot_keys": hot})


def _buckets(counts: Mapping[str, int]) -> dict[int, int]:
    return {int(bucket): count for bucket, count in counts.items()}


def _listed(drops: Mapping[tuple[str, str], int]) -> list[tuple[str, str, int]]:
    return [(node, reason, count) for (node, reason), count in drops.items()]


def _drops(listed: Sequence[Sequence[Any]]) -> dict[tuple[str, str], int]:
    return {(node, reason): count for node, reason, count in listed}


def _by_number(names: Sequence[Measure], values: Mapping[Measure, Any]) -> dict[int, Any]:
    return {number: values[name] for number, name in enumerate(names) if name in values}


def _by_node(counts: Mapping[Measure, int], kind: str) -> dict[str, int]:
    return {measure.node: count for measure, count in counts.items() if measure.kind == kind}
