"""Counts of dropped records: observed in the exchange, read from a query's progress (law 6).

Packs and levels put rows without blob among the wire rows, each a count of one metric; here they are summed
by Spark's `observe` and taken out. Called by `query` and by the test driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

Metrics = tuple[tuple[str, str], ...]
"""(node, reason) of each metric, by number."""
PREFIX = "millpond_"


def counted(frame: DataFrame, observation: Any, metrics: Metrics) -> DataFrame:
    """Wire rows with the counts among them observed (metric n as `mn`) and taken out."""
    is_count = F.col("blob").isNull()
    if not metrics:
        return frame.filter(~is_count)
    sums = [F.sum(F.when(is_count & (F.col("port") == n), F.col("count"))).alias(f"m{n}") for n in range(len(metrics))]
    return frame.observe(observation, *sums).filter(~is_count)


def drops_in(observed: Mapping[str, Any], metrics: Metrics) -> dict[tuple[str, str], int]:
    """Counts by (node, reason) in the observed metrics of one progress; zeros left out."""
    found: dict[tuple[str, str], int] = {}
    for name, row in observed.items():
        if name.startswith(PREFIX):
            add(found, {metric: row[f"m{n}"] or 0 for n, metric in enumerate(metrics)})
    return found


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
