"""Functions with a parameter `record`: its time, headers and place, in the driver's process, in levels and by Spark."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.functions.test_flat_maps import functions_in
from watersmeet.errors import FunctionError, TopologyError
from watersmeet.testing.driver import TopologyTestDriver

pytestmark = pytest.mark.usefixtures("spark")
HEADERS = [("id", b"7"), ("none", None)]


def shown(record: Any) -> Any:
    names = F.array_join(F.transform(record["headers"], lambda each: each["key"]), ",")
    place = F.concat_ws("/", record["topic"], record["partition"].cast("string"), record["offset"].cast("string"))
    return F.concat_ws(" ", record["timestamp"].cast("string"), names, place)


def every_step(b: wm.StreamsBuilder) -> None:
    stream = b.stream("in", key="string", value="long", headers=True)
    stream.map_values(lambda value, record: shown(record)).to("values")
    stream.map_values(lambda key, value, record: F.concat(key, record["topic"])).to("both")
    stream.map(lambda value, record: (record["topic"], value)).to("pairs")
    stream.select_key(lambda value, record: record["timestamp"]).to("keys")
    stream.filter(lambda value, record: record["offset"] > 1).to("filtered")
    stream.filter_not(lambda value, record: record["offset"] > 1).to("left")
    stream.flat_map_values(lambda value, record: F.array(value, record["timestamp"])).to("flat")
    stream.flat_map(lambda value, record: F.array(F.struct(record["topic"], value))).to("flat_pairs")
    early, late = stream.split({"early": lambda value, record: record["timestamp"] < 15}, default="late").values()
    early.to("early")
    late.to("late")
    stream.map_values(wm.python(lambda value, record: repr(record), "string")).to("plain")
    stream.group_by(lambda value, record: record["timestamp"]).count().to_stream().to("counts")


def other_headers(b: wm.StreamsBuilder) -> None:
    stream = b.stream("in", key="string", value="long", headers=True)
    table = b.table("table", key="string", value="long")
    known = stream.map_headers(lambda value, record: F.filter(record["headers"], lambda each: each["key"] == "id"))
    own = lambda key, value: F.concat(key, value.cast("string")).cast("binary").alias("value")  # noqa: E731
    told = known.map_headers(
        lambda key, value, record: F.concat(
            record["headers"], F.array(F.struct(F.lit("key").alias("key"), own(key, value)))
        )
    )
    none = stream.map_headers(wm.python(lambda value: None, "array<struct<name: string, content: binary>>"))
    for name, each in {"in_again": stream, "known": known, "told": told, "none": none}.items():
        each.map_values(lambda value, record: shown(record)).to(name)
    told.join(table, lambda left, right, record: shown(record)).to("joined")
    told.group_by_key().count().to_stream().map_values(lambda value, record: shown(record)).to("counts")


def behind_operators(b: wm.StreamsBuilder) -> None:
    stream = b.stream("in", key="string", value="long", headers=True)
    table = b.table("table", key="string", value="long")
    world = b.global_table("world", key="string", value="long")
    stream.left_join(table, lambda left, right, record: shown(record)).to("joined")
    stream.left_join(table, lambda key, left, right, record: F.concat(key, shown(record))).to("keyed")
    looked = stream.left_join(world, lambda left, right, record: record["timestamp"] + left, key=lambda k, v: k)
    looked.map_values(lambda value, record: shown(record)).to("looked")
    counts = stream.group_by_key().count()
    counts.to_stream().map_values(lambda value, record: shown(record)).to("counts")
    table.to_stream().map_values(lambda value, record: shown(record)).to("changes")
    kept = b.table("kept", key="string", value="long", store="kept")
    kept.to_stream().map_values(lambda value, record: shown(record)).to("kept_changes")
    stream.to_table().to_stream().filter(lambda value, record: record["topic"].isNull()).to("through")
    windows = wm.JoinWindows.of_time_difference_with_no_grace("10 ms")
    own = stream.join(stream, lambda left, right, record: record["timestamp"], windows=windows)
    own.to("selves")


def built(define: Any) -> wm.Topology:
    builder = wm.StreamsBuilder("records")
    define(builder)
    return builder.build()


def fed(driver: TopologyTestDriver, topology: wm.Topology) -> dict[str, list[tuple[Any, ...]]]:
    inputs = [source.input for source in topology.plan.sources]
    for name in ("table", "world", "kept"):
        if name in inputs:
            driver.pipe(name, "k", 1, ts=3)
    for ts, value in ((10, 1), (20, 2), (12, 3)):
        driver.pipe("in", "k", value, ts=ts, headers=HEADERS if ts != 20 else [])
    names = [sink.output for sink in topology.plan.sinks]
    return {name: [(r.key, r.value, r.ts, r.headers) for r in driver.read(name)] for name in names}


@pytest.mark.parametrize("define", [every_step, behind_operators, other_headers])
def test_they_see_the_same_in_the_drivers_process_in_levels_and_under_spark(spark: SparkSession, define: Any) -> None:
    topology = built(define)
    here = TopologyTestDriver(topology)
    assert here.runs_in == "process", here.why_spark
    found = fed(here, topology)
    assert all(found.values()), found
    for place in ("level", "spark"):
        with functions_in(spark, place):
            assert fed(TopologyTestDriver(topology, spark), topology) == found


def test_a_step_before_operators_sees_where_the_record_was_read() -> None:
    topology = built(every_step)
    found = fed(TopologyTestDriver(topology), topology)
    assert [value for _, value, *_ in found["values"]] == ["10 id,none in/0/0", "20  in/0/1", "12 id,none in/0/2"]
    assert [value for _, value, *_ in found["both"]] == ["kin"] * 3
    assert [key for key, *_ in found["pairs"]] == ["in"] * 3
    assert [key for key, *_ in found["keys"]] == [10, 20, 12]
    assert [value for _, value, *_ in found["filtered"]] == [3]
    assert [value for _, value, *_ in found["left"]] == [1, 2]
    assert [value for _, value, *_ in found["flat"]] == [1, 10, 2, 20, 3, 12]
    assert [value for _, value, *_ in found["early"]] == [1, 3]
    assert [key for key, *_ in found["counts"]] == [10, 20, 12]
    assert found["plain"][1][1] == repr({"timestamp": 20, "headers": [], "topic": "in", "partition": 0, "offset": 1})


def test_behind_an_operator_a_record_has_its_results_time_and_headers_and_stands_in_no_topic() -> None:
    topology = built(behind_operators)
    found = fed(TopologyTestDriver(topology), topology)
    assert [value for _, value, *_ in found["joined"]] == ["10 id,none ", "20  ", "12 id,none "]
    assert next(value for _, value, *_ in found["keyed"]) == "k10 id,none "
    assert [value for _, value, *_ in found["counts"]] == ["10 id,none ", "20  ", "20 id,none "]
    # whether a table is kept does not matter
    assert found["changes"] == found["kept_changes"] == [("k", "3  ", 3, ())]
    # the time of a pair is the later one's, as its result's
    assert [value for _, value, *_ in found["selves"]] == [ts for _, _, ts, _ in found["selves"]]
    assert max(value for _, value, *_ in found["selves"]) == 20


def test_headers_that_a_mapper_gives_are_those_of_all_that_stands_below_it_and_of_nothing_else() -> None:
    topology = built(other_headers)
    found = fed(TopologyTestDriver(topology), topology)
    first = {name: records[0][3] for name, records in found.items()}
    kept, told = (("id", b"7"),), (("id", b"7"), ("key", b"k1"))
    assert first == {
        "in_again": tuple(HEADERS),
        "known": kept,
        "told": told,
        "none": (),
        "joined": told,
        "counts": told,
    }
    assert [record[1] for record in found["joined"]] == ["10 id,key ", "20 key ", "12 id,key "]


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        (lambda v: F.lit("id"), "F.array"),
        (lambda v: F.array(F.struct(F.lit("id").alias("key"), F.lit("7").alias("value"))), "binary"),
    ],
)
def test_headers_are_texts_and_bytes(given: Any, hint: str) -> None:
    stream = wm.StreamsBuilder("types").stream("s", key="string", value="long", headers=True)
    with pytest.raises(FunctionError, match=f"(?s)header mapper must return headers, not .*Hint: .*{hint}"):
        stream.map_headers(given)


def test_without_headers_there_are_none_to_map() -> None:
    stream = wm.StreamsBuilder("none").stream("s", key="string", value="long")
    with pytest.raises(TopologyError, match=r"(?s)no topic that has been read keeps them.*Hint: .*headers=True"):
        stream.map_headers(lambda value, record: record["headers"])


def test_with_an_extractor_a_function_sees_the_time_that_it_gives_and_an_extractor_sees_the_record(
    spark: SparkSession,
) -> None:
    builder = wm.StreamsBuilder("both")
    given = lambda value, record: record["timestamp"] + record["offset"] * 100 + value  # noqa: E731
    stream = builder.stream("in", key="string", value="long", timestamp=given, on_invalid_timestamp="own")
    stream.map_values(lambda value, record: record["timestamp"]).to("out")
    topology = builder.build()
    for place in (None, "level", "spark"):
        with functions_in(spark, place or "level"):
            driver = TopologyTestDriver(topology, None if place is None else spark)
            driver.pipe("in", "k", 1, ts=10)
            driver.pipe("in", "k", -1000, ts=20)
            driver.pipe("in", "k", 3, ts=30)
            assert [(r.value, r.ts) for r in driver.read("out")] == [(11, 11), (20, 20), (233, 233)]


@pytest.mark.parametrize(
    "mistake",
    [
        lambda b: b.table("t", key="string", value="long").map_values(lambda value, record: value),
        lambda b: b.table("t", key="string", value="long").filter(lambda key, value, record: value > 1),
        lambda b: (
            b.table("t", key="string", value="long")
            .group_by(lambda key, value: (key, value))
            .agg(n=wm.sum(lambda value, record: value))
        ),
    ],
)
def test_where_there_is_no_record_to_see_that_is_said_with_the_way_to_it(mistake: Any) -> None:
    with pytest.raises(FunctionError, match=r"(?s)takes a parameter `record`.*Hint: Functions of streams"):
        mistake(wm.StreamsBuilder("none"))


def test_a_key_and_a_record_alone_are_refused_since_that_can_be_read_in_two_ways() -> None:
    stream = wm.StreamsBuilder("two").stream("s", key="string", value="long")
    with pytest.raises(
        FunctionError, match=r"(?s)takes a key and a record, but no value.*Hint: .*lambda value, record"
    ):
        stream.map_values(lambda key, record: record)


def test_a_value_may_be_called_record() -> None:
    stream = wm.StreamsBuilder("value").stream("s", key="string", value="long")
    assert stream.map_values(lambda record: record + 1).value_type.simpleString() == "bigint"


def test_a_field_that_a_record_has_not_is_named_with_those_that_it_has() -> None:
    stream = wm.StreamsBuilder("fields").stream("s", key="string", value="long")
    with pytest.raises(FunctionError, match=r"(?s)offsets.*Hint: .*offset"):
        stream.map_values(lambda value, record: record["offsets"])


@pytest.mark.parametrize("behind", [False, True], ids=["before operators", "behind one"])
def test_raise_error_sends_the_record_to_its_dead_letters_with_its_text(behind: bool) -> None:
    builder = wm.StreamsBuilder("checked", on_error=wm.DeadLetter("bad"))
    stream = builder.stream("in", key="string", value="long", headers=True)
    if behind:
        stream = stream.group_by_key().reduce(lambda one, other: other).to_stream()
    text = lambda value, record: F.concat(F.lit("negative at "), record["timestamp"].cast("string"))  # noqa: E731
    checked = stream.map_values(lambda v, record: F.when(v >= 0, v).otherwise(F.raise_error(text(v, record))))
    checked.to("out")
    driver = TopologyTestDriver(builder.build())
    assert driver.runs_in == "process", driver.why_spark
    for ts, value in enumerate((1, -1, 2)):
        driver.pipe("in", "k", value, ts=ts, headers=HEADERS)
    assert [record.value for record in driver.read("out")] == [1, 2]
    (letter,) = driver.read("bad")
    told = dict(letter.headers or ())
    assert letter.key == b"k"
    assert told["id"] == b"7"
    assert b"negative at 1" in (told["__streams.errors.message"] or b"")
    assert told["__streams.errors.reason"] == b"function_error"
