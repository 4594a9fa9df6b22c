"""Spark's writers inside a foreachBatch: each batch is written so that writing it again changes nothing.

Files of a batch lie in a folder of their own (`batch_id=7`, which Spark reads back as a column) that a replay
overwrites; Delta is told application and batch; memory and console live only as long as the query does.
A writer of any other kind may write a replayed batch twice. Called by `sinks`.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from millpond.errors import ConfigError
from millpond.options import Writer

FILES = frozenset({"parquet", "orc", "json", "csv", "text", "avro", "xml"})
_CONSOLE_ROWS = "20"


def write_batch(
    rows: DataFrame, target: Writer, batch: int, identity: str, spark: SparkSession | None = None
) -> None:
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


def memory_table(target: Writer) -> str:
    """The name of the table that a memory writer fills.

    Raises
    ------
    ConfigError : it has none.
    """
    name = target.path or target.options.get("queryName")
    if not name:
        raise ConfigError(
            "A memory writer needs the name of its table.",
            given=repr(target),
            hint='mp.Writer("memory", path="results")',
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
