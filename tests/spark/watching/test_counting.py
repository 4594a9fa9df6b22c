"""Counts of dropped records where Spark runs a task of a shuffle again: each place counts once (law 6)."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Observation, SparkSession

from watersmeet._spark.credentials import counted, drops_of
from watersmeet._worker.pack import count_rows
from watersmeet._worker.wire import WIRE

METRICS = (("one", "null_key"), ("two", "null_key"), ("two", "late"))


def test_a_task_that_runs_again_says_the_same_and_counts_once(spark: SparkSession) -> None:
    said: list[Any] = []
    for task in range(3):
        drops: Any = {METRICS[1]: 2, METRICS[2]: 1 + task, METRICS[0]: 0}
        said += count_rows(drops, METRICS, task)
    said += said[:3] + said[:1]  # the first two tasks run again, one of them to its end
    said.append((0, 0, b"a row", 0))
    observation = Observation("counts")
    assert counted(spark.createDataFrame(said, WIRE), observation, METRICS).count() == 1
    assert drops_of(observation.get, METRICS) == {("two", "null_key"): 6, ("two", "late"): 1 + 2 + 3}
