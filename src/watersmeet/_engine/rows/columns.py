"""The columns of the engine's frames, and how they are read without copies.

A frame is an Arrow table with metadata columns of fixed names. Every operator, the exchange and the
runners use these names and nothing else to speak of position, time and key.

order_ts, srcpart, offset, p0..pN   position (law 2): running maximum of ts; source number * 2^32 +
                                        partition; offset; emission path
    v0..vN                              position from which lookups see the change, where it differs
    stored_ts                           timestamp that lookups see, where it differs
    silent                              true for a row that only says what lookups see (`Operator.emits_views`)
    ts, hash, key                       event time in ms, hash of the key, key
    value, old                          of a plain row
    left, right, joined                 of a join's result: what the joiner gets, and whether it is called
    old_left, old_right, old_joined     the same for the old result
    headers                             of the record that caused the row
    held_key                            turn and serialized key that the row was held back under, where time let it
                                        go; a frame without such rows need not have it
    shard                               of rows of several shards, which they are of; those of one shard come together
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Bools, Int64s

ROOT_POSITION = ("order_ts", "srcpart", "offset")
PARTITION_BITS = 32
ARRAY_BYTES = 1 << 30
"""Of one array, at most: Arrow's offsets end at twice as many. What has more stays in chunks."""
LET_GO = 2**62
"""Results that time lets go have the position of the record that moved time, and as the first number of the path the
time of the sources that operators see at them, less this: so they stand directly before that record's own results.
"""
AT_LAST = 2**61
"""order_ts of the moment that the wall clock tells: behind all records of its batch."""
AT_FIRST = -(2**61)
"""order_ts of the moment at which a batch is told what the wall clock shows: before all records that time knows of."""
SHARD = "shard"
HELD_KEY = "held_key"
"""What follows in the place of such results: their turn, and the key that they were held back under, whatever key they
get later."""


def path_columns(slots: int) -> tuple[str, ...]:
    """Names of the path columns of a plan with that many slots."""
    return tuple(f"p{slot}" for slot in range(slots))


def visible_columns(slots: int) -> tuple[str, ...]:
    """Names of the columns that say from where lookups see a change."""
    return tuple(f"v{slot}" for slot in range(slots))


def position_columns(slots: int) -> tuple[str, ...]:
    """Names of all columns of a position, in order of significance."""
    return ROOT_POSITION + path_columns(slots)


def stacked(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of all tables; what some of them lack (`held_key`) is null there."""
    return pa.concat_tables(tables, promote_options="default")


def without(table: pa.Table, rows: Iterable[int]) -> pa.Table:
    """The table without these rows, by their numbers."""
    kept = np.ones(len(table), dtype=np.bool_)
    kept[list(rows)] = False
    return table.filter(pa.array(kept))


def held_keys(table: pa.Table) -> pa.Array | None:
    """The column of that name; None where no row has been held back."""
    if HELD_KEY not in table.column_names:
        return None
    held = array(table, HELD_KEY)
    return held if held.null_count < len(held) else None


def partitions(position: Sequence[Int64s]) -> Int64s:
    """Partition of the source record of each row, by its position.

    Of results that time let go, where a partition has a time of its own, the second path slot says which one it was,
    beside the operator (`released`): the wall clock's moment is in none.
    """
    said = position[1]
    if len(position) > len(ROOT_POSITION) + 1:
        said = np.where(let_go(position), position[len(ROOT_POSITION) + 1], said)
    return said & ((1 << PARTITION_BITS) - 1)


def let_go(position: Sequence[Int64s]) -> Bools:
    """Which rows, by their positions, time has let go, or were caused by such ones."""
    return np.asarray(position[len(ROOT_POSITION)] < 0)


def array(table: pa.Table | pa.RecordBatch, name: str) -> pa.Array:
    """A column as one contiguous array."""
    column = table.column(name)
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column


def array_of(values: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """Values as one array of a type."""
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return whole if whole.type == kind else whole.cast(kind)


def ints(table: pa.Table | pa.RecordBatch, name: str) -> Int64s:
    """A 64-bit integer column without nulls."""
    values: Int64s = array(table, name).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return values


def bools(table: pa.Table | pa.RecordBatch, name: str) -> Bools:
    """A boolean column; null counts as false."""
    flags: Bools = array(table, name).fill_null(False).to_numpy(zero_copy_only=False)
    return flags


def valid(values: pa.Array | pa.ChunkedArray) -> Bools:
    """True where there is a value."""
    if values.null_count == 0:
        return np.ones(len(values), dtype=np.bool_)
    flags: Bools = values.is_valid().to_numpy(zero_copy_only=False)
    return flags


def gather(values: pa.Array | pa.ChunkedArray, pointers: Int64s) -> pa.Array:
    """`values[pointers]`; a pointer of -1 gives null. The result must fit into one array (`sizes`)."""
    if isinstance(values, pa.ChunkedArray) and values.num_chunks > 1 and values.nbytes > ARRAY_BYTES:
        return _gather_by_chunks(values, pointers)
    missing = pointers < 0
    indices = pa.array(pointers, mask=missing) if missing.any() else pa.array(pointers)
    taken = values.take(indices)
    return taken.combine_chunks() if isinstance(taken, pa.ChunkedArray) else taken


def gather_fields(values: pa.Array | pa.ChunkedArray, fields: Sequence[int], pointers: Int64s) -> pa.Array:
    """The same of structs of which these fields alone are read, by number: the others are null."""
    kind = values.type
    missing = pointers < 0
    if values.null_count:
        missing |= ~np.append(valid(values), False)[pointers]
    children = [
        gather(field(values, at), pointers) if at in fields else pa.nulls(len(pointers), kind.field(at).type)
        for at in range(kind.num_fields)
    ]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=pa.array(missing) if missing.any() else None)


def field(values: pa.Array | pa.ChunkedArray, number: int) -> pa.Array | pa.ChunkedArray:
    """A field of structs as it lies in memory: where the struct is null it may be anything."""
    if isinstance(values, pa.ChunkedArray):
        kind = values.type.field(number).type
        return pa.chunked_array([chunk.field(number) for chunk in values.chunks], kind)
    return values.field(number)


def _gather_by_chunks(values: pa.ChunkedArray, pointers: Int64s) -> pa.Array:
    """The same without all values in one array."""
    order = np.argsort(pointers, kind="stable")
    ordered = pointers[order]
    starts = np.cumsum([0, *map(len, values.chunks)])
    edges = ordered.searchsorted(starts)
    parts = [pa.nulls(int(edges[0]), values.type)]
    for chunk, start, begin, end in zip(values.chunks, starts[:-1], edges[:-1], edges[1:], strict=True):
        if begin < end:
            parts.append(chunk.take(pa.array(ordered[begin:end] - start)))
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.arange(len(order))
    return pa.concat_arrays(parts).take(pa.array(back))


def joined(parts: list[pa.Array | pa.ChunkedArray], kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """The parts behind one another, of type `kind`; in chunks where they are too large for one array."""
    chunks = [c.cast(kind) if c.type != kind else c for part in parts for c in _chunks(part) if len(c)]
    if len(chunks) == 1:
        return chunks[0]
    if sum(chunk.nbytes for chunk in chunks) > ARRAY_BYTES:
        return pa.chunked_array(chunks, kind)
    return pa.concat_arrays(chunks) if chunks else pa.array([], type=kind)


def held_together(parts: Sequence[pa.Array | None], counts: Sequence[int]) -> pa.Array | pa.ChunkedArray | None:
    """The `held_keys` of several tables behind one another, null in those that have none; None where all have none."""
    if all(part is None for part in parts):
        return None
    filled = [pa.nulls(n, pa.binary()) if part is None else part for part, n in zip(parts, counts, strict=True)]
    return joined(filled, pa.binary())


def _chunks(part: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    return list(part.chunks) if isinstance(part, pa.ChunkedArray) else [part]
