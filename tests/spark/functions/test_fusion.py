"""Which results a level hands on itself: the same as those that go through Spark's columns."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet._spark.dataflow.fusion import SWITCH, Fusion, NotFused
from watersmeet.testing.driver import TopologyTestDriver

Joiner = Callable[[Column, Column], Column]
CONCAT: Joiner = F.concat


def spelt_out(left: Column, right: Column) -> Column:
    """The same, as an expression that no level evaluates."""
    return F.concat(left, F.regexp_replace(right, r"\bx{9}", ""))


WINDOWS = wm.JoinWindows.of_time_difference_and_grace("10 seconds", "10 seconds")


def tables(b: wm.StreamsBuilder) -> tuple[wm.KTable, wm.KTable]:
    return b.table("left", key="string", value="string"), b.table("right", key="string", value="string")


def table_table(b: wm.StreamsBuilder, joiner: Joiner) -> wm.KTable:
    left, right = tables(b)
    return left.outer_join(right, joiner)


def stream_table(b: wm.StreamsBuilder, joiner: Joiner) -> wm.KStream:
    left, right = b.stream("left", key="string", value="string"), b.table("right", key="string", value="string")
    return left.left_join(right, joiner)


def stream_stream(b: wm.StreamsBuilder, joiner: Joiner) -> wm.KStream:
    left, right = (b.stream(name, key="string", value="string") for name in ("left", "right"))
    return left.outer_join(right, joiner, WINDOWS)


def foreign_key(b: wm.StreamsBuilder, joiner: Joiner) -> wm.KTable:
    left, right = tables(b)
    return left.left_join(right, joiner, foreign_key=lambda value: value.substr(1, 1))


def chain(b: wm.StreamsBuilder, joiner: Joiner) -> wm.KTable:
    left, right = tables(b)
    both = left.join(right, joiner)
    return both.left_join(left, joiner)


def multi_join(b: wm.StreamsBuilder, joiner: Joiner) -> wm.KTable:
    left, right = tables(b)
    return left.multi_join([right], joiner, how="outer")


def one_to_many(b: wm.StreamsBuilder, joiner: Joiner) -> wm.KTable:
    left, right = tables(b)
    return left.one_to_many_join(right, joiner, key=lambda value: value.substr(1, 1))


def global_table(b: wm.StreamsBuilder, joiner: Joiner) -> wm.KStream:
    left = b.stream("left", key="string", value="string")
    return left.join(
        b.global_table("right", key="string", value="string"), joiner, key=lambda value: value.substr(1, 1)
    )


TOPOLOGIES = (table_table, stream_table, stream_stream, foreign_key, chain, multi_join, one_to_many, global_table)


def results(spark: SparkSession, make: Any, joiner: Joiner) -> tuple[list[Any], Any]:
    b = wm.StreamsBuilder("shortcuts")
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


def handed_on(spark: SparkSession, make: Any, joiner: Joiner) -> int:
    """How many operators hand on, beside those whose results go to the next operator of their node."""
    b = wm.StreamsBuilder("shortcuts")
    make(b, joiner).to("out")
    physical = b.build().physical
    fusion = Fusion(spark, physical)
    plain = [o for o in physical.operators if not physical.direct_edges(o)]
    return sum(fusion.fused(o) is not None for o in plain)


def test_a_level_hands_on_what_no_function_stands_behind(spark: SparkSession) -> None:
    assert handed_on(spark, table_table, CONCAT) == 1
    assert handed_on(spark, foreign_key, CONCAT) == 1
    assert handed_on(spark, chain, CONCAT) == 2


def test_a_level_hands_nothing_on_where_columns_stand_behind(spark: SparkSession) -> None:
    assert handed_on(spark, table_table, spelt_out) == 0
    large = "spark.sql.execution.arrow.useLargeVarTypes"
    spark.conf.set(large, "true")
    try:
        assert handed_on(spark, foreign_key, CONCAT) == 0
    finally:
        spark.conf.unset(large)


def pipe_texts(driver: TopologyTestDriver) -> None:
    for at in range(90):
        side, key = "left" if at % 3 else "right", "abcde"[at * 7 % 5]
        value = None if at % 11 == 10 else f"{'abcde'[at % 5]}{at % 4}"
        driver.pipe(side, None if at % 17 == 16 else key, value, ts=at * 1_700 % 60_000)


def of_tables(table: wm.KTable) -> dict[str, wm.KTable]:
    """Steps behind a join of tables."""
    longer = table.map_values(lambda k, v: F.concat(v, F.lit("!"), k))
    return {
        "filter": table.filter(lambda k, v: k == "b"),
        "filter_not": table.filter_not(lambda k, v: k == "b"),
        "map_values": longer,
        "stored": longer.filter(lambda v: v.isNotNull(), store="kept"),
        "multi_join": table.multi_join([longer], CONCAT, how="left"),
        "foreign_key": longer.left_join(table, CONCAT, foreign_key=lambda k, v: k),
        "one_to_many": table.one_to_many_join(longer, CONCAT, key=lambda k, v: F.coalesce(k, v)),
    }


def of_streams(stream: wm.KStream) -> dict[str, wm.KStream]:
    """Steps behind a join of a stream with a table."""
    parts = stream.split({"one": lambda k, v: k == "b", "two": lambda k, v: k == "c"}, default="rest")
    keyed = stream.select_key(lambda k, v: F.when(k == "a", None).otherwise(k))
    return {
        "filter": stream.filter(lambda v: v.isNotNull()),
        "filter_not": stream.filter_not(lambda k, v: k == "b"),
        "map_values": stream.map_values(lambda v: F.struct(v.alias("a"), F.lit(7).alias("b"))).map_values(
            lambda v: F.coalesce(v["a"], F.lit("none"))
        ),
        "select_key": keyed,
        "map": stream.map(lambda k, v: (F.concat(k, F.lit("'")), F.concat(v, k))),
        "merged": parts["one"].merge(parts["rest"]).merge(keyed),
    }


def steps(b: wm.StreamsBuilder) -> tuple[str, ...]:
    """Every step between two levels; the outputs' names."""
    left, right = tables(b)
    outputs = []
    for name, table in of_tables(left.outer_join(right, CONCAT)).items():
        outputs.append(f"table-{name}")
        again = table if name in ("foreign_key", "one_to_many") else table.left_join(left, CONCAT)
        again.to_stream().to(outputs[-1])
    for name, stream in of_streams(left.to_stream().left_join(right, CONCAT)).items():
        outputs.append(f"stream-{name}")
        stream.left_join(right, CONCAT).to(outputs[-1])
    return tuple(outputs)


REFUSED = NotFused("", f"{SWITCH} is spark")


def test_steps_between_levels_give_the_same_in_the_level_and_by_spark(spark: SparkSession) -> None:
    found: list[Any] = []
    for where in ("level", "spark"):
        b = wm.StreamsBuilder("steps")
        outputs = steps(b)
        topology = b.build()
        physical = topology.physical
        spark.conf.set(SWITCH, where)
        try:
            fusion = Fusion(spark, physical)
            middle = [o for o in physical.operators if o.level < physical.levels and not physical.direct_edges(o)]
            assert {fusion.by_spark(o) for o in middle} == {REFUSED if where == "spark" else None}
            driver = TopologyTestDriver(topology, spark)
            pipe_texts(driver)
            found.append(({name: driver.read(name) for name in outputs}, driver.drops))
        finally:
            spark.conf.unset(SWITCH)
    assert found[0] == found[1]
    assert [name for name, records in found[0][0].items() if len(records) < 5] == []
    assert any(why == "null_key" for _, why in found[0][1])


KINDS = (
    "at timestamp, local timestamp_ntz, day date, price decimal(12,3), tags array<string>, notes map<string,int>, "
    "part struct<x:int,at:timestamp,more:array<struct<y:date>>>, raw binary, small float, n int"
)
NOON = datetime.datetime(2024, 3, 10, 2, 30, 0, 123_456)


def of_all_types(at: int) -> dict[str, Any]:
    """A value with everything in it, and here and there a null."""
    day = NOON.date() + datetime.timedelta(days=at * 40)
    return {
        "at": (NOON + datetime.timedelta(hours=at)).replace(tzinfo=datetime.UTC),
        "local": NOON + datetime.timedelta(hours=at),
        "day": None if at % 5 == 3 else day,
        "price": decimal.Decimal(at) / 8,
        "tags": None if at % 4 == 1 else ["a", None, f"{at}"][: at % 4],
        "notes": {"k": None, "n": at} if at % 3 else {},
        "part": None if at % 6 == 5 else {"x": at, "at": None, "more": [{"y": day}, None]},
        "raw": bytes(range(at % 4)),
        "small": at / 3,
        "n": at % 3,
    }


def all_types(b: wm.StreamsBuilder) -> None:
    topics = (wm.Topic(name, key="string", value=wm.json(KINDS), headers=True) for name in ("left", "right"))
    left, right = (b.table(topic, name=topic.name) for topic in topics)
    names = ("at", "local", "day", "price", "tags", "notes", "n")

    def joined(one: Column, two: Column) -> Column:
        return F.struct(*(one[name].alias(name) for name in names), two["part"], two["raw"], one["small"])

    both = left.filter(lambda v: ~(v["n"] == 2)).left_join(right, joined).filter(lambda v: v["n"] == 1)
    by_day = both.map_values(lambda k, v: F.struct(k.alias("key"), v["part"]["at"], v["at"].alias("then"), v["tags"]))
    by_day.left_join(right, lambda one, two: F.struct(one.alias("one"), two["local"], two["notes"])).to("nested")
    both.left_join(right, lambda one, two: F.coalesce(two, two)).to("whole")


def test_values_of_all_types_and_headers_are_the_same_in_the_level_and_by_spark(spark: SparkSession) -> None:
    found: list[Any] = []
    for where in ("level", "spark"):
        b = wm.StreamsBuilder("types")
        all_types(b)
        spark.conf.set(SWITCH, where)
        try:
            driver = TopologyTestDriver(b.build(), spark)
            for at in range(60):
                value = None if at % 13 == 12 else of_all_types(at)
                driver.pipe("left" if at % 3 else "right", "abc"[at * 7 % 3], value, ts=at, headers=[("h", b"%d" % at)])
            found.append([driver.read(name) for name in ("nested", "whole")])
        finally:
            spark.conf.unset(SWITCH)
    assert found[0] == found[1]
    assert all(len(records) > 10 for records in found[0])
    assert all(record.headers for records in found[0] for record in records)


def test_a_topology_tells_where_its_functions_run(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("told")
    left, right = tables(b)
    both = left.filter(lambda v: v == "a", name="early").join(right, CONCAT, name="both")
    replaced = both.map_values(lambda v: F.initcap(v), name="replaced")
    replaced.to_stream().filter(lambda k, v: k == v, name="late").to("out")
    assert b.build().describe().partition("Functions:\n")[2].splitlines() == [
        "  predicate of early: where records are packed",
        "  joiner of both: by Spark, as what replaced has (InitCap)",
        "  mapper of replaced: by Spark (InitCap)",
        "  predicate of late: by Spark, as what replaced has (InitCap)",
    ]


def test_a_topology_tells_how_its_folds_of_columns_run(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("folds")
    bids = b.stream("bids", key="long", value=wm.json("bidder long, price long, tags array<string>")).group_by_key()
    bids.reduce(lambda best, bid: F.when(bid["price"] > best["price"], bid).otherwise(best), name="best")
    bids.aggregate(lambda: F.lit(0), lambda bid, total: total + bid["price"] % 7, name="total")
    bids.aggregate(lambda: F.lit(""), lambda bid, text: F.reverse(F.concat(text, F.lit("a"))), name="text")
    bids.aggregate(lambda: 0, wm.python(lambda bid, n: n + 1), name="n")
    told = b.build().describe().partition("Functions:\n")[2].splitlines()
    assert [line for line in told if line.startswith("  fold")] == [
        "  fold of best: as a choice between records, record by record or in rounds",
        "  fold of total: as compiled Python, record by record or in rounds",
        "  fold of text: in rounds, one record of each key at a time: a key with many records of a batch is slow",
        "  fold of n: plain Python functions, record by record",
    ]


@pytest.mark.parametrize("where", ["level", "spark"])
def test_what_has_no_value_fails_with_sparks_condition_and_only_where_it_is_asked_for(
    spark: SparkSession, where: str
) -> None:
    b = wm.StreamsBuilder("errors")
    left, right = (b.table(name, key="string", value="long") for name in ("left", "right"))
    both = left.join(right, lambda one, two: F.coalesce(one, two), name="both")
    ratios = both.map_values(lambda v: F.when(v > -5, F.lit(1) / v), name="ratios")
    ratios.left_join(left, lambda one, two: one).to("out")
    spark.conf.set(SWITCH, where)
    try:
        driver = TopologyTestDriver(b.build(), spark)
        for at, (side, value) in enumerate([("left", 2), ("right", 0), ("left", -7)]):
            driver.pipe(side, "a", value, ts=at)
        assert [record.value for record in driver.read("out")][-1] is None
        driver.pipe("left", "a", 0, ts=3)
        with pytest.raises(Exception, match="DIVIDE_BY_ZERO") as failure:
            driver.read("out")
        assert ("behind both, at partition 0, offset 3" in str(failure.value)) == (where == "level")
    finally:
        spark.conf.unset(SWITCH)


def test_what_a_level_hands_on_passes_beside_what_goes_through_columns(spark: SparkSession) -> None:
    builder = wm.StreamsBuilder("beside")
    left, right = tables(builder)
    # each has an operator of the first level that hands on, beside one whose results Spark's function needs
    left.join(right, CONCAT, foreign_key=lambda value: value.substr(1, 1)).to("referred")
    builder.stream("clicks", key="string", value="string").group_by_key().count().to("counted")
    builder.table("rows", key="string", value="string").group_by(
        lambda value: (F.regexp_replace(value, r"\bx{9}", ""), value)
    ).count().to("grouped")
    driver = TopologyTestDriver(builder.build(), spark)
    for number, key in enumerate("ab"):
        for topic in ("right", "left", "clicks", "rows"):
            driver.pipe(topic, key, f"{key}{topic}", ts=number)
    assert [(r.key, r.value) for r in driver.read("referred")] == [("a", "aleftaright"), ("b", "bleftbright")]
    assert [(r.key, r.value) for r in driver.read("counted")] == [("a", 1), ("b", 1)]
    assert [(r.key, r.value) for r in driver.read("grouped")] == [("arows", 1), ("brows", 1)]
