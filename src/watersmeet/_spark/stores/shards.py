"""Rows of a store in the workers: a hash range's chunks go to the disk of the task, and come back merged.

Law 9: a task holds some megabytes of a range at a time, however large it is, since all runs lie in files.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from watersmeet._engine.operators.processors.live_entries import lasting
from watersmeet._engine.state import manifest as mf
from watersmeet._engine.state.cache import RunCache
from watersmeet._engine.state.layout import declared
from watersmeet._engine.state.runs import State
from watersmeet._engine.state.store import FolderChunkStore
from watersmeet._spark.stores.keys import AskedKeys
from watersmeet._worker.process import give_back, settle


class RowsView(Protocol):
    """The way in which a table's rows are shown."""

    def rows(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """The rows that are shown."""
        ...


class EngineRows:
    """Rows as the engine keeps them, all columns."""

    def rows(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """See `RowsView`."""
        yield from table.to_batches()


@dataclass(frozen=True)
class StoreRows:
    """mapInArrow function: chunks of hash ranges, as (label, run, chunk, content), to rows of the store's DataFrame.

    Parameters
    ----------
    store : the store's name.
    shown : what is shown of it.
    manifests : of each range, by its label.
    keys : of each range the keys that are asked for; None: all.
    """

    store: str
    shown: RowsView
    manifests: Mapping[int, bytes]
    keys: Mapping[int, AskedKeys] | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of a task's ranges."""
        settle()
        with tempfile.TemporaryDirectory(prefix="watersmeet-state-") as name:
            folder = Path(name)
            for label, chunks in sorted(self._stores_in(batches, folder).items()):
                yield from self._rows(chunks, folder / "runs", None if self.keys is None else self.keys[label])
        give_back()

    def _stores_in(self, batches: Iterator[pa.RecordBatch], folder: Path) -> dict[int, FolderChunkStore]:
        """The ranges with chunks in the folder now, by label, each in one of its own."""
        found: dict[int, FolderChunkStore] = {}
        for batch in batches:
            for at, label in enumerate(batch.column("label").to_pylist()):
                if label not in found:
                    found[label] = FolderChunkStore(folder / str(label), self.manifests[label])
                    found[label].folder.mkdir()
                run, chunk, content = (batch.column(name)[at] for name in ("run", "chunk", "content"))
                found[label].put_chunk(run.as_py(), chunk.as_py(), content.as_buffer())
        return found

    def _rows(self, chunks: FolderChunkStore, runs: Path, keys: AskedKeys | None) -> Iterator[pa.RecordBatch]:
        entry = mf.read(chunks.manifest or b"").tables[self.store]
        state = State(chunks, RunCache(runs))
        table = state.table(declared(self.store, entry.schema))
        if keys is None:
            found = table.scan()
        else:
            found = iter([table.rows(keys.hashes, keys.values.cast(entry.schema.field("key").type)).rows])
        for rows in found:
            yield from self.shown.rows(lasting(state, rows).replace_schema_metadata(entry.schema.metadata))
