"""Files that tasks write themselves: which outputs these are, and the functions that write a task's part of them.

Law 2: a file has a task's rows in the order in which they come, each key's by position. A task writes beside its file's
name and renames the file when it is whole; the driver makes what a batch has written visible, so a task that breaks
off, or is run twice, changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from watersmeet._engine.rows import stacked
from watersmeet._worker import process
from watersmeet._worker.process import freeze_imports, give_back, sync
from watersmeet._worker.wire import Exits, Numbers
from watersmeet._worker.writers.rows import Shards, in_order
from watersmeet.errors import SinkError

WRITTEN = "sink int, file string"
_WRITTEN_ARROW = pa.schema([("sink", pa.int32()), ("file", pa.string())])
GROUP_BYTES = 64 << 20
"""Of a row group in memory, about: what a task holds of an output until it writes."""


@dataclass(frozen=True)
class FileOutput:
    """An output that tasks write."""

    folder: str  # where its batches lie, on a disk that all tasks and the driver see under this name
    schema: pa.Schema  # of its files
    codec: str  # what their pages are compressed by, as pyarrow calls it

    def writer(self, file: Path) -> pq.ParquetWriter:
        return pq.ParquetWriter(file, self.schema, compression=self.codec)


@dataclass(frozen=True)
class FileWrite:
    """Writes rows of one task into the files of a batch."""

    outputs: tuple[FileOutput, ...]  # by their numbers
    places: tuple[str, ...]  # folders in which the files of each output wait for the end of the batch
    batch: int  # number of the batch

    def __call__(self, parts: Iterable[tuple[int, pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """Write all parts, each the rows of one output, then name the files."""
        files: dict[int, _File] = {}
        try:
            for number, rows in parts:
                if number not in files:
                    files[number] = _File(self.outputs[number], Path(self.places[number]))
                files[number].add(rows)
            names = {number: file.ended() for number, file in files.items()}
        finally:
            for file in files.values():
                file.close()
        yield pa.RecordBatch.from_pydict({"sink": list(names), "file": list(names.values())}, schema=_WRITTEN_ARROW)


class _File:
    """One output's file of one task, under another name until it is whole."""

    def __init__(self, output: FileOutput, folder: Path) -> None:
        if not folder.is_dir():
            raise SinkError(
                f"The folder of a file output does not exist on the machine of this task: {folder}.",
                hint="Write to a folder that all machines have in common under one name. If another driver has taken "
                "the checkpoint over, it has removed this folder, and this query has to end.",
            )
        self._name = part_name(process.partition())
        self._final, self._beside = folder / self._name, folder / f".{self._name}.{process.attempt_id()}"
        self._writer = output.writer(self._beside)
        self._buffer: list[pa.RecordBatch] = []
        self._bytes = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows behind those that there are."""
        self._buffer.append(rows)
        self._bytes += rows.nbytes
        if self._bytes >= GROUP_BYTES:
            self._write()

    def ended(self) -> str:
        """The file's name; it is whole."""
        self._write()
        self._writer.close()
        # before Spark's commit says that the batch is written
        sync(self._beside)
        os.replace(self._beside, self._final)
        return self._name

    def close(self) -> None:
        """Let the file go, whole or not."""
        self._writer.close()

    def _write(self) -> None:
        if self._buffer:
            self._writer.write_table(pa.Table.from_batches(self._buffer), row_group_size=max(1, self._rows))
        self._buffer, self._bytes = [], 0

    @property
    def _rows(self) -> int:
        return sum(map(len, self._buffer))


def part_name(task: int) -> str:
    return f"part-{task:05}.parquet"


@dataclass(frozen=True)
class FilesFromBlobs:
    """mapInArrow function: writes what a task's wire rows, sorted by label, bring to the outputs."""

    write: FileWrite  # writes rows, told apart by the number of their output
    exits: Exits  # how outputs are told apart in wire rows

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_imports()
        yield from self.write(self._parts(batches))
        give_back()

    def _parts(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
        # an output's numbers do not depend on the others
        numbers = [Numbers(self.write.batch) for _ in self.write.outputs]
        # tasks that break off are no danger here: the driver takes no file of theirs, so nobody asks for the end
        for shard in Shards(batches, self.exits.ports):
            yield from self._sorted(shard, numbers)

    def _sorted(
        self, shard: dict[int, list[pa.Table]], numbers: Sequence[Numbers]
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows of one shard of an output, which has its labels for itself."""
        (sink,) = shard
        # nobody else holds the rows, so that what is no longer needed of them goes
        schema, slots = self.write.outputs[sink].schema, self.exits.slots
        for part in in_order(stacked(shard.pop(sink)), slots, schema, numbers[sink]):
            yield sink, part


def no_rows(output: FileOutput, folder: Path) -> str:
    """Write a file that has nothing but the output's columns; its name."""
    file = _File(output, folder)
    return file.ended()
