"""flat_map in the level and in the test driver's own process: the results that Spark's explode gives."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet._engine.expressions import program
from watersmeet.testing.driver import TopologyTestDriver
from watersmeet.testing.topics import TestRecord

TEXTS = ["", " ", "a", "a b", "b  a", "c,d e", "é😀 a", None, "a a a a", "\u00a0x", "bad b", "x" * 50]


def words(b: wm.StreamsBuilder) -> Any:
    return b.stream("in", key="string", value="string")


def counted(b: wm.StreamsBuilder) -> None:
    split = words(b).flat_map_values(lambda value: F.split(F.lower(value), r"\W+"))
    split.group_by(lambda value: value).count(store="counts").to_stream().to("out")


def beside_others(b: wm.StreamsBuilder) -> None:
    stream = words(b)
    stream.to("whole")
    parts = stream.flat_map_values(lambda value: F.split(value, " "))
    parts.filter(lambda value: F.length(value) > 1).to("out")
    stream.map_values(lambda value: F.length(value)).to("lengths")


def keyed(b: wm.StreamsBuilder) -> None:
    pairs = words(b).flat_map(
        lambda key, value: F.transform(F.split(value, "[ ,]+"), lambda each: F.struct(each, F.concat(key, each)))
    )
    pairs.group_by_key().reduce(lambda one, other: F.concat(one, other)).to_stream().to("out")


def within(b: wm.StreamsBuilder) -> None:
    twice = words(b).flat_map_values(lambda value: F.split(value, " ")).flat_map_values(lambda v: F.split(v, ","))
    twice.to("out")
    twice.filter(lambda value: value != "").group_by_key().count().to_stream().to("counts")


def behind_an_operator(b: wm.StreamsBuilder) -> None:
    table = words(b).group_by_key().reduce(lambda one, other: F.concat_ws(" ", one, other))
    table.to_stream().flat_map_values(lambda value: F.slice(F.split(value, " "), 1, 3)).select_key(lambda v: v).to(
        "out"
    )


def of_lookups(b: wm.StreamsBuilder) -> None:
    stream, table = words(b), b.table("table", key="string", value="string")
    joined = stream.flat_map_values(lambda value: F.split(value, " ")).select_key(lambda value: value)
    joined.left_join(table, lambda left, right: F.concat_ws("-", left, right)).to("out")


TOPOLOGIES = [counted, beside_others, keyed, within, behind_an_operator, of_lookups]


def built(define: Callable[[wm.StreamsBuilder], None]) -> wm.Topology:
    b = wm.StreamsBuilder("flat")
    define(b)
    return b.build()


@contextmanager
def functions_in(spark: SparkSession, place: str) -> Iterator[None]:
    """A while in which functions are evaluated in one place, by "spark" or in the "level"."""
    spark.conf.set("watersmeet.functions", place)
    try:
        yield
    finally:
        spark.conf.unset("watersmeet.functions")


def fed(driver: TopologyTestDriver, topology: wm.Topology, seed: int) -> dict[str, list[TestRecord]]:
    r = random.Random(seed)
    inputs = [source.input for source in topology.plan.sources]
    for ts in range(60):
        driver.pipe(r.choice(inputs), r.choice(["a", "b", "c", None]), r.choice(TEXTS), ts=ts - r.randrange(9))
    return {sink.output: driver.read(sink.output) for sink in topology.plan.sinks}


@pytest.mark.parametrize("define", TOPOLOGIES, ids=lambda define: define.__name__)
def test_records_of_lists_are_those_of_sparks_explode_in_their_order(spark: SparkSession, define) -> None:
    topology = built(define)
    here = TopologyTestDriver(topology)
    assert here.runs_in == "process", here.why_spark
    found = fed(here, topology, seed=7)
    assert any(found.values())
    with functions_in(spark, "spark"):
        there = TopologyTestDriver(topology, spark)
        assert fed(there, topology, seed=7) == found
    assert here.drops == there.drops
    with functions_in(spark, "level"):
        # as levels of Spark's workers make them
        assert fed(TopologyTestDriver(topology, spark), topology, seed=7) == found


@pytest.mark.parametrize("define", [beside_others, within, behind_an_operator], ids=lambda define: define.__name__)
def test_rows_are_the_same_however_many_are_made_at_once(spark: SparkSession, define, monkeypatch) -> None:
    topology = built(define)
    whole = fed(TopologyTestDriver(topology), topology, seed=3)
    monkeypatch.setattr(program, "MOST_ROWS", 3)
    assert fed(TopologyTestDriver(topology), topology, seed=3) == whole


def test_words_are_counted_in_the_drivers_process_and_the_store_tells_their_counts(spark: SparkSession) -> None:
    driver = TopologyTestDriver(built(counted))
    driver.pipe("in", "k", "To be, or not to be", ts=0)
    assert [(r.key, r.value) for r in driver.read("out")][-2:] == [("to", 2), ("be", 2)]
    assert dict(driver.get_store("counts").all()) == {"to": 2, "be": 2, "or": 1, "not": 1}


def test_a_large_list_does_not_carry_its_record_along(spark: SparkSession) -> None:
    driver = TopologyTestDriver(built(counted))
    # its text beside each of its words would be 20 GB
    driver.pipe("in", "k", "x " * 100_000, ts=0)
    assert driver.get_store("counts").get("x") == 100_000


def test_a_record_ends_whole_where_a_function_behind_the_flat_map_raises_for_one_of_its_parts(
    spark: SparkSession,
) -> None:
    b, seen = wm.StreamsBuilder("ends"), list[str]()
    topic = wm.Topic("in", key="string", value="string", on_error=wm.DeadLetter("dead"))

    def shown(key: str, value: float) -> None:
        seen.append(key)
        if value == 0.5:
            raise ValueError(key)

    parts = b.stream(topic).flat_map_values(lambda value: F.split(value, " "))
    parts.map_values(lambda value: 1 / value.cast("int")).peek(shown).to("out")
    driver = TopologyTestDriver(b.build())
    assert driver.runs_in == "process", driver.why_spark
    for number, value in enumerate(["1 4", "1 0 4", "4 2 1", "4"]):
        driver.pipe("in", str(number), value, ts=number)
    assert [(r.key, r.value) for r in driver.read("out")] == [("0", 1.0), ("0", 0.25), ("3", 0.25)]
    assert [r.value for r in driver.read("dead")] == [b"1 0 4", b"4 2 1"]
    assert seen.count("2") == 3
