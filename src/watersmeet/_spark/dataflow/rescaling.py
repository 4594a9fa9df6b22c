"""State of one number of shards divided over another: chunks of old shards in, chunks and manifests of parts out.

A task takes one old shard after the other. Its chunks go to the task's disk, its rows come back in order of hash, and
each new shard that overlaps it gets a part of its own: chunks, and a manifest (`_engine.state.carry`). The levels
that take state over put the parts together (`carrying`). Law 9: a task holds some megabytes at a time.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa

from watersmeet._engine.state.cache import RunCache
from watersmeet._engine.state.carry import CarriedTables, divide
from watersmeet._engine.state.store import FolderChunkStore
from watersmeet._spark.dataflow.carrying import PIECE
from watersmeet._worker.formats.arrow_types import arrow_schema
from watersmeet._worker.process import give_back, settle


@dataclass(frozen=True)
class OldShard:
    """An old shard, and what becomes of it.

    Parameters
    ----------
    number : of the shard.
    of : among how many.
    manifest : its manifest, as it is stored.
    to : of each operator that takes something over its level, the labels of its shards, and what it takes.
    """

    number: int
    of: int
    manifest: bytes = field(repr=False)
    to: Sequence[tuple[int, Sequence[int], CarriedTables]]


@dataclass(frozen=True)
class Rescales:
    """mapInArrow function: chunks of old shards, as (old, run, chunk, content), to pieces.

    The rows of an old shard stand together; one without chunks has a row without any.

    Parameters
    ----------
    old : the old shards, by their labels.
    """

    old: Mapping[int, OldShard]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The pieces of a task's old shards."""
        settle()
        with tempfile.TemporaryDirectory(prefix="watersmeet-rescale-") as name:
            label: int | None = None
            for batch in batches:
                for at, each in enumerate(batch.column("old").to_pylist()):
                    if each != label and label is not None:
                        yield from self._pieces(label, Path(name) / str(label))
                    label = each
                    store = self._store(label, Path(name) / str(label))
                    run, chunk, content = (batch.column(column)[at] for column in ("run", "chunk", "content"))
                    if run.is_valid:
                        store.put_chunk(run.as_py(), chunk.as_py(), content.as_buffer())
            if label is not None:
                yield from self._pieces(label, Path(name) / str(label))
        give_back()

    def _store(self, label: int, folder: Path) -> FolderChunkStore:
        folder.mkdir(exist_ok=True)
        return FolderChunkStore(folder, self.old[label].manifest)

    def _pieces(self, label: int, folder: Path) -> Iterator[pa.RecordBatch]:
        shard, store = self.old[label], self._store(label, folder)
        for number, (level, labels, tables) in enumerate(shard.to):
            made: dict[int, FolderChunkStore] = {}
            parts = partial(_part, made, folder / f"parts-{number}")
            divide(store, tables, shard.number, (shard.of, len(labels)), parts, RunCache(folder / "runs"))
            for new, part in made.items():
                yield from _pieces_of(part, labels[new], level, shard.number)
        shutil.rmtree(folder)


def _part(made: dict[int, FolderChunkStore], folder: Path, shard: int) -> FolderChunkStore:
    """The store of a new shard's part, in a folder of its own."""
    own = folder / str(shard)
    own.mkdir(parents=True)
    made[shard] = FolderChunkStore(own)
    return made[shard]


def _pieces_of(part: FolderChunkStore, label: int, level: int, shard: int) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(PIECE)
    manifest = part.get_manifest()
    if manifest is None:
        return
    yield pa.RecordBatch.from_pylist(
        [{"label": label, "level": level, "run": None, "chunk": shard, "content": manifest}], schema=schema
    )
    for run, chunk, content in part.chunks():
        row = {"label": label, "level": level, "run": run, "chunk": chunk, "content": content}
        yield pa.RecordBatch.from_pylist([row], schema=schema)
