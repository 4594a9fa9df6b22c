"""What the demo shows of its results: the records as pandas frames, and tables that people can read."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

MOST_DELAYED = 10
LEAST_FLIGHTS = 100


def read_files(folder: Path) -> pd.DataFrame:
    """All records of an output in the order in which they were written: key, and the fields of the value.

    The fields of a tombstone are all null.
    """
    files = sorted(folder.rglob("*.parquet"), key=_batch)
    table = pa.concat_tables([pq.read_table(file, partitioning=None) for file in files])
    flat = table.select(["key", "value"]).flatten()
    named = flat.rename_columns([name.removeprefix("value.") for name in flat.column_names])
    # pandas has no integers that may be null unless it is told to use its own types
    frame: pd.DataFrame = named.to_pandas(types_mapper={pa.int32(): pd.Int32Dtype(), pa.int64(): pd.Int64Dtype()}.get)
    return frame


def most_delayed(flown: DataFrame) -> str:
    """The departures that were longest delayed, each with its plane."""
    rows = (
        flown.select("key", "value.*")
        .orderBy(F.desc("delay"), "flight")
        .limit(MOST_DELAYED)
        .select(
            "flight",
            F.col("dest").alias("to"),
            F.format_string("%d h %02d", F.floor(F.col("delay") / 60), F.col("delay") % 60).alias("late by"),
            F.col("key").alias("plane"),
            "manufacturer",
            "model",
            "seats",
        )
    )
    return _table(rows)


def delay_by_manufacturer(flown: DataFrame) -> str:
    """Mean delay and share of late departures by the plane's manufacturer."""
    rows = (
        flown.select("key", "value.*")
        .groupBy("manufacturer")
        .agg(
            F.count("*").alias("flights"),
            F.countDistinct("key").alias("planes"),
            F.round(F.avg("delay"), 1).alias("mean delay, min"),
            F.round(100 * F.avg((F.col("delay") > 15).cast("int")), 1).alias("over 15 min, %"),
        )
        .filter(F.col("flights") >= LEAST_FLIGHTS)
        .orderBy(F.desc("mean delay, min"))
    )
    return _table(rows)


def delay_by_airline(flights: pd.DataFrame) -> str:
    """Flights, and mean delay of those that left, by airline; of the final table of flights."""
    by_airline = flights.groupby("airline")
    columns = {"flights": by_airline.size(), "mean delay, min": by_airline["delay"].mean().astype(float).round(1)}
    return _text(pd.DataFrame(columns).sort_values("mean delay, min", ascending=False).reset_index())


def _table(rows: DataFrame) -> str:
    return _text(rows.toPandas())


def _text(frame: pd.DataFrame) -> str:
    text = frame.to_string(index=False, justify="right")
    return "\n".join(f"  {line}" for line in text.splitlines())


def _batch(file: Path) -> tuple[int, str]:
    """The number of the file's batch, which its folder names (`batch_id=7`), and its own name."""
    _, _, number = file.parent.name.partition("=")
    return int(number or 0), file.name
