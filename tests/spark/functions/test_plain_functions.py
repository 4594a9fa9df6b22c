"""Plain Python functions of values where functions of Columns stand: in the level, in the driver, and under Spark."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.functions.test_flat_maps import functions_in
from watersmeet.errors import FunctionError
from watersmeet.testing.driver import TopologyTestDriver

VALUE = wm.json("n long, at timestamp, tags array<string>, sums map<string, decimal(9,2)>, part struct<x: double>")
RECORDS: list[tuple[Any, Any]] = [
    (
        "a",
        {
            "n": 3,
            "at": datetime(2020, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
            "tags": ["x", None, "é😀"],
            "sums": {"s": Decimal("1.50")},
            "part": {"x": float("nan")},
        },
    ),
    ("b", {"n": None, "at": None, "tags": [], "sums": {}, "part": None}),
    ("b", None),
    (None, {"n": 2**63 - 1, "at": datetime(1900, 1, 1, tzinfo=UTC), "tags": None, "sums": None, "part": {"x": -0.0}}),
    (None, None),
]


def shown(value: Any) -> str:
    return repr(value)


def pairs(key: Any, value: Any) -> dict[str, Any]:
    return {"key": repr(value)[:5], "value": None if value is None else value["n"]}


def every_place(b: wm.StreamsBuilder) -> None:
    stream = b.stream("in", key="string", value=VALUE)
    stream.map_values(wm.python(shown, "string")).to("mapped")
    stream.filter(wm.python(lambda value: bool(value) and value["n"] == 3)).to("filtered")
    stream.filter_not(wm.python(lambda key, value: None if value is None else key == "a")).to("left")
    stream.map(wm.python(pairs, "struct<key: string, value: long>")).to("pairs")
    stream.flat_map_values(wm.python(lambda v: v and v["tags"], "array<string>")).to("tags")
    chosen = stream.select_key(wm.python(lambda key, value: f"{key}!", "string"))
    chosen.group_by(wm.python(lambda value: value and value["n"], "long")).agg(
        n=wm.count(), latest=wm.max(wm.python(lambda value: value["at"] if value else None, "timestamp"))
    ).to_stream().to("groups")
    table = b.table("table", key="string", value="long")
    stream.left_join(table, wm.python(lambda left, right: [left and left["n"], right], "array<long>")).to("joined")
    doubled = table.map_values(wm.python(lambda value: value * 2, "long"), store="doubled")
    doubled.filter(wm.python(lambda value: value > 5)).to_stream().to("large")
    table.group_by(wm.python(lambda key, value: (str(value % 2), value), "struct<k: string, v: long>")).agg(
        total=wm.sum(lambda value: value)
    ).to_stream().to("halves")
    first, rest = stream.split({"a": wm.python(lambda key, value: key == "a")}, default="rest").values()
    first.to("first")
    rest.to("rest")


def built(define: Callable[[wm.StreamsBuilder], None]) -> wm.Topology:
    b = wm.StreamsBuilder("plain")
    define(b)
    return b.build()


def fed(driver: TopologyTestDriver, topology: wm.Topology) -> dict[str, str]:
    for ts, (key, value) in enumerate(RECORDS):
        driver.pipe("table", key or "z", ts + 1 if ts != 3 else None, ts=ts)
        driver.pipe("in", key, value, ts=ts)
        driver.pipe("table", "a", ts, ts=ts)
    # NaN is no value of JSON's: as text they are compared
    return {sink.output: repr(driver.read(sink.output)) for sink in topology.plan.sinks}


def test_they_give_the_same_in_the_drivers_process_in_levels_and_under_spark(spark: SparkSession) -> None:
    topology = built(every_place)
    here = TopologyTestDriver(topology)
    assert here.runs_in == "process", here.why_spark
    found = fed(here, topology)
    assert all("value=" in records for records in found.values())
    assert "datetime.datetime(2020, 1, 2, 3, 4, 5, 6, tzinfo" in found["mapped"]
    for place in ("level", "spark"):
        with functions_in(spark, place):
            assert fed(TopologyTestDriver(topology, spark), topology) == found


def test_beside_a_function_that_spark_evaluates_spark_calls_them_too(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("mixed")
    stream = b.stream("in", key="string", value="double")
    stream.map_values(wm.python(lambda value: value / 2, "double")).map_values(lambda value: F.log(value)).to("out")
    driver = TopologyTestDriver(b.build())
    assert "Log" in driver.why_spark
    driver.pipe("in", "k", 2.0, ts=0)
    assert [record.value for record in driver.read("out")] == [0.0]


def raises(value: str) -> int:
    if value == "bad":
        raise ValueError("no " + value)
    return len(value)


def test_an_error_is_raised_for_the_record_that_asks_for_it_and_names_function_and_place(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("raises")
    stream = b.stream("in", key="string", value="string")
    stream.filter(lambda key, value: key == "k").map_values(wm.python(raises, "long")).to("out")
    topology = b.build()
    for driver in (TopologyTestDriver(topology), TopologyTestDriver(topology, spark)):
        driver.pipe("in", "other", "bad", ts=0)
        driver.pipe("in", "k", "good", ts=1)
        assert [record.value for record in driver.read("out")] == [4]
        driver.pipe("in", "k", "bad", ts=2)
        with pytest.raises(Exception, match="raises raises ValueError: no bad"):
            driver.read("out")
    with functions_in(spark, "spark"):
        driver = TopologyTestDriver(topology, spark)
        driver.pipe("in", "other", "bad", ts=0)
        assert driver.read("out") == []
        driver.pipe("in", "k", "bad", ts=2)
        with pytest.raises(FunctionError, match=r"ValueError: no bad\S* \(line \d+ of \S*plain_functions"):
            driver.read("out")


@pytest.mark.parametrize("wrong", ["text", 1.5, 2**63, [1]], ids=repr)
def test_a_value_of_another_type_is_an_error(spark: SparkSession, wrong: object) -> None:
    b = wm.StreamsBuilder("wrong")
    b.stream("in", key="string", value="string").map_values(wm.python(lambda value: wrong, "long")).to("out")
    driver = TopologyTestDriver(b.build())
    driver.pipe("in", "k", "v", ts=0)
    with pytest.raises(Exception, match=r"PYTHON_FUNCTION.*not of the type int64"):
        driver.read("out")


BAD: dict[str, tuple[str, Callable[[], Any], str]] = {
    "a decimal of too many digits": ("decimal(10,2)", lambda: Decimal("123456789.00"), "decimal128"),
    "the same in a struct": ("struct<d: decimal(10,2)>", lambda: {"d": Decimal("123456789.00")}, "decimal128"),
    "the same in a map": ("map<string, decimal(10,2)>", lambda: {"d": Decimal("123456789.00")}, "decimal128"),
    "half a surrogate": ("string", lambda: "\ud83d", r"'\\ud83d'; the type is string"),
    "half a surrogate as a key": ("map<string, int>", lambda: {"\ud83d": 1}, r"'\\ud83d'; the type is string"),
    "a number for a time": ("timestamp", lambda: 5, "not of the type timestamp"),
    "a time without a zone": ("timestamp", lambda: datetime(2026, 1, 1), "a time needs its zone"),
    "a float that is too large": ("float", lambda: 1e300, "not of the type float"),
    "an iterator that raises": ("array<int>", lambda: (1 // n for n in (1, 0)), "raises ZeroDivisionError"),
    "an error that no encoding has": ("int", lambda: dict[str, int]()["\ud83d"], r"raises KeyError: '\\ud83d'"),
    "an error without a text": ("int", lambda: fail("\ud83d"), r"raises ValueError: \\ud83d"),
}


def fail(said: str) -> None:
    raise ValueError(said)


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_of_the_type_ends_that_record_alone_under_a_policy(spark: SparkSession, name: str) -> None:
    kind, made, said = BAD[name]
    b = wm.StreamsBuilder("bad")
    topic = wm.Topic("in", key="string", value="string", on_error=wm.DeadLetter("dead"))
    good = {"timestamp": datetime(2026, 1, 1, tzinfo=UTC), "float": 1.0}.get(kind)
    stream = b.stream(topic).map_values(wm.python(lambda value: made() if value == "bad" else good, kind))
    stream.map_values(lambda value: value.isNull(), nulls=True).to("out")
    driver = TopologyTestDriver(b.build())
    for value in ("bad", "good"):
        driver.pipe("in", "k", value, ts=0)
    assert [record.value for record in driver.read("out")] == [good is None]
    (letter,) = driver.read("dead")
    assert re.search(said, str(dict(letter.headers)["__streams.errors.message"], "utf-8"))


def test_on_error_makes_a_dead_letter_of_the_record(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("letters")
    topic = wm.Topic("in", key="string", value="string", on_error=wm.DeadLetter("dead"))
    b.stream(topic).map_values(wm.python(raises, "long")).to("out")
    topology = b.build()
    assert "mapper of map_values-1: where records are packed" in topology.describe()
    driver = TopologyTestDriver(topology)
    for value in ("good", "bad", "better"):
        driver.pipe("in", "k", value, ts=0)
    assert [record.value for record in driver.read("out")] == [4, 6]
    (letter,) = driver.read("dead")
    assert letter.value == b"bad"
    assert "raises raises ValueError: no bad" in str(letter.headers)


def test_a_function_is_called_once_for_each_record_that_is_its_own(spark: SparkSession) -> None:
    b, seen = wm.StreamsBuilder("calls"), list[str]()

    def noted(value: str) -> str:
        seen.append(value)
        return value

    stream = b.stream("in", key="string", value="string")
    stream.filter(lambda key, value: key == "k").map_values(wm.python(noted, "string")).to("out")
    driver = TopologyTestDriver(b.build())
    for key, value in (("k", "one"), ("j", "two"), ("k", "three")):
        driver.pipe("in", key, value, ts=0)
    assert [record.value for record in driver.read("out")] == seen == ["one", "three"]
