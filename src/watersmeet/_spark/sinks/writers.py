"""Spark's writers as outputs: one alone is Spark's own sink; else files that tasks write in one pass, the others each
in one of its own (`batch_writer`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from watersmeet._plan.logical import Plan
from watersmeet._plan.nodes import SinkNode
from watersmeet._spark.checkpoint.files import Folder
from watersmeet._spark.dataflow.selection import Selection, columns_of
from watersmeet._spark.sinks.batch_writer import check_format, memory_table, warn_of_replays, write_batch
from watersmeet._spark.sinks.file_batch import publish, written, written_by_tasks
from watersmeet._spark.sinks.kind import Chosen, Given, OnePass, OutputBatch, OutputKind, Pass, in_order
from watersmeet._worker.formats.dead_letters import HEADERS
from watersmeet._worker.wire.wire import Exits
from watersmeet._worker.writers.file_sink import WRITTEN, FileOutput, FilesFromBlobs, FilesFromColumns
from watersmeet.errors import CorruptData
from watersmeet.io.dataframes import Writer


class Writers(OutputKind):
    """Spark's writers."""

    def check(self, spark: SparkSession, targets: Sequence[Writer], *, alone: bool) -> None:
        """Raise if a writer's format is unknown; warn of one that may write a replayed batch twice."""
        for target in targets:
            check_format(spark, target)
            warn_of_replays(target, alone=alone)

    def can_be_direct(self, spark: SparkSession, plan: Plan, sinks: Sequence[SinkNode]) -> bool:
        return _direct_files(spark, sinks) is not None

    def direct(self, given: Given, nodes: Sequence[SinkNode]) -> Pass:
        files = _direct_files(given.spark, nodes, given.compiled.headers)
        assert given.compiled.exits is not None
        assert files is not None
        return FilesFromWire(files, given.compiled.exits)

    def alone(self, given: Given, chosen: Chosen, query_name: str | None) -> DataStreamWriter:
        target = chosen.target
        if given.written is not None and target.path is not None:
            _check_list(given.spark, target.path, given.written.planned)
        writer = chosen.selection.visible(given.frame).writeStream.format(target.format).options(**target.options)
        if target.format == "memory":
            # its table is the query's name
            return writer.queryName(memory_table(target))
        writer = writer if target.path is None else writer.option("path", target.path)
        return writer if query_name is None else writer.queryName(query_name)

    def passes(self, given: Given, chosen: Sequence[Chosen]) -> Sequence[Pass]:
        kinds = {field.name: field.dataType for field in given.frame.schema}
        files: list[tuple[FileOutput, Selection]] = []
        others: list[Pass] = []
        for each in chosen:
            key, value = kinds[each.selection.key], kinds[each.selection.value]
            output = written_by_tasks(given.spark, each.target, key, value, kinds.get("headers"))
            if output is None:
                others.append(WriterPass(each, given.identity, given.spark))
            else:
                files.append((output, each.selection))
        return (*([FilesOfColumns(tuple(files))] if files else []), *others)


@dataclass(frozen=True)
class FilesOfColumns(Pass):
    """Files that tasks write, from Spark's columns.

    Parameters
    ----------
    files : the outputs, and their parts of the frame.
    """

    turn = 1

    files: tuple[tuple[FileOutput, Selection], ...]

    def write(self, frame: DataFrame, batch: OutputBatch) -> None:
        with written([output for output, _ in self.files], batch.number) as write:
            rows = columns_of(frame, [selection for _, selection in self.files], batch.number)
            publish(write, rows.mapInArrow(FilesFromColumns(write), WRITTEN), batch.guard)


@dataclass(frozen=True)
class FilesFromWire(Pass):
    """Files that tasks write, from wire rows.

    Parameters
    ----------
    files : the outputs, by their numbers.
    exits : how they are told apart.
    """

    turn = 1

    files: tuple[FileOutput, ...]
    exits: Exits

    def write(self, frame: DataFrame, batch: OutputBatch) -> None:
        with written(self.files, batch.number) as write:
            publish(write, in_order(frame).mapInArrow(FilesFromBlobs(write, self.exits), WRITTEN), batch.guard)


@dataclass(frozen=True)
class WriterPass(OnePass):
    """Any other of Spark's writers, in a job of its own.

    Parameters
    ----------
    identity : names the application and its checkpoint.
    spark : the user's session.
    """

    identity: str
    spark: SparkSession

    @property
    def leaves_rows(self) -> bool:
        return bool(self.chosen.target.format == "console")

    def write(self, frame: DataFrame, batch: OutputBatch) -> None:
        batch.guard()
        rows = self.chosen.selection.visible(frame, batch.number)
        write_batch(rows, self.chosen.target, batch.number, self.identity, self.spark)


def _direct_files(
    spark: SparkSession, sinks: Sequence[SinkNode], headers: bool = False
) -> tuple[FileOutput, ...] | None:
    """The outputs of these Sink nodes, if all are files that tasks write; one alone is Spark's own sink."""
    if len(sinks) < 2:
        return None
    told = HEADERS if headers else None
    found = [written_by_tasks(spark, sink.target, sink.shape.key, sink.shape.value, told) for sink in sinks]
    return tuple(each for each in found if each is not None) if all(found) else None


def _check_list(spark: SparkSession, path: str, planned: int) -> None:
    """Raise where Spark's file sink has listed later batches: it would leave out those of the same numbers."""
    listed = max((int(name.split(".")[0]) for name in Folder(spark, path).names("_spark_metadata/[0-9]*")), default=-1)
    if listed > planned:
        raise CorruptData(
            "The output has later batches than the checkpoint: new batches with their numbers would not be written.",
            given=f"{path}: batch {listed} is there, the last one planned is {planned}",
            hint="Write to another folder with a new checkpoint; or restore the newest checkpoint.",
        )
