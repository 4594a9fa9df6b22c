"""Files that tasks write themselves: which outputs these are, and the functions that write a task's part of them.

Law 2: a file has a task's rows in the order in which they come, each key's by position. A task writes beside its file's
name and renames the file when it is whole; what a batch has written is made visible by the driver (`file_batch`), so a
task that breaks off, or is run twice, changes nothing. Spark's session, its columns and its jobs are needed for none of
this where rows come as blobs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from watersmeet._engine.rows.columns import array, position_columns, stacked
from watersmeet._engine.rows.position import parts_by_position
from watersmeet._worker import task
from watersmeet._worker.process import give_back, settle
from watersmeet._worker.synced import sync
from watersmeet._worker.wire.sequence import SEQUENCE, Numbers
from watersmeet._worker.wire.wire import Exits
from watersmeet._worker.writers.shards import Shards
from watersmeet.errors import SinkError

WRITTEN = "sink int, file string"
_WRITTEN_ARROW = pa.schema([("sink", pa.int32()), ("file", pa.string())])
GROUP_BYTES = 64 << 20
"""Of a row group in memory, about: what a task holds of an output until it writes."""
_KEPT = frozenset(("key", "value", "ts", "headers"))


@dataclass(frozen=True)
class FileOutput:
    """An output that tasks write.

    Parameters
    ----------
    folder : where its batches lie, on a disk that all tasks and the driver see under this name.
    schema : of its files.
    codec : what their pages are compressed by, as pyarrow calls it.
    """

    folder: str
    schema: pa.Schema
    codec: str

    def writer(self, file: Path) -> pq.ParquetWriter:
        """The writer of one file."""
        return pq.ParquetWriter(file, self.schema, compression=self.codec)


@dataclass(frozen=True)
class FileWrite:
    """Writes rows of one task into the files of a batch.

    Parameters
    ----------
    outputs : by their numbers.
    places : folders in which the files of each output wait for the end of the batch.
    batch : number of the batch.
    """

    outputs: tuple[FileOutput, ...]
    places: tuple[str, ...]
    batch: int

    def __call__(self, parts: Iterable[tuple[int, pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """Write all parts, each the rows of one output, then name the files.

        Raises
        ------
        SinkError : the driver's folder is not to be found here.
        """
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
                given=str(folder),
                hint="Write to a folder that all machines have in common under one name. If another driver has taken "
                "the checkpoint over, it has removed this folder, and this query has to end.",
            )
        self._name = part_name(task.partition())
        self._final, self._beside = folder / self._name, folder / f".{self._name}.{task.attempt_id()}"
        self._writer = output.writer(self._beside)
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows behind those that there are."""
        self._held.append(rows)
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
        if self._held:
            self._writer.write_table(pa.Table.from_batches(self._held), row_group_size=max(1, self._rows))
        self._held, self._bytes = [], 0

    @property
    def _rows(self) -> int:
        return sum(map(len, self._held))


def part_name(task: int) -> str:
    """The name of a task's file."""
    return f"part-{task:05}.parquet"


@dataclass(frozen=True)
class FilesFromBlobs:
    """mapInArrow function: writes what a task's wire rows, sorted by label, bring to the outputs.

    Parameters
    ----------
    write : writes rows, told apart by the number of their output.
    exits : how outputs are told apart here.
    """

    write: FileWrite
    exits: Exits

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write, and yield the files' names."""
        settle()
        yield from self.write(self._parts(batches))
        give_back()

    def _parts(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
        numbers = Numbers(self.write.batch)
        # tasks that break off are no danger here: the driver takes no file of theirs, so nobody asks for the end
        for shard in Shards(batches, self.exits.ports):
            yield from self._sorted(shard, numbers)

    def _sorted(self, shard: dict[int, list[pa.Table]], numbers: Numbers) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows of one shard of an output, which has its labels for itself."""
        sink, tables = shard.popitem()
        schema, position = self.write.outputs[sink].schema, position_columns(self.exits.slots)
        held = [stacked(tables)]
        # nobody else holds the rows, so that what is no longer needed of them goes
        tables.clear()
        for part in parts_by_position(held.pop(), position, _KEPT):
            given = {name: array(part, name) for name in part.column_names}
            yield sink, _visible({**given, SEQUENCE: numbers.of(len(part))}, schema, len(part))


@dataclass(frozen=True)
class FilesFromColumns:
    """mapInArrow function: writes the rows of `columns_of`, each to its outputs.

    Parameters
    ----------
    write : writes rows, told apart by the number of their output.
    """

    write: FileWrite

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write, and yield the files' names."""
        settle()
        yield from self.write(self._parts(batches))
        give_back()

    def _parts(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
        for batch in batches:
            for number, output in enumerate(self.write.outputs):
                rows = batch.filter(batch.column(f"mine{number}"))
                if not len(rows):
                    continue
                given = {name: rows.column(name) for name in rows.schema.names}
                given |= {"key": given[f"key{number}"], "value": given[f"value{number}"]}
                yield number, _visible(given, output.schema, len(rows))


def _visible(given: dict[str, pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """Rows as users see them (`Selection.visible`)."""
    times = pc.multiply_checked(given["ts"].cast(pa.int64()), pa.scalar(1_000, pa.int64()))
    given = {**given, "timestamp": times.cast(schema.field("timestamp").type)}
    columns = []
    for field in schema:
        column = given.get(field.name)
        columns.append(pa.nulls(rows, field.type) if column is None else column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def no_rows(output: FileOutput, folder: Path) -> str:
    """Write a file that has nothing but the output's columns; its name."""
    file = _File(output, folder)
    return file.ended()
