"""The rows that one label gets in a batch, as its operator reads them: beyond a size they lie in a file, not in memory.

Law 9. An operator that goes by key takes a large batch slice by slice, but its blobs come in any order, so all of them
must have come before the first slice. Rows beyond `INPUTS_HELD_BYTES` are written as they are decoded, uncompressed,
into a file, and are read as it is mapped: the system can take these pages at any time.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import chain
from typing import BinaryIO, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine import row_sizes
from watersmeet._engine.exchange import last_changes, number_rows, offsets_in, with_offsets
from watersmeet._engine.row_sizes import cut, row_bytes
from watersmeet._engine.rows import Int64s, ints, stacked

# A batch of a DataFrame in the order of its columns, whatever its size: what is too much for memory waits in a file.
#
# Law 9. Spark sorts no stream, and a DataFrame may have no limit per batch: its rows come to one task, all of them, or
# all of some partitions.

PACK_ROWS = 65_536
"""Rows that come from the file at once, fewer where they are large."""
SORT_BYTES = 256 << 20
"""Bytes of rows that are sorted in memory, and of those that come from the file at once."""
LARGE = (
    f"A batch of the DataFrame of {{}} has more than {SORT_BYTES >> 20} MiB: it is put in order through a file, by one "
    'task.\nHint: limit a batch where the DataFrame is read: .option("maxFilesPerTrigger", ...), "maxBytesPerTrigger", '
    "or as its source has it."
)
"""What is to be said of one, with the name of its input."""


def in_order(
    batches: Iterator[pa.RecordBatch],
    order: Sequence[str],
    held_bytes: int = SORT_BYTES,
    large: Callable[[], None] = lambda: None,
    *,
    changes: bool = False,
    partitioned: bool = False,
) -> Iterator[pa.Table]:
    """All rows, numbered in order of their ordering columns; nulls last.

    Parameters
    ----------
    held_bytes : more than that is written to a file on this machine, and read from it in pieces.
    large : called where that is so.
    changes : whether they are changes of a table, of which only the last one of a commit and a key counts.
    partitioned : whether they have several partitions, each with an order of its own.
    """
    facts = {"changes": changes, "partitioned": partitioned}
    buffer: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not len(batch):
            continue
        buffer.append(batch)
        size += batch.nbytes
        if size > held_bytes:
            large()
            yield from _through_file(chain(_given_up(buffer), batches), batch.schema, order, **facts)
            return
    if buffer:
        yield number_rows(pa.Table.from_batches(buffer).combine_chunks(), order, **facts)


def _given_up(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches, each let go once it is taken."""
    batches.reverse()
    while batches:
        yield batches.pop()


def _through_file(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, order: Sequence[str], *, changes: bool, partitioned: bool
) -> Iterator[pa.Table]:
    with tempfile.NamedTemporaryFile(dir=spool_folder(), prefix="watersmeet-", suffix=".arrow") as file:
        with pa.ipc.new_file(file, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        file.flush()
        with pa.memory_map(file.name) as source:
            parts = pa.ipc.open_file(source).read_all().to_batches()
            by = ["partition", *order] if partitioned else list(order)
            keys = pa.Table.from_batches(parts).select(by)
            places = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in by]).to_numpy()
            if changes:
                places = places[last_changes(keys.take(pa.array(places)), order)]
            partitions = ints(keys, "partition")[places] if partitioned else None
            offsets = offsets_in(partitions, len(places))
            starts = np.cumsum([0, *(len(part) for part in parts)])
            sizes = np.concatenate([row_bytes(part) for part in parts])[places]
            for first, end in cut(np.maximum(sizes, SORT_BYTES // PACK_ROWS), SORT_BYTES):
                rows = _rows_at(parts, starts, places[first:end].astype(np.int64))
                yield with_offsets(rows, order, offsets[first:end])


def spool_folder() -> str | None:
    """The folder for rows that do not fit into memory: Spark's own, if it names one; None: that of temporary files."""
    return os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0] or None


def _rows_at(parts: Sequence[pa.RecordBatch], starts: Int64s, places: Int64s) -> pa.Table:
    """The rows of these places, counted over all parts; only the parts that have some are touched."""
    part_of = np.searchsorted(starts, places, side="right") - 1
    by_part = np.argsort(part_of, kind="stable")
    part_numbers = np.unique(part_of)
    pieces = [parts[n].take(pa.array(places[by_part][part_of[by_part] == n] - starts[n])) for n in part_numbers]
    back = np.empty(len(places), dtype=np.int64)
    back[by_part] = np.arange(len(places))
    return pa.Table.from_batches(pieces).combine_chunks().take(pa.array(back))


Side = TypeVar("Side", bound=Hashable)
INPUTS_HELD_BYTES = 128 << 20
"""Of a label's decoded rows in memory, about."""
_PLAIN = pa.ipc.IpcWriteOptions(use_threads=False)


class LabelInputs(Generic[Side]):
    """Rows of one label, by side.

    Parameters
    ----------
    sides : side of each edge, by port.
    """

    def __init__(self, sides: Mapping[int, Side]) -> None:
        self._sides = sides
        self._buffer: list[tuple[Side, pa.Table]] = []
        self._size = 0
        self._spool: _Spool[Side] | None = None

    def add(self, port: int, content: bytes) -> None:
        """One more blob."""
        self.put(self._sides[port], row_sizes.decode(content))

    def put(self, side: Side, rows: pa.Table) -> None:
        """More rows of a side."""
        self._size += rows.get_total_buffer_size()
        if self._size <= INPUTS_HELD_BYTES:
            self._buffer.append((side, rows))
            return
        if self._spool is None:
            self._spool = _Spool()
        self._spool.write(side, rows)

    def tables(self) -> dict[Side, pa.Table]:
        """All rows, in the order in which they came; they are here no more."""
        buffer, self._buffer = self._buffer, []
        spool, self._spool = self._spool, None
        sides: dict[Side, list[pa.Table]] = {}
        for side, rows in [*buffer, *(spool.read() if spool is not None else ())]:
            sides.setdefault(side, []).append(rows)
        return {side: stacked(tables) for side, tables in sides.items()}


class WaitingBlobs:
    """Blobs of labels that wait for their turn; those beyond what memory should hold lie in a file."""

    def __init__(self) -> None:
        self._size = 0
        self._places: dict[int, list[tuple[int, bytes | tuple[int, int]]]] = {}
        self._file: BinaryIO | None = None

    def add(self, label: int, port: int, content: bytes) -> None:
        """One more blob of a label."""
        self._size += len(content)
        place: bytes | tuple[int, int] = content
        if self._size > INPUTS_HELD_BYTES:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=spool_folder(), prefix="watersmeet-")  # noqa: SIM115  it lasts for a batch
            place = self._file.seek(0, os.SEEK_END), len(content)
            self._file.write(content)
        self._places.setdefault(label, []).append((port, place))

    def labels(self) -> list[int]:
        """The labels that have some, in order."""
        return sorted(self._places)

    def take(self, label: int) -> Iterator[tuple[int, bytes]]:
        """Port and blob of all of a label, which wait no more."""
        for port, place in self._places.pop(label, []):
            if isinstance(place, bytes):
                self._size -= len(place)
                yield port, place
            else:
                assert self._file is not None
                self._file.seek(place[0])
                yield port, self._file.read(place[1])
        if not self._places and self._file is not None:
            self._file.close()
            self._file, self._size = None, 0


class _Spool(Generic[Side]):
    """Tables in a file."""

    def __init__(self) -> None:
        descriptor, self._path = tempfile.mkstemp(dir=spool_folder(), prefix="watersmeet-", suffix=".arrow")
        self._file: BinaryIO = os.fdopen(descriptor, "wb")
        self._places: list[tuple[Side, int]] = []

    def write(self, side: Side, rows: pa.Table) -> None:
        """One more table, at an address that Arrow's buffers may begin at."""
        self._file.write(bytes(-self._file.tell() % 64))
        self._places.append((side, self._file.tell()))
        # a copy in memory of a blob's size: Arrow would ask the file for its place at every buffer
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema, options=_PLAIN) as writer:
            writer.write_table(rows)
        self._file.write(sink.getvalue())

    def read(self) -> list[tuple[Side, pa.Table]]:
        """All tables, as they lie in the file; it is removed, and its pages last as long as the tables do."""
        self._file.close()
        with pa.memory_map(self._path) as mapped:
            content = mapped.read_buffer()
        # a system that keeps what is mapped keeps the name too
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        tables = []
        for side, place in self._places:
            with pa.ipc.open_stream(content[place:]) as reader:
                tables.append((side, reader.read_all()))
        return tables

    def __del__(self) -> None:
        # a task that fails before it has read them
        with contextlib.suppress(OSError):
            self._file.close()
            os.unlink(self._path)
