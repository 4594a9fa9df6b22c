"""A batch's files, from the driver's side: which outputs tasks can write, and how what they wrote becomes visible.

A batch of an output is the folder `batch_id=N`, which Spark reads back as a column. Its files wait in a folder beside
it, with a name that readers skip. When the job has ended, that folder gets the batch's name; if a replay finds the
batch there, it replaces the content. Killed at any moment, the driver finds the batch not committed and writes it
again.
"""

from __future__ import annotations

import logging
import os
import shutil
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyspark
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from watersmeet._engine.rows import with_nulls
from watersmeet._plan.nodes import SinkNode
from watersmeet._spark.checkpoint.folders import Folder, defaults_to_this_machine, first_line
from watersmeet._spark.outputs.output import OutputBatch, OutputContext, OutputWriter
from watersmeet._spark.session import path_on_this_machine
from watersmeet._worker.ended_rows import HEADERS
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet._worker.process import sync
from watersmeet._worker.wire import SEQUENCE
from watersmeet._worker.writers.files import WRITTEN, FileOutput, FilesFromBlobs, FileWrite, no_rows
from watersmeet.errors import ConfigError, CorruptData
from watersmeet.io.outputs import FILES, Writer

# Whether a path that a user gives means a folder on a disk of this machine.


def folder_on_this_machine(spark: SparkSession, path: str) -> str | None:
    """The folder's whole path, if it is one of this machine."""
    local_path = path_on_this_machine(path)
    # two slashes at the beginning stand before the name of a host
    if local_path is None or (local_path.startswith("//") and not local_path.startswith("///")):
        return None
    if local_path == path and not defaults_to_this_machine(spark):
        return None
    return os.path.abspath(f"/{local_path.lstrip('/')}" if local_path.startswith("/") else local_path)


LOG = logging.getLogger("watersmeet.files")
FORMAT = "parquet"
_DONE = "_SUCCESS"
_CODEC, _CODEC_SETTING = "compression", "spark.sql.parquet.compression.codec"
_CODECS = {
    **{name: name for name in ("snappy", "gzip", "zstd", "brotli")},
    **{"none": "none", "uncompressed": "none", "lz4_raw": "lz4"},
}
"""What Spark calls them, and what pyarrow does. Spark's lz4 is another than Parquet's."""
_PLAIN = (
    *(BinaryType, BooleanType, ByteType, DateType, DecimalType, DoubleType, FloatType, IntegerType, LongType),
    *(ShortType, StringType, TimestampNTZType, TimestampType),
)
"""What pyarrow writes as Spark reads it."""


def written_by_tasks(
    spark: SparkSession, target: Writer, key: DataType, value: DataType, headers: DataType | None = None
) -> FileOutput | None:
    """The output, if tasks can write it; None, said in the log, where Spark's writer does, in a job of its own.

    Parameters
    ----------
    key, value, headers : types of the columns; no headers: records have none.
    """
    columns = [("key", key), ("value", value), ("timestamp", TimestampType()), (SEQUENCE, LongType())]
    columns += [] if headers is None else [("headers", headers)]
    folder = None if target.path is None else folder_on_this_machine(spark, target.path)
    options = {name.lower(): text for name, text in target.options.items()}
    compression = options.pop(_CODEC, str(spark.conf.get(_CODEC_SETTING, "snappy")))
    codec = _CODECS.get(compression.lower())
    reason = _why_not(target, columns, folder, codec, options)
    if reason is not None or folder is None or codec is None:
        if target.format in FILES:
            LOG.info("%s is written by Spark, in a job of its own: %s.", target.path, reason)
        return None
    return FileOutput(folder, _schema(columns), codec)


def _why_not(
    target: Writer,
    columns: Sequence[tuple[str, DataType]],
    folder: str | None,
    codec: str | None,
    options: Mapping[str, str],
) -> str | None:
    if target.format != FORMAT:
        return f"tasks write {FORMAT}, and this is {target.format}"
    if folder is None:
        return "it is not on a disk of this machine"
    if codec is None or options:
        return f"only Spark knows the option {', '.join(sorted(options)) or _CODEC}"
    strange = [kind.simpleString() for name, kind in columns if not _is_plain(kind)]
    return f"values of a type of Spark's own: {', '.join(strange)}" if strange else None


def _is_plain(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        # Parquet has no group without fields
        return bool(kind.fields) and all(_is_plain(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _is_plain(kind.elementType)
    if isinstance(kind, MapType):
        return _is_plain(kind.keyType) and _is_plain(kind.valueType)
    return kind == StringType() if isinstance(kind, StringType) else type(kind) in _PLAIN


def _schema(columns: Sequence[tuple[str, DataType]]) -> pa.Schema:
    """Columns as Arrow has them, and in what files say of themselves also as Spark has them."""
    spark = StructType([StructField(name, kind, True) for name, kind in columns])
    metadata = {
        "org.apache.spark.version": pyspark.__version__,
        "org.apache.spark.sql.parquet.row.metadata": spark.json(),
    }
    return pa.schema([pa.field(name, with_nulls(arrow_type(kind))) for name, kind in columns], metadata=metadata)


@contextmanager
def written(outputs: Sequence[FileOutput], batch: int) -> Iterator[FileWrite]:
    """The writer of this batch's rows in a job; `publish` the written files while this lasts.

    Parameters
    ----------
    outputs : by their numbers.
    batch : number of the batch.
    """
    places = []
    try:
        for output in outputs:
            _sweep(Path(output.folder), batch)
            place = Path(output.folder) / f".{_name(batch)}.{uuid.uuid4().hex}"
            place.mkdir(parents=True)
            places.append(str(place))
        yield FileWrite(tuple(outputs), tuple(places), batch)
    finally:
        for folder in places:
            shutil.rmtree(folder, ignore_errors=True)


def publish(write: FileWrite, job: DataFrame, guard: Callable[[], None] = lambda: None) -> None:
    """Run the job, which writes, and make visible what its tasks say they have written.

    Parameters
    ----------
    guard : raises where the checkpoint is another query's; asked when the job has ended.
    """
    files = [(row["sink"], row["file"]) for row in job.collect()]
    guard()
    for number, (output, place) in enumerate(zip(write.outputs, map(Path, write.places), strict=True)):
        names = {file for sink, file in files if sink == number}
        # readers learn the columns from files, also where no batch had a row
        _show(place, Path(output.folder) / _name(write.batch), names or {no_rows(output, place)})


def _name(batch: int) -> str:
    return f"batch_id={batch}"


def _sweep(folder: Path, batch: int) -> None:
    """Remove what a driver that was killed in this batch has left."""
    with suppress(FileNotFoundError):
        for entry in list(os.scandir(folder)):
            if entry.name.startswith(f".{_name(batch)}."):
                shutil.rmtree(entry.path, ignore_errors=True)


def _show(place: Path, target: Path, names: set[str]) -> None:
    """Give the files of `place` that are named the name of the batch, in place of what has it."""
    _remove_others(place, names)
    (place / _DONE).touch()
    sync(place)
    try:
        # all at once; refused where the batch has been written before
        place.rename(target)
    except OSError:
        if not target.is_dir():
            raise
        _remove_others(target, names)
        for name in [*sorted(names), _DONE]:
            (place / name).replace(target / name)
        sync(target)
    sync(target.parent)


def _remove_others(folder: Path, names: set[str]) -> None:
    for entry in list(os.scandir(folder)):
        if entry.name not in names:
            shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)


# Spark's writers inside a foreachBatch: each batch is written so that writing it again changes nothing.
#
# Files of a batch lie in a folder of their own (`batch_id=7`, which Spark reads back as a column) that a replay
# overwrites; Delta gets application and batch; memory and console live only as long as the query does.
# A writer of any other kind may write a replayed batch twice.

ONCE = FILES | {"delta", "memory", "console", "noop"}
"""What a replayed batch is in once, here or by Spark's own sink."""
_CONSOLE_ROWS = "20"


def write_batch(rows: DataFrame, target: Writer, batch: int, identity: str, spark: SparkSession | None = None) -> None:
    """Write one batch.

    Parameters
    ----------
    identity : names the application and its checkpoint.
    spark : the user's session, where the table of a memory writer is to be seen; a batch has one of its own.
    """
    if target.format in FILES:
        folder = f"{str(target.path).rstrip('/')}/batch_id={batch}"
        _writer(rows, target).mode("overwrite").save(folder)
    elif target.format == "memory":
        _remember(rows, memory_table(target), batch, spark or rows.sparkSession)
    elif target.format == "console":
        options = {name.lower(): value for name, value in target.options.items()}
        print(f"-- batch {batch}")
        rows.show(int(options.get("numrows", _CONSOLE_ROWS)), options.get("truncate", "true") == "true")
    elif target.format == "noop":
        rows.write.format("noop").mode("overwrite").save()
    else:
        writer = _writer(rows, target).mode("append")
        if target.format == "delta":
            writer = writer.option("txnAppId", identity).option("txnVersion", str(batch))
        writer.save(target.path)


def warn_of_replays(target: Writer, *, single: bool) -> None:
    """Warn where a batch that is run again may be written twice.

    Parameters
    ----------
    single : whether it is the only output, which Spark's own sink of that format writes.
    """
    if target.format in ONCE or (single and target.format == "iceberg"):
        return
    warnings.warn(
        f"A batch that is run again after a failure may be written twice by the format {target.format!r}.\n"
        "Hint: take wm.ForeachBatch(function) and write so that a second call with the same number of a batch "
        f"changes nothing; or one of {', '.join(sorted(ONCE))}, which are written once.",
        stacklevel=2,
    )


def check_format(spark: SparkSession, target: Writer) -> None:
    """Raise where the session knows no such format."""
    if target.format in ONCE - {"delta", "avro", "xml"}:
        return
    try:
        spark.read.format(target.format).load()
    except Exception as error:  # whatever a format that exists says of options that are missing
        if "DATA_SOURCE_NOT_FOUND" in str(error) or "Failed to find" in str(error):
            raise ConfigError(
                f"Unknown format {target.format!r} of wm.Writer: Spark does not have it.",
                hint="See how it is spelt; a format that is not Spark's own needs its package: "
                'wm.session(config={"spark.jars.packages": ...}).',
            ) from None


def check_place(spark: SparkSession, target: Writer, *, single: bool) -> None:
    """Raise where the path is a file or cannot be written, or Spark cannot write a stream in this format."""
    local_path = None if target.path is None or target.format == "memory" else path_on_this_machine(target.path)
    above = () if local_path is None else (Path(local_path), *Path(local_path).parents)
    file = next((str(path) for path in above if path.is_file()), None)
    if file is not None:
        raise ConfigError(
            f"{target!r} writes a folder, and its path is a file: {file!r}.",
            hint="Name a folder, which may be yet to be made: wm.Writer(..., path=...).",
        )
    if target.path is not None and target.format in FILES:
        _check_writable(spark, target)
    if single and target.format == "jdbc":
        raise ConfigError(
            f"Spark does not write streams to a database: {target!r}.",
            hint="table.to(wm.DatabaseTable('postgresql://...', table='orders')); or wm.ForeachBatch(function).",
        )


def _check_writable(spark: SparkSession, target: Writer) -> None:
    place, name = Folder(spark, str(target.path)), f"_{uuid.uuid4().hex}"
    try:
        place.put(name, "", durable=True)
        place.remove(name)
    except Exception as error:  # py4j's, or the system's: a file system of any kind may say anything
        raise ConfigError(
            f"{target!r} cannot write to its path: {first_line(error)}.",
            hint="Give a folder that this user may write, on a file system that Spark knows: path='/data/orders', or "
            "of S3 path='s3a://bucket/orders'.",
        ) from None


def memory_table(target: Writer) -> str:
    """The name of the table that a memory writer fills."""
    name = target.path or target.options.get("queryName")
    if not name:
        raise ConfigError(
            'wm.Writer("memory") needs path=, the name of its table.', hint='wm.Writer("memory", path="results")'
        )
    return name


def _writer(rows: DataFrame, target: Writer) -> DataFrameWriter:
    return rows.write.format(target.format).options(**target.options)


def _remember(rows: DataFrame, name: str, batch: int, spark: SparkSession) -> None:
    """A view of all rows so far, for looking at."""
    new = spark.createDataFrame(rows.toArrow(), rows.schema)
    if batch and spark.catalog.tableExists(name):
        new = spark.table(name).unionAll(new)
    new.createOrReplaceTempView(name)


# Spark's writers as outputs: one alone is Spark's own sink; else files that tasks write in one pass, the others each in
# one of its own.


class SparkWriter(OutputWriter):
    """One of Spark's writers, in a job of its own."""

    @classmethod
    def check(cls, spark: SparkSession, targets: Sequence[Writer], *, single: bool) -> None:
        """Raise if a writer's format is unknown; warn of one that may write a replayed batch twice."""
        for target in targets:
            check_format(spark, target)
            check_place(spark, target, single=single)
            warn_of_replays(target, single=single)

    @classmethod
    def of(cls, context: OutputContext, sinks: Sequence[SinkNode]) -> Sequence[OutputWriter]:
        headers = HEADERS if context.compiled.headers else None
        files: dict[str, FileOutput] = {}
        for sink in sinks:
            output = written_by_tasks(context.spark, sink.target, sink.shape.key, sink.shape.value, headers)
            files |= {} if output is None else {sink.name: output}
        by_tasks = tuple(sink for sink in sinks if sink.name in files)
        jobs = [cls(context, (sink,)) for sink in sinks if sink.name not in files]
        return [*([FilesWriter(context, by_tasks, tuple(files.values()))] if files else []), *jobs]

    def alone(self, query_name: str | None) -> DataStreamWriter:
        target, context = self.target, self.context
        if context.written is not None and target.path is not None:
            _check_list(context.spark, target.path, context.written.planned)
        rows = context.compiled.rows(self.sink.name, context.compiled.schema(self.sink.name))
        writer = rows.writeStream.format(target.format).options(**target.options)
        if target.format == "memory":
            # its table is the query's name
            return writer.queryName(memory_table(target))
        writer = writer if target.path is None else writer.option("path", target.path)
        return writer if query_name is None else writer.queryName(query_name)

    @property
    def leaves_rows(self) -> bool:
        return bool(self.target.format == "console")

    def write(self, batch: OutputBatch) -> None:
        batch.guard()
        write_batch(batch.rows(self.sink), self.target, batch.number, self.context.identity, self.context.spark)


@dataclass(frozen=True, repr=False)
class FilesWriter(OutputWriter):
    """Writes files, in the tasks that have the rows."""

    turn = 1

    files: tuple[FileOutput, ...]  # by the places of their outputs

    def write(self, batch: OutputBatch) -> None:
        exits = batch.compiled.exits.of_sinks([sink.name for sink in self.sinks])
        with written(self.files, batch.number) as write:
            rows = batch.wire(self.sinks).mapInArrow(FilesFromBlobs(write, exits), WRITTEN)
            publish(write, rows, batch.guard)


def _check_list(spark: SparkSession, path: str, planned: int) -> None:
    """Raise where Spark's file sink has listed later batches: it would leave out those of the same numbers."""
    listed = max((int(name.split(".")[0]) for name in Folder(spark, path).names("_spark_metadata/[0-9]*")), default=-1)
    if listed > planned:
        raise CorruptData(
            "The output has later batches than the checkpoint: new batches with their numbers would not be written.",
            given=f"{path}: batch {listed} is there, the last one planned is {planned}",
            hint="Write to another folder with a new checkpoint; or restore the newest checkpoint.",
        )
