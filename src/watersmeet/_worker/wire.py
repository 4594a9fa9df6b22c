"""The rows that Spark shuffles: (label, port, blob), and what labels and ports mean.

A **label** stands for (target, shard), target being an operator or, behind the operators, an exit to a sink.
A **port** is an edge's number on the way in, -1 - operator on the way out. Every task of the first stage also
sends an **end** to every task of the last one: with its label, the highest of all, it stands behind all other rows once
they are sorted, so its reader has read everything (docs/decisions/outputs.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from watersmeet._engine.aggregates.folds import with_owner
from watersmeet._engine.exchange import (
    ENCODED_KEY,
    Outlet,
    RoutedBatch,
    ShardCounts,
    outlet_columns,
    route_rows,
    with_copies,
)
from watersmeet._engine.rows import array, bools, failing, ints, python_values, without
from watersmeet._plan.logical import letter_sources
from watersmeet._plan.nodes import SinkNode
from watersmeet._plan.physical import Physical
from watersmeet._worker.counts import SENT, Counts, Measure, Measures
from watersmeet._worker.ended_rows import DeadLetterRoutes, DeadLetterWriter
from watersmeet._worker.formats.formats import check_writable, family_of, format_for, refuses, serde_of
from watersmeet._worker.formats.serdes import Serde
from watersmeet._worker.process import batch_number, job_property
from watersmeet._worker.task_reports import Reports
from watersmeet.errors import ConfigError, EncodingError
from watersmeet.io.formats import Format, FormatName

WIRE = StructType(
    [
        StructField("label", IntegerType(), False),
        StructField("port", IntegerType(), False),
        StructField("blob", BinaryType(), True),
    ]
)
WireRow = tuple[int, int, bytes]


_SEED = 42
END = 2**31 - 1
"""Port of an end."""


def output_port(operator: int) -> int:
    return -1 - operator


def operator_of(port: int) -> int:
    return -1 - port


def counting_bytes(rows: Iterable[WireRow], counts: Counts) -> Iterator[WireRow]:
    """Wire rows as they come, with the bytes of their blobs counted."""
    size = 0
    for row in rows:
        size += len(row[2])
        yield row
    counts.sums[Measure(SENT)] += size


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
        if label in self.ends:
            return self.targets, 0
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
    """The labels of each table's state: those of its store's owner."""
    by_node: dict[str, dict[str, list[int]]] = {}
    for operator in physical.operators:
        stores = physical.stores_of(operator.id)
        ranges = {name: labels.of_target(physical.host(store.owner)) for name, store in stores}
        by_node.setdefault(operator.node, {}).update(ranges)
    return by_node


def _ranges(physical: Physical, existing: Addresses) -> dict[int, Sequence[int]]:
    """The labels under which the state of an operator lies, by the operator's number; of those that have some."""
    assigned: dict[int, Sequence[int]] = {}
    for store in physical.stores:
        if physical.operators[store.owner].head is not None:
            continue  # it lies in the shards of another operator
        ranges = existing.get(physical.operators[store.owner].node, {}).get(store.schema.name, ())
        # what two have shared until now, and do not from now on, goes on where it is for the first of them
        if ranges and ranges not in assigned.values():
            assigned.setdefault(store.owner, ranges)
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
    """By the name of an output, key or value, if they are written before the last exchange.

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
        ends = [sink for sink in sinks if sink.place.formats and (failing or policies.tolerates_errors(sink.name))]
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
            if written is not None and family_of(written).is_left_to_spark(kind):
                parts[sink.name] = (*parts.get(sink.name, ()), part)
    return parts


def _may_refuse(form: Format | FormatName | None) -> bool:
    return form is not None and refuses(Format.of(form))


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
    tolerates_errors: bool  # whether a row that is refused ends, and does not fail the query
    ships: bool  # whether the bytes travel on; False: the values do, as a test driver shows them
    output: str  # its name, as the user has it

    def __call__(self, frame: pa.Table, outlet: Outlet, slots: int, drops: DeadLetterWriter) -> tuple[pa.Table, Outlet]:
        """The rows of the output, those without that are refused, and where they go."""
        part = frame.select(outlet_columns(frame, outlet, slots))
        part = part.filter(pa.array(bools(frame, outlet.active))) if outlet.active else part
        names, errors = {"key": outlet.key, "value": outlet.value}, dict[int, EncodingError]()
        encoded: dict[str, pa.Array] = {}
        for name, serde in self.serdes.items():
            encoded[name], refused = _encoding_written(serde, array(part, names[name]), tolerant=self.tolerates_errors)
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
            tolerates_errors = physical.plan.within.tolerates_errors(sink.name)
            encodings[sink.name] = Encoding(serdes, tolerates_errors, ships, sink.output)
    ports = {physical.sink_port(at): sink for at, (_, sink) in enumerate(physical.sink_edges)}
    return {port: encodings[sink] for port, sink in ports.items() if sink in encodings}


def _serde(sink: SinkNode, part: str) -> Serde:
    form, kind = Format.of(getattr(sink.target, part)), getattr(sink.shape, part)
    check_writable(form, kind, f"{part}s of the sink {sink.target.name!r}")
    return serde_of(form, kind)


def encode_and_route(
    frame: pa.Table,
    outlets: Sequence[Outlet],
    shards: ShardCounts,
    slots: int,
    drops: DeadLetterWriter,
    encodings: Encodings,
) -> Iterator[RoutedBatch]:
    """The frame's rows as routed batches, those of outputs written as far as they are here."""
    if not encodings:
        yield from route_rows(frame, outlets, shards, slots, drops)
        return
    for outlet in outlets:
        encoding = encodings.get(outlet.port)
        rows, onward = (frame, outlet) if encoding is None else encoding(frame, outlet, slots, drops)
        yield from route_rows(rows, (onward,), shards, slots, drops)


def _encoding_written(serde: Serde, values: pa.Array, *, tolerant: bool) -> tuple[pa.Array, dict[int, EncodingError]]:
    """The bytes of values, and why some are refused, which have none."""
    try:
        return serde.write(values), {}
    except EncodingError:
        if not tolerant:
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


class Numbers:
    """The numbers of one task's rows.

    Parameters
    ----------
    batch : number of the batch; None: the number that the task gets, if any.
    """

    def __init__(self, batch: int | None = None) -> None:
        self._next = ((batch_number() or 0) if batch is None else batch) << ROW_BITS

    def of(self, rows: int) -> pa.Array:
        start, self._next = self._next, self._next + rows
        return pa.array(np.arange(start, self._next, dtype=np.int64))


# The common settings of every packing and every level of a query, as one value that is sent to the workers.


@dataclass(frozen=True)
class WireSettings:
    """The same value wherever rows of a query are packed."""

    labels: Labels  # how (target, shard) are labelled
    measures: Measures  # how records are counted
    reports: Reports | None = None  # takes what tasks report to the driver; None: nobody does
    dead_letters: DeadLetterRoutes | None = None  # routes of the dead letters of rows that end; None: there are none
    encodings: Encodings = field(default_factory=dict)  # what is written of outputs before they have the rows
    tasks: int | None = None  # how many tasks an exchange has to have, where the user starts the query

    def check_tasks(self) -> None:
        """Raise where exchanges have another number of tasks than the labels are for; tasks know Spark's settings."""
        actual = None if self.tasks is None else job_property("spark.sql.shuffle.partitions")
        if actual is not None and actual != str(self.tasks):
            raise ConfigError(
                f"A frame for {self.tasks} tasks is in a query with spark.sql.shuffle.partitions={actual}.",
                hint=f"Start the query in the session that made the frame, and leave the setting at {self.tasks}.",
            )
