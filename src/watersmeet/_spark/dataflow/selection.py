"""Which rows of the last frame belong to a sink, and in which columns: what `compile` hands to `sinks`.

A selection says it as columns, so that all Kafka sinks can be served in one pass over the frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from watersmeet._engine.rows.columns import HELD_KEY, ROOT_POSITION
from watersmeet._worker.wire.sequence import ROW_BITS, SEQUENCE


@dataclass(frozen=True)
class Selection:
    """One sink's part of a frame.

    Parameters
    ----------
    condition : holds for the sink's rows.
    key, value : names of the columns.
    combined : whether the keys are those of a one-to-many join, which Kafka keeps together by their prefix.
    headers : the column of its own headers; None: those that all rows have, if they have some.
    encoded : key or value, where the frame has their bytes: of values in place of them, of keys beside them.
    """

    condition: Column
    key: str
    value: str
    combined: bool = False
    headers: str | None = None
    encoded: tuple[str, ...] = ()

    def __call__(self, frame: DataFrame) -> DataFrame:
        """The sink's rows: key, value, ts, headers where there are any, and what says their position."""
        position = [n for n in frame.columns if n in ("case", *ROOT_POSITION, HELD_KEY) or _is_path(n)]
        columns = [F.col(self.key).alias("key"), F.col(self.value).alias("value"), F.col("ts")]
        if self.headers is not None or "headers" in frame.columns:
            columns.append(F.col(self.headers or "headers").alias("headers"))
        return frame.filter(self.condition).select(*columns, *position)

    def visible(self, frame: DataFrame, batch: int | None = None) -> DataFrame:
        """The sink's rows as a user sees them: key, value, timestamp, sequence and headers where there are any.

        Parameters
        ----------
        frame : all sinks' rows.
        batch : number of the batch, where it is known here.
        """
        columns = [F.col(self.key).alias("key"), F.col(self.value).alias("value")]
        columns += [F.timestamp_millis("ts").alias("timestamp")]
        if SEQUENCE in frame.columns:
            columns += [F.col(SEQUENCE) if batch is None else of_batch(batch)]
        columns += [F.col("headers")] if "headers" in frame.columns else []
        return frame.filter(self.condition).select(*columns)


def columns_of(frame: DataFrame, selections: Sequence[Selection], batch: int) -> DataFrame:
    """The columns that `FilesFromColumns` reads, for all selections in one pass over the frame."""
    columns = []
    for number, chosen in enumerate(selections):
        columns += [
            F.coalesce(chosen.condition, F.lit(False)).alias(f"mine{number}"),
            F.col(chosen.key).alias(f"key{number}"),
            F.col(chosen.value).alias(f"value{number}"),
        ]
    columns += [F.col("ts"), *([of_batch(batch)] if SEQUENCE in frame.columns else [])]
    return frame.select(*columns, *(["headers"] if "headers" in frame.columns else []))


def of_batch(batch: int) -> Column:
    """The column `sequence` with this batch number: where PySpark shares threads, tasks do not know the number."""
    row = F.col(SEQUENCE).bitwiseAND(F.lit((1 << ROW_BITS) - 1))
    return (row + F.lit(batch << ROW_BITS)).alias(SEQUENCE)


def _is_path(name: str) -> bool:
    return name[0] == "p" and name[1:].isdigit()
