"""Aggregates by name beside Spark's own: each record's result is that of Spark's window function, to the bit."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Column, SparkSession, Window
from pyspark.sql import functions as F

from tests.engine.aggregates.aggregate_chance import PLACES, TYPES, aggregates, column, exact, form
from tests.engine.kit import by_step, driver_of
from tests.spark.functions.kernel_kit import frame_of
from watersmeet.windows import SessionWindows, TimeWindows

KEYS = "abc"
WINDOWS = {
    "stream": (None, "0"),
    "windows": (TimeWindows(8, 8, 1000), "floor(ts / 8)"),
    # of records in order a session begins where none came for so long
    "sessions": (SessionWindows(2, 1000), "session"),
}


def beside(spark: SparkSession, kind: pa.DataType, steps: list[Any], part: str) -> list[dict[str, Any]]:
    """What Spark's aggregates are at each record, over the records up to it in its key and part."""
    rows = pa.table(
        {
            "row": pa.array(range(len(steps)), pa.int32()),
            "key": [key for _, key, _, _ in steps],
            "ts": [ts for _, _, _, ts in steps],
            "v": column([value for _, _, value, _ in steps], kind),
        }
    )
    by_key = Window.partitionBy("key").orderBy("row")
    begins = F.coalesce(F.col("ts") - F.lag("ts").over(by_key) > 2, F.lit(True)).cast("int")
    up_to = Window.partitionBy("key", "part").orderBy("row").rowsBetween(Window.unboundedPreceding, 0)
    frame = frame_of(spark, rows).withColumn("begins", begins).withColumn("session", F.sum("begins").over(by_key))
    frame = frame.withColumn("part", F.expr(part))
    v, number = F.col("v"), F.col("v").cast("double")
    named = {
        "count": F.count(v),
        "sum": F.sum(v),
        "min": F.min(v),
        "max": F.max(v),
        "avg": F.avg(number),
        "stddev": F.stddev(v),
        "first": F.first(v, ignorenulls=True),
        "last": F.last(v, ignorenulls=True),
        "collect_list": F.collect_list(v),
        "collect_set": F.collect_set(v),
        **found_by(v, v > F.lit(0).cast(frame.schema["v"].dataType)),
    }
    found = frame.select("row", *(each.over(up_to).alias(name) for name, each in named.items()))
    found = found.withColumn("count_distinct", F.size("collect_set").cast("long"))
    found = found.withColumn("last_k", F.reverse(F.slice(F.reverse("collect_list"), 1, 3)))
    found = found.withColumn("top_k", F.slice(F.sort_array("collect_list", asc=False), 1, 3))
    found = found.withColumn("top_by", F.transform(F.slice(F.sort_array("top_by"), 1, 3), lambda each: each["v"]))
    return found.toArrow().sort_by("row").drop_columns(["row"]).to_pylist()


def found_by(v: Column, is_large: Column) -> dict[str, Column]:
    """What is found by another value, by its place, or by how often it is there."""
    held = F.when(is_large, v)
    # Spark has no aggregate of this: of those that are equal the first stand first
    rows = F.collect_list(F.when(v.isNotNull(), F.struct(~is_large, "row", v.alias("v"))))
    return {
        "max_by": F.max_by(held, v),
        "min_by": F.min_by(held, v),
        "max_of": F.max_by(v, is_large),
        "min_of": F.min_by(v, is_large),
        "bool_and": F.bool_and(is_large),
        "bool_or": F.bool_or(is_large),
        "mode": F.mode(v, True),
        "top_by": rows,
        **{f"p{p}": F.percentile(v, p) for p in PLACES},
    }


def records(r: random.Random, name: str, count: int) -> list[Any]:
    """Records in order of time, whose sums fit: what does not is an error for both."""
    steps: list[Any] = []
    ts = 0
    left = dict.fromkeys(KEYS, 2**63 - 1)
    for _ in range(count):
        ts += r.choice([0, 1, 1, 2, 5])
        key = r.choice(KEYS)
        value = TYPES[name][2](r)
        if name == "long":
            value = value if abs(value) <= left[key] else 0
            left[key] -= abs(value)
        steps.append(("in", key, value, ts))
    return steps


def compared(spark: SparkSession, name: str, where: str, seed: int, count: int) -> list[str]:
    """Where the two differ."""
    r = random.Random(f"{name} {where} {seed}")
    kind = TYPES[name][1]
    windows, part = WINDOWS[where]

    def build(builder: Any) -> Any:
        grouped = builder.stream("in", key="string", value=form(name)).group_by_key()
        if windows is None:
            return grouped.agg(**aggregates(kind, takes_back=False))
        return grouped.windowed_by(windows).agg(**aggregates(kind, takes_back=False)).to_stream()

    steps = records(r, name, count)
    cuts = {at for at in range(count) if r.random() < 0.1}
    wanted = beside(spark, kind, steps, part)
    found = []
    for at, (said, theirs) in enumerate(zip(by_step(driver_of(build), steps, cuts), wanted, strict=True)):
        # a session that goes on is withdrawn under its old window first
        ours = next(value for _, value, _ in said if value is not None)
        for each in (ours, theirs):
            each["collect_set"] = sorted(map(repr, each["collect_set"]))
            # of 0.0 and -0.0 the one that came first stands first here, and in Spark any
            each["top_k"] = [0.0 if value == 0 else value for value in each["top_k"]]
            # and of an order in which they are alike, any
            each |= {name: 0.0 for name in ("mode", *(f"p{p}" for p in PLACES)) if each[name] == 0}
        bad = {n: (ours[n], theirs[n]) for n in ours if exact(ours[n]) != exact(theirs[n])}
        if bad:
            found.append(f"record {at}: {bad}")
    return found


SEEDS = [range(1), pytest.param(range(1, 12), marks=pytest.mark.proof)]


@pytest.mark.parametrize("where", WINDOWS)
@pytest.mark.parametrize("seeds", SEEDS)
def test_each_records_result_is_that_of_sparks_aggregates_to_the_bit(spark: SparkSession, where: str, seeds: range):
    for seed in seeds:
        for name in TYPES:
            assert compared(spark, name, where, seed, 40) == [], (name, seed)
