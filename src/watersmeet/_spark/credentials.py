"""Counts of dropped records, and of all else that workers count: observed in the exchange, read from a query's progress
(law 6).

Packs and levels put rows without blob among the wire rows, each what one task or shard counted of one metric; here
they are collected by Spark's `observe` and taken out. They are collected as a set, and their reader sums them:
a task of a shuffle that runs again, since its output was lost, says the same once more.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.errors import utils
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from watersmeet._worker.process import SECRETS_PROPERTY, combined

# Columns of watersmeet's own are made without telling Spark which line of Python made them.
#
# For each operation on a column PySpark asks the session for its settings and tells the JVM where in the program it is:
# some ten calls for one. Errors then name that line, which helps where it is the user's. Law 8: this is an internal of
# PySpark's; where it is not there, everything works as before, with more calls.

_FLAG = "_enable_debugging_cache"
_lock = threading.Lock()
_inside: list[bool | None] = []
"""What the flag is to be again, once for each that is inside: threads may be so at once."""


@contextmanager
def unnamed() -> Iterator[None]:
    """While it lasts, columns get no origin; not for what calls a function of the user's."""
    if not hasattr(utils, _FLAG):
        yield
        return
    with _lock:
        _inside.append(_inside[0] if _inside else getattr(utils, _FLAG))
        setattr(utils, _FLAG, False)
    try:
        yield
    finally:
        with _lock:
            previous = _inside.pop()
            if not _inside:
                setattr(utils, _FLAG, previous)


Metrics = tuple[tuple[str, str], ...]
"""(node, reason) of each metric, by number."""
PREFIX = "watersmeet_"
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
    counts: dict[tuple[str, str], int] = {}
    for name, row in observed.items():
        if name.startswith(PREFIX):
            add(counts, drops_of(row, metrics))
    return counts


def drops_of(row: Mapping[str, Any], metrics: Metrics) -> dict[tuple[str, str], int]:
    """Counts by (node, reason) in one row of observed metrics."""
    counts: dict[tuple[str, str], int] = {}
    for entry in row[_COUNTS] or ():
        if entry["metric"] < len(metrics):
            add(counts, {metrics[entry["metric"]]: entry["count"]})
    return counts


def measured_in(observed: Mapping[str, Any], metrics: Metrics) -> Iterator[list[tuple[int, int, int]]]:
    """The counts beside dropped records in one progress: (place, number, count), for each place of counting."""
    for name, row in observed.items():
        if name.startswith(PREFIX):
            beside = [entry for entry in row[_COUNTS] or () if entry["metric"] >= len(metrics)]
            yield [(entry["place"], entry["metric"], entry["count"]) for entry in beside]


def add(total: dict[tuple[str, str], int], counts: Mapping[tuple[str, str], int]) -> None:
    for metric, count in counts.items():
        if count:
            total[metric] = total.get(metric, 0) + count


def total_of(parts: Iterable[Mapping[tuple[str, str], int]]) -> dict[tuple[str, str], int]:
    """The sum of counts."""
    total: dict[tuple[str, str], int] = {}
    for part in parts:
        add(total, part)
    return total


# How the Kafka client's settings, which may hold secrets, reach the tasks that write.
#
# Values pickled into a function lie in block stores and broadcast files, and the properties of a job lie in the
# event log, unless the session was made with a setting of the same name: Spark blacks out only those. So neither
# has the settings. They are split: a random pad goes as a property of the job, and what the pad turns into the
# settings goes with the function. One without the other says nothing but the length.


@contextmanager
def handed_over(spark: SparkSession, settings: Mapping[str, Any], name: str = SECRETS_PROPERTY) -> Iterator[bytes]:
    """The settings that a function needs for `received`, in tasks of the jobs that this thread starts while it lasts.

    A streaming query that is started while it lasts keeps the property for all its jobs.
    """
    content = json.dumps(dict(settings)).encode()
    pad = secrets.token_bytes(len(content))
    context = spark.sparkContext
    context.setLocalProperty(name, pad.hex())
    try:
        yield combined(content, pad)
    finally:
        context.setLocalProperty(name, None)  # type: ignore[arg-type]  # documented: removes it
