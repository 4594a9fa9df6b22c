"""Adding up what the progress of each batch says: counts since the start, and the last word of each place.

Nothing is asked of Spark here: a progress is given. Gauges (rows of tables) are kept by the place that told them, since
a batch tells only of the ranges that it touched.
"""

from __future__ import annotations

import json
from ast import literal_eval
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from millpond._plan.physical import Physical
from millpond._spark.dataflow.measures import (
    BYTES,
    CONSUMED,
    FORWARDED,
    LATE,
    LATENESS,
    MEMORY,
    PROCESSED,
    PRODUCED,
    ROWS,
    STREAM_TIME,
    Measure,
    Measures,
)
from millpond._spark.metrics.metrics import BatchMetrics, Metrics, OperatorMetrics, TableMetrics
from millpond._spark.query.counting import WRITTEN, drops_in, measured_in, total_of

_ADDED = frozenset((CONSUMED, PRODUCED, PROCESSED, FORWARDED, LATE))
_LARGEST = frozenset((STREAM_TIME, LATENESS))
_BY_PLACE = frozenset((ROWS, BYTES))
_UNKNOWN = -1


@dataclass(frozen=True)
class Counted:
    """What the progress of a query counts.

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
        """What the progress of a plan's query counts."""
        return cls(drops, Measures.of(physical, len(drops)), blind)


@dataclass
class Totals:
    """What batches have counted so far."""

    counted: Counted
    drops: dict[tuple[str, str], int] = field(default_factory=dict)
    batches: int = 0
    batch: BatchMetrics | None = None
    _sums: Counter[Measure] = field(default_factory=Counter)
    _largest: dict[Measure, int] = field(default_factory=dict)
    _places: dict[tuple[Measure, int], int] = field(default_factory=dict)
    _lag: dict[str, dict[int, int]] = field(default_factory=dict)
    _worker_bytes: int = 0
    _state_bytes: int = 0

    def take(self, progress: Any) -> None:
        """Add a batch's progress."""
        observed = {name: _as_mapping(row) for name, row in progress["observedMetrics"].items()}
        drops = drops_in(observed, self.counted.drops)
        sums = self._measured(observed)
        sums.update({Measure(PRODUCED, sink): count for sink, count in observed.get(WRITTEN, {}).items()})
        output = int(progress["sink"]["numOutputRows"])
        if self.counted.blind and output != _UNKNOWN:
            sums.update(dict.fromkeys(self._measures(PRODUCED), output))
        self.drops = total_of([self.drops, drops])
        self._sums.update(sums)
        self.batches += 1
        self._state_bytes = sum(int(each["memoryUsedBytes"]) for each in progress["stateOperators"])
        self.batch = BatchMetrics(
            int(progress["batchId"]),
            int(datetime.fromisoformat(progress["timestamp"]).timestamp() * 1_000),
            _by_node(sums, CONSUMED),
            _by_node(sums, PRODUCED),
            drops,
            {part: ms / 1_000 for part, ms in progress["durationMs"].items()},
        )

    def look_ahead(self, progress: Any) -> None:
        """Take from a progress, of a batch or of an idle query, how far the sources are."""
        for source in progress["sources"]:
            self._lag.update(_lag(source["endOffset"], source["latestOffset"]))

    def add(self, other: Totals) -> None:
        """Add what another query of the same topology has counted after this one."""
        self.drops = total_of([self.drops, other.drops])
        self._sums.update(other._sums)
        self._places.update(other._places)
        self._lag.update(other._lag)
        for measure, value in other._largest.items():
            self._largest[measure] = max(value, self._largest.get(measure, value))
        self.batches, self.batch = self.batches + other.batches, other.batch or self.batch
        self._worker_bytes, self._state_bytes = other._worker_bytes, other._state_bytes

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
        )

    def _measured(self, observed: Mapping[str, Any]) -> Counter[Measure]:
        """What the batch adds to sums; the rest is noted."""
        sums: Counter[Measure] = Counter()
        workers = [0]
        for counts in measured_in(observed, self.counted.drops):
            for place, number, count in counts:
                measure = self.counted.measures.read(number)
                if measure.kind in _ADDED:
                    sums[measure] += count
                elif measure.kind in _LARGEST:
                    self._largest[measure] = max(count, self._largest.get(measure, count))
                elif measure.kind in _BY_PLACE:
                    self._places[(measure, place)] = count
                elif measure.kind == MEMORY:
                    workers.append(count)
        self._worker_bytes = max(workers)
        return sums

    def _measures(self, kind: str) -> list[Measure]:
        return [measure for measure in self.counted.measures.names if measure.kind == kind]

    def _produced(self, measure: Measure) -> int | None:
        known = measure in self._sums or not self.counted.blind
        return self._sums[measure] if known else None

    def _operators(self) -> dict[str, OperatorMetrics]:
        found = self._measures(PROCESSED)
        several = {node for node, number in Counter(measure.node for measure in found).items() if number > 1}
        return {
            f"{m.node}.{m.part}" if m.node in several else m.node: OperatorMetrics(
                self._sums[m], self._sums[Measure(FORWARDED, m.node, m.part)]
            )
            for m in found
        }

    def _tables(self) -> dict[Measure, TableMetrics]:
        """By the measure of its rows."""
        sums: Counter[Measure] = Counter()
        for (measure, _), value in self._places.items():
            sums[measure] += value
        return {m: TableMetrics(sums[m], sums[Measure(BYTES, m.node, m.part)]) for m in self._measures(ROWS)}


def _by_node(counts: Mapping[Measure, int], kind: str) -> dict[str, int]:
    return {measure.node: count for measure, count in counts.items() if measure.kind == kind}


def _as_mapping(row: Any) -> dict[str, Any]:
    return row.asDict() if hasattr(row, "asDict") else dict(row)


def _lag(end: Any, latest: Any) -> dict[str, dict[int, int]]:
    """Records by topic and partition between two offsets of Spark's Kafka source; nothing for those of other sources.

    >>> _lag('{"orders": {"0": 5, "1": 7}}', '{"orders": {"0": 9, "1": 7, "2": 3}}')
    {'orders': {0: 4, 1: 0, 2: 3}}

    Older versions of PySpark give what they have read of the JSON, printed.

    >>> _lag("{'orders': {'0': 5}}", "{'orders': {'0': 9}}"), _lag('{"logOffset": 0}', "None")
    ({'orders': {0: 4}}, {})
    """
    read, there = (_offsets(text) for text in (end, latest))
    return {
        topic: {int(number): reach - read.get(topic, {}).get(number, 0) for number, reach in partitions.items()}
        for topic, partitions in there.items()
    }


def _offsets(text: Any) -> dict[str, dict[str, int]]:
    try:
        found = json.loads(text) if '"' in text else literal_eval(text)
    except (TypeError, ValueError, SyntaxError):
        return {}
    if not isinstance(found, dict) or not all(_are_offsets(each) for each in found.values()):
        return {}
    return found


def _are_offsets(found: Any) -> bool:
    return isinstance(found, dict) and all(isinstance(each, int) for each in found.values())
