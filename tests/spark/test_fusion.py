"""Which results a level hands on itself: the same as those that go through Spark's columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

import millpond as mp
from millpond._spark.dataflow.fusion import Fusion
from millpond.testing.driver import TopologyTestDriver

Joiner = Callable[[Column, Column], Column]
CONCAT: Joiner = F.concat


def spelt_out(left: Column, right: Column) -> Column:
    """The same, as an expression that no level evaluates."""
    return F.concat(left, F.lit(""), right)


WINDOWS = mp.JoinWindows.of_time_difference_and_grace("10 seconds", "10 seconds")


def tables(b: mp.StreamsBuilder) -> tuple[mp.KTable, mp.KTable]:
    return b.table("left", key="string", value="string"), b.table("right", key="string", value="string")


def table_table(b: mp.StreamsBuilder, joiner: Joiner) -> mp.KTable:
    left, right = tables(b)
    return left.outer_join(right, joiner)


def stream_table(b: mp.StreamsBuilder, joiner: Joiner) -> mp.KStream:
    left, right = b.stream("left", key="string", value="string"), b.table("right", key="string", value="string")
    return left.left_join(right, joiner)


def stream_stream(b: mp.StreamsBuilder, joiner: Joiner) -> mp.KStream:
    left, right = (b.stream(name, key="string", value="string") for name in ("left", "right"))
    return left.outer_join(right, joiner, WINDOWS)


def foreign_key(b: mp.StreamsBuilder, joiner: Joiner) -> mp.KTable:
    left, right = tables(b)
    return left.left_join(right, joiner, foreign_key=lambda value: value.substr(1, 1))


def chain(b: mp.StreamsBuilder, joiner: Joiner) -> mp.KTable:
    left, right = tables(b)
    both = left.join(right, joiner)
    return both.left_join(left, joiner)


def one_to_many(b: mp.StreamsBuilder, joiner: Joiner) -> mp.KTable:
    left, right = tables(b)
    return left.one_to_many_join(right, joiner, key=lambda value: value.substr(1, 1))


def global_table(b: mp.StreamsBuilder, joiner: Joiner) -> mp.KStream:
    left = b.stream("left", key="string", value="string")
    return left.join(
        b.global_table("right", key="string", value="string"), joiner, key=lambda value: value.substr(1, 1)
    )


TOPOLOGIES = (table_table, stream_table, stream_stream, foreign_key, chain, one_to_many, global_table)


def results(spark: SparkSession, make: Any, joiner: Joiner) -> tuple[list[Any], Any]:
    b = mp.StreamsBuilder("shortcuts")
    make(b, joiner).to("out")
    driver = TopologyTestDriver(b.build(), spark)
    for at in range(120):
        side, key = "left" if at % 3 else "right", "abcde"[at * 7 % 5]
        value = None if at % 11 == 10 else f"{'abcde'[at % 5]}{at}"
        driver.pipe(side, None if at % 17 == 16 else key, value, ts=at * 1_700 % 60_000)
    return driver.read("out"), driver.drops


@pytest.mark.parametrize("make", TOPOLOGIES)
def test_results_that_a_level_hands_on_are_those_that_go_through_columns(spark: SparkSession, make: Any) -> None:
    made, drops = results(spark, make, CONCAT)
    assert (made, drops) == results(spark, make, spelt_out)
    assert len(made) > 10


def handed_on(
    spark: SparkSession, make: Any, joiner: Joiner, *, headers: bool = False, direct_sinks: bool = True
) -> int:
    """How many operators hand on, beside those whose results go to the next operator of their node."""
    b = mp.StreamsBuilder("shortcuts")
    make(b, joiner).to("out")
    physical = b.build().physical
    fusion = Fusion(spark, physical, headers=headers, direct_sinks=direct_sinks)
    plain = [o for o in physical.operators if not physical.direct_edges(o)]
    return sum(fusion.fused(o) is not None for o in plain)


def test_a_level_hands_on_what_no_function_stands_behind(spark: SparkSession) -> None:
    assert handed_on(spark, table_table, CONCAT) == 1
    assert handed_on(spark, foreign_key, CONCAT, direct_sinks=False) == 1
    assert handed_on(spark, chain, CONCAT) == 2


def test_a_level_hands_nothing_on_where_columns_stand_behind_or_the_sinks_read_them(spark: SparkSession) -> None:
    assert handed_on(spark, table_table, spelt_out) == 0
    assert handed_on(spark, table_table, CONCAT, headers=True) == 0
    # the sinks read the last level's frame
    assert handed_on(spark, table_table, CONCAT, direct_sinks=False) == 0
    assert handed_on(spark, lambda b, joiner: table_table(b, joiner).filter(lambda v: v > "b"), CONCAT) == 0
    large = "spark.sql.execution.arrow.useLargeVarTypes"
    spark.conf.set(large, "true")
    try:
        assert handed_on(spark, foreign_key, CONCAT) == 0
    finally:
        spark.conf.unset(large)


def test_a_timestamp_in_the_result_takes_the_way_through_columns(spark: SparkSession) -> None:
    def stamped(b: mp.StreamsBuilder, joiner: Joiner) -> mp.KTable:
        kind = mp.json("at timestamp")
        left, right = (b.table(name, key="string", value=kind) for name in ("left", "right"))
        return left.join(right, lambda a, _: a)

    assert handed_on(spark, stamped, CONCAT) == 0
