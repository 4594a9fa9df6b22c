"""Structs are told apart in the level as Spark tells them apart: nulls and NaN within are the same as their like."""

from __future__ import annotations

from itertools import product

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet._engine.expressions import conditions
from watersmeet.testing.driver import TopologyTestDriver

TEXTS = [None, "a", "b"]
NUMBERS = [None, 0.0, -0.0, 1.5, float("nan")]
STRUCTS = [
    None,
    *({"text": t, "inner": {"number": n}} for t, n in product(TEXTS, NUMBERS)),
    {"text": "a", "inner": None},
]


def test_structs_are_the_same_where_spark_says_so(spark: SparkSession) -> None:
    kind = "struct<text: string, inner: struct<number: double>>"
    rows = list(product(STRUCTS, STRUCTS))
    frame = spark.createDataFrame(rows, f"one {kind}, other {kind}").coalesce(1)
    told = (
        frame.select(
            "one",
            "other",
            (F.col("one") == F.col("other")).alias("equal"),
            F.col("one").eqNullSafe(F.col("other")).alias("same"),
        )
        .toArrow()
        .combine_chunks()
    )
    one, other, equal, same = (told.column(name).chunk(0) for name in ("one", "other", "equal", "same"))
    assert conditions.compared("EqualTo", one, other).to_pylist() == equal.to_pylist()
    assert conditions.same(one, other).to_pylist() == same.to_pylist()
    assert conditions.same(one.slice(7), other.slice(7)).to_pylist() == same.slice(7).to_pylist()


@pytest.mark.parametrize("policy", ["skip", wm.DeadLetter("bad")])
def test_a_group_by_structs_runs_in_the_level_where_errors_are_tolerated(
    spark: SparkSession, policy: str | wm.DeadLetter
) -> None:
    builder = wm.StreamsBuilder("groups", on_error=policy)
    users = builder.table("users", key="long", value=wm.json("country string, city string"))
    places = users.group_by(lambda key, user: (F.struct(user["country"], user["city"]), user))
    places.count().to_stream().to("counts")
    driver = TopologyTestDriver(builder.build())
    assert driver.runs_in == "process", driver.why_spark
    for at, city in enumerate(["x", "x", "y"]):
        driver.pipe("users", key=1, value={"country": "a", "city": city}, ts=at)
    found = [(tuple(record.key), record.value) for record in driver.read("counts")]
    assert found == [(("a", "x"), 1), (("a", "x"), 1), (("a", "x"), 0), (("a", "y"), 1)]
