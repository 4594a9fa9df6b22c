"""The rows that one label gets in a batch, as its operator reads them: beyond a size they lie in a file, not in memory.

Law 9. An operator that goes by key takes a large batch slice by slice, but its blobs come in any order, so all of them
must have come before the first slice. Rows beyond `HELD_BYTES` are written as they are decoded, uncompressed, into a
file, and are read as it is mapped: the system can take these pages at any time.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Hashable, Mapping
from typing import BinaryIO, Generic, TypeVar

import pyarrow as pa

from watersmeet._engine.rows import blob
from watersmeet._engine.rows.columns import stacked
from watersmeet._worker.packing.spool import spool_folder

Side = TypeVar("Side", bound=Hashable)
HELD_BYTES = 128 << 20
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
        self._held: list[tuple[Side, pa.Table]] = []
        self._size = 0
        self._spool: _Spool[Side] | None = None

    def add(self, port: int, content: bytes) -> None:
        """One more blob."""
        side, rows = self._sides[port], blob.decode(content)
        self._size += rows.get_total_buffer_size()
        if self._size <= HELD_BYTES:
            self._held.append((side, rows))
            return
        if self._spool is None:
            self._spool = _Spool()
        self._spool.write(side, rows)

    def tables(self) -> dict[Side, pa.Table]:
        """All rows, in the order in which they came; they are here no more."""
        held, self._held = self._held, []
        spool, self._spool = self._spool, None
        sides: dict[Side, list[pa.Table]] = {}
        for side, rows in [*held, *(spool.read() if spool is not None else ())]:
            sides.setdefault(side, []).append(rows)
        return {side: stacked(tables) for side, tables in sides.items()}


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
        found = []
        for side, place in self._places:
            with pa.ipc.open_stream(content[place:]) as reader:
                found.append((side, reader.read_all()))
        return found

    def __del__(self) -> None:
        # a task that fails before it has read them
        with contextlib.suppress(OSError):
            self._file.close()
            os.unlink(self._path)
