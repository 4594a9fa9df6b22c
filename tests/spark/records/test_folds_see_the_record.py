"""Aggregators, reducers, arguments of aggregates and `peek` see the record: here, in levels and by Spark."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.functions.test_flat_maps import functions_in
from watersmeet.errors import FunctionError
from watersmeet.testing.driver import TopologyTestDriver

pytestmark = pytest.mark.usefixtures("spark")


def topology() -> wm.Topology:
    builder = wm.StreamsBuilder("folds")
    stream = builder.stream("in", key="string", value="long", headers=True)
    grouped = stream.group_by_key()
    named = {"latest": wm.max(lambda value, record: record["timestamp"]), "total": wm.sum(lambda value: value)}
    grouped.agg(
        **named, first=wm.min_by(lambda value: value, lambda key, value, record: record["offset"])
    ).to_stream().to("named")
    windows = wm.TimeWindows.of_size_with_no_grace("100 ms")
    grouped.windowed_by(windows).agg(last=wm.max(lambda value, record: record["offset"])).to_stream().to("windows")
    by_columns = lambda value, aggregate, record: aggregate + record["timestamp"] * value  # noqa: E731
    grouped.aggregate(lambda: F.lit(0).cast("long"), by_columns).to_stream().to("columns")
    plain = wm.python(lambda key, value, aggregate, record: f"{aggregate}{key}{value}@{record['timestamp']};", "string")
    grouped.aggregate(lambda: "", plain).to_stream().to("plain")
    reduced = grouped.reduce(lambda one, value, record: one * 10 + value * record["timestamp"])
    reduced.to_stream().to("reduced")
    # a value that is null by its time deletes, and the next one is taken as it is
    kept = lambda key, one, value, record: F.when(record["offset"] != 1, one + record["offset"])  # noqa: E731
    grouped.reduce(kept).to_stream().to("deleted")
    latest = lambda one, value, record: F.when(record["timestamp"] > 15, value).otherwise(one)  # noqa: E731
    grouped.windowed_by(windows).reduce(latest).to_stream().to("chosen")
    named_plain = wm.python(lambda one, value, record: one + value * record["offset"])
    grouped.reduce(named_plain).to_stream().to("plainly")
    grouped.cogroup(by_columns).aggregate(lambda: F.lit(0).cast("long")).to_stream().to("cogrouped")
    return builder.build()


EXPECTED = {
    "named": [
        {"latest": 10, "total": 1, "first": 1},
        {"latest": 20, "total": 3, "first": 1},
        {"latest": 20, "total": 6, "first": 1},
    ],
    "windows": [{"last": 0}, {"last": 1}, {"last": 3}],
    "columns": [10, 50, 86],
    "plain": ["k1@10;", "k1@10;k2@20;", "k1@10;k2@20;k3@12;"],
    "cogrouped": [10, 50, 86],
    "reduced": [1, 50, 536],
    "deleted": [1, None, 3],
    "chosen": [1, 2, 2],
    "plainly": [1, 3, 12],
}


def fed(driver: TopologyTestDriver) -> dict[str, list[Any]]:
    for ts, value in ((10, 1), (20, 2), (21, None), (12, 3)):
        driver.pipe("in", "k", value, ts=ts, headers=[("id", b"7")])
    return {
        name: [r.value.asDict() if hasattr(r.value, "asDict") else r.value for r in driver.read(name)]
        for name in EXPECTED
    }


def test_aggregators_and_arguments_see_the_record_of_the_new_row() -> None:
    driver = TopologyTestDriver(topology())
    assert fed(driver) == EXPECTED
    assert driver.runs_in == "process", driver.why_spark


@pytest.mark.parametrize("place", ["level", "spark"])
def test_levels_and_spark_give_the_same(spark: SparkSession, place: str) -> None:
    with functions_in(spark, place):
        assert fed(TopologyTestDriver(topology(), spark)) == EXPECTED


def test_peek_is_shown_the_record_and_what_goes_on_is_as_it_was() -> None:
    seen: list[Any] = []
    builder = wm.StreamsBuilder("peeks")
    stream = builder.stream("in", key="string", value="long", headers=True)
    stream.peek(lambda value, record: seen.append((value, record["timestamp"], record["offset"]))).to("out")
    stream.peek(lambda key, value, record: seen.append((key, record["headers"]))).to("other")
    driver = TopologyTestDriver(builder.build())
    driver.pipe("in", "k", 5, ts=7, headers=[("id", b"7")])
    driver.pipe("in", None, None, ts=8)
    for output in ("out", "other"):
        assert [(r.key, r.value, r.ts) for r in driver.read(output)] == [("k", 5, 7), (None, None, 8)]
    assert [each for each in seen if len(each) == 3] == [(5, 7, 0), (None, 8, 1)]
    headers = [{"key": "id", "value": b"7"}]
    assert [each for each in seen if len(each) == 2] == [("k", headers), (None, [])]


def test_a_record_for_which_such_a_peek_raises_goes_by_on_error() -> None:
    builder = wm.StreamsBuilder("peeks", on_error="skip")
    stream = builder.stream("in", key="string", value="long")
    stream.peek(lambda value, record: 1 // record["offset"]).to("out")
    driver = TopologyTestDriver(builder.build())
    for value in (1, 2):
        driver.pipe("in", "k", value, ts=value)
    assert [record.value for record in driver.read("out")] == [2]


def test_many_records_of_a_key_are_reduced_as_one_by_one() -> None:
    builder = wm.StreamsBuilder("folds")
    grouped = builder.stream("in", key="string", value="long").group_by_key()
    grouped.reduce(lambda one, value, record: one + record["timestamp"]).to_stream().to("sums")
    grouped.reduce(lambda one, value, record: F.greatest(one, record["offset"] + value)).to_stream().to("greatest")
    grouped.reduce(lambda one, value, record: F.when(value > one, value).otherwise(one)).to_stream().to("chosen")
    driver, ts, values = TopologyTestDriver(builder.build()), [(7 * n) % 50 for n in range(60)], [*range(60)]
    for number in values:
        driver.pipe("in", "k", ts[number], ts=ts[number])
    assert [r.value for r in driver.read("sums")] == [sum(ts[: n + 1]) for n in values]
    greatest = [max(ts[0], *(number + ts[number] for number in range(n + 1))) for n in values]
    assert [r.value for r in driver.read("greatest")] == greatest
    assert [r.value for r in driver.read("chosen")] == [max(ts[: n + 1]) for n in values]


def test_a_reducer_of_sessions_sees_no_record() -> None:
    stream = wm.StreamsBuilder("sessions").stream("in", key="string", value="long")
    sessions = stream.group_by_key().windowed_by(wm.SessionWindows.of_inactivity_gap_with_no_grace("5 ms"))
    with pytest.raises(FunctionError, match=r"(?s)sessions that are merged have none.*Hint: Write aggregate\("):
        sessions.reduce(lambda one, value, record: one + record["timestamp"])


def test_what_folds_changes_of_a_table_sees_no_record() -> None:
    table = wm.StreamsBuilder("tables").table("in", key="string", value="long")
    grouped = table.group_by(lambda key, value: (key, value))
    with pytest.raises(FunctionError, match="takes a parameter `record`, which is not available here"):
        grouped.agg(n=wm.sum(lambda value, record: record["timestamp"]))
    with pytest.raises(FunctionError, match="takes a parameter `record`, which is not available here"):
        grouped.aggregate(lambda: 0, lambda value, aggregate, record: aggregate, lambda value, aggregate: aggregate)
