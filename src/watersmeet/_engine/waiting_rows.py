"""Holding back: rows wait until time lets them go, and are released in order, whatever key they get later.

A row is held until it is **due**: it stands directly before the record that moves the time of its domain past that
moment, in the order (time, turn, serialized key, arrival), the key being the one that it was held under. An operator
gives `release` its **sources**, each of which says which of its rows are due in this batch and how results are made of
them:

* a windowed join: its unmatched rows lie in the join's own tables, with a flag (`stream_join.UnmatchedRows`);
* an aggregate that emits on close: its windows lie in its own table (key, window start), with `due` to find those that
  close; they are due at the window's end plus the grace;
* suppress (until a time limit, until the window closes): `HeldRows` with a table of its own, one row of each key and
  due time, which later changes of the key replace; it keeps its place;
* a stream-table join with grace, a windowed join of one partner: `HeldRows`, rows only appended; what is released
  then looks up.

When time jumps, all that waits may be due at once, and that is as large as the state (law 9). So rows are picked in
passes over numbers alone, about `ROWS` at a time (of those of one moment by their keys), what names them is put in
order, and values are gathered a piece of `RESULT_BYTES` at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine import row_sizes
from watersmeet._engine.keys import encode_keys, group_keys, hash_keys
from watersmeet._engine.operator import OperatorContext
from watersmeet._engine.row_sizes import cut, in_pieces, take_rows
from watersmeet._engine.rows import (
    HEADERS,
    HELD_KEY,
    LET_GO,
    Bools,
    Int64s,
    array,
    gather,
    ints,
    joined,
    position_columns,
    ranks,
)
from watersmeet._engine.state.lookups import FoundRows, Hits, gathered
from watersmeet._engine.state.manifest import arrow_type
from watersmeet._engine.state.merge import PutColumn
from watersmeet._engine.state.runs import Table
from watersmeet._engine.time import BatchTimes, with_turns

# Where results stand that time lets go: their positions, and the order of those that one record lets go.
#
# Law 3: such a result stands directly before the record (or the moment of the wall clock) that moves the time of its
# domain past the end of its wait, whatever batch that record comes in. Among those that one record lets go the order
# is: the time of the sources that operators see at them, their turn (of a windowed join timestamp, right before left),
# key bytes, the operator (the one that was declared first), arrival. Time is the first number of their paths, turn and
# key go with the row (`held_key`): so the order does not depend on a later key of the row or on the number of shards.

_OPERATORS = 1 << 10
_OF_OPERATOR = 1 << 48
"""Room for what one operator numbers: of operators that let go at one place the first one comes first."""
_BELOW = _OPERATORS * _OF_OPERATOR
"""More than any such number: what operators above let go of at the same place comes first."""


def in_order(
    context: OperatorContext,
    rows: pa.Table,
    movers: Sequence[Int64s],
    mover: Int64s,
    time: Int64s,
    turn: Int64s,
) -> tuple[Int64s, dict[str, pa.Array]]:
    """The order of rows that time lets go of, and in that order the columns that all results have.

    Parameters
    ----------
    rows : columns ts, hash, arrival, domain, key.
    movers : positions of the records that move time, in order: columns order_ts, srcpart, offset.
    mover : which of these each stands before.
    time : the time of the sources that operators are to see at it.
    turn : which comes first of those of one moment.
    """
    encoded = encode_keys(rows.column("key"))
    rank, part = ranks(encoded), _partition(context, rows)
    order = np.lexsort((ints(rows, "arrival"), part, rank, turn, time, mover))
    rows, encoded = rows.take(pa.array(order)), encoded.take(pa.array(order))
    mover, time, turn, rank, part = (column[order] for column in (mover, time, turn, rank, part))
    root = [*(column[mover] for column in movers), time - LET_GO]
    place = root + _path(context, part, _numbers([mover, time, turn, rank, part]))
    out = dict(zip(position_columns(context.slots), map(pa.array, place), strict=True))
    out |= {name: array(rows, name) for name in ("ts", "hash")}
    out["key"] = joined([rows.column("key")], context.key)
    if context.headers:
        out["headers"] = pa.nulls(len(rows), HEADERS)
    return order, out | {HELD_KEY: with_turns(turn, encoded)}


def _path(context: OperatorContext, part: Int64s, number: Int64s) -> list[Int64s]:
    """The path of results that are in order, but for its first number."""
    operator = context.operator
    first = operator.id % _OPERATORS * _OF_OPERATOR
    columns = []
    if operator.slot > 1:
        columns += [first + part]
        columns += [np.full(len(part), _BELOW + operator.id, dtype=np.int64)] * (operator.slot - 2)
    columns += [first + number * operator.fan]
    return columns + [np.zeros(len(part), dtype=np.int64)] * (context.slots - operator.slot - 1)


def _partition(context: OperatorContext, rows: pa.Table) -> Int64s:
    """The second path slot, if it does not hold the results' number: the partition they belong to.

    Operators below ask for it where partitions have times of their own (`rows.partitions`).
    """
    operator = context.operator
    return ints(rows, "domain") if operator.slot > 1 else np.zeros(len(rows), dtype=np.int64)


def _numbers(same: list[Int64s]) -> Int64s:
    """Numbers that tell apart what has all else in common: counted through."""
    rows = np.arange(len(same[0]), dtype=np.int64)
    fresh = np.zeros(len(rows), dtype=np.bool_)
    for column in same:
        fresh |= np.append(True, column[1:] != column[:-1])[: len(rows)]
    return rows - np.maximum.accumulate(np.where(fresh, rows, 0))


ROWS = 262_144
"""Rows that are put in order at a time."""
NAMED = ("key", "hash", "ts", "arrival", "domain")
"""Columns that every row has which waits."""


@dataclass(frozen=True)
class Bound:
    """A place in the order of release; without a key it is behind all that stand there."""

    mover: int
    time: int
    turn: int
    key: bytes | None = None


BEGINNING = Bound(-(2**63), -(2**63), -(2**63))


@dataclass(frozen=True)
class WaitingRows:
    """Rows that are due in this batch: stored ones of one run, or rows of the batch itself."""

    # batch, rows: where they lie; columns `NAMED` and what the source's results are made of
    batch: pa.RecordBatch
    rows: Int64s
    mover: (
        Int64s  # which of the records that move time in this batch each stands before, by number (`BatchTimes.movers`)
    )
    time: Int64s  # the time of the sources that operators are to see at it
    turn: Int64s  # which comes first of those of one moment, before their keys decide

    def where(self, mask: Bools) -> WaitingRows:
        return WaitingRows(self.batch, self.rows[mask], self.mover[mask], self.time[mask], self.turn[mask])

    def keys(self, mask: Bools) -> pa.Array:
        """Serialized keys of some of them."""
        return encode_keys(self.batch.column("key").take(pa.array(self.rows[mask])))

    def at(self, bound: Bound) -> Bools:
        return np.asarray((self.mover == bound.mover) & (self.time == bound.time) & (self.turn == bound.turn))

    def after(self, bound: Bound) -> Bools:
        """Those behind a bound."""
        later = (self.time > bound.time) | ((self.time == bound.time) & (self.turn > bound.turn))
        mask = np.asarray((self.mover > bound.mover) | ((self.mover == bound.mover) & later))
        same = self.at(bound)
        if bound.key is not None and same.any():
            keys = self.keys(same)
            mask[same] = pc.greater(keys, pa.scalar(bound.key, keys.type)).to_numpy(zero_copy_only=False)
        return mask


class HeldSource(Protocol):
    """Where rows of one kind wait."""

    @property
    def columns(self) -> Mapping[str, tuple[str, pa.DataType]]:
        """Columns of results that are made of its rows: which column of theirs, and the type."""
        ...

    def waiting(self, bound: Bound) -> Iterator[WaitingRows]:
        """All rows that are due in this batch, but for those that surely lie before a bound."""
        ...

    def left(self, picked: Sequence[WaitingRows]) -> Sequence[WaitingRows]:
        """Of some of these rows those that are still wanted."""
        ...


def release(context: OperatorContext, times: BatchTimes, sources: Sequence[HeldSource]) -> Iterator[pa.Table]:
    """All rows that are due, as results in order of position, a bounded number and size at a time.

    Results have the columns of all sources; those that are another source's are null.
    """
    bound: Bound | None = BEGINNING
    while bound is not None:
        picked, bound = _next(sources, bound)
        left = [
            (number, part)
            for number, source in enumerate(sources)
            for part in source.left([due for owner, due in picked if owner == number])
            if len(part.rows)
        ]
        if left:
            yield from _results(context, times, sources, left)


_Picks = list[tuple[int, WaitingRows]]
"""Rows, each with the number of their source."""


def _next(sources: Sequence[HeldSource], start: Bound) -> tuple[_Picks, Bound | None]:
    """The first rows behind a bound, and the new bound; None when nothing is left behind it."""
    picked: _Picks = []
    bound: Bound | None = None
    for number, source in enumerate(sources):
        for part in source.waiting(start):
            part = part.where(part.after(start))
            part = part if bound is None else part.where(~part.after(bound))
            if len(part.rows):
                picked.append((number, part))
            if _count(picked) > 2 * ROWS:
                picked, bound = _first_rows(picked, bound)
    return _first_rows(picked, bound) if _count(picked) > ROWS else (picked, bound)


def _first_rows(picked: _Picks, limit: Bound | None) -> tuple[_Picks, Bound]:
    """About the first `ROWS`, with all that share the last one's place, or at least its key; and where that one is.

    Nothing picked lies behind the bound that is `limit`, and of what does nothing is picked: it stays the limit.
    """
    mover, time, turn = (np.concatenate([getattr(p, n) for _, p in picked]) for n in ("mover", "time", "turn"))
    last = np.lexsort((turn, time, mover))[ROWS - 1]
    bound = Bound(int(mover[last]), int(time[last]), int(turn[last]))
    picks = _up_to(bound, picked)
    if _count(picks) <= 2 * ROWS:
        return picks, limit if limit is not None and bound == replace(limit, key=None) else bound
    tied = [(part, part.at(bound)) for _, part in picks]
    keys = pa.chunked_array([part.keys(same) for part, same in tied]).combine_chunks()
    earlier = _count(picks) - len(keys)
    order = pc.array_sort_indices(keys)
    bound = replace(bound, key=keys[order[max(ROWS - earlier, 1) - 1].as_py()].as_py())
    return _up_to(bound, picks), bound


def _up_to(bound: Bound, picked: _Picks) -> _Picks:
    parts = ((number, part.where(~part.after(bound))) for number, part in picked)
    return [(number, part) for number, part in parts if len(part.rows)]


def _count(picked: _Picks) -> int:
    return sum(len(part.rows) for _, part in picked)


def _results(
    context: OperatorContext, times: BatchTimes, sources: Sequence[HeldSource], picked: _Picks
) -> Iterator[pa.Table]:
    hits = [Hits(part.batch, part.rows, part.rows) for _, part in picked]
    schema = pa.schema([picked[0][1].batch.schema.field(name) for name in NAMED])
    places = [np.concatenate([getattr(part, name) for _, part in picked]) for name in ("mover", "time", "turn")]
    order, out = in_order(context, gathered(hits, schema, NAMED), times.movers, *places)
    counts = [len(part.rows) for _, part in picked]
    source = np.repeat(np.array([number for number, _ in picked]), counts)
    values = [_Values(owner, picked, number, source) for number, owner in enumerate(sources)]
    kinds = {name: kind for owner in sources for name, (_, kind) in owner.columns.items()}
    size = np.sum(np.stack([part_values.sizes for part_values in values]), axis=0)[order]
    for start, end in cut(size + 1, row_sizes.RESULT_BYTES):
        rows = order[start:end]
        piece = {name: column.slice(start, end - start) for name, column in out.items()}
        piece |= {name: _column(values, name, kind, rows) for name, kind in kinds.items()}
        yield pa.table(piece)


class _Values:
    """The rows of one source, found but not gathered yet."""

    def __init__(self, source: HeldSource, picked: _Picks, number: int, of_row: Int64s) -> None:
        hits = [Hits(part.batch, part.rows, part.rows) for owner, part in picked if owner == number]
        mask = of_row == number
        self._place = np.full(len(of_row), -1, dtype=np.int64)
        self._place[mask] = np.arange(int(mask.sum()))
        self._names = {name: column for name, (column, _) in source.columns.items()} if hits else {}
        fields = [hits[0].batch.schema.field(column) for column in set(self._names.values())] if hits else []
        self._rows = FoundRows(self._place[mask], None, hits, pa.schema(fields))
        self.sizes = np.zeros(len(of_row), dtype=np.int64)
        for column in self._names.values():
            self.sizes[mask] += self._rows.sizes(column)

    def part(self, name: str, rows: Int64s) -> tuple[pa.ChunkedArray | None, Bools]:
        """The column of those rows that lie here, and a mask of them among `rows`."""
        place = self._place[rows]
        mask = place >= 0
        if name not in self._names or not mask.any():
            return None, np.zeros(len(rows), dtype=np.bool_)
        return self._rows.take([self._names[name]], place[mask]).column(0), mask


def _column(values: Sequence[_Values], name: str, kind: pa.DataType, rows: Int64s) -> pa.Array:
    """One column of results, put together from all sources that have it."""
    pointers, parts, count = np.full(len(rows), -1, dtype=np.int64), [], 0
    for source_values in values:
        part, mask = source_values.part(name, rows)
        if part is not None:
            pointers[mask] = count + np.arange(len(part))
            count += len(part)
            parts += [chunk.cast(kind) for chunk in part.chunks]
    if not parts:
        return pa.nulls(len(rows), kind)
    return gather(pa.chunked_array(parts, kind), pointers)


# Rows that wait in a table of their own, declared by `held_schema`: a `HeldSource` for any operator.
#
# A row is due at the last moment of its wait: it goes when the time of its domain is later. Rows that are due in the
# batch that brings them are not stored. Released rows are not deleted row by row: its time is below the floor then.

_IDENTITY = ["key", "due", "domain"]


class HeldRows:
    """The rows of one operator that wait; see `HeldSource`.

    Parameters
    ----------
    table : where they are kept.
    results : the column that each column of results is made of.
    """

    def __init__(self, context: OperatorContext, table: Table, times: BatchTimes, results: Mapping[str, str]) -> None:
        self._lag = context.time.hold_back
        self._table = table
        self._times = times
        kinds = dict(table.declared.columns)
        self.columns = {name: (column, arrow_type(kinds[column])) for name, column in results.items()}
        self._batches: list[pa.RecordBatch] = []
        self._dropped: list[pa.RecordBatch] = []

    def hold(self, rows: Mapping[str, PutColumn], due: Int64s, domain: Int64s) -> None:
        """Hold rows back.

        Parameters
        ----------
        rows : the table's columns but `due` and `domain`; of a table of replaced rows each key, due time and
            domain once in a batch, with the `arrival` that decides among equal keys.
        due : the last moment at which each waits, no earlier than the time of its domain at the batch's start.
        domain : its domain's number.
        """
        rows = {**rows, "due": pa.array(due), "domain": pa.array(domain)}
        passed = due < self._times.end[self._times.index(domain)]
        stay, leave = np.flatnonzero(~passed), np.flatnonzero(passed)
        if len(stay):
            self._table.put({name: take_rows(rows[name], stay) for name in self._table.schema.names})
        if len(leave):
            columns = {name: take_rows(rows[name], leave) for name in self._table.schema.names}
            for piece in in_pieces(columns):
                self._batches += piece.cast(self._table.schema).combine_chunks().to_batches()

    def drop(self, rows: pa.Table) -> None:
        """Hold rows of state back no longer, nor let them go: they have gone another way."""
        if len(rows):
            self._table.put(rows, np.ones(len(rows), dtype=np.bool_))
            self._dropped += rows.select(_IDENTITY).to_batches()

    def finish(self) -> None:
        """Let go what is due in this batch, each row by the time of its domain."""
        self._table.expire(self._times.by_domain(self._times.end))

    def waiting(self, bound: Bound) -> Iterator[WaitingRows]:
        """See `HeldSource`."""
        for hits in self._table.due(*self._times.passing()):
            yield self._due_rows(hits.batch, hits.rows)
        for batch in self._batches:
            yield self._due_rows(batch, np.arange(len(batch), dtype=np.int64))

    def left(self, picked: Sequence[WaitingRows]) -> Sequence[WaitingRows]:
        """Those that no row of the batch has replaced, and that were not dropped."""
        if self._table.layout.appended or not (self._batches or self._dropped):
            return picked
        new = {id(batch) for batch in self._batches}
        state_parts = [part for part in picked if id(part.batch) not in new]
        if not state_parts:
            return picked
        newer = [*self._batches, *self._dropped]
        parts = [_identity(batch, np.arange(len(batch))) for batch in newer]
        parts += [_identity(part.batch, part.rows) for part in state_parts]
        identity = pa.chunked_array(parts).combine_chunks()
        firsts = np.zeros(len(identity), dtype=np.bool_)
        firsts[group_keys(hash_keys(identity), identity).first] = True
        ends = np.cumsum([len(part) for part in parts])
        masks = dict(zip(map(id, state_parts), np.split(firsts, ends[:-1])[len(newer) :], strict=True))
        return [part.where(masks[id(part)]) if id(part) in masks else part for part in picked]

    def _due_rows(self, batch: pa.RecordBatch, rows: Int64s) -> WaitingRows:
        """Those of some rows that are due, with where they stand."""
        times = self._times
        due, domain = (batch.column(n).to_numpy(zero_copy_only=False)[rows] for n in ("due", "domain"))
        index = times.index(domain)
        passed = times.passes(index, due)
        rows, due, index = rows[passed], due[passed], index[passed]
        mover, latest = times.release_positions(index, due)
        return WaitingRows(batch, rows, mover, np.minimum(due + self._lag, latest), 2 * due)


def _identity(batch: pa.RecordBatch, rows: Int64s) -> pa.Array:
    at = pa.array(rows)
    return pa.StructArray.from_arrays([batch.column(name).take(at) for name in _IDENTITY], _IDENTITY)
