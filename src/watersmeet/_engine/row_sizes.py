"""Rows by their bytes: results, changes and runs are cut before a column passes what Arrow's offsets reach (law 9).

Values are gathered last, a piece of results at a time: what two thousand rows share with one value of a megabyte is two
thousand megabytes as soon as it is gathered.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine import keys
from watersmeet._engine.rows import Int64s, field, gather, gather_fields, record_place
from watersmeet.errors import CorruptData, SourceError

RESULT_BYTES = 8 << 20
"""Of one piece of results, at most, unless a single row has more."""
LARGEST_RECORD = 64 << 20
"""Of a record's key and value, at most: larger ones are refused where they come from."""
_OFFSET = 4
_EACH = 8
"""What the bytes of a row may be above those of its array's buffers, for each array that it lies in."""


@dataclass(frozen=True)
class Picked:
    """A column that is not gathered yet: `values[pointers]`, null for -1."""

    values: pa.Array | pa.ChunkedArray
    pointers: Int64s
    # of a struct, the numbers of those fields that anybody reads: the others are null; None: all
    fields: tuple[int, ...] | None = None

    def sizes(self) -> Int64s:
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
        size = sum(part.nbytes for part in parts) + _EACH * (1 + _arrays(self.values.type)) * len(self.values)
        return int(times * size)

    def part(self, start: int, end: int) -> pa.Array:
        """Some of the rows, gathered."""
        pointers = self.pointers[start:end]
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


def take_rows(column: pa.Array | pa.ChunkedArray | Picked, rows: Int64s) -> pa.Array | pa.ChunkedArray | Picked:
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
    for start, end in spans:
        yield pa.table({name: _part(column, start, end, count) for name, column in columns.items()})


def cut(sizes: Int64s, limit: int) -> Iterator[tuple[int, int]]:
    """Stretches of rows with at most `limit` bytes together, or of one row that has more."""
    ends = np.cumsum(sizes)
    start = done = 0
    while start < len(sizes):
        end = max(start + 1, int(ends.searchsorted(done + limit, side="right")))
        yield start, end
        start, done = end, int(ends[end - 1])


def row_bytes(values: pa.Array | pa.ChunkedArray | pa.RecordBatch | pa.Table, rows: Int64s | None = None) -> Int64s:
    """About how many bytes each row has; of the given rows alone, where they are given."""
    if isinstance(values, pa.RecordBatch | pa.Table):
        return _sum([row_bytes(column, rows) for column in values.columns])
    if isinstance(values, pa.ChunkedArray):
        sizes: Int64s = np.concatenate([np.zeros(0, dtype=np.int64), *map(row_bytes, values.chunks)])
        return sizes if rows is None else np.asarray(sizes[rows])
    total = np.zeros(len(values) if rows is None else len(rows), dtype=np.int64)
    total += _add_bytes(values, rows, total)
    return total


def _add_bytes(values: pa.Array, rows: Int64s | None, total: Int64s) -> int:
    """Add to each row what it alone decides, by offsets; gives the bytes that all rows have alike."""
    kind = values.type
    if pa.types.is_struct(kind):
        return 1 + sum(_add_bytes(field, rows, total) for field in keys.struct_fields(values))
    if keys.is_bytes(kind) and not pa.types.is_fixed_size_binary(kind):
        total += _lengths(keys.byte_offsets(values), rows)
        return _OFFSET
    if keys.is_list(kind):
        element = int(values.values.nbytes // max(len(values.values), 1) + 1)
        total += _lengths(keys.list_offsets(values), rows) * element
        return _OFFSET
    return int(values.nbytes // max(len(values), 1) + 1)


def value_bytes(values: pa.Array | pa.ChunkedArray) -> Int64s:
    """How many bytes each row has, by its value alone: the same in whatever array it stands (law 1).

    Text and bytes have their length and 4, what has a fixed width has this and 1, also where it is null; a struct has
    1 and what its fields have, an array or a map 4 and what its elements have.

    >>> value_bytes(pa.array(["a", None, "abc"])).tolist()
    [5, 4, 7]
    """
    values = keys.without_maps(keys.flat_keys(values))
    kind = values.type
    if pa.types.is_struct(kind):
        # `flatten` gives a field of what is null as null, whatever stands there
        return _sum([np.ones(len(values), dtype=np.int64), *map(value_bytes, values.flatten())])
    if keys.is_bytes(kind) and not pa.types.is_fixed_size_binary(kind):
        return _ints(pc.binary_length(values)) + _OFFSET
    if keys.is_list(kind):
        lengths = _ints(pc.list_value_length(values))
        ends = np.cumsum(lengths)
        sums = np.append(0, np.cumsum(value_bytes(values.flatten())))
        return np.asarray(sums[ends] - sums[ends - lengths] + _OFFSET, dtype=np.int64)
    width = 0 if pa.types.is_null(kind) else kind.bit_width // 8
    return np.full(len(values), width + 1, dtype=np.int64)


def _ints(lengths: pa.Array) -> Int64s:
    return np.asarray(lengths.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False))


def refuse_large(frame: pa.Table, roots: Mapping[int, str]) -> None:
    """Refuse records of the sources that are larger than `LARGEST_RECORD`.

    Parameters
    ----------
    frame : columns root, partition and offset, and those that hold keys and values.
    roots : name of each root number.
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
    return 1 + sum(_arrays(kind.field(at).type) for at in range(kind.num_fields))


def _sum(parts: list[Int64s]) -> Int64s:
    total: Int64s = np.sum(parts, axis=0, dtype=np.int64)
    return total


def _lengths(offsets: Int64s, rows: Int64s | None) -> Int64s:
    return np.asarray(np.diff(offsets) if rows is None else offsets[rows + 1] - offsets[rows], dtype=np.int64)


def _part(column: pa.Array | Picked, start: int, end: int, count: int) -> pa.Array:
    if isinstance(column, Picked):
        return column.part(start, end)
    return column if end - start == count else column.slice(start, end - start)


# Arrow tables as plain bytes: the one format of everything that crosses an exchange or enters state.
#
# Law 5: no Python object is pickled; a blob is an Arrow IPC stream (lz4 buffers) behind a 16 byte header of
# magic, format version and payload length. The length is there because an IPC stream cut between two messages
# still reads without error: it would silently be a shorter table.
#
# >>> import pyarrow as pa
# >>> decode(encode(pa.table({"key": [1, 2]}))).num_rows
# 2

MAGIC = b"WMBL"
VERSION = 1
PIECE_BYTES = 1 << 20
"""Rows of one blob at most, before compression: far below what the JVM's buffers and sockets suffer from."""
_HEADER = struct.Struct("<4sHHQ")
# One worker process per core does the work: Arrow's own threads would only contend with the others.
_PLAIN = pa.ipc.IpcWriteOptions(use_threads=False)
_LZ4 = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_READ = pa.ipc.IpcReadOptions(use_threads=False)


def encode(table: pa.Table | pa.RecordBatch, *, compress: bool = True) -> bytes:
    """Write a table or batch as one blob; `compress=False` where the bytes stay on this machine."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_LZ4 if compress else _PLAIN) as writer:
        writer.write(table)
    body = sink.getvalue()
    return b"".join((_HEADER.pack(MAGIC, VERSION, 0, body.size), memoryview(body)))


def decode(blob: bytes | memoryview | pa.Buffer) -> pa.Table:
    """Read one blob back; uncompressed buffers are not copied, so the table keeps the blob alive.

    Every offset, length and text is checked: Arrow takes them as they are written, and its kernels read memory where
    they lead. For rows of five columns that takes 15 ns each, half of what reading the stream takes.
    """
    buffer = blob if isinstance(blob, pa.Buffer) else pa.py_buffer(blob)
    _check_header(buffer)
    try:
        with pa.ipc.open_stream(buffer[_HEADER.size :], options=_READ) as reader:
            table = reader.read_all()
        table.validate(full=True)
        # a name that is no text is found out where it is read
        _ = table.column_names
        return table
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise CorruptData(
            "the Arrow stream inside a blob cannot be read",
            given=f"{buffer.size} bytes: {error}",
            hint="the stored or sent bytes were altered; restore the checkpoint from a copy",
        ) from error


def check_names(schema: pa.Schema) -> None:
    """Raise where a name in a schema is no text, which else is found out where it is read."""
    fields = list(schema)
    while fields:
        field = fields.pop()
        kind = field.type
        # read for what that raises
        _ = field.name, getattr(kind, "tz", None)
        fields += [kind.field(at) for at in range(kind.num_fields)]


def _check_header(buffer: pa.Buffer) -> None:
    if buffer.size < _HEADER.size:
        raise CorruptData(
            "a blob is shorter than its header",
            given=f"{buffer.size} bytes",
            hint="the stored or sent bytes were cut off",
        )
    magic, version, _, length = _HEADER.unpack_from(buffer, 0)
    if magic != MAGIC:
        raise CorruptData(
            "these bytes are not a watersmeet blob",
            given=f"first bytes {magic!r}, expected {MAGIC!r}",
            hint="they were written by something else or altered",
        )
    if version != VERSION:
        raise CorruptData(
            "a blob has an unknown format version",
            given=f"version {version}, this watersmeet reads {VERSION}",
            hint="it was written by another version of watersmeet: use that version to read it",
        )
    if length != buffer.size - _HEADER.size:
        raise CorruptData(
            "a blob does not have the length it was written with",
            given=f"{buffer.size - _HEADER.size} bytes after the header, expected {length}",
            hint="the stored or sent bytes were cut off or glued together",
        )


def pieces(rows: pa.Table, limit: int = PIECE_BYTES) -> Iterator[pa.Table]:
    """The rows in slices of about `limit` bytes at most, at least one row each, for blobs of bounded size."""
    total = rows.nbytes
    if total <= limit:
        # most blobs are small, and to ask a slice for its bytes takes as long as to write it
        if len(rows):
            yield rows
        return
    count = max(1, -(-total // limit))
    size = max(1, -(-len(rows) // count))
    for start in range(0, len(rows), size):
        piece = rows.slice(start, size)
        # rows of very different sizes are cut by what each has
        spans = [(0, len(piece))] if piece.nbytes <= 2 * limit else cut(row_bytes(piece), limit)
        for offset, end in spans:
            yield piece.slice(offset, end - offset)


# A shard's batch in ranges of hashes: what an operator needs beside its input follows from a slice, not the batch.
#
# Law 9. All records of a key are in one slice, so this is for operators with results that follow from their key's
# records alone (`by_key`). Results come in order of position within a slice; their reader sorts them (law 2).

SLICE_BYTES = 8 << 20
"""Of a slice's rows, about: what an operator needs for them is some times as many."""


def slices(inputs: Mapping[int, pa.Table], limit: int | None = None) -> Iterator[Mapping[int, pa.Table]]:
    """The rows of each side, in slices of about `limit` bytes (else `SLICE_BYTES`), the hashes ascending."""
    limit = SLICE_BYTES if limit is None else limit
    count = -(-sum(table.nbytes for table in inputs.values()) // limit)
    if count <= 1:
        yield inputs
        return
    edges = _edges([_hashes(batch) for table in inputs.values() for batch in table.to_batches()], count)
    sides = {side: [_Cut(batch, edges) for batch in table.to_batches()] for side, table in inputs.items()}
    for number in range(len(edges) + 1):
        parts = {side: [cut.part(number) for cut in cuts] for side, cuts in sides.items()}
        filled = {side: [part for part in batches if len(part)] for side, batches in parts.items()}
        yield {side: pa.Table.from_batches(batches) for side, batches in filled.items() if batches}


def slices_with_time(inputs: Mapping[int, pa.Table]) -> Iterator[Mapping[int, pa.Table]]:
    """The same for an operator that goes by time: the rows of time come with every slice."""
    time_rows = {side: table for side, table in inputs.items() if side < 0}
    for part in slices({side: table for side, table in inputs.items() if side >= 0}):
        yield {**part, **time_rows}


class _Cut:
    """A batch with rows taken slice by slice: so they lie twice in memory for one slice alone.

    Rows in order of their hashes, as large frames are packed, are not even copied for that: a slice is a view.
    """

    def __init__(self, batch: pa.RecordBatch, edges: Int64s) -> None:
        hashes = _hashes(batch)
        self._batch = batch
        self._order = None
        if (hashes[1:] >= hashes[:-1]).all():
            self._ends = np.append(hashes.searchsorted(edges, side="left"), len(hashes))
            return
        number = edges.searchsorted(hashes, side="right").astype(np.uint16)
        self._order = np.argsort(number, kind="stable").astype(np.int32)
        self._ends = np.cumsum(np.bincount(number, minlength=len(edges) + 1))

    def part(self, number: int) -> pa.RecordBatch:
        """Its rows of a slice."""
        start, end = int(self._ends[number - 1]) if number else 0, int(self._ends[number])
        if self._order is None:
            return self._batch.slice(start, end - start)
        return self._batch.take(pa.array(self._order[start:end]))


def _edges(hashes: list[Int64s], count: int) -> Int64s:
    """The first hash of each slice but the first one; fewer where many rows have one hash."""
    every = np.concatenate(hashes)
    places = np.arange(1, min(count, 2**16)) * len(every) // count
    return np.unique(np.partition(every, places)[places])


def _hashes(batch: pa.RecordBatch) -> Int64s:
    hashes: Int64s = batch.column("hash").to_numpy(zero_copy_only=False)
    return hashes
