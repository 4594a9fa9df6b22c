"""Order by position (law 2): operators sort, they never trust the order in which blobs arrive.

A position is integers, and of results that time let go also their turn and the serialized key that they were held back
under, as bytes: where the integers before agree, these are compared. They travel beside the position, since the row may
have got another key since.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.arrays import Int64s, order_of
from watersmeet._engine.rows.columns import SHARD, held_keys, ints, let_go, stacked

PART_ROWS = 16_384
"""Rows that are handed out at a time."""
CHUNK_BYTES = 1 << 19
"""Smaller batches are put together before rows are taken from each: less than a blob has where rows are many."""
BEFORE_KEY = 4
"""Columns of a position that come before turn and key: order_ts, srcpart, offset, and the time of what time let go."""


def order_by(columns: Sequence[Int64s], held: pa.Array | None = None) -> Int64s:
    """Row numbers in ascending order of `columns`, the most significant first; stable.

    With `held` the columns are those of a position, and these turns and keys decide where time let go of several.
    Columns that hold one value everywhere are left out and sorted input is recognised, since both are the
    rule: most topologies have one source partition in a shard's blob, and Kafka's order is kept by tasks.
    """
    rows = len(columns[0])
    varying = [c for c in columns if rows and c.min() != c.max()]
    order = np.arange(rows, dtype=np.int64) if not varying or is_sorted(varying) else order_of(varying)
    return order if held is None else _by_keys(order, columns, held)


def _by_keys(order: Int64s, columns: Sequence[Int64s], held: pa.Array) -> Int64s:
    """`order`, put right where rows that time let go of have all but their keys in common."""
    late = let_go(columns)
    if not late.any():
        return order
    same = late[order[1:]]
    for column in columns[:BEFORE_KEY]:
        same &= column[order[1:]] == column[order[:-1]]
    places = np.flatnonzero(np.append(same, False) | np.append(False, same))
    if not len(places):
        return order
    rows = order[places]
    group = np.cumsum(np.append(True, ~same))[places]
    rest = [column[rows] for column in reversed(columns[BEFORE_KEY:])]
    order = order.copy()
    order[places] = rows[np.lexsort((*rest, ranks(held.take(pa.array(rows))), group))]
    return order


def ranks(held: pa.Array) -> Int64s:
    """The place of each among the different ones; rows that were not held back have none before them."""
    rank: Int64s = pc.rank(held.fill_null(b""), sort_keys="ascending", tiebreaker="dense").to_numpy()
    return rank.astype(np.int64)


def position_tuples(columns: Sequence[Int64s], held: pa.Array | None) -> list[tuple[int | bytes, ...]]:
    """Positions as tuples in the order of `order_by`."""
    keys = [b""] * len(columns[0]) if held is None else held.fill_null(b"").to_pylist()
    before, rest = columns[:BEFORE_KEY], columns[BEFORE_KEY:]
    parts = [*(c.tolist() for c in before), keys, *(c.tolist() for c in rest)]
    return list(zip(*parts, strict=True))


def is_sorted(columns: Sequence[Int64s]) -> bool:
    """Whether rows are in ascending order of `columns`, equal ones allowed."""
    undecided = np.ones(max(len(columns[0]) - 1, 0), dtype=np.bool_)
    for column in columns:  # the most significant first, until nothing is undecided
        before, after = column[:-1], column[1:]
        if (undecided & (before > after)).any():
            return False
        undecided &= before == after
        if not undecided.any():
            return True
    return True


def sort_by_position(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """The rows of `table` in order of the position columns `names`."""
    order = order_by([ints(table, name) for name in names], held_keys(table))
    return table if is_sorted([order]) else table.take(pa.array(order))


def parts_by_position(table: pa.Table, names: Sequence[str], kept: Container[str]) -> Iterator[pa.Table]:
    """The same in parts of at most `PART_ROWS` rows, shard by shard; of the columns, those that are `kept`.

    Each part is taken when it is asked for, so that it gets the memory of the one before. The rows do not lie twice in
    memory (law 9): they are taken from where they lie, and small batches alone are put together.
    """
    order = order_by([ints(table, name) for name in names], held_keys(table))
    if SHARD in table.column_names:
        order = order[np.argsort(ints(table, SHARD)[order], kind="stable")]
    straight = is_sorted([order])
    batches = table.select([name for name in table.column_names if name in kept]).to_batches()
    del table
    chunks = list(_chunks(batches))
    starts = np.cumsum([0, *map(len, chunks)])
    whole = pa.Table.from_batches(chunks) if straight and chunks else None
    for start in range(0, len(order), PART_ROWS):
        if whole is not None:
            yield whole.slice(start, PART_ROWS)
        else:
            yield _taken(chunks, starts, order[start : start + PART_ROWS])


def _chunks(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows in batches of `CHUNK_BYTES` or more; the list is used up."""
    batches.reverse()
    held: list[pa.RecordBatch] = []
    size = 0
    while batches:
        held.append(batches.pop())
        size += held[-1].nbytes
        if size >= CHUNK_BYTES or not batches:
            yield from pa.Table.from_batches(held).combine_chunks().to_batches()
            held, size = [], 0


def _taken(chunks: Sequence[pa.RecordBatch], starts: Int64s, rows: Int64s) -> pa.Table:
    """Rows of these chunks in the order given: first chunk by chunk, and then the few of them in their order."""
    number = (starts.searchsorted(rows, side="right") - 1).astype(np.uint16)
    by_chunk = np.argsort(number, kind="stable")
    ends = np.cumsum(np.bincount(number, minlength=len(chunks)))
    parts = []
    for chunk, start, begin, end in zip(chunks, starts, [0, *ends], ends, strict=False):
        if begin < end:
            parts.append(chunk.take(pa.array(rows[by_chunk[begin:end]] - start)))
    if len(parts) == 1:
        return pa.Table.from_batches(parts)
    back = np.empty(len(rows), dtype=np.int64)
    back[by_chunk] = np.arange(len(rows))
    return pa.Table.from_batches(parts).combine_chunks().take(pa.array(back))


def merged(one: Iterator[pa.Table], other: Iterator[pa.Table], names: Sequence[str]) -> Iterator[pa.Table]:
    """Two streams of tables, each in order of position, as one; no more than a table of each is held."""
    sides = [filter(len, one), filter(len, other)]
    held = [next(side, None) for side in sides]
    while held[0] is not None and held[1] is not None:
        first, both = len(held[0]), stacked(held).combine_chunks()
        order = order_by([ints(both, name) for name in names], held_keys(both))
        ends = [int(np.flatnonzero(order == last)[0]) for last in (first - 1, len(both) - 1)]
        # All rows before the end of one table have come; what is left belongs to the other.
        done, left = (0, 1) if ends[0] < ends[1] else (1, 0)
        yield both.take(pa.array(order[: ends[done] + 1]))
        held[left] = both.take(pa.array(order[ends[done] + 1 :]))
        held[done] = next(sides[done], None)
    for side, table in zip(sides, held, strict=True):
        if table is not None:
            yield table
        yield from side
