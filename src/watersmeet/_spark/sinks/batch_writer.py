"""Spark's writers inside a foreachBatch: each batch is written so that writing it again changes nothing.

Files of a batch lie in a folder of their own (`batch_id=7`, which Spark reads back as a column) that a replay
overwrites; Delta gets application and batch; memory and console live only as long as the query does.
A writer of any other kind may write a replayed batch twice.
"""

from __future__ import annotations

import warnings

from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from watersmeet.errors import ConfigError
from watersmeet.io.dataframes import Writer

FILES = frozenset({"parquet", "orc", "json", "csv", "text", "avro", "xml"})
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


def warn_of_replays(target: Writer, *, alone: bool) -> None:
    """Warn where a batch that is run again may be written twice.

    Parameters
    ----------
    alone : whether it is the only output, which Spark's own sink of that format writes.
    """
    if target.format in ONCE or (alone and target.format == "iceberg"):
        return
    warnings.warn(
        f"A batch that is run again after a failure may be written twice by the format {target.format!r}.\n"
        "Hint: take wm.ForeachBatch(function) and write so that a second call with the same number of a batch "
        f"changes nothing; or one of {', '.join(sorted(ONCE))}, which are written once.",
        stacklevel=2,
    )


def check_format(spark: SparkSession, target: Writer) -> None:
    """Raise where the session knows no such format.

    Raises
    ------
    ConfigError : it does not.
    """
    if target.format in ONCE - {"delta", "avro", "xml"}:
        return
    try:
        spark.read.format(target.format).load()
    except Exception as error:  # whatever a format that exists says of options that are missing
        if "DATA_SOURCE_NOT_FOUND" in str(error) or "Failed to find" in str(error):
            raise ConfigError(
                f"Unknown format {target.format!r} of wm.Writer: Spark does not have it.",
                given=f"wm.Writer({target.format!r})",
                hint="See how it is spelt; a format that is not Spark's own needs its package: "
                'wm.session(config={"spark.jars.packages": ...}).',
            ) from None


def memory_table(target: Writer) -> str:
    """The name of the table that a memory writer fills.

    Raises
    ------
    ConfigError : it has none.
    """
    name = target.path or target.options.get("queryName")
    if not name:
        raise ConfigError(
            'wm.Writer("memory") needs path=, the name of its table.',
            given=repr(target),
            hint='wm.Writer("memory", path="results")',
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
