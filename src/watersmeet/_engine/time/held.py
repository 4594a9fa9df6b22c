"""Holding back: rows wait until time lets them go, and are released in order, whatever key they get later.

A row is held until it is **due**: it stands directly before the record that moves the time of its domain past that
moment, in the order (time, turn, serialized key, arrival), the key being the one that it was held under. An operator
gives `release` its **sources**, each of which says which of its rows are due in this batch and how results are made of
them:

* a windowed join: its unmatched rows lie in the join's own tables, with a flag (`windowed_joins.unmatched_rows`);
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

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.keys.keys import encode_keys
from watersmeet._engine.operator import OperatorContext
from watersmeet._engine.rows import sizes
from watersmeet._engine.rows.columns import gather
from watersmeet._engine.rows.sizes import cut
from watersmeet._engine.state.lookups import FoundRows, gathered
from watersmeet._engine.state.search import Hits
from watersmeet._engine.time.released import in_order
from watersmeet._engine.time.times import Times

ROWS = 262_144
"""Rows that are put in order at a time."""
NAMED = ("key", "hash", "ts", "arrival", "domain")
"""Columns that every row has which waits."""


@dataclass(frozen=True)
class Bound:
    """A place in the order of release; without a key it is behind all that stand there."""

    stands: int
    now: int
    turn: int
    key: bytes | None = None


BEGINNING = Bound(-(2**63), -(2**63), -(2**63))


@dataclass(frozen=True)
class WaitingRows:
    """Rows that are due in this batch: stored ones of one run, or rows of the batch itself.

    Parameters
    ----------
    batch, rows : where they lie; columns `NAMED` and what the source's results are made of.
    stands : which of the records that move time in this batch each stands before, by number (`Times.movers`).
    now : the time of the sources that operators are to see at it.
    turn : which comes first of those of one moment, before their keys decide.
    """

    batch: pa.RecordBatch
    rows: Int64s
    stands: Int64s
    now: Int64s
    turn: Int64s

    def where(self, wanted: Bools) -> WaitingRows:
        """Some of them."""
        return WaitingRows(self.batch, self.rows[wanted], self.stands[wanted], self.now[wanted], self.turn[wanted])

    def keys(self, wanted: Bools) -> pa.Array:
        """Serialized keys of some of them."""
        return encode_keys(self.batch.column("key").take(pa.array(self.rows[wanted])))

    def at(self, bound: Bound) -> Bools:
        """Those that stand at the bound's moment and have its turn."""
        return np.asarray((self.stands == bound.stands) & (self.now == bound.now) & (self.turn == bound.turn))

    def after(self, bound: Bound) -> Bools:
        """Those behind a bound."""
        later = (self.now > bound.now) | ((self.now == bound.now) & (self.turn > bound.turn))
        behind = np.asarray((self.stands > bound.stands) | ((self.stands == bound.stands) & later))
        same = self.at(bound)
        if bound.key is not None and same.any():
            keys = self.keys(same)
            behind[same] = pc.greater(keys, pa.scalar(bound.key, keys.type)).to_numpy(zero_copy_only=False)
        return behind


class HeldSource(Protocol):
    """Where rows of one kind wait."""

    @property
    def columns(self) -> Mapping[str, tuple[str, pa.DataType]]:
        """Columns of results that are made of its rows: which column of theirs, and the type."""
        ...

    def waiting(self, after: Bound) -> Iterator[WaitingRows]:
        """All rows that are due in this batch, but for those that surely lie before a bound."""
        ...

    def left(self, picked: Sequence[WaitingRows]) -> Sequence[WaitingRows]:
        """Of some of these rows those that are still wanted."""
        ...


def release(context: OperatorContext, times: Times, sources: Sequence[HeldSource]) -> Iterator[pa.Table]:
    """All rows that are due, as results in order of position, a bounded number and size at a time.

    Results have the columns of all sources; those that are another source's are null.
    """
    after: Bound | None = BEGINNING
    while after is not None:
        picked, after = _next(sources, after)
        left = [
            (number, part)
            for number, source in enumerate(sources)
            for part in source.left([mine for own, mine in picked if own == number])
            if len(part.rows)
        ]
        if left:
            yield from _results(context, times, sources, left)


_Picks = list[tuple[int, WaitingRows]]
"""Rows, each with the number of their source."""


def _next(sources: Sequence[HeldSource], after: Bound) -> tuple[_Picks, Bound | None]:
    """The first rows behind a bound, and the new bound; None when nothing is left behind it."""
    picked: _Picks = []
    bound: Bound | None = None
    for number, source in enumerate(sources):
        for part in source.waiting(after):
            part = part.where(part.after(after))
            part = part if bound is None else part.where(~part.after(bound))
            if len(part.rows):
                picked.append((number, part))
            if _count(picked) > 2 * ROWS:
                picked, bound = _first_rows(picked, bound)
    return _first_rows(picked, bound) if _count(picked) > ROWS else (picked, bound)


def _first_rows(picked: _Picks, known: Bound | None) -> tuple[_Picks, Bound]:
    """About the first `ROWS`, with all that share the last one's place, or at least its key; and where that one is.

    Nothing picked lies behind the bound that is `known`, and of what does nothing is picked: it stays the limit.
    """
    stands, now, turn = (np.concatenate([getattr(p, n) for _, p in picked]) for n in ("stands", "now", "turn"))
    last = np.lexsort((turn, now, stands))[ROWS - 1]
    bound = Bound(int(stands[last]), int(now[last]), int(turn[last]))
    kept = _up_to(bound, picked)
    if _count(kept) <= 2 * ROWS:
        return kept, known if known is not None and bound == replace(known, key=None) else bound
    there = [(part, part.at(bound)) for _, part in kept]
    keys = pa.chunked_array([part.keys(same) for part, same in there]).combine_chunks()
    before = _count(kept) - len(keys)
    order = pc.array_sort_indices(keys)
    bound = replace(bound, key=keys[order[max(ROWS - before, 1) - 1].as_py()].as_py())
    return _up_to(bound, kept), bound


def _up_to(bound: Bound, picked: _Picks) -> _Picks:
    kept = ((number, part.where(~part.after(bound))) for number, part in picked)
    return [(number, part) for number, part in kept if len(part.rows)]


def _count(picked: _Picks) -> int:
    return sum(len(part.rows) for _, part in picked)


def _results(
    context: OperatorContext, times: Times, sources: Sequence[HeldSource], picked: _Picks
) -> Iterator[pa.Table]:
    hits = [Hits(part.batch, part.rows, part.rows) for _, part in picked]
    schema = pa.schema([picked[0][1].batch.schema.field(name) for name in NAMED])
    places = [np.concatenate([getattr(part, name) for _, part in picked]) for name in ("stands", "now", "turn")]
    order, out = in_order(context, gathered(hits, schema, NAMED), times.movers, *places)
    counts = [len(part.rows) for _, part in picked]
    source = np.repeat(np.array([number for number, _ in picked]), counts)
    values = [_Values(each, picked, number, source) for number, each in enumerate(sources)]
    kinds = {name: kind for each in sources for name, (_, kind) in each.columns.items()}
    size = np.sum(np.stack([each.sizes for each in values]), axis=0)[order]
    for begin, end in cut(size + 1, sizes.RESULT_BYTES):
        rows = order[begin:end]
        piece = {name: column.slice(begin, end - begin) for name, column in out.items()}
        piece |= {name: _column(values, name, kind, rows) for name, kind in kinds.items()}
        yield pa.table(piece)


class _Values:
    """The rows of one source, found but not gathered yet."""

    def __init__(self, source: HeldSource, picked: _Picks, number: int, of_row: Int64s) -> None:
        hits = [Hits(part.batch, part.rows, part.rows) for own, part in picked if own == number]
        mine = of_row == number
        self._place = np.full(len(of_row), -1, dtype=np.int64)
        self._place[mine] = np.arange(int(mine.sum()))
        self._names = {name: column for name, (column, _) in source.columns.items()} if hits else {}
        fields = [hits[0].batch.schema.field(column) for column in set(self._names.values())] if hits else []
        self._found = FoundRows(self._place[mine], None, hits, pa.schema(fields))
        self.sizes = np.zeros(len(of_row), dtype=np.int64)
        for column in self._names.values():
            self.sizes[mine] += self._found.sizes(column)

    def part(self, name: str, rows: Int64s) -> tuple[pa.ChunkedArray | None, Bools]:
        """A column of those of the rows that are its own, and which these are."""
        place = self._place[rows]
        mine = place >= 0
        if name not in self._names or not mine.any():
            return None, np.zeros(len(rows), dtype=np.bool_)
        return self._found.take([self._names[name]], place[mine]).column(0), mine


def _column(values: Sequence[_Values], name: str, kind: pa.DataType, rows: Int64s) -> pa.Array:
    """One column of results, put together from all sources that have it."""
    pointers, parts, count = np.full(len(rows), -1, dtype=np.int64), [], 0
    for each in values:
        part, mine = each.part(name, rows)
        if part is not None:
            pointers[mine] = count + np.arange(len(part))
            count += len(part)
            parts += [chunk.cast(kind) for chunk in part.chunks]
    if not parts:
        return pa.nulls(len(rows), kind)
    return gather(pa.chunked_array(parts, kind), pointers)
