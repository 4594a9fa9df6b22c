"""The counts of a query's workers: records that end, records in and out, times, rows of tables, memory.

Everything is known without reading state, and costs a number or a scan of one column for some ten thousand rows. A task
counts into one object, which goes to the driver in its report (`task_reports`); there the counts of tasks, batches and
starts are added up by the same method.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from watersmeet._engine.exchange import COUNTED, OWN, TIMED, TIMED_CALLS, RoutedBatch
from watersmeet._engine.keys import hash_keys
from watersmeet._engine.operator import silent_rows
from watersmeet._engine.rows import PARTITION_BITS, Int64s, bools, ints, python_values
from watersmeet._engine.state.runs import State
from watersmeet._plan.physical import Operator, Physical
from watersmeet._worker.formats.connect import Report
from watersmeet._worker.formats.decode import Deserializer

# The hottest key of an operator's rows in a batch: one task handles all rows of a key, so such a key limits a batch.
#
# Found by the hashes that the rows have: two passes over one column, no loop over rows.

HOT_ROWS = 10_000
"""A key with fewer rows in a batch is not reported: they take less than a second."""
HOT_SHARE = 0.1
"""A key with a smaller share of an operator's rows is not reported."""
_TEXT_BYTES = 56
_BUCKETS = 1 << 12


def hottest(inputs: Mapping[int, pa.Table]) -> tuple[int, str] | None:
    """Rows and text of the key with the most rows; None: none has many.

    Parameters
    ----------
    inputs : rows by side, with their hashes.
    """
    if sum(map(len, inputs.values())) < HOT_ROWS:
        return None
    hashes = {side: ints(rows, "hash") for side, rows in inputs.items()}
    loud = [_loud(rows, hashes[side]) for side, rows in inputs.items()]
    peak = _hot_hash(np.concatenate(loud) if len(loud) > 1 else loud[0])
    if peak is None:
        return None
    peak_hash, count = peak
    texts = (_text(rows, hashes[side], peak_hash) for side, rows in sorted(inputs.items()))
    return count, short_text(next(filter(None, texts), ""))


def _loud(rows: pa.Table, hashes: Int64s) -> Int64s:
    silent = silent_rows(rows)
    return hashes[~silent] if silent.any() else hashes


def _hot_hash(hashes: Int64s) -> tuple[int, int] | None:
    """The most frequent hash and the number of its rows, if these are many."""
    # shards are ranges of the upper bits; the lower ones divide a shard's rows
    buckets = hashes & (_BUCKETS - 1)
    counts = np.bincount(buckets, minlength=_BUCKETS)
    fullest, least = int(counts.argmax()), max(HOT_ROWS, HOT_SHARE * len(hashes))
    if counts[fullest] < least:
        return None
    candidates, numbers = np.unique(hashes[buckets == fullest], return_counts=True)
    at = int(numbers.argmax())
    return (int(candidates[at]), int(numbers[at])) if numbers[at] >= least else None


def _text(rows: pa.Table, hashes: Int64s, key_hash: int) -> str:
    """The key of the hash as text; "" if these rows have none, or are placed by something else than their key."""
    at = int(np.argmax(hashes == key_hash)) if len(hashes) else 0
    if not len(hashes) or hashes[at] != key_hash:
        return ""
    key = rows.column("key").slice(at, 1)
    return str(python_values(key)[0]) if int(hash_keys(key)[0]) == key_hash else ""


def short_text(text: str) -> str:
    """The text in at most 56 bytes of UTF-8, cut between letters.

    >>> short_text("x" * 60)[-4:]
    'xxx…'
    """
    content = text.encode("utf-8", "replace")
    if len(content) > _TEXT_BYTES:
        return content[: _TEXT_BYTES - 3].decode("utf-8", "ignore") + "…"
    return content.decode()


# How old records are when their batch begins, as a histogram, of which their latency is made behind the batch.
#
# A task that runs again has to count the same once more, so no task asks its own clock: the driver says when the batch
# began (`BatchRequest`). The time between the begin and the outputs is added where it is known. A bucket is an eighth
# of a doubling, so an age is known to 5 percent, and a latency, which is put into a bucket again, to 9.

_STEPS = 8
"""Buckets for each doubling."""


def buckets_of(ages_ms: Int64s) -> Mapping[int, int]:
    """The number of ages in each bucket.

    >>> dict(buckets_of(np.array([-5, 0, 1, 1000])))
    {0: 2, 1: 1, 80: 1}
    """
    positive = np.maximum(ages_ms, 1).astype(np.float64)
    numbers = np.where(ages_ms < 1, 0, np.floor(_STEPS * np.log2(positive)).astype(np.int64) + 1)
    buckets, counts = np.unique(numbers, return_counts=True)
    return dict(zip(buckets.tolist(), counts.tolist(), strict=True))


def bucket_of(ms: float) -> int:
    """The number of the bucket that a time is in."""
    return next(iter(buckets_of(np.array([round(ms)], dtype=np.int64))))


def middle_ms(bucket: int) -> float:
    """The time that stands for a bucket.

    >>> [round(middle_ms(number)) for number in (0, 1, 80)]
    [0, 1, 981]
    """
    return 0.0 if bucket == 0 else float(2.0 ** ((bucket - 0.5) / _STEPS))


@dataclass(frozen=True)
class AgeLimits:
    """The times between which a record waits for its batch, in ms since 1970.

    Kafka tells consumers when the broker appended a record only where that is its timestamp. A record from before the
    query's start has waited for the start, or is history that is read again: its age would say nothing of the query.
    So it counts from when its batch began to read.

    Parameters
    ----------
    live_ms : when the query was started.
    begun_ms : when the batch began.
    """

    live_ms: int
    begun_ms: int

    def ages(self, ts: Int64s) -> Int64s:
        """How long records have waited, by their timestamps.

        >>> AgeLimits(1_000, 5_000).ages(np.array([10, 4_000])).tolist()
        [0, 1000]
        """
        return np.where(ts < self.live_ms, 0, self.begun_ms - ts)


CONSUMED, PRODUCED = "consumed", "produced"
"""Records of a source; of a sink."""
PROCESSED, FORWARDED = "processed", "forwarded"
"""Records that an operator was given; that it gave."""
ROWS, BYTES = "rows", "bytes"
"""Of a table's range of hashes, as its manifest says: overwritten rows that are not merged yet, and tombstones, count.
"""
STREAM_TIME, LATENESS, LATENESS_SUM = "stream_time", "lateness", "late"
"""Of a source, in ms: the largest timestamp; how far behind the time of its partition a record came at most, and all of
them together."""
AGE, LATENCY = "age", "latency"
"""Records of a source by their age at the begin of the batch; by the time from their timestamps to the outputs. The
part is the number of a bucket (`buckets_of`)."""
BEGUN = "begun"
"""When the batch began, in ms since 1970."""
MEMORY = "memory"
"""Resident bytes of the process that ran a level."""
SENT = "sent"
"""Bytes of the blobs that packing and levels have made."""


class Measure(NamedTuple):
    """The counted things: of which node, and of which of its parts (operators, tables, buckets)."""

    kind: str
    node: str = ""
    part: str = ""


@dataclass
class Counts:
    """The counts of a task, a batch, or many batches."""

    drops: Counter[tuple[str, str]] = field(default_factory=Counter)  # records that ended, by (node, reason)
    sums: Counter[Measure] = field(default_factory=Counter)  # numbers of records, of bytes, and of ms
    largest: dict[Measure, int] = field(default_factory=dict)  # times, and memory
    sizes: dict[tuple[Measure, int], int] = field(default_factory=dict)  # of tables, by the label of the range
    # by operator (`PROCESSED`), records and text of the key with the most, where these are many
    hot_keys: dict[Measure, tuple[int, str]] = field(default_factory=dict)
    # columns of formats that no record of a task has: the source, key or value, and which
    absent: list[tuple[str, str, Report]] = field(default_factory=list)

    def add(self, other: Counts) -> None:
        """Add the counts of other tasks, or of a later batch."""
        self.drops.update(+other.drops)
        self.sums.update(other.sums)
        for measure, value in other.largest.items():
            self.note_largest(measure, value)
        self.sizes.update(other.sizes)
        for measure, hot_key in other.hot_keys.items():
            self.note_hot_key(measure, hot_key)
        self.absent += other.absent

    def note_largest(self, measure: Measure, value: int) -> None:
        """Keep a value if it is the largest so far."""
        self.largest[measure] = max(value, self.largest.get(measure, value))

    def note_hot_key(self, measure: Measure, hot_key: tuple[int, str]) -> None:
        """Keep records and text of an operator's key if it has the most so far."""
        self.hot_keys[measure] = max(hot_key, self.hot_keys.get(measure, hot_key))

    def note_numbers(self, numbers: Mapping[tuple[str, str, str], int]) -> None:
        """Add numbers of processors' own, by kind, node and name."""
        self.sums.update({Measure(*at): number for at, number in numbers.items() if number})

    def processor_numbers(self) -> dict[tuple[str, str, str], int]:
        """Numbers of processors' own, by kind, node and name."""
        return {(kind, node, name): number for (kind, node, name), number in self.sums.items() if kind in OWN}

    def counters(self) -> dict[str, dict[str, int]]:
        """Counters of processors' own, by operator and name."""
        return self._by_operator(COUNTED)

    def timers(self) -> dict[str, dict[str, tuple[int, float]]]:
        """Calls and seconds of processors' own timers, by operator and name."""
        calls = self._by_operator(TIMED_CALLS).items()
        return {
            node: {name: (number, self.sums[Measure(TIMED, node, name)] / 1e9) for name, number in timers.items()}
            for node, timers in calls
        }

    def _by_operator(self, kind: str) -> dict[str, dict[str, int]]:
        nodes: dict[str, dict[str, int]] = {}
        for measure in sorted(self.sums):
            if measure.kind == kind:
                nodes.setdefault(measure.node, {})[measure.part] = self.sums[measure]
        return nodes

    def with_latencies(self, ended_ms: int) -> Counts:
        """The same of a batch that all outputs had at this time: ages are latencies; what is of one batch is left out.

        Parameters
        ----------
        ended_ms : ms since 1970.
        """
        took = max(0, ended_ms - self.largest.get(Measure(BEGUN), ended_ms))
        counts = Counts(self.drops, Counter(), dict(self.largest), self.sizes)
        counts.largest.pop(Measure(BEGUN), None)
        for (kind, node, part), number in self.sums.items():
            if kind == AGE:
                kind, part = LATENCY, str(bucket_of(middle_ms(int(part)) + took))
            counts.sums[Measure(kind, node, part)] += number
        return counts

    def of_nodes(self, kind: str) -> dict[str, int]:
        return {measure.node: count for measure, count in self.sums.items() if measure.kind == kind}

    def latencies(self) -> dict[str, dict[int, int]]:
        """Records by source and bucket (`LATENCY`)."""
        sources: dict[str, dict[int, int]] = {}
        for measure, count in self.sums.items():
            if measure.kind == LATENCY:
                sources.setdefault(measure.node, {})[int(measure.part)] = count
        return sources

    def of_names(self, names: Collection[Measure]) -> Counts:
        """The counts of these, the parts of buckets left out, all drops, and processors' own of these nodes."""
        measures, nodes = {*names, Measure(MEMORY), Measure(SENT)}, {measure.node for measure in names}
        sums = {
            m: n
            for m, n in self.sums.items()
            if (m._replace(part="") if m.kind == LATENCY else m) in measures or (m.kind in OWN and m.node in nodes)
        }
        largest = {measure: value for measure, value in self.largest.items() if measure in measures}
        return Counts(self.drops, Counter(sums), largest, {at: n for at, n in self.sizes.items() if at[0] in measures})

    def to_json(self) -> dict[str, Any]:
        """The text that `from_json` reads; hot and absent names, which are a batch's, are left out."""
        return {
            "drops": [[*at, count] for at, count in self.drops.items()],
            "sums": [[*measure, count] for measure, count in self.sums.items()],
            "largest": [[*measure, value] for measure, value in self.largest.items()],
            "sizes": [[*measure, label, size] for (measure, label), size in self.sizes.items()],
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Counts:
        """The counts that `to_json` gave; ValueError, TypeError or KeyError: it did not."""
        return cls(
            Counter({(node, reason): count for node, reason, count in body["drops"]}),
            Counter({Measure(*names): count for *names, count in body["sums"]}),
            {Measure(*names): value for *names, value in body["largest"]},
            {(Measure(*names), label): size for *names, label, size in body["sizes"]},
        )


@dataclass(frozen=True)
class Measures:
    """How the workers of a plan count."""

    sinks: Mapping[int, str]  # name of the sink of the records on a port
    # (operator, side) with records that every shard gets; their first shard counts them
    copies: frozenset[tuple[int, int]]

    @classmethod
    def of(cls, physical: Physical) -> Measures:
        ports = {physical.sink_port(at): sink for at, (_, sink) in enumerate(physical.sink_edges)}
        copies = frozenset((edge.target, edge.side) for edge in physical.edges if edge.reads.broadcast)
        return cls(ports, copies)

    def produced(self, routed: Iterable[RoutedBatch], counts: Counts) -> Iterator[RoutedBatch]:
        """Routed batches as they come, those on their way to sinks counted."""
        for batch in routed:
            sink = self.sinks.get(batch.port)
            if sink is not None:
                counts.sums[Measure(PRODUCED, sink)] += len(batch.rows)
            yield batch

    def processed(self, operator: Operator, shard: int, inputs: Mapping[int, pa.Table], counts: Counts) -> None:
        """Count the records of an operator; rows of time, and rows for lookups only, are no records."""
        exclusive = {
            side: rows for side, rows in inputs.items() if side >= 0 and (operator.id, side) not in self.copies
        }
        loud = {side: rows for side, rows in inputs.items() if side >= 0} if shard == 0 else exclusive
        records = sum(len(rows) - int(silent_rows(rows).sum()) for rows in loud.values())
        measure = Measure(PROCESSED, operator.node, operator.stem)
        counts.sums[measure] += records
        hot_key = hottest(exclusive)
        if hot_key is not None:
            counts.note_hot_key(measure, hot_key)


def counting_results(operator: Operator, results: Iterable[pa.Table], counts: Counts) -> Iterator[pa.Table]:
    """An operator's results as they come, counted."""
    for rows in results:
        counts.sums[Measure(FORWARDED, operator.node, operator.stem)] += len(rows) - int(silent_rows(rows).sum())
        yield rows


def note_state(operator: Operator, shard: int, label: int, state: State, counts: Counts) -> None:
    """Note how large an operator's tables are in a shard, behind its commit."""
    for table in (candidate for candidate in operator.tables if shard == 0 or not candidate.everywhere):
        entry = state.manifest.tables.get(table.name)
        pieces = () if entry is None else tuple(piece for level in entry.levels for piece in level.pieces())
        counts.sizes[Measure(ROWS, operator.node, table.name), label] = sum(piece.rows for piece in pieces)
        counts.sizes[Measure(BYTES, operator.node, table.name), label] = sum(piece.size for piece in pieces)


def note_absent(reports: Iterable[tuple[Deserializer, Report]], roots: Mapping[int, str], counts: Counts) -> None:
    """Note the columns of sources' formats that no record has, of the first rows of a task."""
    for part, report in reports:
        source = roots[part.source_number]
        if not any((source, part.part) == entry[:2] for entry in counts.absent):
            counts.absent.append((source, part.part, report))


def count_source(
    frame: pa.Table, roots: Mapping[int, str], letters: Mapping[int, str], limits: AgeLimits | None, counts: Counts
) -> None:
    """Count the rows that a source stage has read, and note their times.

    Parameters
    ----------
    frame : its rows, stamped.
    roots : name of each source, by its number; none where the rows are an operator's.
    letters : of those that are dead letters the name of the source that has read them, which no longer has them.
    limits : the times between which records wait for the batch; None: nobody says them.
    """
    if not roots or not len(frame):
        return
    if limits is not None:
        counts.note_largest(Measure(BEGUN), limits.begun_ms)
    root, order_ts, ts = ints(frame, "srcpart") >> PARTITION_BITS, ints(frame, "order_ts"), ints(frame, "ts")
    for number, name in roots.items():
        counts.sums[Measure(CONSUMED, letters.get(number, name))] += int((root == number).sum())
        timed = bools(frame, f"root:{number}") & (order_ts >= 0)
        if number in letters or not timed.any():
            continue
        delays = np.maximum(order_ts[timed] - ts[timed], 0)
        counts.note_largest(Measure(STREAM_TIME, name), int(order_ts[timed].max()))
        counts.note_largest(Measure(LATENESS, name), int(delays.max()))
        counts.sums[Measure(LATENESS_SUM, name)] += int(delays.sum())
        for bucket, count in buckets_of(limits.ages(ts[timed])).items() if limits is not None else ():
            counts.sums[Measure(AGE, name, str(bucket))] += count
