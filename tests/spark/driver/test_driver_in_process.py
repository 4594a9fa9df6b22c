"""The test driver in its own process: the results of Spark's run, without one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet.errors import TopologyError
from watersmeet.testing.driver import TopologyTestDriver
from watersmeet.testing.stores import KeyValueStore, VersionedKeyValueStore, WindowStore
from watersmeet.testing.topics import TestRecord

Records = list[tuple[str, Any, Any, int]]
ORDERS: Records = [
    ("left", "a", 1, 0),
    ("right", "a", 10, 5),
    ("left", "b", 2, 7),
    ("left", None, 9, 8),
    ("right", "c", 30, 20),
    ("left", "a", None, 21),
    ("left", "c", -3, 22),
    ("right", "b", 20, -1),
    ("right", "a", None, 30),
    ("left", "a", 4, 29),
    ("right", "b", 5, 2_000),
    ("left", "b", 6, 2_001),
    ("right", "x", 7, 90_000),
    ("left", "y", 8, 90_001),
]
"""Input, key, value, ts: with tombstones, null keys, negative and late times, and a jump of time."""


def streams(b: wm.StreamsBuilder) -> tuple[Any, Any]:
    return tuple(b.stream(name, key="string", value="long") for name in ("left", "right"))  # type: ignore[return-value]


def tables(b: wm.StreamsBuilder) -> tuple[Any, Any]:
    return tuple(b.table(name, key="string", value="long") for name in ("left", "right"))  # type: ignore[return-value]


def both(one: Any, other: Any) -> Any:
    return F.concat_ws("+", one.cast("string"), other.cast("string"))


def steps(b: wm.StreamsBuilder) -> None:
    left, right = streams(b)
    left.filter(lambda value: value > 1).map_values(lambda value: value * 2).to("doubled")
    left.merge(right).select_key(lambda key, value: (value % 3).cast("string")).to("rekeyed")
    left.map(lambda key, value: (value, F.struct(key.alias("name"), value.alias("n")))).to("structs")
    b.table("table", key="string", value="long").to_stream().to("unused")


def table_joins(b: wm.StreamsBuilder) -> None:
    left, right = tables(b)
    left.join(right, both).to("inner")
    left.left_join(right, both).filter(lambda value: value != "2").to("left_joined")
    left.outer_join(right, both).to("outer")


def stream_table_joins(b: wm.StreamsBuilder) -> None:
    left = b.stream("left", key="string", value="long")
    right = b.table("right", key="string", value="long")
    left.join(right, both).to("inner")
    left.left_join(right, both).to("left_joined")


def stream_joins(b: wm.StreamsBuilder) -> None:
    left, right = streams(b)
    windows = wm.JoinWindows.of_time_difference_with_no_grace("10 ms")
    left.join(right, both, windows).to("inner")
    left.outer_join(right, both, windows).to("outer")


def foreign_keys(b: wm.StreamsBuilder) -> None:
    left = b.table("left", key="string", value="long")
    right = b.table("right", key="string", value="long")
    of = lambda value: F.when(value % 2 == 0, F.lit("b")).otherwise(F.lit("a"))  # noqa: E731
    left.join(right, both, foreign_key=of).to("inner")
    left.left_join(right, both, foreign_key=of).to("left_joined")


def global_tables(b: wm.StreamsBuilder) -> None:
    left = b.stream("left", key="string", value="long")
    right = b.global_table("right", key="string", value="long")
    left.left_join(right, both, key=lambda key, value: key).to("left_joined")


def aggregates(b: wm.StreamsBuilder) -> None:
    left, right = streams(b)
    grouped = left.group_by_key()
    grouped.count().to("counts")
    grouped.agg(total=wm.sum(lambda value: value), mean=wm.avg(lambda value: value)).to("named")
    grouped.reduce(lambda one, other: one + other).to("reduced")
    right.group_by(lambda key, value: F.lit("all")).count().to("all")


def plain_folds(b: wm.StreamsBuilder) -> None:
    left, _ = streams(b)
    left.group_by_key().reduce(wm.python(lambda one, other: one * 10 + other)).to("reduced")


def table_aggregates(b: wm.StreamsBuilder) -> None:
    left, _ = tables(b)
    left.group_by(lambda key, value: (value % 2, value)).agg(total=wm.sum(lambda value: value)).to("totals")


def windows(b: wm.StreamsBuilder) -> None:
    left, _ = streams(b)
    grouped = left.group_by_key()
    seconds = wm.TimeWindows.of_size_with_no_grace("1 second")
    grouped.windowed_by(seconds).count().to_stream().to("counts")
    grouped.windowed_by(seconds).emit_strategy(wm.EmitStrategy.on_window_close()).count().to_stream().to("closed")
    grouped.windowed_by(wm.SessionWindows.of_inactivity_gap_with_no_grace("100 ms")).count().to_stream().to("sessions")


def one_topic(b: wm.StreamsBuilder) -> None:
    left, right = streams(b)
    left.to("one")
    right.map_values(lambda value: -value).to("one")
    left.group_by_key().count().to_stream().to("one")


def held_back(b: wm.StreamsBuilder) -> None:
    left, _ = streams(b)
    unbounded = wm.BufferConfig.unbounded()
    left.to_table().suppress(wm.Suppressed.until_time_limit("10 ms", unbounded)).to("latest")
    seconds = wm.TimeWindows.of_size_with_no_grace("1 second")
    counts = left.group_by_key().windowed_by(seconds).count()
    counts.suppress(wm.Suppressed.until_window_closes(unbounded)).to_stream().to("closed")


TOPOLOGIES: list[Callable[[wm.StreamsBuilder], None]] = [
    steps,
    table_joins,
    stream_table_joins,
    stream_joins,
    foreign_keys,
    global_tables,
    aggregates,
    plain_folds,
    table_aggregates,
    windows,
    one_topic,
    held_back,
]


def built(make: Callable[[wm.StreamsBuilder], None]) -> wm.Topology:
    b = wm.StreamsBuilder(make.__name__.replace("_", "-"))
    make(b)
    return b.build()


def outputs(topology: wm.Topology, driver: TopologyTestDriver, case: str) -> dict[str, list[TestRecord]]:
    return {name: driver.read(name, case=case) for name in sorted({sink.output for sink in topology.plan.sinks})}


def plain(found: dict[str, list[TestRecord]]) -> dict[str, list[tuple[Any, ...]]]:
    return {name: [(r.key, r.value, r.ts, r.headers, r.step) for r in records] for name, records in found.items()}


def stand_as(found: dict[str, list[TestRecord]], wanted: dict[str, list[TestRecord]]) -> bool:
    """Whether records of all outputs stand in the order of the wanted ones; of some that stand at one place, any."""
    pairs = [pair for name in wanted for pair in zip(wanted[name], found[name], strict=True)]
    pairs.sort(key=lambda pair: (pair[0].position, pair[1].position))
    places = [pair[1].position for pair in pairs]
    return places == sorted(places)


@pytest.mark.parametrize("make", TOPOLOGIES, ids=lambda make: make.__name__)
def test_both_ways_give_the_same_records_in_the_same_order_and_drop_the_same(
    spark: SparkSession, make: Callable[[wm.StreamsBuilder], None]
) -> None:
    topology = built(make)
    here, there = TopologyTestDriver(topology), TopologyTestDriver(topology, spark)
    assert here.why_spark == ""
    assert (here.runs_in, there.runs_in) == ("process", "spark")
    inputs = {source.input for source in topology.plan.sources}
    given = [record for record in ORDERS if record[0] in inputs]
    for driver in (here, there):
        for case, records in (("", given), ("backwards", given[::-1])):
            for name, key, value, ts in records:
                driver.pipe(name, key, value, ts=ts, case=case)
    for case in ("", "backwards"):
        wanted, given_here = outputs(topology, there, case), outputs(topology, here, case)
        assert plain(given_here) == plain(wanted)
        assert stand_as(given_here, wanted)
        assert any(wanted.values())
    assert here.drops == there.drops

    again = TopologyTestDriver(topology)
    found: dict[str, list[TestRecord]] = {name: [] for name in wanted}
    for name, key, value, ts in given[::-1]:
        again.pipe(name, key, value, ts=ts)
        for output, read in outputs(topology, again, "").items():
            found[output] += read
    assert plain(found) == plain(wanted), "one read after each record"


def test_values_of_all_types_bytes_and_headers_are_what_they_are_on_spark(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("types")
    kind = "t timestamp, n timestamp_ntz, d date, x decimal(5,2), m map<string,long>, l array<double>, s struct<a: int>"
    rows = b.stream("rows", key="bytes", value=wm.json(kind), headers=True, on_undecodable="skip")
    rows.to("out")
    rows.map(lambda key, value: (value["s"], F.struct(value["t"], value["d"], value["x"]))).to("parts")
    topology = b.build()
    row = {
        "t": datetime(2024, 3, 10, 12, 30, 0, 123456, UTC),
        "n": datetime(2024, 3, 10, 2, 30),
        "d": date(1969, 12, 31),
        "x": Decimal("1.50"),
        "m": {"a": 1, "b": None},
        "l": [1, None, float("inf")],
        "s": {"a": 7},
    }
    drivers = [TopologyTestDriver(topology), TopologyTestDriver(topology, spark)]
    assert [driver.runs_in for driver in drivers] == ["process", "spark"], drivers[0].why_spark
    for driver in drivers:
        driver.pipe("rows", b"k", row, ts=5, headers=[("id", b"7"), ("id", b"8")])
        driver.pipe("rows", b"l", b'{"t": "2024-01-01T00:00:00Z", "x": 2}', ts=6)
        driver.pipe("rows", b"m", b"no JSON", ts=7)
        driver.pipe("rows", None, None, ts=8)
    here, there = (plain(outputs(topology, driver, "")) for driver in drivers)
    assert here == there
    assert len(there["out"]) == 3
    assert [type(part) for part in here["out"][0][1]] == [type(part) for part in there["out"][0][1]]
    assert drivers[0].drops == drivers[1].drops == {("rows", "undecodable"): 1}


def test_what_gives_all_functions_to_spark_is_said(spark: SparkSession) -> None:
    topology = built(table_joins)
    with_session = TopologyTestDriver(topology, spark)
    assert with_session.why_spark == "a session was given"
    with pytest.raises(TopologyError, match="runs on Spark"):
        with_session.get_store("any")
    spark.conf.set("watersmeet.functions", "spark")
    try:
        assert "watersmeet.functions is spark" in TopologyTestDriver(topology).why_spark
    finally:
        spark.conf.unset("watersmeet.functions")


def test_a_failure_takes_the_records_back_and_leaves_the_state_as_it_was(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("fails")
    seen: list[int] = []
    counts = b.stream("in", key="string", value="long").peek(lambda key, value: seen.append(value)).group_by_key()
    counts.agg(total=wm.sum(lambda value: value), store="totals").map_values(lambda value: 100 / value["total"]).to(
        "out"
    )
    driver = TopologyTestDriver(b.build())
    assert driver.runs_in == "process", driver.why_spark
    driver.pipe("in", "a", 5, ts=0)
    assert driver.read("out") == [TestRecord("a", 20.0, 0)]
    driver.pipe("in", "a", -5, ts=1)
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO") as raised:
        driver.read("out")
    assert "have been taken back" in raised.value.__notes__[0]
    assert driver.get_store("totals").get("a") == Row(total=5)
    driver.pipe("in", "a", 20, ts=2)
    assert driver.read("out") == [TestRecord("a", 4.0, 2)]
    assert seen == [5, -5, 20], "peek is shown each record once"


def test_stores_are_read_by_key_range_and_window(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("stores")
    left, _ = streams(b)
    grouped = left.group_by_key()
    grouped.agg(mean=wm.avg(lambda value: value), store="means").to("means")
    tumbling = wm.TimeWindows.of_size_and_grace("1 second", "1 hour")
    grouped.windowed_by(tumbling).count(store="windows").to_stream().to("windows")
    bursts = wm.SessionWindows.of_inactivity_gap_and_grace("100 ms", "1 hour")
    grouped.windowed_by(bursts).count(store="sessions").to_stream().to("s")
    left.join(b.global_table("all", key="string", value="long", store="all"), both, key=lambda key, value: key).to("g")
    driver = TopologyTestDriver(b.build())
    assert driver.runs_in == "process", driver.why_spark
    means = driver.get_store("means")
    assert isinstance(means, KeyValueStore)
    assert (means.all(), means.get("a"), means.approximate_num_entries()) == ([], None, 0)
    for key, value, ts in (("b", 1, 0), ("a", 2, 10), ("b", 4, 1_050), ("é", 6, 1_060), ("b", 7, 1_100)):
        driver.pipe("left", key, value, ts=ts)
    assert means.all() == [("a", Row(mean=2.0)), ("b", Row(mean=4.0)), ("é", Row(mean=6.0))]
    assert means.range("b") == means.all()[1:]
    assert means.range("aa", "b") == means.all()[1:2]
    assert means.get("b") == Row(mean=4.0)
    assert means.approximate_num_entries() == 3
    windows, sessions = driver.get_store("windows"), driver.get_store("sessions")
    assert isinstance(windows, WindowStore)
    assert isinstance(sessions, WindowStore)
    assert windows.fetch("b", 0, 1_000) == [(0, 1), (1_000, 2)]
    assert windows.fetch("b", 1, 1_000) == [(1_000, 2)]
    assert windows.all()[0] == (("a", 0), 1)
    assert sessions.fetch("b", 1_060, 1_070) == [((1_050, 1_100), 2)]
    with pytest.raises(TopologyError, match=r"Stores: .*means"):
        driver.get_store("mean")
    with pytest.raises(TopologyError, match="of the type string"):
        means.get(1)


def test_stores_of_tables_have_what_stands_in_the_tables_of_their_case(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("stores-of-tables")
    left, _ = streams(b)
    b.table("names", key=wm.json("id long, part string"), value="string", store="names").to_stream().to("changes")
    everywhere = b.global_table("all", key="string", value="long", store="all")
    left.join(everywhere, both, key=lambda key, value: key).to("joined")
    driver = TopologyTestDriver(b.build())
    names = driver.get_store("names")
    assert isinstance(names, KeyValueStore)
    driver.pipe("names", {"id": 1, "part": "x"}, "one", ts=0)
    driver.pipe("names", {"id": 2, "part": "x"}, "two", ts=0, case="other")
    driver.pipe("names", (2, "x"), "two", ts=0)
    driver.pipe("names", (2, "x"), None, ts=1)
    assert names.all() == [(Row(id=1, part="x"), "one")]
    assert names.get({"id": 1, "part": "x"}) == "one"
    assert driver.get_store("names", case="other").approximate_num_entries() == 1
    driver.pipe("all", "k", 7, ts=2)
    assert driver.get_store("all").all() == [("k", 7)]


def test_the_store_of_a_versioned_table_tells_what_was_valid_at_a_time(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("stores-of-the-past")
    rates = b.table("rates", key="string", value="long", store="rates", history="50 ms")
    rates.to_stream().to("changes")
    b.stream("orders", key="string", value="long").join(rates, both).to("joined")
    driver = TopologyTestDriver(b.build())
    kept = driver.get_store("rates")
    assert isinstance(kept, VersionedKeyValueStore)
    for value, ts in ((1, 10), (3, 30), (2, 20), (None, 40)):
        driver.pipe("rates", "k", value, ts=ts)
    driver.pipe("rates", "other", 7, ts=12)
    assert [kept.get("k", as_of=ts) for ts in (9, 10, 25, 39, 40)] == [None, 1, 2, 3, None]
    assert kept.get("k") is None
    assert kept.all() == [("other", 7)]
    driver.pipe("rates", "far", 9, ts=85)
    assert [kept.get("k", as_of=ts) for ts in (30, 35)] == [None, 3]
    assert kept.get("other", as_of=12) == 7
    assert kept.approximate_num_entries() == 2
