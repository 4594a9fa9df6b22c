"""The rows that Spark shuffles: (label, port, blob, count), and what labels and ports mean.

A **label** stands for (target, shard), target being an operator or, behind the operators, an exit to a sink.
A **port** is an edge's number on the way in, -1 - operator on the way out. A row without blob is a count of
dropped records; its port is the number of the metric. Every task of the first stage also sends an **end** to every task
of the last one: with its label, the highest of all, it stands behind all other rows once they are sorted, so its reader
has read everything (docs/decisions/outputs.md).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from watersmeet._engine.aggregates.folds import with_owner
from watersmeet._engine.exchange import ENCODED_KEY, Outlet, RoutedBatch, ShardCounts, outlet_columns, pack, with_copies
from watersmeet._engine.keys import hash_keys
from watersmeet._engine.operator import silent_rows
from watersmeet._engine.rows import PARTITION_BITS, Int64s, array, bools, failing, ints, python_values, without
from watersmeet._engine.state.runs import State
from watersmeet._plan import reasons
from watersmeet._plan.logical import WITHIN, letter_sources
from watersmeet._plan.nodes import SinkNode
from watersmeet._plan.physical import Operator, Physical
from watersmeet._worker import process
from watersmeet._worker.ended_rows import DeadLetterRoutes, DeadLetterWriter
from watersmeet._worker.formats.connect import Report
from watersmeet._worker.formats.decode import Deserializer
from watersmeet._worker.formats.formats import check_writable, format_for, refuses, serde_of
from watersmeet._worker.formats.json import readable
from watersmeet._worker.formats.serdes import Serde
from watersmeet._worker.process import own_bytes
from watersmeet.errors import EncodingError
from watersmeet.io.formats import Format, FormatName

WIRE = StructType(
    [
        StructField("label", IntegerType(), False),
        StructField("port", IntegerType(), False),
        StructField("blob", BinaryType(), True),
        StructField("count", LongType(), True),
    ]
)


_SEED = 42
END = 2**31 - 1
"""Port of an end."""


def output_port(operator: int) -> int:
    return -1 - operator


def operator_of(port: int) -> int:
    return -1 - port


@dataclass(frozen=True)
class Labels:
    """Label of each (target, shard)."""

    shards: int  # shards per target
    targets: int  # how many operators and exits there are
    # label of each (target * shards + shard), chosen so that Spark's hash spreads the shards of a target evenly over
    # the tasks; None numbers them through, for test runs with many cases
    spread: tuple[int, ...] | None = None
    ends: tuple[int, ...] = ()  # labels of the ends, one for each task of an exchange; higher than all others
    few: Mapping[int, int] = field(default_factory=dict)  # how many shards a target has, where these are fewer

    @cached_property
    def counts(self) -> ShardCounts:
        """How many shards each target has."""
        return ShardCounts(self.shards, self.few)

    def label(self, target: int, shard: int) -> int:
        """Label of a shard; a shard number beyond `shards` belongs to a further case."""
        case, shard = divmod(shard, self.shards)
        place = target * self.shards + shard
        if self.spread is not None:
            return self.spread[place]
        return case * self.targets * self.shards + place

    def of_target(self, target: int) -> list[int]:
        return [self.label(target, shard) for shard in self.counts.of_case(target, 0)]

    def place(self, label: int) -> tuple[int, int]:
        """(target, shard) of a label, the case times `shards` added to the shard; an end's target is none there is."""
        if self.spread is not None:
            return divmod(self._index[label], self.shards)
        case, place = divmod(label, self.targets * self.shards)
        target, shard = divmod(place, self.shards)
        return target, case * self.shards + shard

    @cached_property
    def _index(self) -> dict[int, int]:
        assert self.spread is not None
        return {label: place for place, label in enumerate((*self.spread, *self.ends))}


@dataclass(frozen=True)
class Exits:
    """How sinks are told apart in wire rows."""

    labels: Labels  # how (target, shard) are labelled
    names: tuple[str, ...]  # of the sinks, by their numbers
    # number of the sink of each port. Sinks of one topic share their labels, so that rows of one key meet and are put
    # into one order
    ports: Mapping[int, int]
    slots: int  # path slots of the plan
    dead_letters: bool = False  # whether some of the sinks are of dead letters, which have headers

    def of_sinks(self, names: Sequence[str]) -> Exits:
        """The same for these sinks alone, numbered in this order."""
        ports = {port: self.names[number] for port, number in self.ports.items()}
        numbers = {port: names.index(name) for port, name in ports.items() if name in names}
        return replace(self, names=tuple(names), ports=numbers)

    @classmethod
    def of(cls, physical: Physical, labels: Labels) -> Exits:
        ports = [physical.sink_port(index) for index in range(len(physical.sink_edges))]
        numbers = {port: physical.sink_of(port) for port in ports}
        return cls(labels, physical.sinks, numbers, physical.slots, bool(letter_sources(physical.plan)))


def target_count(physical: Physical) -> int:
    return len(physical.operators) + len(physical.exits)


Addresses = Mapping[str, Mapping[str, Sequence[int]]]
"""By node and table, the labels under which the table's state lies, one for each range of the hash, in order (law 10).
"""


def spread_labels(physical: Physical, shards: int, tasks: int, existing: Addresses | None = None) -> Labels:
    """Labels that Spark's hash partitioning spreads evenly over `tasks`.

    Parameters
    ----------
    existing : where a checkpoint has state: what lies there keeps its labels, whatever else the topology has.
    """
    targets = target_count(physical)
    ranges = _ranges(physical, existing or {})
    fixed = {target * shards + shard: label for target, labels in ranges.items() for shard, label in enumerate(labels)}
    total = targets * shards
    candidates = np.arange(max(total * 8, max(fixed.values(), default=0) + 1) + 64 * tasks, dtype=np.int32)
    task_of = sparks_hash(candidates) % tasks
    free = ~np.isin(candidates, list(fixed.values()))
    queues = [candidates[(task_of == task) & free].tolist() for task in range(tasks)]
    spread = tuple(_deal(queues, total, shards, fixed))
    counts = with_copies(physical.operators, shards, tasks) | {
        target: len(target_labels) for target, target_labels in ranges.items()
    }
    reduced = {target: count for target, count in counts.items() if count < shards}
    return Labels(shards, targets, spread, tuple(_higher(queue, max(spread, default=-1)) for queue in queues), reduced)


def addresses(physical: Physical, labels: Labels) -> dict[str, dict[str, list[int]]]:
    """The labels of each table's state; a lent table has those of its lender."""
    by_node: dict[str, dict[str, list[int]]] = {}
    for operator in physical.operators:
        ranges = labels.of_target(physical.host(operator.id))
        by_node.setdefault(operator.node, {}).update({table.name: ranges for table in operator.keeps})
    return by_node


def _ranges(physical: Physical, existing: Addresses) -> dict[int, Sequence[int]]:
    """The labels under which the state of an operator lies, by the operator's number; of those that have some."""
    assigned: dict[int, Sequence[int]] = {}
    for operator in physical.operators:
        tables = existing.get(operator.node, {})
        ranges = next((tables[table.name] for table in operator.stored if table.name in tables), ())
        # what two have shared until now, and do not from now on, goes on where it is for the first of them
        if ranges and ranges not in assigned.values():
            assigned[operator.id] = ranges
    return assigned


def sparks_hash(numbers: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Spark's hash of integers, by which it partitions: 32 bits of MurmurHash3 with seed 42.

    Spark's `Murmur3Hash`; that it is what Spark answers is tested, so no job has to ask at each start.
    """
    mixed = _rotated(numbers.astype(np.uint32) * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    state = _rotated(np.uint32(_SEED) ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    state ^= np.uint32(4)  # the number of bytes
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return (state ^ (state >> np.uint32(16))).view(np.int32)


def _rotated(bits: npt.NDArray[np.uint32], by: int) -> npt.NDArray[np.uint32]:
    return (bits << np.uint32(by)) | (bits >> np.uint32(32 - by))


def _higher(queue: Sequence[int], than: int) -> int:
    """The last label of a task's, which no shard has got."""
    assert queue[-1] > than
    return queue[-1]


def _deal(queues: Sequence[list[int]], total: int, shards: int, fixed: Mapping[int, int]) -> list[int]:
    """Shard s of target t gets a label of task s + t: targets with one shard do not all meet in one task."""
    tasks, used = len(queues), [0] * len(queues)
    labels = []
    for place in range(total):
        if place in fixed:
            labels.append(fixed[place])
            continue
        target, shard = divmod(place, shards)
        task = (shard + target) % tasks
        labels.append(queues[task][used[task]])
        used[task] += 1
    return labels


def encoded_parts(physical: Physical, *, failing: bool = False) -> dict[str, tuple[str, ...]]:
    """By the name of an output, key or value, if they are written before the last exchange (`encoding`).

    That is where the format may refuse one, and a row that it refuses is not to fail the query. Keys of one topic are
    all written at one place, so that those of several outputs lie in one column.

    Parameters
    ----------
    failing : also where it is to fail the query: nothing writes for a test driver.
    """
    parts: dict[str, tuple[str, ...]] = {}
    policies = physical.plan.within
    for names in physical.exits:
        sinks = [physical.plan.by_name[name] for name in names]
        ends = [sink for sink in sinks if sink.place.formats and (failing or policies.outlives(sink.name))]
        keys = ("key",) if any(_may_refuse(sink.place.formats["key"]) for sink in ends) else ()
        for sink in sinks:
            value = ("value",) if sink in ends and _may_refuse(sink.place.formats["value"]) else ()
            parts |= {sink.name: (*keys, *value)} if keys or value else {}
    return parts


def written_by_spark(physical: Physical) -> dict[str, tuple[str, ...]]:
    """By the name of an output, key or value, if these are JSON of types that Spark alone writes."""
    parts: dict[str, tuple[str, ...]] = {}
    for sink in physical.plan.sinks:
        for part, form in sink.place.formats.items():
            kind, combined = getattr(sink.shape, part), part == "key" and sink.name in physical.plan.combined
            # combined keys have a layout of their own
            written = None if form is None and combined else format_for(kind) if form is None else Format.of(form)
            if written is not None and written.kind == "json" and not readable(kind):
                parts[sink.name] = (*parts.get(sink.name, ()), part)
    return parts


def _may_refuse(form: Format | FormatName | None) -> bool:
    return form is not None and refuses(Format.of(form))


def metric_names(physical: Physical) -> tuple[tuple[str, str], ...]:
    """(node, reason) of everything that may be dropped, in a fixed order: a metric's number is its place."""
    metrics: dict[tuple[str, str], None] = {}
    for source in physical.plan.sources:
        if source.dead_letters_of is not None:
            if source.dead_letters_of != WITHIN:
                metrics[(source.dead_letters_of, reasons.DEAD_LETTER.name)] = None
            continue
        raised = (reasons.FUNCTION_ERROR,) if source.origin.policies.outlives_errors else ()
        timestamp_reasons = () if source.origin.timestamp_extractor is None else (reasons.INVALID_TIMESTAMP,)
        for reason in (reasons.NEGATIVE_TIMESTAMP, reasons.UNDECODABLE, *timestamp_reasons, *raised):
            metrics[(source.name, reason.name)] = None
    for flow in physical.flows:
        if "null_key" in flow.ends:
            metrics[(flow.node, reasons.NULL_KEY.name)] = None
    for edge in physical.edges:
        node = physical.operators[edge.target].node
        if "null_key" in edge.ends:
            metrics[(node, reasons.NULL_KEY.name)] = None
        if "null_value" in edge.ends:
            metrics[(node, reasons.NULL_VALUE.name)] = None
        if "late" in edge.ends:
            metrics[(node, reasons.OUT_OF_ORDER.name)] = None
        ends = edge.reads.null_reason
        if ends is not None:
            metrics[(node, ends.name)] = None
    for operator in physical.operators:
        metrics |= {(operator.node, reason.name): None for reason in operator.declaration.ends}
        if physical.plan.within.outlives(operator.node):
            metrics[(operator.node, reasons.FUNCTION_ERROR.name)] = None
    # an output is told of by the name that the user knows
    outputs = {sink.name: sink.output for sink in physical.plan.sinks}
    metrics |= {(outputs[name], reasons.UNENCODABLE.name): None for name in encoded_parts(physical)}
    if physical.plan.within.dead_letters:
        metrics |= {(node, reasons.DEAD_LETTER.name): None for node, _ in metrics}
    return tuple(metrics)


# The hottest key of an operator's rows in a batch: one task handles all rows of a key, so such a key limits a batch.
#
# Found by the hashes that the rows have: two passes over one column, no loop over rows. The same rows give the same
# answer in any order, as a task that runs again has to count the same once more (`measures`). Number of rows and text
# of the key become one number, which goes out in pieces of seven bytes: a count on the wire is a number of 64 bits.

HOT_ROWS = 10_000
"""A key with fewer rows in a batch is not reported: they take less than a second."""
HOT_SHARE = 0.1
"""A key with a smaller share of an operator's rows is not reported."""
_TEXT_BYTES = 56
_PIECE_BITS = 56
_PIECE = (1 << _PIECE_BITS) - 1
_BUCKETS = 1 << 12


def hottest(inputs: Mapping[int, pa.Table]) -> int | None:
    """Rows and text of the key with the most rows, as one number; None: none has many.

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
    return packed_key(count, next(filter(None, texts), ""))


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


def packed_key(rows: int, text: str) -> int:
    """Rows and text of a key as one number."""
    content = text.encode("utf-8", "replace")
    if len(content) > _TEXT_BYTES:
        content = (content[: _TEXT_BYTES - 3].decode("utf-8", "ignore") + "…").encode()
    return rows | int.from_bytes(content, "little") << _PIECE_BITS


def unpacked_key(number: int) -> tuple[int, str]:
    """The rows and the text of `packed_key`.

    >>> unpacked_key(packed_key(12_000, "customer 7"))
    (12000, 'customer 7')
    """
    text = number >> _PIECE_BITS
    return number & _PIECE, text.to_bytes(-(-text.bit_length() // 8), "little").decode("utf-8", "replace")


def key_pieces(number: int) -> Iterator[int]:
    """The number as counts, each of which has its place in its highest byte."""
    place = 0
    while number or not place:
        yield place << _PIECE_BITS | number & _PIECE
        number, place = number >> _PIECE_BITS, place + 1


def of_piece(count: int) -> int:
    """The part of the number that a piece has; the sum of all is the number.

    >>> sum(map(of_piece, key_pieces(1 << 200))) == 1 << 200
    True
    """
    return (count & _PIECE) << _PIECE_BITS * (count >> _PIECE_BITS)


# The columns of formats that no record has, of the first batches behind a start: the driver warns of them, once.

ABSENT_PROPERTY = "watersmeet.absent"
"""The job's property that asks tasks for them."""
_REPORT_BYTES = 800


def report_number(report: Report) -> int:
    """A report as one number, with as many names as its pieces can hold."""
    records, absent, others = report
    content = json.dumps(report, ensure_ascii=False).encode()
    if len(content) <= _REPORT_BYTES:
        return int.from_bytes(content, "little")
    return report_number((records, absent[: max(1, len(absent) - 1)], others[: len(absent) - 1]))


def report_of(number: int) -> Report:
    """The report of a number, as far as it can be read: pieces of two runs of a task are of no use.

    >>> report_of(report_number((3, ["nmae"], ["name"])))
    (3, ['nmae'], ['name'])
    """
    try:
        records, absent, others = json.loads(number.to_bytes(-(-number.bit_length() // 8), "little"))
    except (ValueError, TypeError):
        return 0, (), ()
    return records, absent, others


# How old records are when their batch begins, as a histogram, of which their latency is made behind the batch.
#
# A task that runs again has to count the same once more (`measures`), so no task asks its own clock: the driver says
# with a property of the job when the batch began. The time between the begin and the outputs is added where it is
# known. A bucket is an eighth of a doubling, so an age is known to 5 percent, and a latency, which is put into a bucket
# again, to 9.

PROPERTY = "watersmeet.begun_ms"
"""The job's property that says when the batch began, in ms since 1970."""
_STEPS = 8
"""Buckets for each doubling."""


def begun_ms() -> int | None:
    """When the batch of this task began; None: nobody says it."""
    text = process.job_property(PROPERTY)
    return int(text) if text else None


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


# Counts of workers in a batch beside dropped records: records, times, rows of tables, memory.
#
# Everything is known without reading state, and costs a number or a scan of one column for some ten thousand rows. A
# count leaves a task as a count of dropped records does (`wire`): a row without blob, with the number of the measure as
# its port, and the place that counted as its label. A task that runs again counts the same once more.

CONSUMED, PRODUCED = "consumed", "produced"
"""Records of a source; of a sink."""
PROCESSED, FORWARDED = "processed", "forwarded"
"""Records that an operator was given; that it gave."""
ROWS, BYTES = "rows", "bytes"
"""Of a table's range of hashes, as its manifest says: overwritten rows that are not merged yet, and tombstones, count.
"""
STREAM_TIME, LATENESS, LATE = "stream_time", "lateness", "late"
"""Of a source, in ms: the largest timestamp; how far behind the time of its partition a record came at most, and all of
them together."""
AGE, BEGUN = "age", "begun"
"""Records of a source by their age at the begin of the batch, in buckets (`ages`); when the batch began, in ms."""
MEMORY = "memory"
"""Resident bytes of the process that ran a level."""
SENT = "sent"
"""Bytes of the blobs that packing and levels have made."""
HOT_KEY = "hot_key"
"""Of an operator: rows and text of a key that has many of them, in pieces (`hot_keys`)."""

ABSENT = "absent"
"""Of a source's keys or values, in pieces as a hot key: the columns of their format that no record of a task has."""


IN_PIECES = (HOT_KEY, ABSENT)
_OF_SOURCES = (CONSUMED, STREAM_TIME, LATENESS, LATE, AGE)
_COUNT_BITS = 40


def aged(count: int) -> tuple[int, int]:
    """The bucket, and the number of records in it, of a count of `AGE`."""
    return count >> _COUNT_BITS, count & ((1 << _COUNT_BITS) - 1)


class Measure(NamedTuple):
    """The counted things: of which node, and of which of its parts (operators, tables)."""

    kind: str
    node: str = ""
    part: str = ""


Tally = Counter[Measure]
"""What one place has counted in a batch."""
WireCount = tuple[int, int, None, int]
WireRow = tuple[int, int, bytes | None, int]
"""Label, port, blob, count."""
_OF_RANGES = (ROWS, BYTES, HOT_KEY)


def into_task(tally: Tally, task: Tally) -> Tally:
    """The sizes of a label's tables, and its hot keys; all else that it has counted is added to its task's."""
    for measure, count in tally.items():
        if measure.kind == MEMORY:
            task[measure] = max(task[measure], count)
        elif measure.kind not in _OF_RANGES:
            task[measure] += count
    return Tally({measure: count for measure, count in tally.items() if measure.kind in _OF_RANGES})


@dataclass(frozen=True)
class Measures:
    """The counts of a plan's workers."""

    first: int  # number of the first measure: those of dropped records come before
    names: tuple[Measure, ...]  # by number, from `first` on
    sinks: Mapping[int, str]  # name of the sink of the records on a port
    # (operator, side) with records that every shard gets; their first shard counts them
    copies: frozenset[tuple[int, int]]

    @classmethod
    def of(cls, physical: Physical, first: int) -> Measures:
        """The measures of a plan."""
        # what becomes dead letters is read by the source whose these are
        sources = [source.name for source in physical.plan.sources if source.dead_letters_of is None]
        names = [Measure(kind, source) for source in sources for kind in _OF_SOURCES]
        names += [Measure(ABSENT, source, part) for source in sources for part in ("key", "value")]
        for operator in physical.operators:
            names += [Measure(kind, operator.node, operator.stem) for kind in (PROCESSED, FORWARDED, HOT_KEY)]
            names += [Measure(kind, operator.node, table.name) for table in operator.stored for kind in (ROWS, BYTES)]
        ports = {physical.sink_port(at): sink for at, (_, sink) in enumerate(physical.sink_edges)}
        names += [Measure(PRODUCED, sink) for sink in physical.sinks]
        copies = frozenset((edge.target, edge.side) for edge in physical.edges if edge.reads.broadcast)
        return cls(first, (*dict.fromkeys(names), Measure(MEMORY), Measure(BEGUN), Measure(SENT)), ports, copies)

    @cached_property
    def _numbers(self) -> dict[Measure, int]:
        return {measure: number for number, measure in enumerate(self.names, self.first)}

    def wire(self, tally: Tally, place: int) -> Iterator[WireCount]:
        """The counts of one place, a task or a label, as wire rows."""
        for measure, count in tally.items():
            if measure.kind == AGE:
                # a row for each bucket, all of them of one measure
                count, measure = int(measure.part) << _COUNT_BITS | count, measure._replace(part="")
            for piece in key_pieces(count) if measure.kind in IN_PIECES else (count,):
                yield place, self._numbers[measure], None, piece

    def read(self, number: int) -> Measure:
        return self.names[number - self.first]

    def produced(self, routed: Iterable[RoutedBatch], tally: Tally) -> Iterator[RoutedBatch]:
        """Routed batches as they come, those on their way to sinks counted."""
        for batch in routed:
            sink = self.sinks.get(batch.port)
            if sink is not None:
                tally[Measure(PRODUCED, sink)] += len(batch.rows)
            yield batch

    def sent(self, rows: Iterable[WireRow], tally: Tally) -> Iterator[WireRow]:
        """Wire rows as they come, with the bytes of their blobs counted."""
        size = 0
        for row in rows:
            size += len(row[2] or b"")
            yield row
        tally[Measure(SENT)] += size

    def processed(self, operator: Operator, shard: int, inputs: Mapping[int, pa.Table], tally: Tally) -> None:
        """Count the records of an operator; rows of time, and rows for lookups only, are no records."""
        exclusive = {
            side: rows for side, rows in inputs.items() if side >= 0 and (operator.id, side) not in self.copies
        }
        counted = {side: rows for side, rows in inputs.items() if side >= 0} if shard == 0 else exclusive
        records = sum(len(rows) - int(silent_rows(rows).sum()) for rows in counted.values())
        tally[Measure(PROCESSED, operator.node, operator.stem)] += records
        hot_key = hottest(exclusive)
        if hot_key is not None:
            tally[Measure(HOT_KEY, operator.node, operator.stem)] = hot_key

    def forwarded(self, operator: Operator, results: Iterable[pa.Table], tally: Tally) -> Iterator[pa.Table]:
        """An operator's results as they come, counted."""
        for rows in results:
            tally[Measure(FORWARDED, operator.node, operator.stem)] += len(rows) - int(silent_rows(rows).sum())
            yield rows

    def note_state(self, operator: Operator, shard: int, state: State, tally: Tally) -> None:
        """Note how large an operator's tables are behind its commit, and the process."""
        for table in (candidate for candidate in operator.stored if shard == 0 or not candidate.everywhere):
            entry = state.manifest.tables.get(table.name)
            pieces = () if entry is None else tuple(piece for level in entry.levels for piece in level.pieces())
            tally[Measure(ROWS, operator.node, table.name)] = sum(piece.rows for piece in pieces)
            tally[Measure(BYTES, operator.node, table.name)] = sum(piece.size for piece in pieces)
        tally[Measure(MEMORY)] = own_bytes()

    def absent(self, reports: Iterable[tuple[Deserializer, Report]], roots: Mapping[int, str], tally: Tally) -> None:
        """Note the columns of sources' formats that no record has, where the driver asks for them."""
        if process.job_property(ABSENT_PROPERTY):
            for part, report in reports:
                tally.setdefault(Measure(ABSENT, roots[part.root], part.part), report_number(report))

    def consumed(self, frame: pa.Table, roots: Mapping[int, str], letters: Mapping[int, str], tally: Tally) -> None:
        """Count what a source stage has read, and note its times.

        Parameters
        ----------
        frame : its rows, stamped.
        roots : name of each source, by its number; none where the rows are an operator's.
        letters : of those that are dead letters the name of the source that has read them, which no longer has them.
        """
        if not roots or not len(frame):
            return
        start_ms = begun_ms()
        if start_ms is not None:
            tally[Measure(BEGUN)] = start_ms
        root, order_ts, ts = ints(frame, "srcpart") >> PARTITION_BITS, ints(frame, "order_ts"), ints(frame, "ts")
        for number, name in roots.items():
            tally[Measure(CONSUMED, letters.get(number, name))] += int((root == number).sum())
            timed = bools(frame, f"root:{number}") & (order_ts >= 0)
            if number in letters or not timed.any():
                continue
            delays = np.maximum(order_ts[timed] - ts[timed], 0)
            for kind, value in ((STREAM_TIME, order_ts[timed].max()), (LATENESS, delays.max())):
                measure = Measure(kind, name)
                tally[measure] = max(tally.get(measure, int(value)), int(value))
            tally[Measure(LATE, name)] += int(delays.sum())
            for bucket, count in buckets_of(start_ms - ts[timed]).items() if start_ms is not None else ():
                tally[Measure(AGE, name, str(bucket))] += count


# Keys and values that an output's format may refuse, written before the last exchange: so a refused row can end there.
#
# Behind it rows are in the tasks that write them, where nothing can be sent elsewhere any more. Only where what is
# refused is not to fail the query is anything written here, and then not a second time: bytes travel in place of
# values. Law 6: what is refused is counted, or a dead letter; it is never written as something else.

_VALUE = "encoded_value"


@dataclass(frozen=True)
class Encoding:
    """The columns of one output that are encoded before the last exchange."""

    serdes: Mapping[str, Serde]  # by part, key or value, what writes it
    outlives: bool  # whether a row that is refused ends, and does not fail the query
    ships: bool  # whether the bytes travel on; False: the values do, as a test driver shows them
    output: str  # its name, as the user has it

    def __call__(self, frame: pa.Table, outlet: Outlet, slots: int, drops: DeadLetterWriter) -> tuple[pa.Table, Outlet]:
        """The rows of the output, those without that are refused, and where they go."""
        part = frame.select(outlet_columns(frame, outlet, slots))
        part = part.filter(pa.array(bools(frame, outlet.active))) if outlet.active else part
        names, errors = {"key": outlet.key, "value": outlet.value}, dict[int, EncodingError]()
        encoded: dict[str, pa.Array] = {}
        for name, serde in self.serdes.items():
            encoded[name], refused = _encoding_written(serde, array(part, names[name]), outlives=self.outlives)
            # of a row of which neither can be written, the value is complained of
            errors |= refused
        if self.ships:
            for name, values in encoded.items():
                part = part.append_column(ENCODED_KEY if name == "key" else _VALUE, values)
        if errors:
            drops.unencodable(outlet, part, errors, self.output)
            part = without(part, errors)
        return part, self._onward(outlet)

    def _onward(self, outlet: Outlet) -> Outlet:
        if not self.ships:
            return replace(outlet, active=None)
        extras = (*outlet.extras, (ENCODED_KEY, ENCODED_KEY)) if "key" in self.serdes else outlet.extras
        return replace(outlet, active=None, value=_VALUE if "value" in self.serdes else outlet.value, extras=extras)


Encodings = Mapping[int, Encoding]
"""By the port of an output's rows."""


def encodings_of(physical: Physical, sinks: Iterable[SinkNode], *, ships: bool = True) -> Encodings:
    """The columns that are encoded before the last exchange.

    Parameters
    ----------
    sinks : of the plan, with the schemas that were settled.
    ships : whether bytes travel on. Otherwise nothing writes them, and what a format refuses is found here alone.
    """
    parts, encodings = encoded_parts(physical, failing=not ships), dict[str, Encoding]()
    for sink in sinks:
        if sink.name in parts:
            serdes = {part: _serde(sink, part) for part in parts[sink.name]}
            encodings[sink.name] = Encoding(serdes, physical.plan.within.outlives(sink.name), ships, sink.output)
    ports = {physical.sink_port(at): sink for at, (_, sink) in enumerate(physical.sink_edges)}
    return {port: encodings[sink] for port, sink in ports.items() if sink in encodings}


def _serde(sink: SinkNode, part: str) -> Serde:
    form, kind = Format.of(getattr(sink.target, part)), getattr(sink.shape, part)
    check_writable(form, kind, f"{part}s of the sink {sink.target.name!r}")
    return serde_of(form, kind)


def packed(
    frame: pa.Table,
    outlets: Sequence[Outlet],
    shards: ShardCounts,
    slots: int,
    drops: DeadLetterWriter,
    encodings: Encodings,
) -> Iterator[RoutedBatch]:
    """The frame's rows as routed batches, those of outputs written as far as they are here."""
    if not encodings:
        yield from pack(frame, outlets, shards, slots, drops)
        return
    for outlet in outlets:
        encoding = encodings.get(outlet.port)
        rows, onward = (frame, outlet) if encoding is None else encoding(frame, outlet, slots, drops)
        yield from pack(rows, (onward,), shards, slots, drops)


def _encoding_written(serde: Serde, values: pa.Array, *, outlives: bool) -> tuple[pa.Array, dict[int, EncodingError]]:
    """The bytes of values, and why some are refused, which have none."""
    try:
        return serde.write(values), {}
    except EncodingError:
        if not outlives:
            raise
        errors = failing(lambda start, end: serde.write(values.slice(start, end - start)), len(values), EncodingError)
        places = np.arange(len(values))
        fine = values.take(pa.array(places, mask=np.isin(places, list(errors))))
        return serde.write(fine), errors


# Functions that are shown rows on their way (`peek`).


@dataclass(frozen=True)
class PeekCall:
    """A Python function and the columns it is shown."""

    action: Any
    key: str
    value: str
    active: str | None


def show(frame: pa.Table, peeks: Sequence[PeekCall], owner: str, failed: dict[int, Exception] | None = None) -> None:
    """Show the functions their rows.

    Parameters
    ----------
    owner : the node before them, as an error names it.
    failed : takes rows for which one raises, and what; no other is shown them then. None: that is raised.
    """
    for peek in peeks:
        active = bools(frame, peek.active) if peek.active else np.ones(len(frame), dtype=np.bool_)
        indices = np.flatnonzero(active)
        if failed:
            indices = indices[~np.isin(indices, list(failed))]
        rows = frame.take(pa.array(indices)) if len(indices) < len(frame) else frame
        keys, values = python_values(rows.column(peek.key)), python_values(rows.column(peek.value))
        # A plain Python function per record is what peek is for.
        for row, key, value in zip(indices.tolist(), keys, values, strict=True):
            try:
                peek.action(key, value)
            except Exception as error:
                with_owner(error, owner)
                if failed is None:
                    raise
                failed[row] = error


def rooted(frame: pa.Table, roots: Iterable[int]) -> pa.Table:
    """The frame with a column for each root, by number, that marks the rows which are its own and have not ended."""
    root = array(frame, "root").fill_null(-1).to_numpy()
    fine = ints(frame, "reason") == 0 if "reason" in frame.column_names else np.ones(len(frame), dtype=np.bool_)
    for number in roots:
        frame = frame.append_column(f"root:{number}", pa.array((root == number) & fine))
    return frame


# The column `sequence` of outputs that are no topics: of two changes of a key, the later has the higher number.
#
# Law 2: rows of a key leave in order of position, all by one task in a batch, and batches follow each other; so the
# number is that of the batch, then that of the row in its task. A batch that is run again gives the same numbers.

SEQUENCE = "sequence"
ROW_BITS = 32
_BATCH = "streaming.sql.batchId"
"""Spark's name for the number of the batch, in what it tells its tasks."""


class Numbers:
    """The numbers of one task's rows.

    Parameters
    ----------
    batch : number of the batch; None: the number that the task gets, if any.
    """

    def __init__(self, batch: int | None = None) -> None:
        if batch is None:
            batch = int(process.job_property(_BATCH) or 0)
        self._next = batch << ROW_BITS

    def of(self, rows: int) -> pa.Array:
        start, self._next = self._next, self._next + rows
        return pa.array(np.arange(start, self._next, dtype=np.int64))


# The common settings of every packing and every level of a query, as one value that is sent to the workers.


@dataclass(frozen=True)
class Common:
    """The same value wherever rows of a query are packed."""

    labels: Labels  # how (target, shard) are labelled
    metrics: tuple[tuple[str, str], ...]  # (node, reason) of each metric number
    measures: Measures | None = None  # what is counted beside dropped records; None: nothing
    dead_letters: DeadLetterRoutes | None = None  # routes of the dead letters of rows that end; None: there are none
    encodings: Encodings = field(default_factory=dict)  # what is written of outputs before they have the rows
