"""Adding up what the progress of each batch says: counts since the start, and the last word of each place.

Nothing is asked of Spark here: a progress is given. Gauges (rows of tables) are kept by the place that told them, since
a batch tells only of the ranges that it touched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from watersmeet._plan.physical import Physical
from watersmeet._spark.metrics.metrics import (
    BatchMetrics,
    HotKey,
    LatencyMetrics,
    Metrics,
    OperatorMetrics,
    TableMetrics,
)
from watersmeet._spark.metrics.progress_fields import ended_ms, lag_between, observed_in, started_ms, writes_of
from watersmeet._spark.session.counting import WRITTEN, drops_in, measured_in, total_of
from watersmeet._worker.wire.ages import bucket_of, middle_ms
from watersmeet._worker.wire.hot_keys import HOT_SHARE, of_piece, unpacked_key
from watersmeet._worker.wire.measures import (
    AGE,
    BEGUN,
    BYTES,
    CONSUMED,
    FORWARDED,
    HOT_KEY,
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
)

_ADDED = frozenset((CONSUMED, PRODUCED, PROCESSED, FORWARDED, LATE, SENT))
_LARGEST = frozenset((STREAM_TIME, LATENESS))
_BY_PLACE = frozenset((ROWS, BYTES))
_UNKNOWN = -1
Sizes = Mapping[tuple[Measure, int], int]
"""By measure and place."""


@dataclass(frozen=True)
class Counted:
    """The numbers in the progress of a query.

    Parameters
    ----------
    drops : (node, reason) of each number.
    measures : what the numbers behind them are.
    blind : whether the rows of the sinks are Spark's and nobody counts them, but for what a sink of Spark's may say.
    """

    drops: tuple[tuple[str, str], ...]
    measures: Measures
    blind: bool = False

    @classmethod
    def of(cls, physical: Physical, drops: tuple[tuple[str, str], ...], *, blind: bool) -> Counted:
        """The numbers in the progress of a plan's query."""
        return cls(drops, Measures.of(physical, len(drops)), blind)


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
        found = max((unpacked_key(number) for (each, _), number in self.hot.items() if each == measure), default=None)
        records = self.sums[measure._replace(kind=PROCESSED)]
        if found is None or found[0] < HOT_SHARE * records:
            return None
        return HotKey(found[1], found[0], round(found[0] / records, 3))

    def latency(self, ended_ms: int) -> dict[str, LatencyMetrics]:
        """Of the records of each source, if all outputs had the batch at this time."""
        took = 0 if self.begun_ms is None else max(0, ended_ms - self.begun_ms)
        found = dict[str, LatencyMetrics]()
        for source, ages in self.ages.items():
            buckets = Counter[int]()
            for bucket, count in ages.items():
                buckets[bucket_of(middle_ms(bucket) + took)] += count
            found[source] = LatencyMetrics(dict(buckets))
        return found


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

    def going_on(self, counted: Counted) -> Totals:
        """The same, before what a query with other numbers for the same counts."""
        return replace(self, counted=counted)

    def take(self, progress: Any) -> None:
        """Add a batch's progress."""
        self._add(int(progress["batchId"]), self._read(*observed_in(progress)), ended_ms(progress))
        self.tell(progress)

    def count(self, number: int, observed: Mapping[str, Any], ended_ms: int) -> Counter[Measure]:
        """Add the observed numbers of a batch with its progress still to come, that its outputs have since a time.

        Returns
        -------
        Counter : those of them that are sums.
        """
        read = self._read(observed, _UNKNOWN)
        self._add(number, read, ended_ms)
        return read.sums

    def tell(self, progress: Any) -> None:
        """Take from a batch's progress what only this says: how long it took, how far the sources are."""
        read = self._read(*observed_in(progress))
        self._state_bytes = sum(int(each["memoryUsedBytes"]) for each in progress["stateOperators"])
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
        self.drops = total_of([self.drops, read.drops])
        self._sums.update(read.sums)
        self._places.update(read.places)
        self._keep_largest(read.largest)
        self._keep_latency({source: found.buckets for source, found in read.latency(ended_ms).items()})
        self._worker_bytes = read.worker_bytes
        self.batches += 1
        self.first = number if self.first is None else self.first
        self.last = number

    def _keep_largest(self, found: Mapping[Measure, int]) -> None:
        for measure, value in found.items():
            self._largest[measure] = max(value, self._largest.get(measure, value))

    def _keep_latency(self, found: Mapping[str, Mapping[int, int]]) -> None:
        for source, buckets in found.items():
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

    def with_sizes(self, before: Sizes) -> Totals:
        """These, with the sizes of tables that were known before."""
        known = frozenset(self.counted.measures.names)
        self._places = {at: size for at, size in before.items() if at[0] in known} | self._places
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
            "blind": self.counted.blind,
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
        names = [Measure(*each) for each in body["measures"]]
        if counted is None:
            counted = Counted((), Measures(0, tuple(names), {}, frozenset()), body["blind"])
        known = frozenset(counted.measures.names)
        found = {
            kind: {names[int(n)]: each for n, each in body[kind].items() if names[int(n)] in known}
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
            Counter(found["sums"]),
            found["largest"],
            {(measure, int(at)): size for measure, sizes in found["places"].items() for at, size in sizes.items()},
            {topic: {int(n): lag for n, lag in parts.items()} for topic, parts in body["lag"].items()},
            body["worker_bytes"],
            body["state_bytes"],
            {source: Counter(_buckets(each)) for source, each in body.get("latency", {}).items()},
        )

    def metrics(self, *, active: bool, at_ms: int) -> Metrics:
        """All of it."""
        largest = {kind: _by_node(self._largest, kind) for kind in _LARGEST}
        consumed, late = _by_node(self._sums, CONSUMED), _by_node(self._sums, LATE)
        tables = self._tables()
        return Metrics(
            active=active,
            at_ms=at_ms,
            batches=self.batches,
            batch=self.batch,
            consumed={m.node: consumed.get(m.node, 0) for m in self._measures(CONSUMED)},
            produced={m.node: self._produced(m) for m in self._measures(PRODUCED)},
            operators=self._operators(),
            tables={measure.part: found for measure, found in tables.items()},
            held={m.node: found.rows for m, found in tables.items() if m.part == f"{m.node}.held"},
            stream_time_ms=largest[STREAM_TIME],
            record_lateness_max_ms=largest[LATENESS],
            record_lateness_avg_ms={s: late.get(s, 0) / consumed[s] for s in largest[LATENESS] if consumed.get(s)},
            lag={topic: dict(partitions) for topic, partitions in self._lag.items()},
            drops=dict(self.drops),
            worker_bytes=self._worker_bytes,
            state_bytes=self._state_bytes,
            latency={source: LatencyMetrics(dict(buckets)) for source, buckets in self._latency.items()},
        )

    def _read(self, observed: Mapping[str, Any], output: int) -> _Read:
        """The observed numbers of a batch, and the rows of its sink by Spark's count; `_UNKNOWN`: unknown."""
        sums: Counter[Measure] = Counter()
        largest: dict[Measure, int] = {}
        places: dict[tuple[Measure, int], int] = {}
        workers, begun = [0], list[int]()
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
                    begun.append(count)
                elif measure.kind == HOT_KEY:
                    hot[(measure, place)] += of_piece(count)
                elif measure.kind == AGE:
                    bucket, records = aged(count)
                    ages.setdefault(measure.node, Counter())[bucket] += records
        sums.update({Measure(PRODUCED, sink): count for sink, count in observed.get(WRITTEN, {}).items()})
        if self.counted.blind and output != _UNKNOWN:
            sums.update(dict.fromkeys(self._measures(PRODUCED), output))
        dropped = drops_in(observed, self.counted.drops)
        return _Read(dropped, sums, largest, places, max(workers), ages, max(begun, default=None), hot)

    def _measures(self, kind: str) -> list[Measure]:
        return [measure for measure in self.counted.measures.names if measure.kind == kind]

    def _produced(self, measure: Measure) -> int | None:
        known = measure in self._sums or not self.counted.blind
        return self._sums[measure] if known else None

    def _operators(self) -> dict[str, OperatorMetrics]:
        return {
            name: OperatorMetrics(self._sums[m], self._sums[Measure(FORWARDED, m.node, m.part)])
            for m, name in self._operator_names().items()
        }

    def _operator_names(self) -> dict[Measure, str]:
        """The name of each operator, by the measure of its input records."""
        found = self._measures(PROCESSED)
        several = {node for node, number in Counter(measure.node for measure in found).items() if number > 1}
        return {m: f"{m.node}.{m.part}" if m.node in several else m.node for m in found}

    def _tables(self) -> dict[Measure, TableMetrics]:
        """By the measure of its rows."""
        sums: Counter[Measure] = Counter()
        for (measure, _), value in self._places.items():
            sums[measure] += value
        return {m: TableMetrics(sums[m], sums[Measure(BYTES, m.node, m.part)]) for m in self._measures(ROWS)}


def _batch_as_json(batch: BatchMetrics) -> dict[str, Any]:
    latency = {source: found.buckets for source, found in batch.latency.items()}
    hot = {name: vars(found) for name, found in batch.hot_keys.items()}
    return {**vars(batch), "drops": _listed(batch.drops), "latency": latency, "hot_keys": hot}


def _batch_of_json(said: Mapping[str, Any]) -> BatchMetrics:
    latency = {source: LatencyMetrics(_buckets(each)) for source, each in said.get("latency", {}).items()}
    hot = {name: HotKey(**found) for name, found in said.get("hot_keys", {}).items()}
    return BatchMetrics(**{**said, "drops": _drops(said["drops"]), "latency": latency, "hot_keys": hot})


def _buckets(said: Mapping[str, int]) -> dict[int, int]:
    return {int(bucket): count for bucket, count in said.items()}


def _listed(drops: Mapping[tuple[str, str], int]) -> list[tuple[str, str, int]]:
    return [(node, reason, count) for (node, reason), count in drops.items()]


def _drops(listed: Sequence[Sequence[Any]]) -> dict[tuple[str, str], int]:
    return {(node, reason): count for node, reason, count in listed}


def _by_number(names: Sequence[Measure], found: Mapping[Measure, Any]) -> dict[int, Any]:
    return {number: found[name] for number, name in enumerate(names) if name in found}


def _by_node(counts: Mapping[Measure, int], kind: str) -> dict[str, int]:
    return {measure.node: count for measure, count in counts.items() if measure.kind == kind}
