"""Rows of a named store have the headers of the record that set them, where its topic keeps headers (KIP-1271)."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet.errors import TopologyError
from watersmeet.testing import TopologyTestDriver

pytestmark = pytest.mark.spark
TEXT: Any = {"key": "string", "value": "string"}
STORES = "left", "right", "country", "shouted", "short", "joined", "last", "visits", "names", "of-names"


def topology() -> wm.Topology:
    """Stores of sources, of results and of aggregates; the topic of `plain` keeps no headers."""
    builder = wm.StreamsBuilder("traced")
    left = builder.table("left", **TEXT, headers=True, store="left")
    right = builder.table("right", **TEXT, headers=True, store="right")
    countries = builder.global_table("country", **TEXT, headers=True, store="country")
    builder.table("plain", **TEXT, store="plain")
    visits = builder.stream("visits", **TEXT, headers=True)
    visits.join(right, lambda visit, name: F.concat(visit, name)).to("named")
    visits.left_join(right, lambda visit, name: F.concat(visit, name)).to("named-too")
    visits.join(countries, lambda visit, country: F.concat(visit, country), key=lambda key, visit: key).to("placed")
    left.map_values(lambda value: F.upper(value), store="shouted")
    left.filter(lambda key, value: F.length(value) < 4, store="short")
    left.join(right, lambda a, b: F.concat(a, b), store="joined")
    visits.to_table(store="last")
    visits.group_by_key().count(store="visits")
    left.group_by(lambda key, value: (key, value)).reduce(
        lambda row, value: F.concat(row, value), lambda row, value: row, store="names"
    )
    left.group_by(lambda key, value: (value, value)).agg(n=wm.count(), store="of-names")
    visits.group_by_key().windowed_by(wm.TimeWindows.of_size_with_no_grace("10 ms")).count(store="by-time")
    left.to_stream().to("all")
    return builder.build()


def headers_in(driver: TopologyTestDriver, *names: str) -> dict[str, dict[str, Any]]:
    stores = {name: driver.get_store(name) for name in names}
    return {name: {key: store.headers(key) for key, _ in store.all()} for name, store in stores.items()}


RECORDS = (
    ("left", "ann", "Ann", 1),
    ("right", "ann", "A.", 2),
    ("country", "ann", "SE", 2),
    ("plain", "ann", "-", 3),
    ("visits", "ann", "/", 4),
    ("left", "bob", "Bobby", 5),
    ("left", "eve", "Eve", 6),
    ("left", "eve", None, 7),
    ("right", "bob", "B.", 8),
    ("left", "ann", "An", 9),
    ("visits", "bob", "/b", 10),
)


def pipe(driver: TopologyTestDriver, number: int) -> None:
    topic, key, value, ts = RECORDS[number]
    driver.pipe(topic, key=key, value=value, ts=ts, headers=[("n", str(number).encode()), ("none", None)])


def of(number: int) -> tuple[tuple[str, bytes | None], ...]:
    return ("n", str(number).encode()), ("none", None)


def test_a_row_has_the_headers_of_the_record_that_set_it(spark: SparkSession) -> None:
    with TopologyTestDriver(topology()) as driver:
        for number in range(len(RECORDS)):
            pipe(driver, number)
        assert headers_in(driver, *STORES) == {
            "left": {"ann": of(9), "bob": of(5)},
            "right": {"ann": of(1), "bob": of(8)},
            "country": {"ann": of(2)},
            "shouted": {"ann": of(9), "bob": of(5)},
            "short": {"ann": of(9)},
            "joined": {"ann": of(9), "bob": of(8)},
            "last": {"ann": of(4), "bob": of(10)},
            "visits": {"ann": of(4), "bob": of(10)},
            "names": {"ann": of(9), "bob": of(5), "eve": of(7)},
            "of-names": {"Ann": of(9), "An": of(9), "Bobby": of(5), "Eve": of(7)},
        }
        assert driver.get_store("left").headers("nobody") == ()
        driver.pipe("left", key="ann", value="Anna", ts=11)
        assert driver.get_store("left").headers("ann") == ()


def test_batches_do_not_decide_over_the_headers_of_rows(spark: SparkSession) -> None:
    with TopologyTestDriver(topology()) as whole, TopologyTestDriver(topology()) as cut:
        for number in range(len(RECORDS)):
            pipe(whole, number)
            pipe(cut, number)
            steps = headers_in(cut, *STORES)
        assert steps == headers_in(whole, *STORES)


def test_a_store_of_records_without_headers_keeps_none(spark: SparkSession) -> None:
    tables = {table.name: table for operator in topology().physical.operators for table in operator.tables}
    assert [name for name, kind in tables["plain"].columns if kind == "headers"] == []
    assert {name for name, table in tables.items() if "headers" in dict(table.columns)} == {*STORES, "by-time"}
    with TopologyTestDriver(topology()) as driver, pytest.raises(TopologyError, match="keeps no headers"):
        driver.get_store("plain").headers("ann")


def test_joins_of_one_level_share_a_store_with_headers(spark: SparkSession) -> None:
    (readers,) = [store.readers for store in topology().physical.stores if store.schema.name == "right"]
    assert len(readers) == 1


def test_headers_that_a_function_makes_are_those_of_the_row(spark: SparkSession) -> None:
    builder = wm.StreamsBuilder("made")
    builder.stream("seen", **TEXT, headers=True).map_headers(
        lambda value, record: F.array(F.struct(F.lit("of").alias("key"), value.cast("binary").alias("value")))
    ).to_table(store="last")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("seen", key="ann", value="/", ts=1, headers=[("other", b"x")])
        assert driver.get_store("last").headers("ann") == (("of", b"/"),)
