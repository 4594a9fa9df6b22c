"""Rows by their bytes: results, changes and runs are cut before a column passes what Arrow's offsets reach (law 9).

Values are gathered last, a piece of results at a time: what two thousand rows share with one value of a megabyte is two
thousand megabytes as soon as it is gathered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.keys import keyform as form
from watersmeet._engine.rows.columns import field, gather, gather_fields
from watersmeet._engine.rows.topic_slots import record_place
from watersmeet.errors import SourceError

RESULT_BYTES = 8 << 20
"""Of one piece of results, at most, unless a single row has more."""
LARGEST_RECORD = 64 << 20
"""Of a record's key and value, at most: larger ones are refused where they come from."""
_OFFSET = 4
_EACH = 8
"""What the bytes of a row may be above those of its array's buffers, for each array that it lies in."""


@dataclass(frozen=True)
class Picked:
    """A column that is not gathered yet: `values[pointers]`, null for -1.

    Parameters
    ----------
    fields : of a struct, the numbers of those fields that anybody reads: the others are null; None: all.
    """

    values: pa.Array | pa.ChunkedArray
    pointers: Int64s
    fields: tuple[int, ...] | None = None

    def sizes(self) -> Int64s:
        """Bytes of each row."""
        return np.append(self._bytes, 0)[self.pointers]

    def most(self) -> int:
        """Bytes that no row passes."""
        return int(self._bytes.max(initial=0))

    def bound(self) -> int:
        """Bytes that all rows together do not pass, without a look at each: as often as the one that is picked most."""
        pointed = self.pointers[self.pointers >= 0]
        times = int(np.bincount(pointed).max(initial=0)) if len(pointed) else 0
        parts = [self.values] if self.fields is None else [field(self.values, at) for at in self.fields]
        # what `row_bytes` adds to each for its offset or its null is counted along
        given = sum(part.nbytes for part in parts) + _EACH * (1 + _arrays(self.values.type)) * len(self.values)
        return int(times * given)

    def part(self, begin: int, end: int) -> pa.Array:
        """Some of the rows, gathered."""
        pointers = self.pointers[begin:end]
        if self.fields is None:
            return gather(self.values, pointers)
        return gather_fields(self.values, self.fields, pointers)

    @cached_property
    def _bytes(self) -> Int64s:
        if self.fields is None:
            return row_bytes(self.values)
        return _sum(
            [np.ones(len(self.values), dtype=np.int64), *(row_bytes(field(self.values, at)) for at in self.fields)]
        )


Columns = Mapping[str, pa.Array | Picked]


def taken(column: pa.Array | pa.ChunkedArray | Picked, rows: Int64s) -> pa.Array | pa.ChunkedArray | Picked:
    """Some rows of a column; of one that is not gathered yet, still not gathered."""
    return (
        replace(column, pointers=column.pointers[rows]) if isinstance(column, Picked) else column.take(pa.array(rows))
    )


def in_pieces(columns: Columns, limit: int | None = None) -> Iterator[pa.Table]:
    """The rows of these columns as tables of about `limit` bytes (else `RESULT_BYTES`); without rows, one table."""
    limit = RESULT_BYTES if limit is None else limit
    picked = [column for column in columns.values() if isinstance(column, Picked)]
    count = next(len(c.pointers if isinstance(c, Picked) else c) for c in columns.values())
    if sum(column.bound() for column in picked) <= limit or count * sum(column.most() for column in picked) <= limit:
        spans = [(0, count)]
    else:
        spans = list(cut(np.sum([column.sizes() for column in picked], axis=0), limit))
    for begin, end in spans:
        yield pa.table({name: _part(column, begin, end, count) for name, column in columns.items()})


def cut(sizes: Int64s, limit: int) -> Iterator[tuple[int, int]]:
    """Stretches of rows with at most `limit` bytes together, or of one row that has more."""
    ends = np.cumsum(sizes)
    begin = done = 0
    while begin < len(sizes):
        end = max(begin + 1, int(ends.searchsorted(done + limit, side="right")))
        yield begin, end
        begin, done = end, int(ends[end - 1])


def row_bytes(values: pa.Array | pa.ChunkedArray | pa.RecordBatch | pa.Table, rows: Int64s | None = None) -> Int64s:
    """About how many bytes each row has; of the given rows alone, where they are given."""
    if isinstance(values, pa.RecordBatch | pa.Table):
        return _sum([row_bytes(column, rows) for column in values.columns])
    if isinstance(values, pa.ChunkedArray):
        whole: Int64s = np.concatenate([np.zeros(0, dtype=np.int64), *map(row_bytes, values.chunks)])
        return whole if rows is None else np.asarray(whole[rows])
    total = np.zeros(len(values) if rows is None else len(rows), dtype=np.int64)
    total += _add_bytes(values, rows, total)
    return total


def _add_bytes(values: pa.Array, rows: Int64s | None, total: Int64s) -> int:
    """Add to each row what it alone decides, by offsets; gives the bytes that all rows have alike."""
    kind = values.type
    if pa.types.is_struct(kind):
        return 1 + sum(_add_bytes(field, rows, total) for field in form.struct_fields(values))
    if form.is_bytes(kind) and not pa.types.is_fixed_size_binary(kind):
        total += _lengths(form.byte_offsets(values), rows)
        return _OFFSET
    if form.is_list(kind):
        element = int(values.values.nbytes // max(len(values.values), 1) + 1)
        total += _lengths(form.list_offsets(values), rows) * element
        return _OFFSET
    return int(values.nbytes // max(len(values), 1) + 1)


def value_bytes(values: pa.Array | pa.ChunkedArray) -> Int64s:
    """How many bytes each row has, by its value alone: the same in whatever array it stands (law 1).

    Text and bytes have their length and 4, what has a fixed width has this and 1, also where it is null; a struct has
    1 and what its fields have, an array or a map 4 and what its elements have.

    >>> value_bytes(pa.array(["a", None, "abc"])).tolist()
    [5, 4, 7]
    """
    values = form.without_maps(form.flat(values))
    kind = values.type
    if pa.types.is_struct(kind):
        # `flatten` gives a field of what is null as null, whatever stands there
        return _sum([np.ones(len(values), dtype=np.int64), *map(value_bytes, values.flatten())])
    if form.is_bytes(kind) and not pa.types.is_fixed_size_binary(kind):
        return _ints(pc.binary_length(values)) + _OFFSET
    if form.is_list(kind):
        lengths = _ints(pc.list_value_length(values))
        ends = np.cumsum(lengths)
        sums = np.append(0, np.cumsum(value_bytes(values.flatten())))
        return np.asarray(sums[ends] - sums[ends - lengths] + _OFFSET, dtype=np.int64)
    width = 0 if pa.types.is_null(kind) else kind.bit_width // 8
    return np.full(len(values), width + 1, dtype=np.int64)


def _ints(lengths: pa.Array) -> Int64s:
    """Lengths, 0 of what is null."""
    return np.asarray(lengths.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False))


def refuse_large(frame: pa.Table, roots: Mapping[int, str]) -> None:
    """Refuse records of the sources that are larger than `LARGEST_RECORD`.

    Parameters
    ----------
    frame : columns root, partition and offset, and those that hold keys and values.
    roots : name of each root number.

    Raises
    ------
    SourceError : names the first such record.
    """
    if frame.nbytes <= LARGEST_RECORD:
        return
    size = row_bytes(frame)
    large = np.flatnonzero(size > LARGEST_RECORD)
    if len(large):
        row = int(large[0])
        root = frame.column("root")[row].as_py()
        raise SourceError(
            f"A record of {roots.get(root, root)} is too large.",
            given=f"{record_place(frame, row)}: {size[row]:,} bytes, {LARGEST_RECORD:,} allowed",
            hint="Keep large values elsewhere and let the record refer to them.",
        )


def _arrays(kind: pa.DataType) -> int:
    """How many arrays values of a type lie in."""
    return 1 + sum(_arrays(kind.field(at).type) for at in range(kind.num_fields))


def _sum(parts: list[Int64s]) -> Int64s:
    total: Int64s = np.sum(parts, axis=0, dtype=np.int64)
    return total


def _lengths(offsets: Int64s, rows: Int64s | None) -> Int64s:
    return np.asarray(np.diff(offsets) if rows is None else offsets[rows + 1] - offsets[rows], dtype=np.int64)


def _part(column: pa.Array | Picked, begin: int, end: int, count: int) -> pa.Array:
    if isinstance(column, Picked):
        return column.part(begin, end)
    return column if end - begin == count else column.slice(begin, end - begin)
