"""The exchange: a stage's rows cut into routed batches by (operator, shard), and the times and paths they carry.

Keeps laws 2 and 5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.keys import hash_keys
from watersmeet._engine.row_sizes import SLICE_BYTES
from watersmeet._engine.rows import (
    HELD_KEY,
    PARTITION_BITS,
    ROOT_POSITION,
    Bools,
    Int64s,
    array,
    bools,
    held_keys,
    ints,
    path_columns,
    record_place,
    valid,
    visible_columns,
)
from watersmeet._engine.time import bounds_by_case, clock_row, last_times, time_moves
from watersmeet._plan.declaration import FLAG, RowEnd, row_ends
from watersmeet._plan.physical import Edge, Flow, Operator, Physical
from watersmeet._plan.reasons import FUNCTION_ERROR, NULL_KEY, NULL_VALUE, OUT_OF_ORDER, Reason
from watersmeet.errors import SourceError
from watersmeet.windows import LONGEST_MS

# Which shard a key belongs to: shards are contiguous ranges of the hash (law 10).
#
# A range can be split, merged with its neighbour or read in slices without a look at any other shard's rows, which a
# remainder of the hash would not allow. The rule is written into checkpoints, since a shard's state holds the keys of
# its range and no others.

_SIGN, _HALF = np.uint64(1 << 63), np.uint64(32)


@dataclass(frozen=True)
class ShardCounts:
    """How many shards each target of an exchange has, an operator or an exit.

    >>> ShardCounts(8, {1: 2}).of_case(1, 0), ShardCounts(8, {1: 2}).of_case(1, 3), ShardCounts(8).of_case(1, 0)
    (range(0, 2), range(24, 26), range(0, 8))
    """

    usual: int  # of all but a few targets; the shards of a further case are numbered behind so many
    few: Mapping[int, int] = field(default_factory=dict)  # of those that have fewer, by their numbers

    def of(self, target: int) -> int:
        return self.few.get(target, self.usual)

    def of_case(self, target: int, case: int) -> range:
        """The numbers of the target's shards in a case; a query has the case 0 alone."""
        return range(case * self.usual, case * self.usual + self.of(target))


def with_copies(operators: Iterable[Operator], shards: int, tasks: int) -> dict[int, int]:
    """The shards of operators that keep a global table: one in each task, since each shard has a copy of the table."""
    return {
        operator.id: min(shards, tasks) for operator in operators if any(table.everywhere for table in operator.tables)
    }


def shard_of(hashes: Int64s, shards: int) -> Int64s:
    """The shard of each hash: shard s of n holds the hashes from -2**63 + s * 2**64 / n on, in steps of 2**32.

    >>> shard_of(np.array([-(2**63), -1, 0, 2**63 - 1]), 2).tolist()
    [0, 0, 1, 1]
    """
    # the upper half of the bits alone, so that the product fits into 64
    upper = (hashes.view(np.uint64) ^ _SIGN) >> _HALF
    return ((upper * np.uint64(shards)) >> _HALF).view(np.int64)


def lowest_of(shard: int, shards: int) -> int:
    """The smallest hash of a shard; of the shard behind the last one the number behind the largest hash.

    >>> lowest_of(1, 2), lowest_of(0, 3) == -(2**63), lowest_of(3, 3) == 2**63
    (0, True, True)
    """
    return -(-(shard << 32) // shards << 32) - (1 << 63)


def in_shards(shard: Int64s, hashes: Int64s | None) -> Int64s:
    """The order of rows by their shards; by their hashes where these are given, which is the same in finer steps.

    Rows by hash are sliced without copies (`row_sizes.slices`), but take ten times as long to sort: 0.07 us each.
    """
    if hashes is not None:
        return np.argsort(hashes, kind="stable")
    # small numbers sort by radix
    small = shard.astype(np.uint16) if len(shard) and shard.max() < 65_536 else shard
    return np.argsort(small, kind="stable")


# Time by the records of a batch (law 2).

SNAPSHOT = -1
"""order_ts of a snapshot's rows: no record's time is below 0."""


@dataclass
class Clock:
    """Running maximum of event time per source partition of the batch: order_ts (law 2)."""

    latest: dict[int, int] = field(default_factory=dict)

    def stamp(self, srcpart: Int64s, ts: Int64s, movers: Bools) -> Int64s:
        """order_ts of rows in order of offset; only the rows that `movers` marks move the time."""
        result = np.array(ts)
        # most frames have rows of one partition alone
        single = len(srcpart) > 0 and srcpart.min() == srcpart.max()
        for part in srcpart[:1] if single else np.unique(srcpart):
            rows = slice(None) if single else np.flatnonzero(srcpart == part)
            floor = self.latest.get(int(part), np.iinfo(np.int64).min)
            moving = np.where(movers[rows], ts[rows], np.iinfo(np.int64).min)
            result[rows] = np.maximum(np.maximum.accumulate(moving), floor)
            self.latest[int(part)] = int(result[rows][-1])
        return result


def refuse_far(frame: pa.Table, roots: Mapping[int, str]) -> None:
    """Refuse records of the sources so late that the end of a window may be more than 64 bits hold.

    Parameters
    ----------
    frame : columns root, partition or srcpart, offset, ts and reason; those that do not pass are not looked at.
    roots : name of each root number.
    """
    far = np.flatnonzero((ints(frame, "ts") > LONGEST_MS) & (ints(frame, "reason") == 0))
    if len(far):
        row = int(far[0])
        root, ts = (frame.column(name)[row].as_py() for name in ("root", "ts"))
        raise SourceError(
            f"The timestamp of a record of {roots.get(root, root)} is too large.",
            given=f"{record_place(frame, row)}: {ts} ms, {LONGEST_MS} allowed",
            hint="Timestamps are milliseconds since 1970: microseconds are divided by 1,000, nanoseconds by 1,000,000.",
        )


COUNTED, TIMED_CALLS, TIMED = OWN = ("counted", "timed_calls", "timed_ns")
"""The numbers of a processor's own: of counters; calls and nanoseconds of timers."""


class DropCounts(Counter[tuple[str, str]]):
    """Counts of dropped records by (node, reason).

    Attributes
    ----------
    numbers : numbers of processors' own, by kind, node and name.
    """

    def __init__(self, *counts: Any) -> None:
        super().__init__(*counts)
        self.numbers = Counter[tuple[str, str, str]]()

    def add_numbers(self, node: str, numbers: Mapping[tuple[str, str], int]) -> None:
        """Take the numbers of a processor's own, by kind and name."""
        self.numbers.update({(kind, node, name): number for (kind, name), number in numbers.items()})

    def end_rows(self, node: str, reason: Reason, rows: pa.Table, at: Int64s, outlet: Outlet | None = None) -> None:
        """Take rows that end.

        Parameters
        ----------
        node, reason : where, and why.
        rows, at : a frame, and which of its rows end.
        outlet : the outlet that they were on their way to; it names the columns of their keys and values. None: they
            are an operator's.
        """
        self[(node, reason.name)] += len(at)

    def fail_rows(self, node: str, rows: pa.Table, errors: Mapping[int, Exception], where: str) -> None:
        """Take rows for which a function raises.

        Parameters
        ----------
        node : the node of their results, or the input.
        rows, errors : the rows, and by the number of one why it ends.
        where : the function, as text.
        """
        self[(node, FUNCTION_ERROR.name)] += len(errors)


@dataclass(frozen=True)
class Move:
    """The addition of an outlet to one path slot: a constant, and an index column times a factor."""

    slot: int
    constant: int
    index: str | None = None
    factor: int = 0


@dataclass(frozen=True)
class LookupOrigin:
    """From where lookups see an outlet's rows."""

    moves: tuple[Move, ...] = ()  # what is added for that position
    from_root: bool = False  # whether it starts from the root's own `v` columns instead of its path


@dataclass(frozen=True)
class Ends:
    """Which of an outlet's rows end there, and which of them are counted."""

    rows: frozenset[RowEnd] = frozenset()  # rows that end
    counts_null_key: bool = True  # False where a null key was counted before (where a table begins)
    keeps_time: bool = False  # whether records that end move time all the same
    # (column, reason): rows with a value but null there are counted, and pass
    counts_null: tuple[str, Reason] | None = None
    # column that marks rows which end and are counted: changes that are not the latest of their key
    late: str | None = None


@dataclass(frozen=True)
class Route:
    """How the shard of an outlet's rows is found, and what goes to other shards."""

    hash: str | None = None  # column that holds the hash of the key already; None: it is computed
    shard_by: str | None = None  # column to hash for the shard; None: the key
    by_window: bool = False  # whether keys are of windows: rows go by the key alone, with the window's ends beside it
    broadcast: bool = False  # whether rows go to every shard
    bounds_port: int | None = None  # port on which every shard gets the time bounds of the rows; None: they do not
    nulls_reach: bool = False  # whether rows without a value count for that


@dataclass(frozen=True)
class Outlet:
    """Where a stage's frame holds the rows of an edge, and where they go."""

    node: str  # name that its drops are counted under
    port: int  # the edge's number; the receiver tells its sides apart by it
    target: int | None  # number of the operator or exit; None when rows are only counted
    # key, value, old: column names
    key: str
    value: str
    old: str | None = None
    active: str | None = None  # boolean column that marks its rows; None: all rows
    moves: tuple[Move, ...] = ()  # what it adds to the path
    seen: LookupOrigin | None = None  # from where lookups see its rows; None when that is not wanted
    stored_ts: bool = False  # whether its rows carry the timestamp that lookups see
    # column that marks rows which only say what lookups see (`Operator.emits`); None: there are none
    silent: str | None = None
    # (name on the edge, column) of what an operator needs beside key and value
    extras: tuple[tuple[str, str], ...] = ()
    ends: Ends = Ends()  # which rows end here
    route: Route = Route()  # which shard they go to
    flags: bool = False  # whether rows bring true in place of their values


@dataclass(frozen=True)
class RoutedBatch:
    """Rows of one edge for one shard of its operator (of a case, where there are several)."""

    target: int
    shard: int
    port: int
    rows: pa.Table


def stamp_sources(
    frame: pa.Table,
    outlets: Sequence[Outlet],
    clock: Clock,
    slots: int,
    first: Sequence[int] = (),
    *,
    snapshot: bool = False,
) -> pa.Table:
    """A source stage's frame with its position columns.

    Parameters
    ----------
    frame : columns root, partition, offset, ts and the outlets' own, in order of offset per partition.
    outlets : a row that none of them takes does not move time.
    first : roots with rows that come before all others and do not move time: global tables.
    snapshot : whether the rows are a table's snapshot: they stand before all others but those of global tables, and do
        not move time either.
    """
    at_once = np.isin(ints(frame, "root"), first)
    srcpart = (ints(frame, "root") << PARTITION_BITS) | ints(frame, "partition")
    if snapshot:
        order_ts = np.full(len(frame), SNAPSHOT, dtype=np.int64)
    else:
        order_ts = clock.stamp(srcpart, ints(frame, "ts"), time_movers(frame, outlets) & ~at_once)
        order_ts[at_once] = np.iinfo(np.int64).min
    frame = frame.drop_columns(["root", "partition"])
    frame = frame.append_column("order_ts", pa.array(order_ts)).append_column("srcpart", pa.array(srcpart))
    zeros = pa.array(np.zeros(len(frame), dtype=np.int64))
    for name in path_columns(slots):
        frame = frame.append_column(name, zeros)
    return frame


def stamp_piped(frame: pa.Table, outlets: Sequence[Outlet]) -> pa.Table:
    """The same for piped records, with their number as order_ts: with the time that each moves to, if it does."""
    return with_time(frame, time_movers(frame, outlets))


def with_time(frame: pa.Table, moving: Bools) -> pa.Table:
    time = np.where(moving, ints(frame, "ts"), np.iinfo(np.int64).min)
    return frame.append_column("time", pa.array(time))


def time_movers(frame: pa.Table, outlets: Sequence[Outlet]) -> Bools:
    """Which rows get anywhere, and so move time."""
    mask = np.zeros(len(frame), dtype=np.bool_)
    for outlet in outlets:
        mask |= _passing_mask(frame, outlet) if outlet.target is not None else False
    return mask


def number_rows(
    frame: pa.Table, order_columns: Sequence[str], *, changes: bool = False, partitioned: bool = False
) -> pa.Table:
    """All rows of a plain DataFrame's batch in order of its ordering columns, which become offsets.

    Parameters
    ----------
    changes : whether they are changes of a table; see `last_changes`.
    partitioned : whether they have several partitions, each with an order and with offsets of its own.
    """
    by = ["partition", *order_columns] if partitioned else order_columns
    ordered = frame.sort_by([(name, "ascending") for name in by])
    if changes and len(ordered):
        ordered = ordered.take(pa.array(last_changes(ordered, order_columns)))
    partitions = ints(ordered, "partition") if partitioned else None
    return with_offsets(ordered, order_columns, offsets_in(partitions, len(ordered)))


def offsets_in(partitions: Int64s | None, count: int) -> Int64s:
    """The offset of each row in its partition.

    Parameters
    ----------
    partitions : of rows that are in order of them; None: there is one.

    >>> offsets_in(np.array([0, 0, 7, 7, 7]), 5).tolist(), offsets_in(None, 3).tolist()
    ([0, 1, 0, 1, 2], [0, 1, 2])
    """
    places = np.arange(count, dtype=np.int64)
    if partitions is None or not count:
        return places
    starts = np.flatnonzero(np.append(True, partitions[1:] != partitions[:-1]))
    offsets: Int64s = places - np.repeat(starts, np.diff(np.append(starts, count)))
    return offsets


def last_changes(ordered: pa.Table, order_columns: Sequence[str]) -> Int64s:
    """Of rows in the order of commit, key and whether they put a row, the last one of each commit and key.

    Raises
    ------
    SourceError : a commit puts two rows of one key.
    """
    *group, puts = (ordered.column(name).combine_chunks() for name in order_columns)
    differs = np.zeros(max(len(ordered) - 1, 0), dtype=bool)
    for column in group:
        differs |= pc.fill_null(pc.not_equal(column[:-1], column[1:]), True).to_numpy(zero_copy_only=False)
    put = puts.to_numpy(zero_copy_only=False)
    twice = np.flatnonzero(~differs & put[:-1] & put[1:])
    if len(twice):
        version, key = (column[int(twice[0])].as_py() for column in group)
        raise SourceError(
            "A commit has two rows of one key: the columns of key= do not identify a row of the table.",
            given=f"commit {version}, key {key}",
            hint="Name all columns that do in wm.Changes(..., key=[...]); select_key behind it takes others.",
        )
    return np.flatnonzero(np.append(differs, True))


def with_offsets(ordered: pa.Table, order_columns: Sequence[str], offsets: Int64s) -> pa.Table:
    """Rows that are in order, with offsets in place of their ordering columns."""
    ordered, column = ordered.drop_columns(list(order_columns)), pa.array(offsets)
    at = ordered.schema.get_field_index("offset")
    return ordered.set_column(at, "offset", column) if at >= 0 else ordered.append_column("offset", column)


def route_rows(
    frame: pa.Table, outlets: Sequence[Outlet], shards: ShardCounts, slots: int, drops: DropCounts
) -> Iterator[RoutedBatch]:
    """The frame's rows as routed batches; rows that may not pass are counted in `drops`."""
    for outlet in outlets:
        rows = _select(frame, outlet, drops)
        if outlet.target is None or rows is None:
            continue
        part = frame.select(outlet_columns(frame, outlet, slots))
        part = part if len(rows) == len(frame) else part.take(pa.array(rows))
        if len(part):
            cases = ints(part, "case") if "case" in part.column_names else None
            edge = _as_edge(part, outlet, slots)
            if outlet.route.broadcast:
                yield from _copies(outlet, edge, shards, cases)
                continue
            shard_by = outlet.route.shard_by
            by = hash_keys(array(part, shard_by)) if shard_by else ints(edge, "hash")
            yield from _split(outlet, edge, by, shards, cases)
            yield from _time_bounds(outlet, edge, shards, slots, cases)


def _time_bounds(
    outlet: Outlet, edge: pa.Table, shards: ShardCounts, slots: int, cases: Int64s | None
) -> Iterator[RoutedBatch]:
    """The time bounds of the edge's rows, for every shard."""
    if outlet.target is None or outlet.route.bounds_port is None:
        return
    for case, steps in bounds_by_case(edge, cases, slots, nulls=outlet.route.nulls_reach):
        for shard in shards.of_case(outlet.target, case):
            yield RoutedBatch(outlet.target, shard, outlet.route.bounds_port, steps)


def _passing_mask(frame: pa.Table, outlet: Outlet) -> Bools:
    """Rows of the outlet that its operator will see, or that move its time."""
    mask = bools(frame, outlet.active) if outlet.active else np.ones(len(frame), dtype=np.bool_)
    if outlet.ends.keeps_time:
        return mask
    if "null_key" in outlet.ends.rows:
        mask = mask & valid(frame.column(outlet.key))
    if "null_value" in outlet.ends.rows:
        mask = mask & valid(frame.column(outlet.value))
    return mask


def _select(frame: pa.Table, outlet: Outlet, drops: DropCounts) -> Int64s | None:
    mask = bools(frame, outlet.active) if outlet.active else np.ones(len(frame), dtype=np.bool_)
    if outlet.silent and "silent" in outlet.ends.rows:
        mask = mask & ~bools(frame, outlet.silent)
    if outlet.ends.late:
        outdated = bools(frame, outlet.ends.late)
        drops.end_rows(outlet.node, OUT_OF_ORDER, frame, np.flatnonzero(mask & outdated), outlet)
        mask = mask & ~outdated
    if "null_key" in outlet.ends.rows:
        keyed = valid(frame.column(outlet.key))
        if outlet.ends.counts_null_key:
            drops.end_rows(outlet.node, NULL_KEY, frame, np.flatnonzero(mask & ~keyed), outlet)
        mask = mask & keyed
    if "null_value" in outlet.ends.rows:
        valued = valid(frame.column(outlet.value))
        drops.end_rows(outlet.node, NULL_VALUE, frame, np.flatnonzero(mask & ~valued), outlet)
        mask = mask & valued
    if outlet.ends.counts_null:
        column, reason = outlet.ends.counts_null
        unfit = mask & valid(frame.column(outlet.value)) & ~valid(frame.column(column))
        drops[(outlet.node, reason.name)] += int(unfit.sum())
    return np.flatnonzero(mask) if outlet.target is not None else None


def outlet_columns(frame: pa.Table, outlet: Outlet, slots: int) -> list[str]:
    """The columns of a frame that an outlet's rows take."""
    names = [*ROOT_POSITION, *path_columns(slots), "ts", outlet.key, outlet.value]
    names += [outlet.old] if outlet.old else []
    names += [name for name in ("headers", HELD_KEY) if name in frame.column_names]
    names += ["stored_ts"] if outlet.stored_ts else []
    names += [outlet.silent] if outlet.silent else []
    names += ["case"] if "case" in frame.column_names else []
    names += [column for _, column in outlet.extras]
    names += [name for name in (outlet.route.hash, outlet.route.shard_by) if name]
    moves = (*outlet.moves, *(outlet.seen.moves if outlet.seen is not None else ()))
    names += [m.index for m in moves if m.index]
    names += visible_columns(slots) if outlet.seen is not None and outlet.seen.from_root else ()
    return list(dict.fromkeys(names))


def _as_edge(part: pa.Table, outlet: Outlet, slots: int) -> pa.Table:
    """The columns that the receiver expects (`OperatorContext.side_schema`)."""
    columns = {name: part.column(name) for name in ROOT_POSITION}
    paths = path_columns(slots)
    columns |= _moved(part, paths, paths, outlet.moves)
    if outlet.seen is not None:
        start = visible_columns(slots) if outlet.seen.from_root else paths
        columns |= _moved(part, start, visible_columns(slots), outlet.seen.moves)
    key = array(part, outlet.key)
    if outlet.route.by_window:
        key, columns["start"], columns["end"] = (pc.struct_field(key, name) for name in ("key", "start", "end"))
    hashes = part.column(outlet.route.hash) if outlet.route.hash else pa.array(hash_keys(key))
    columns |= {"ts": part.column("ts"), "hash": hashes, "key": key}
    columns["value"] = _flags(part.column(outlet.value)) if outlet.flags else part.column(outlet.value)
    if outlet.old:
        columns["old"] = part.column(outlet.old)
    if outlet.stored_ts:
        columns["stored_ts"] = part.column("stored_ts")
    if outlet.silent:
        columns["silent"] = part.column(outlet.silent)
    if "headers" in part.column_names:
        columns["headers"] = part.column("headers")
    keys = held_keys(part)
    if keys is not None:
        columns[HELD_KEY] = keys
    columns |= {name: part.column(column) for name, column in outlet.extras}
    return pa.table(columns)


def _flags(values: pa.ChunkedArray) -> pa.Array:
    """True where there is a value, null where there is none."""
    present = valid(values)
    return pa.array(present, mask=~present)


def _moved(part: pa.Table, start: Sequence[str], names: Sequence[str], moves: Sequence[Move]) -> dict[str, pa.Array]:
    values = [ints(part, name) for name in start]
    for move in moves:
        step = move.constant
        if move.index is not None:
            index = array(part, move.index).fill_null(0).to_numpy(zero_copy_only=False)
            values[move.slot] = values[move.slot] + index.astype(np.int64) * move.factor
        values[move.slot] = values[move.slot] + step
    return {name: pa.array(value) for name, value in zip(names, values, strict=True)}


def _copies(outlet: Outlet, rows: pa.Table, shards: ShardCounts, cases: Int64s | None) -> Iterator[RoutedBatch]:
    """All rows for every shard, of their own case where there are several."""
    assert outlet.target is not None
    for case in [None] if cases is None else np.unique(cases):
        part = rows if case is None else rows.filter(pa.array(cases == case))
        for shard in shards.of_case(outlet.target, 0 if case is None else int(case)):
            yield RoutedBatch(outlet.target, shard, outlet.port, part)


def _split(
    outlet: Outlet, rows: pa.Table, hashes: Int64s, shards: ShardCounts, cases: Int64s | None
) -> Iterator[RoutedBatch]:
    """Routed batches by shard; a case has shards of its own, numbered behind those of the case before."""
    target = outlet.target
    assert target is not None
    shard = shard_of(hashes, shards.of(target))
    if cases is not None:
        shard += cases * shards.usual
    order = in_shards(shard, hashes if cases is None and rows.nbytes > SLICE_BYTES else None)
    ordered = shard[order]
    rows = rows if (order[1:] > order[:-1]).all() else rows.take(pa.array(order))
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    for start, end in zip(starts, [*starts[1:], len(ordered)], strict=True):
        yield RoutedBatch(target, int(ordered[start]), outlet.port, rows.slice(int(start), int(end - start)))


# The outlets of a stage: its plan's edges, exits and counted ends, in terms of a frame's columns.
#
# Called once per stage by the runners, which say how they name the columns of a flow.


@dataclass(frozen=True)
class FlowColumns:
    """Names of the columns that hold a flow's rows.

    `index` names the record index of a flat_map's flow, `silent` what marks rows that only say what lookups see, `late`
    what marks changes of a versioned table that are not the latest of their key, `headers` its own headers, in place of
    those of all rows (dead letters, and behind `map_headers`); of an output `encoded_key` names the bytes of keys,
    `partition` the partitions of its records.
    """

    key: str
    value: str
    old: str | None = None
    active: str | None = None
    index: str | None = None
    silent: str | None = None
    late: str | None = None
    headers: str | None = None
    encoded_key: str | None = None
    partition: str | None = None


PARTITION = "partition"
"""The column of the partitions that a partitioner gives records of an output."""
ENCODED_KEY = "encoded_key"
"""The column that has the bytes of keys: the keys themselves say where rows go, in the exchange and in Kafka."""
Naming = Callable[[Flow], FlowColumns]


def edge_outlet(physical: Physical, edge: Edge, naming: Naming) -> Outlet:
    """The outlet of an edge into an operator."""
    flow = physical.flows[edge.flow]
    columns = naming(flow)
    side, computed = edge.reads, extra_column(edge)
    return Outlet(
        node=physical.operators[edge.target].node,
        port=edge.id,
        target=physical.host(edge.target),
        key=columns.key if side.key is None else computed,
        value=columns.value,
        old=columns.old if "old" in edge.columns else None,
        active=columns.active,
        moves=_moves(physical, flow, edge.path, naming),
        seen=_lookup_origin(physical, flow, naming) if "visible" in edge.columns else None,
        stored_ts="stored_ts" in edge.columns,
        silent=columns.silent if "silent" in edge.columns else None,
        extras=(
            *((extra.name, columns.key if extra.function is None else computed) for extra in side.carries),
            *_own_headers(columns),
        ),
        ends=Ends(
            edge.ends,
            late=columns.late if "late" in edge.ends else None,
            counts_null_key=side.key is not None or physical.node(flow).shape.kind == "stream",
            keeps_time=edge.keeps_time,
            counts_null=None if side.null_reason is None else (computed, side.null_reason),
        ),
        route=Route(
            shard_by=None if side.key is None else columns.key,
            by_window=side.windowed,
            broadcast=edge.reads.broadcast,
            bounds_port=physical.bounds_port(edge) if edge.broadcasts_bounds else None,
            nulls_reach=side.nulls_reach,
        ),
        flags=side.value == FLAG,
    )


def _own_headers(columns: FlowColumns) -> tuple[tuple[str, str], ...]:
    return (("headers", columns.headers),) if columns.headers else ()


def _for_writer(columns: FlowColumns) -> Iterator[tuple[str, str]]:
    for name, column in ((ENCODED_KEY, columns.encoded_key), (PARTITION, columns.partition)):
        if column:
            yield name, column


def direct_outlet(physical: Physical, edge: Edge) -> Outlet:
    """The outlet of an edge between the operators of one node, in terms of the first one's result columns."""
    operator, side = physical.operators[edge.target], edge.reads
    names = [extra.name for extra in side.carries]
    return Outlet(
        node=operator.node,
        port=edge.id,
        target=edge.target,
        key="key",
        value="value",
        moves=(Move(physical.flows[edge.flow].slot, edge.path),),
        extras=tuple((name, name) for name in (*names, *side.marks)),
        route=Route(hash="hash"),
    )


def extra_column(edge: Edge) -> str:
    """Name of the column in which a stage's frame holds what the edge carries beside key and value."""
    return f"e{edge.id}_extra"


def exit_outlets(physical: Physical, stage: int, naming: Naming) -> list[Outlet]:
    """Outlets into the sinks, numbered behind the operators."""
    outlets = []
    for index, (flow_id, sink) in enumerate(physical.sink_edges):
        flow = physical.flows[flow_id]
        if flow.stage != stage:
            continue
        columns = naming(flow)
        outlets.append(
            Outlet(
                node=sink,
                port=physical.sink_port(index),
                target=exit_number(physical, sink),
                key=columns.key,
                value=columns.value,
                active=columns.active,
                moves=_moves(physical, flow, flow.path, naming),
                extras=(*_own_headers(columns), *_for_writer(columns)),
            )
        )
    return outlets


def counted_outlets(physical: Physical, stage: int, naming: Naming) -> list[Outlet]:
    """Outlets that only count: flows in which records without a key end."""
    outlets = []
    for flow in physical.stage_flows(stage):
        if "null_key" not in flow.ends:
            continue
        # What arrives is the parent's rows; for a source, its own.
        arriving = naming(flow if flow.parent is None else physical.flows[flow.parent])
        outlets.append(
            Outlet(
                node=flow.node,
                port=-1,
                target=None,
                key=arriving.key,
                value=arriving.value,
                active=arriving.active,
                ends=Ends(row_ends()),
            )
        )
    return outlets


def exit_number(physical: Physical, sink: str) -> int:
    """The number under which rows travel to a sink through the last exchange; several sinks of a topic have one."""
    return len(physical.operators) + next(n for n, names in enumerate(physical.exits) if sink in names)


def _moves(physical: Physical, flow: Flow, path: int, naming: Naming) -> tuple[Move, ...]:
    return (*_fan_moves(physical, flow, naming), Move(flow.slot, path))


def _lookup_origin(physical: Physical, flow: Flow, naming: Naming) -> LookupOrigin:
    fans = _fan_moves(physical, flow, naming)
    if flow.store_path is None:
        return LookupOrigin(fans, from_root=True)
    return LookupOrigin((*fans, Move(flow.store_slot, flow.store_path)))


def _fan_moves(physical: Physical, flow: Flow, naming: Naming) -> tuple[Move, ...]:
    """The path slots that the flat_maps above a flow add: their number, and the record index times their size."""
    moves: list[Move] = []
    at: Flow | None = flow
    while at is not None:  # up the path to the root
        if at.fan:
            moves += [Move(at.slot - 1, at.entry), Move(at.slot, 0, naming(at).index, at.fan)]
        at = physical.flows[at.parent] if at.parent is not None else None
    return tuple(moves)


# Watermarks: the times of the sources, told to every shard of an operator, records or none.
#
# The latest of what was packed, or every record that moves time (`OperatorTime.every`). Law 3.

_UNKNOWN = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Watermark:
    """The times that an operator gets."""

    # port, target: where they go
    port: int
    target: int
    every: bool  # whether it gets every record that moves time, or the latest time
    # boolean columns of the frame that mark the rows of the operator's sources; empty: all rows
    roots: tuple[str, ...] = ()


def watermark_of(physical: Physical, operator: Operator, roots: tuple[str, ...] = ()) -> Watermark:
    return Watermark(
        physical.time_port(operator), operator.id, operator.time is not None and operator.time.every, roots
    )


def clock_batches(
    target: int, port: int, wall: int, shards: ShardCounts, *, piped: bool = False
) -> Iterator[RoutedBatch]:
    """The wall clock for every shard of an operator; `piped`: in a test driver."""
    return _to_all(target, port, clock_row(wall, piped=piped), shards, 0)


def watermark_batches(frame: pa.Table, watermarks: tuple[Watermark, ...], shards: ShardCounts) -> Iterator[RoutedBatch]:
    """The rows by which a source stage's frame, with its positions, brings time to every shard."""
    if not watermarks or not len(frame):
        return
    case, piped = _cases(frame), "time" in frame.column_names
    for watermark in watermarks:
        marked = _marked(frame, watermark) & (ints(frame, "time" if piped else "order_ts") > _UNKNOWN)
        for number in np.unique(case[marked]):
            rows = frame.filter(pa.array(marked & (case == number)))
            moves = time_moves(rows) if piped or watermark.every else last_times(rows)
            yield from _to_all(watermark.target, watermark.port, moves, shards, int(number))


def _to_all(target: int, port: int, rows: pa.Table, shards: ShardCounts, case: int) -> Iterator[RoutedBatch]:
    return (RoutedBatch(target, shard, port, rows) for shard in shards.of_case(target, case))


def _marked(frame: pa.Table, watermark: Watermark) -> Bools:
    marked = np.full(len(frame), not watermark.roots, dtype=np.bool_)
    for name in watermark.roots:
        marked |= bools(frame, name)
    return marked


def _cases(frame: pa.Table) -> Int64s:
    return ints(frame, "case") if "case" in frame.column_names else np.zeros(len(frame), dtype=np.int64)
