"""The rows of served tables in a checkpoint, as the engine keeps them: what a replica begins with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from watersmeet._engine.rows.blob import decode
from watersmeet._spark.checkpoint.files import Folder
from watersmeet._spark.serving.stores import ServedStore
from watersmeet._spark.stores.read import StateReader


@dataclass(frozen=True)
class CheckpointedRows:
    """Reads the tables of one batch.

    Parameters
    ----------
    place : where Spark's logs and state lie.
    batch : the batch, committed.
    """

    place: Folder
    batch: int

    def of(self, store: ServedStore) -> Iterator[pa.Table]:
        """All rows of a table, some at a time: a task's, at most, are in memory."""
        frame: DataFrame = StateReader(self.place, self.batch).engine_rows(store.stored, store.labels)
        for row in frame.toLocalIterator():
            yield decode(bytes(row["content"]))


def planned(place: Folder) -> int:
    """Number of the last batch that is planned; -1: none."""
    return max(map(int, place.names("offsets/[0-9]*")), default=-1)


def committed(place: Folder) -> int:
    """Number of the last batch that is committed; -1: none."""
    return max(map(int, place.names("commits/[0-9]*")), default=-1)


def is_committed(place: Folder, batch: int) -> bool:
    """Whether a batch is, by one look at one file."""
    return bool(place.text(f"commits/{batch}"))
