"""Levels that take state over: the first batch of a changed topology's state, made of what the one before has left.

The query that runs them has the levels of the topology, with the same variables, and nothing else: chunks come in, each
under the label that it has from now on, and every level keeps its own and passes on the rest.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from watersmeet._engine.state.cache import RunCache
from watersmeet._engine.state.carry import CarriedTables, carry, put_together
from watersmeet._spark.dataflow.level_variables import pickled_small
from watersmeet._worker.process import give_back, settle
from watersmeet._worker.state import SparkChunkStore

if TYPE_CHECKING:
    import pandas as pd

Parts = Mapping[int, Sequence[tuple[bytes, CarriedTables]]]
"""By its label what a shard takes over: manifests, and what of each."""

PIECE = StructType(
    [
        StructField("label", IntegerType(), False),
        StructField("level", IntegerType(), True),
        StructField("run", StringType(), True),
        StructField("chunk", IntegerType(), True),
        StructField("content", BinaryType(), True),
    ]
)
"""A chunk and the label and level under which it lies from now on.

A shard without chunks has a row without one. A manifest of a shard's part has no run; the number of its chunk gives the
order of the parts (`rescaling`).
"""


class TakesOver(StatefulProcessor):
    """A level that keeps what is its own.

    Parameters
    ----------
    level : its number, 1 for the first.
    parts : what its shards take over.
    """

    def __init__(self, level: int, parts: Parts) -> None:
        self._level = level
        self._parts = parts
        self._store: SparkChunkStore | None = None

    def init(self, handle: Any) -> None:
        """Declare the state variables."""
        self._store = SparkChunkStore(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[pd.DataFrame]:
        """Keep the chunks of a shard of this level; pass on those of the others."""
        settle()
        label, store, mine = int(key[0]), self._store, False
        manifests: dict[int, list[bytes]] = {}
        assert store is not None
        for frame in rows:
            if frame["level"].iloc[0] != self._level:
                yield frame
                continue
            mine = True
            for run, chunk, content in zip(frame["run"], frame["chunk"], frame["content"], strict=True):
                if run is not None:
                    store.put_chunk(run, int(chunk), bytes(content))
                elif content is not None:
                    manifests.setdefault(int(chunk), []).append(bytes(content))
        if manifests:
            # the parts of one old shard, of several operators, have tables of their own
            in_order = [part for number in sorted(manifests) for part in sorted(manifests[number])]
            store.put_manifest(put_together(in_order))
        elif mine:
            with tempfile.TemporaryDirectory(prefix="watersmeet-change-") as folder:
                carry(store, self._parts[label], RunCache(Path(folder) / "runs"))
        if mine:
            give_back()

    def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True)
class Carry:
    """The state to hand over, and the number of levels.

    Parameters
    ----------
    levels : of the topology.
    parts : what each shard takes over, by level.
    """

    levels: int
    parts: Mapping[int, Parts] = field(repr=False)

    def over(self, pieces: DataFrame) -> DataFrame:
        """The levels over a stream of pieces."""
        # as the rows of a query are: state knows whether its key may be null
        frame: DataFrame = pieces.withColumn("label", F.coalesce("label", F.lit(0)))
        for level in range(1, self.levels + 1):
            keeps = pickled_small(TakesOver(level, self.parts.get(level, {})))
            frame = frame.groupBy("label").transformWithStateInPandas(
                statefulProcessor=keeps, outputStructType=PIECE, outputMode="append", timeMode="None"
            )
        return frame
