"""A job over some partitions of a frame: those of Spark's state in which the hash ranges of some keys lie (law 10).

Spark's reader of state has no predicates, and a DataFrame no way to leave partitions out; a job has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row

from watersmeet._engine.rows.blob import decode, encode
from watersmeet._spark.stores.shards import StoreRows
from watersmeet._worker.wire.wire import sparks_hash

SERIALIZED = "content binary"
_ARROW = pa.schema([("content", pa.binary())])


@dataclass(frozen=True)
class Serialized:
    """mapInArrow function: rows of a store, each batch as one value, so that a job can give them back."""

    rows: StoreRows

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        for batch in self.rows(batches):
            yield pa.RecordBatch.from_arrays([pa.array([encode(batch)], pa.binary())], schema=_ARROW)


def partition_of(label: int, tasks: int) -> int:
    """The partition of Spark's state in which a label lies."""
    return int(sparks_hash(np.array([label], dtype=np.int32))[0] % tasks)


def collected(frame: DataFrame, partitions: Sequence[int], count: int) -> list[Row]:
    """The rows of some partitions of a frame that has `count`; the others are not touched.

    Where Spark has made other partitions of them, all are read.
    """
    rows = frame.rdd
    if rows.getNumPartitions() != count:
        return frame.collect()
    found: list[Row] = frame.sparkSession.sparkContext.runJob(rows, list, sorted(set(partitions)))
    return found


def deserialized(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """What `Serialized` has given."""
    return pa.concat_tables([schema.empty_table(), *(decode(bytes(row["content"])) for row in rows)])
