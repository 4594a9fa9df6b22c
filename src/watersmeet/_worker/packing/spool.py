"""A batch of a DataFrame in the order of its columns, whatever its size: what is too much for memory waits in a file.

Law 9. Spark sorts no stream, and a DataFrame may have no limit per batch: its rows come to one task, all of them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.exchange.routing import number_rows, numbered
from watersmeet._engine.rows.sizes import cut, row_bytes

PACK_ROWS = 65_536
"""Rows that come from the file at once, fewer where they are large."""
HELD_BYTES = 256 << 20
"""Bytes of rows that are sorted in memory, and of those that come from the file at once."""
LARGE = (
    f"A batch of the DataFrame of {{}} has more than {HELD_BYTES >> 20} MiB: it is put in order through a file, by one "
    'task.\nHint: limit a batch where the DataFrame is read: .option("maxFilesPerTrigger", ...), "maxBytesPerTrigger", '
    "or as its source has it."
)
"""What is to be said of one, with the name of its input."""


def in_order(
    batches: Iterator[pa.RecordBatch],
    order: Sequence[str],
    held_bytes: int = HELD_BYTES,
    large: Callable[[], None] = lambda: None,
) -> Iterator[pa.Table]:
    """All rows, numbered in order of their ordering columns; nulls last.

    Parameters
    ----------
    held_bytes : more than that is written to a file on this machine, and read from it in pieces.
    large : called where that is so.
    """
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not len(batch):
            continue
        held.append(batch)
        size += batch.nbytes
        if size > held_bytes:
            large()
            yield from _through_file(chain(_given_up(held), batches), batch.schema, order)
            return
    if held:
        yield number_rows(pa.Table.from_batches(held).combine_chunks(), order)


def _given_up(held: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches, each let go once it is taken."""
    held.reverse()
    while held:
        yield held.pop()


def _through_file(batches: Iterator[pa.RecordBatch], schema: pa.Schema, order: Sequence[str]) -> Iterator[pa.Table]:
    with tempfile.NamedTemporaryFile(dir=spool_folder(), prefix="watersmeet-", suffix=".arrow") as file:
        with pa.ipc.new_file(file, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        file.flush()
        with pa.memory_map(file.name) as source:
            parts = pa.ipc.open_file(source).read_all().to_batches()
            keys = pa.Table.from_batches(parts).select(list(order))
            places = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in order]).to_numpy()
            starts = np.cumsum([0, *(len(part) for part in parts)])
            sizes = np.concatenate([row_bytes(part) for part in parts])[places]
            for first, end in cut(np.maximum(sizes, HELD_BYTES // PACK_ROWS), HELD_BYTES):
                rows = _rows_at(parts, starts, places[first:end].astype(np.int64))
                yield numbered(rows, order, first)


def spool_folder() -> str | None:
    """The folder for rows that do not fit into memory: Spark's own, if it names one; None: that of temporary files."""
    return os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0] or None


def _rows_at(parts: Sequence[pa.RecordBatch], starts: Int64s, places: Int64s) -> pa.Table:
    """The rows of these places, counted over all parts; only the parts that have some are touched."""
    part_of = np.searchsorted(starts, places, side="right") - 1
    by_part = np.argsort(part_of, kind="stable")
    found = np.unique(part_of)
    taken = [parts[n].take(pa.array(places[by_part][part_of[by_part] == n] - starts[n])) for n in found]
    back = np.empty(len(places), dtype=np.int64)
    back[by_part] = np.arange(len(places))
    return pa.Table.from_batches(taken).combine_chunks().take(pa.array(back))
