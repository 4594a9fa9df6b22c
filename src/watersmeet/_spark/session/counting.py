"""Counts of dropped records, and of all else that workers count: observed in the exchange, read from a query's progress
(law 6).

Packs and levels put rows without blob among the wire rows, each what one task or shard counted of one metric; here
they are collected by Spark's `observe` and taken out. They are collected as a set, and their reader sums them:
a task of a shuffle that runs again, since its output was lost, says the same once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from watersmeet._spark.session.origins import unnamed

Metrics = tuple[tuple[str, str], ...]
"""(node, reason) of each metric, by number."""
PREFIX = "watersmeet_"
WRITTEN = "written"
"""Name of the observation that counts the rows of sinks whose columns Spark makes."""
_COUNTS = "counts"
KEPT = 100
"""Progresses that Spark keeps at least, while a topology runs: more than there are batches between two looks."""


@unnamed()
def counted(frame: DataFrame, observation: Any, metrics: Metrics) -> DataFrame:
    """Wire rows with the counts among them observed (`_COUNTS`: place, metric, count) and taken out."""
    is_count = F.col("blob").isNull()
    if not metrics:
        return frame.filter(~is_count)
    count = F.struct(F.col("label").alias("place"), F.col("port").alias("metric"), "count")
    counts = F.collect_set(F.when(is_count, count)).alias(_COUNTS)
    return frame.observe(observation, counts).filter(~is_count)


def drops_in(observed: Mapping[str, Any], metrics: Metrics) -> dict[tuple[str, str], int]:
    """Counts by (node, reason) in the observed metrics of one progress; zeros left out."""
    found: dict[tuple[str, str], int] = {}
    for name, row in observed.items():
        if name.startswith(PREFIX):
            add(found, drops_of(row, metrics))
    return found


def drops_of(row: Mapping[str, Any], metrics: Metrics) -> dict[tuple[str, str], int]:
    """Counts by (node, reason) in one row of observed metrics."""
    found: dict[tuple[str, str], int] = {}
    for each in row[_COUNTS] or ():
        if each["metric"] < len(metrics):
            add(found, {metrics[each["metric"]]: each["count"]})
    return found


def measured_in(observed: Mapping[str, Any], metrics: Metrics) -> Iterator[list[tuple[int, int, int]]]:
    """The counts beside dropped records in one progress: (place, number, count), for each place of counting."""
    for name, row in observed.items():
        if name.startswith(PREFIX):
            beside = [each for each in row[_COUNTS] or () if each["metric"] >= len(metrics)]
            yield [(each["place"], each["metric"], each["count"]) for each in beside]


def add(total: dict[tuple[str, str], int], more: Mapping[tuple[str, str], int]) -> None:
    """Add counts to a total."""
    for metric, count in more.items():
        if count:
            total[metric] = total.get(metric, 0) + count


def total_of(parts: Iterable[Mapping[tuple[str, str], int]]) -> dict[tuple[str, str], int]:
    """The sum of counts."""
    total: dict[tuple[str, str], int] = {}
    for part in parts:
        add(total, part)
    return total
