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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyspark
from pyspark.sql import DataFrame, SparkSession
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

from watersmeet._engine.rows.types import with_nulls
from watersmeet._spark.sinks.batch_writer import FILES
from watersmeet._spark.sinks.local_folders import folder_on_this_machine
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet._worker.synced import sync
from watersmeet._worker.wire.sequence import SEQUENCE
from watersmeet._worker.writers.file_sink import FileOutput, FileWrite, no_rows
from watersmeet.io.dataframes import Writer

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
    given = options.pop(_CODEC, str(spark.conf.get(_CODEC_SETTING, "snappy")))
    codec = _CODECS.get(given.lower())
    why = _why_not(target, columns, folder, codec, options)
    if why is not None or folder is None or codec is None:
        if target.format in FILES:
            LOG.info("%s is written by Spark, in a job of its own: %s.", target.path, why)
        return None
    return FileOutput(folder, _schema(columns), codec)


def _why_not(
    target: Writer,
    columns: Sequence[tuple[str, DataType]],
    folder: str | None,
    codec: str | None,
    others: Mapping[str, str],
) -> str | None:
    if target.format != FORMAT:
        return f"tasks write {FORMAT}, and this is {target.format}"
    if folder is None:
        return "it is not on a disk of this machine"
    if codec is None or others:
        return f"only Spark knows the option {', '.join(sorted(others)) or _CODEC}"
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
    said = {"org.apache.spark.version": pyspark.__version__, "org.apache.spark.sql.parquet.row.metadata": spark.json()}
    return pa.schema([pa.field(name, with_nulls(arrow_type(kind))) for name, kind in columns], metadata=said)


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
        for each in places:
            shutil.rmtree(each, ignore_errors=True)


def publish(write: FileWrite, job: DataFrame, guard: Callable[[], None] = lambda: None) -> None:
    """Run the job, which writes, and make visible what its tasks say they have written.

    Parameters
    ----------
    guard : raises where the checkpoint is another query's; asked when the job has ended.
    """
    told = [(row["sink"], row["file"]) for row in job.collect()]
    guard()
    for number, (output, place) in enumerate(zip(write.outputs, map(Path, write.places), strict=True)):
        names = {file for sink, file in told if sink == number}
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
