"""Static DataFrames beside streams: written once under the checkpoint, read as a stream of files.

Spark refuses the union of static and streaming frames. The copy is taken at the first start and stays: a
restart must find the rows that the checkpoint has counted. Called by `sources`.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

ROWS_PER_FILE = 1_000_000


def as_stream(
    spark: SparkSession,
    rows: DataFrame,
    order: Sequence[str],
    folder: str,
    name: str,
    *,
    at_once: bool = False,
) -> DataFrame:
    """The rows of a scan, ordered by their ordering columns, as a stream; `at_once` all in one batch."""
    path = f"{folder}/{quote(name, safe='')}"
    if not _exists(spark, f"{path}.done"):
        # one task writes one file after the other, so that their order in time is the order of the rows
        ordered = rows.coalesce(1).sortWithinPartitions(*order)
        ordered.write.option("maxRecordsPerFile", ROWS_PER_FILE).mode("overwrite").parquet(path)
        spark.range(1).coalesce(1).write.mode("overwrite").parquet(f"{path}.done")
    reader = spark.readStream.schema(rows.schema)
    return (reader if at_once else reader.option("maxFilesPerTrigger", 1)).parquet(path)


def _exists(spark: SparkSession, path: str) -> bool:
    try:
        return spark.read.schema("id long").parquet(path).count() > 0
    except AnalysisException:
        return False
