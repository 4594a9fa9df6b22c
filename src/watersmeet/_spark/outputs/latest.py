"""The latest row of each key in what a table was written to: `watersmeet.latest`."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from watersmeet._worker.wire import SEQUENCE
from watersmeet.errors import ConfigError
from watersmeet.hints import answered

_NEEDED = ("key", "value", SEQUENCE)
_OPERATION = "operation"


@answered
def latest(frame: DataFrame) -> DataFrame:
    """The rows of a table, from all its changes: the last one of each key, and none for a key that was deleted.

    The changes are those that a topology wrote to a `Writer` or gave to a `ForeachBatch`: their column `sequence`
    says which of two changes of a key is the last (semantics: section 3, the last arrival wins, whatever its
    timestamp). Rows without a key belong to no row of a table and are left out.

    Parameters
    ----------
    frame : a bounded DataFrame with the columns key, value and sequence, and any others (timestamp, batch_id).

    Returns
    -------
    DataFrame : its columns, one row per key.

    Raises
    ------
    ConfigError : a column is missing, or the frame is a stream, which has no last row.

    Examples
    --------
    >>> open_orders = wm.latest(spark.read.parquet("/data/open-orders"))  # doctest: +SKIP
    """
    if not hasattr(frame, "isStreaming"):
        raise ConfigError(
            f"latest takes a DataFrame, and not {type(frame).__name__}: {frame!r:.80}.",
            hint="Read what a topology wrote: wm.latest(spark.read.parquet(path)).",
        )
    missing = [name for name in _NEEDED if name not in frame.columns]
    if missing:
        raise ConfigError(
            "wm.latest needs the changes of a table, as watersmeet writes them, and columns are missing.",
            given=f"columns {', '.join(frame.columns)}; missing: {', '.join(missing)}",
            hint='Read what a topology wrote: table.to(wm.Writer("parquet", path)), then '
            "wm.latest(spark.read.parquet(path)).",
        )
    if frame.isStreaming:
        raise ConfigError(
            "wm.latest takes a static DataFrame, and this one is streaming.",
            hint="Read the output with spark.read; or read it as a table: builder.table(frame, ...).",
        )
    columns = [name for name in frame.columns if name != "key"]
    last = F.max_by(F.struct(*columns), SEQUENCE).alias("last")
    latest_rows = frame.filter(F.col("key").isNotNull()).groupBy("key").agg(last)
    rows = latest_rows.select("key", *(F.col("last")[name].alias(name) for name in columns))
    return rows.filter(F.col("value").isNotNull()).select(*frame.columns)


def changes(rows: DataFrame, *, is_flat: bool) -> DataFrame:
    """The rows of an output, and of each what it does to a table."""
    operation = F.when(F.col("value").isNull(), "delete").otherwise("upsert").alias(_OPERATION)
    with_operation = rows.select("*", operation)
    return flat(with_operation) if is_flat else with_operation


def flat(rows: DataFrame) -> DataFrame:
    """The rows of an output with a column for each field of key and value, the times of windows as timestamps, and what
    stands beside them.
    """
    columns = [column for part in ("key", "value") for column in _columns_of(rows.schema[part].dataType, part)]
    names, beside = [name for name, _ in columns], [name for name in rows.columns if name not in ("key", "value")]
    # a field of the value that is called as one of the key, or as another column
    selection = [
        column.alias(f"value_{name}" if names.index(name) != at or name in beside else name)
        for at, (name, column) in enumerate(columns)
    ]
    return rows.select(*selection, *beside)


def _columns_of(kind: DataType, part: str) -> list[tuple[str, Column]]:
    fields = kind.names if isinstance(kind, StructType) else None
    if part == "key" and fields == ["key", "start", "end"]:
        times = [(name, F.timestamp_millis(F.col("key")[name])) for name in ("start", "end")]
        inner = kind["key"].dataType  # type: ignore[index]
        names = inner.names if isinstance(inner, StructType) else None
        key = F.col("key")["key"]
        return [*([("key", key)] if names is None else [(name, key[name]) for name in names]), *times]
    return [(part, F.col(part))] if fields is None else [(name, F.col(part)[name]) for name in fields]
