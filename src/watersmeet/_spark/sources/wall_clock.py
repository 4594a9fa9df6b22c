"""The wall clock as a source of the query: time goes on by it while the input rests, and timers wait for it.

Spark's rate source gives a row a second; its offsets are in the checkpoint, so a replayed batch sees the same
clock, on whatever machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from watersmeet._engine.exchange import clock_batches
from watersmeet._plan.physical import Physical
from watersmeet._worker.pack import ends_for_all_tasks, wire_batches, wire_rows
from watersmeet._worker.wire import WIRE, Labels

BEGUN = "wall_clock_ms"
"""Among a checkpoint's effects: what the wall clock showed when it was begun, in ms."""


def clock_record(physical: Physical, effects: Mapping[str, Any]) -> dict[str, int]:
    """The record of a topology that goes by the wall clock: this is its time until its source sends one.

    Parameters
    ----------
    effects : what the checkpoint has recorded before.
    """
    return {BEGUN: effects.get(BEGUN) or time.time_ns() // 1_000_000} if physical.by_wall else {}


def wall_clock(spark: SparkSession) -> DataFrame:
    """A stream of one row a second: `wall`, in ms since 1970."""
    ticks = spark.readStream.format("rate").option("rowsPerSecond", 1).option("numPartitions", 1).load()
    return ticks.select(F.unix_millis("timestamp").alias("wall"))


def clock_rows(clock: DataFrame, physical: Physical, labels: Labels) -> DataFrame:
    """Wire rows that show the clock to every shard of the operators that go by it."""
    targets = tuple(
        (op.id, physical.time_port(op)) for op, time in physical.timed if time.idle_after_ms or time.by_wall
    )
    return clock.coalesce(1).mapInArrow(Tell(targets, labels), WIRE)


@dataclass(frozen=True)
class Tell:
    """mapInArrow function: the latest of a batch's ticks as wire rows."""

    targets: tuple[tuple[int, int], ...]  # (operator, port on which it gets times)
    labels: Labels  # how (target, shard) are labelled

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Wire rows of one task."""
        latest = [pc.max(batch.column("wall")).as_py() for batch in batches if len(batch)]
        for target, port in self.targets if latest else ():
            routed_batches = clock_batches(target, port, max(latest), self.labels.counts)
            yield from wire_batches(wire_rows(routed_batches, self.labels))
        # a batch may have nothing but ticks
        yield from wire_batches(ends_for_all_tasks(self.labels))
