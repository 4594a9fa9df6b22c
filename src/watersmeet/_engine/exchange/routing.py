"""The exchange: a stage's rows cut into routed batches by (operator, shard), and the times and paths they carry.

Keeps laws 2 and 5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.exchange.clock import SNAPSHOT, Clock
from watersmeet._engine.exchange.shards import ShardCounts, in_shards, shard_of
from watersmeet._engine.keys.keys import hash_keys
from watersmeet._engine.rows.columns import (
    HELD_KEY,
    PARTITION_BITS,
    ROOT_POSITION,
    array,
    bools,
    held_keys,
    ints,
    path_columns,
    valid,
    visible_columns,
)
from watersmeet._engine.rows.slices import SLICE_BYTES
from watersmeet._engine.time.time_bounds import bounds_by_case
from watersmeet._plan.operators.spec import OUT_OF_ORDER, RAISED


class Drops(Counter[tuple[str, str]]):
    """Counts of dropped records by (node, reason)."""

    def ended(self, node: str, reason: str, rows: pa.Table, at: Int64s, outlet: Outlet | None = None) -> None:
        """Take rows that end.

        Parameters
        ----------
        node, reason : where, and why.
        rows, at : a frame, and which of its rows end.
        outlet : the outlet that they were on their way to; it names the columns of their keys and values. None: they
            are an operator's.
        """
        self[(node, reason)] += len(at)

    def failed(self, node: str, rows: pa.Table, errors: Mapping[int, Exception], where: str) -> None:
        """Take rows for which a function raises.

        Parameters
        ----------
        node : the node of their results, or the input.
        rows, errors : the rows, and by the number of one why it ends.
        where : the function, as text.
        """
        self[(node, RAISED)] += len(errors)


@dataclass(frozen=True)
class Move:
    """The addition of an outlet to one path slot: a constant, and an index column times a factor."""

    slot: int
    constant: int
    index: str | None = None
    factor: int = 0


@dataclass(frozen=True)
class LookupOrigin:
    """From where lookups see an outlet's rows.

    Parameters
    ----------
    moves : what is added for that position.
    from_root : whether it starts from the root's own `v` columns instead of its path.
    """

    moves: tuple[Move, ...] = ()
    from_root: bool = False


@dataclass(frozen=True)
class Ends:
    """Which of an outlet's rows end there, and which of them are counted.

    Parameters
    ----------
    null_key, null_value, silent : rows that end.
    counts_null_key : False where a null key was counted before (where a table begins).
    keeps_time : whether records that end move time all the same.
    counts_null : (column, reason): rows with a value but null there are counted, and pass.
    late : column that marks rows which end and are counted: changes that are not the latest of their key.
    """

    null_key: bool = False
    null_value: bool = False
    silent: bool = False
    counts_null_key: bool = True
    keeps_time: bool = False
    counts_null: tuple[str, str] | None = None
    late: str | None = None


@dataclass(frozen=True)
class Route:
    """How the shard of an outlet's rows is found, and what goes to other shards.

    Parameters
    ----------
    hash : column that holds the hash of the key already; None: it is computed.
    shard_by : column to hash for the shard; None: the key.
    by_window : whether keys are of windows: rows go by the key alone, with the window's ends beside it.
    broadcast : whether rows go to every shard.
    bounds_port : port on which every shard gets the time bounds of the rows; None: they do not.
    nulls_reach : whether rows without a value count for that.
    """

    hash: str | None = None
    shard_by: str | None = None
    by_window: bool = False
    broadcast: bool = False
    bounds_port: int | None = None
    nulls_reach: bool = False


@dataclass(frozen=True)
class Outlet:
    """Where a stage's frame holds the rows of an edge, and where they go.

    Parameters
    ----------
    node : name that its drops are counted under.
    port : the edge's number; the receiver tells its sides apart by it.
    target : number of the operator or exit; None when rows are only counted.
    key, value, old : column names.
    flags : whether rows bring true in place of their values.
    active : boolean column that marks its rows; None: all rows.
    moves : what it adds to the path.
    seen : from where lookups see its rows; None when that is not wanted.
    stored_ts : whether its rows carry the timestamp that lookups see.
    silent : column that marks rows which only say what lookups see (`Operator.emits_views`); None: there are none.
    extras : (name on the edge, column) of what an operator needs beside key and value.
    ends : which rows end here.
    route : which shard they go to.
    """

    node: str
    port: int
    target: int | None
    key: str
    value: str
    old: str | None = None
    active: str | None = None
    moves: tuple[Move, ...] = ()
    seen: LookupOrigin | None = None
    stored_ts: bool = False
    silent: str | None = None
    extras: tuple[tuple[str, str], ...] = ()
    ends: Ends = Ends()
    route: Route = Route()
    flags: bool = False


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
        order_ts = clock.stamp(srcpart, ints(frame, "ts"), counted(frame, outlets) & ~at_once)
        order_ts[at_once] = np.iinfo(np.int64).min
    frame = frame.drop_columns(["root", "partition"])
    frame = frame.append_column("order_ts", pa.array(order_ts)).append_column("srcpart", pa.array(srcpart))
    zeros = pa.array(np.zeros(len(frame), dtype=np.int64))
    for name in path_columns(slots):
        frame = frame.append_column(name, zeros)
    return frame


def stamp_piped(frame: pa.Table, outlets: Sequence[Outlet]) -> pa.Table:
    """The same for piped records, with their number as order_ts: with the time that each moves to, if it does."""
    return with_time(frame, counted(frame, outlets))


def with_time(frame: pa.Table, moving: Bools) -> pa.Table:
    """Piped records with the time that each moves to, if it does."""
    time = np.where(moving, ints(frame, "ts"), np.iinfo(np.int64).min)
    return frame.append_column("time", pa.array(time))


def counted(frame: pa.Table, outlets: Sequence[Outlet]) -> Bools:
    """Rows that get anywhere, and so move time."""
    taken = np.zeros(len(frame), dtype=np.bool_)
    for outlet in outlets:
        taken |= _taken(frame, outlet) if outlet.target is not None else False
    return taken


def number_rows(frame: pa.Table, order_columns: Sequence[str]) -> pa.Table:
    """All rows of a plain DataFrame's batch in order of its ordering columns, which become offsets."""
    return numbered(frame.sort_by([(name, "ascending") for name in order_columns]), order_columns, 0)


def numbered(ordered: pa.Table, order_columns: Sequence[str], first: int) -> pa.Table:
    """Rows that are in order, with offsets from `first` on in place of their ordering columns."""
    offsets = pa.array(np.arange(first, first + len(ordered), dtype=np.int64))
    ordered = ordered.drop_columns(list(order_columns))
    at = ordered.schema.get_field_index("offset")
    return ordered.set_column(at, "offset", offsets) if at >= 0 else ordered.append_column("offset", offsets)


def pack(
    frame: pa.Table, outlets: Sequence[Outlet], shards: ShardCounts, slots: int, drops: Drops
) -> Iterator[RoutedBatch]:
    """The frame's rows as routed batches; rows that may not pass are counted in `drops`."""
    for outlet in outlets:
        rows = _select(frame, outlet, drops)
        if outlet.target is None or rows is None:
            continue
        part = frame.select(wanted(frame, outlet, slots))
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


def _taken(frame: pa.Table, outlet: Outlet) -> Bools:
    """Rows of the outlet that its operator will see, or that move its time."""
    mask = bools(frame, outlet.active) if outlet.active else np.ones(len(frame), dtype=np.bool_)
    if outlet.ends.keeps_time:
        return mask
    if outlet.ends.null_key:
        mask = mask & valid(frame.column(outlet.key))
    if outlet.ends.null_value:
        mask = mask & valid(frame.column(outlet.value))
    return mask


def _select(frame: pa.Table, outlet: Outlet, drops: Drops) -> Int64s | None:
    mask = bools(frame, outlet.active) if outlet.active else np.ones(len(frame), dtype=np.bool_)
    if outlet.silent and outlet.ends.silent:
        mask = mask & ~bools(frame, outlet.silent)
    if outlet.ends.late:
        late = bools(frame, outlet.ends.late)
        drops.ended(outlet.node, OUT_OF_ORDER, frame, np.flatnonzero(mask & late), outlet)
        mask = mask & ~late
    if outlet.ends.null_key:
        keyed = valid(frame.column(outlet.key))
        if outlet.ends.counts_null_key:
            drops.ended(outlet.node, "null_key", frame, np.flatnonzero(mask & ~keyed), outlet)
        mask = mask & keyed
    if outlet.ends.null_value:
        valued = valid(frame.column(outlet.value))
        drops.ended(outlet.node, "null_value", frame, np.flatnonzero(mask & ~valued), outlet)
        mask = mask & valued
    if outlet.ends.counts_null:
        column, reason = outlet.ends.counts_null
        unfit = mask & valid(frame.column(outlet.value)) & ~valid(frame.column(column))
        drops[(outlet.node, reason)] += int(unfit.sum())
    return np.flatnonzero(mask) if outlet.target is not None else None


def wanted(frame: pa.Table, outlet: Outlet, slots: int) -> list[str]:
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
    held = held_keys(part)
    if held is not None:
        columns[HELD_KEY] = held
    columns |= {name: part.column(column) for name, column in outlet.extras}
    return pa.table(columns)


def _flags(values: pa.ChunkedArray) -> pa.Array:
    """True where there is a value, null where there is none."""
    there = valid(values)
    return pa.array(there, mask=~there)


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
        mine = rows if case is None else rows.filter(pa.array(cases == case))
        for shard in shards.of_case(outlet.target, 0 if case is None else int(case)):
            yield RoutedBatch(outlet.target, shard, outlet.port, mine)


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
