"""Order by position (law 2): operators sort, they never trust the order in which blobs arrive.

A position is integers, and of results that time brought about also their keys: `closing` has room for the
first eight bytes of a key, so where these agree the whole keys are compared. Called by every operator and by
the sinks.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millpond._engine.columns import LET_GO, Int64s, ints
from millpond._engine.keys import encode_keys

PART_ROWS = 16_384
"""Rows that are handed out at a time."""
_BEFORE_KEY = 4
"""Columns of a position that come before the key: order_ts, srcpart, offset, and the key's first bytes."""


def order_by(columns: Sequence[Int64s], keys: pa.Array | pa.ChunkedArray | None = None) -> Int64s:
    """Row numbers in ascending order of `columns`, the most significant first; stable.

    With `keys` the columns are those of a position, and keys decide where time let go of several.
    Columns that hold one value everywhere are left out and sorted input is recognised, since both are the
    rule: most topologies have one source partition in a shard's blob, and Kafka's order is kept by tasks.
    """
    rows = len(columns[0])
    varying = [c for c in columns if rows and c.min() != c.max()]
    if not varying or is_sorted(varying):
        order = np.arange(rows, dtype=np.int64)
    else:
        order = np.lexsort(tuple(reversed(varying)))
    return order if keys is None else _by_keys(order, columns, keys)


def _by_keys(order: Int64s, columns: Sequence[Int64s], keys: pa.Array | pa.ChunkedArray) -> Int64s:
    """`order`, put right where rows that time let go of have all but their keys in common."""
    if not len(order) or columns[1].max() < LET_GO:
        return order
    same = columns[1][order[1:]] >= LET_GO
    # One turn per column.
    for column in columns[:_BEFORE_KEY]:
        same &= column[order[1:]] == column[order[:-1]]
    places = np.flatnonzero(np.append(same, False) | np.append(False, same))
    if not len(places):
        return order
    rows = order[places]
    group = np.cumsum(np.append(True, ~same))[places]
    encoded = encode_keys(keys.take(pa.array(rows)))
    rank = pc.rank(encoded, sort_keys="ascending", tiebreaker="dense").to_numpy()
    rest = [column[rows] for column in reversed(columns[_BEFORE_KEY:])]
    order = order.copy()
    order[places] = rows[np.lexsort((*rest, rank, group))]
    return order


def places_of(columns: Sequence[Int64s], keys: pa.Array | pa.ChunkedArray) -> list[tuple[int | bytes, ...]]:
    """Positions as tuples whose order is that of `order_by` with keys."""
    let_go = columns[1] >= LET_GO
    tails: npt.NDArray[np.object_] = np.full(len(let_go), b"", dtype=object)
    if let_go.any():
        tails[let_go] = encode_keys(keys.filter(pa.array(let_go))).fill_null(b"").to_pylist()
    before, rest = columns[:_BEFORE_KEY], columns[_BEFORE_KEY:]
    parts = [*(c.tolist() for c in before), tails.tolist(), *(c.tolist() for c in rest)]
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
    order = order_by([ints(table, name) for name in names], table.column("key"))
    return table if is_sorted([order]) else table.take(pa.array(order))


def parts_by_position(table: pa.Table, names: Sequence[str], kept: Container[str]) -> Iterator[pa.Table]:
    """The same in parts of at most `PART_ROWS` rows; of the columns, those that are `kept`.

    Each part is taken when it is asked for, so that it gets the memory of the one before.
    """
    order = order_by([ints(table, name) for name in names], table.column("key"))
    straight = is_sorted([order])
    rows = table.select([name for name in table.column_names if name in kept]).combine_chunks()
    for start in range(0, len(order), PART_ROWS):  # one turn per part
        yield rows.slice(start, PART_ROWS) if straight else rows.take(pa.array(order[start : start + PART_ROWS]))


def merged(one: Iterator[pa.Table], other: Iterator[pa.Table], names: Sequence[str]) -> Iterator[pa.Table]:
    """Two streams of tables, each in order of position, as one; no more than a table of each is held."""
    sides = [filter(len, one), filter(len, other)]
    held = [next(side, None) for side in sides]
    # One turn per table.
    while held[0] is not None and held[1] is not None:
        first, both = len(held[0]), pa.concat_tables(held).combine_chunks()
        order = order_by([ints(both, name) for name in names], both.column("key"))
        ends = [int(np.flatnonzero(order == last)[0]) for last in (first - 1, len(both) - 1)]
        # All rows before the end of one table have come; what is left belongs to the other.
        done, left = (0, 1) if ends[0] < ends[1] else (1, 0)
        yield both.take(pa.array(order[: ends[done] + 1]))
        held[left] = both.take(pa.array(order[ends[done] + 1 :]))
        held[done] = next(sides[done], None)
    # One turn per side: one of them has ended.
    for side, table in zip(sides, held, strict=True):
        if table is not None:
            yield table
        yield from side
