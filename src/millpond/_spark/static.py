"""Static DataFrames beside streams: written once under the checkpoint, read as a stream of files.

Spark refuses the union of static and streaming frames. The copy is taken at the first start and stays: a
restart must find the rows that the checkpoint has counted. Called by `sources`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from urllib.parse import quote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from millpond._spark.files import RESTORE, contents, names
from millpond.errors import CorruptData

ROWS_PER_FILE = 1_000_000


def as_stream(
    spark: SparkSession,
    rows: DataFrame,
    order: Sequence[str],
    folder: str,
    name: str,
    *,
    at_once: bool = False,
    begun: bool = False,
) -> DataFrame:
    """The rows of a scan, ordered by their ordering columns, as a stream.

    Parameters
    ----------
    folder, name : where the copy lies.
    at_once : whether all its rows make one batch.
    begun : whether the checkpoint has batches, so that the copy must be there.

    Raises
    ------
    CorruptData : the copy is not whole any more: Spark would read it again, or leave out what is missing.
    """
    path = f"{folder}/{quote(name, safe='')}"
    files, found = _files_of(spark, f"{path}.done"), len(names(spark, path, "part-*"))
    if begun and files != found:
        raise CorruptData(
            f"The checkpoint's copy of the static DataFrame {name!r} is not whole.",
            given=f"{path}: {found} files, {'it is not known of how many' if files is None else f'{files} expected'}",
            hint=RESTORE,
        )
    if files is None:
        # one task writes one file after the other, so that their order in time is the order of the rows
        ordered = rows.coalesce(1).sortWithinPartitions(*order)
        ordered.write.option("maxRecordsPerFile", ROWS_PER_FILE).mode("overwrite").parquet(path)
        count = spark.range(1).select(F.lit(len(names(spark, path, "part-*"))).cast("long").alias("files"))
        count.coalesce(1).write.mode("overwrite").json(f"{path}.done")
    reader = spark.readStream.schema(rows.schema)
    return (reader if at_once else reader.option("maxFilesPerTrigger", 1)).parquet(path)


def _files_of(spark: SparkSession, path: str) -> int | None:
    """How many files a copy has; None: it was not made, or not to its end."""
    try:
        written = [int(json.loads(content)["files"]) for content in contents(spark, path, "part-*").values()]
    except (ValueError, KeyError, TypeError):
        return None
    return written[0] if written else None
