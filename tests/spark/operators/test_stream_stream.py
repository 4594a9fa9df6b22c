"""Windowed joins of streams through real Spark: recordings, and time that reaches shards without records."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from proof.conformance_runners import run_oracle
from proof.oracle.semantics import Semantics
from proof.recordings import History, read
from proof.runners.spark import SparkRunner
from watersmeet.api.builder import StreamsBuilder
from watersmeet.api.topology import Topology
from watersmeet.io.formats import json
from watersmeet.testing.driver import TopologyTestDriver
from watersmeet.windows import JoinWindows

HISTORIES = Path(__file__).parents[2] / "recordings" / "histories"
FILES = (
    "stream_stream",
    "stream_stream.0.10.0.1",
    "stream_stream.0.10.1.1",
    "self_join",
    "rekey_stream_stream",
)
FAMILY = 20


def chosen(name: str) -> list[History]:
    """The first histories of every fifth family: each family is a topology, and so a run of Spark."""
    families: dict[str, list[History]] = {}
    for history in read(HISTORIES / f"{name}.jsonl.gz"):
        families.setdefault(history.id.split("/")[0], []).append(history)
    return [history for family in list(families)[::5] for history in families[family][:FAMILY]]


@pytest.mark.parametrize("name", FILES)
def test_spark_says_what_the_repaired_rules_say(spark: SparkSession, name: str) -> None:
    histories = chosen(name)
    outputs = SparkRunner(spark, shards=3).run_many(histories)
    for history, output in zip(histories, outputs, strict=True):
        assert output == run_oracle(history, Semantics(history.version, faithful=False)), history.id


def plus(left: Column, right: Column) -> Column:
    return F.concat_ws("+", F.coalesce(left, F.lit("null")), F.coalesce(right, F.lit("null")))


def test_a_window_closes_where_no_record_of_the_shard_moves_time(spark: SparkSession) -> None:
    builder = StreamsBuilder("time")
    left, right = (builder.stream(name, key="string", value="string") for name in ("left", "right"))
    windows = JoinWindows.of_time_difference_and_grace("10 ms", "5 ms")
    left.left_join(right, plus, windows).to("out")
    driver = TopologyTestDriver(builder.build(), spark, shards=7)
    driver.pipe("left", "alone", "a", ts=0)
    # Sixteen other keys: some lie in other shards, and none of them is a left record.
    for number in range(16):
        driver.pipe("right", f"other-{number}", "b", ts=15 + number // 15)
    assert [(r.key, r.value, r.ts, r.step) for r in driver.read("out")] == [("alone", "a+null", 0, 16)]


def test_time_reaches_a_join_behind_another_operator(spark: SparkSession) -> None:
    builder = StreamsBuilder("deep")
    left, right = (builder.stream(name, key="string", value="string") for name in ("left", "right"))
    table = builder.table("table", key="string", value="string")
    windows = JoinWindows.of_time_difference_with_no_grace("10 ms")
    left.left_join(table, plus).left_join(right, plus, windows).to("out")
    driver = TopologyTestDriver(builder.build(), spark, shards=3)
    driver.pipe("table", "k", "t", ts=0)
    driver.pipe("left", "k", "a", ts=1)
    driver.pipe("right", "other", "b", ts=11)
    assert driver.read("out") == []
    driver.pipe("right", None, None, ts=12)
    driver.pipe("right", "other", "b", ts=100)
    driver.pipe("left", "k", "late", ts=2)
    assert [(r.value, r.ts, r.step) for r in driver.read("out")] == [("a+t+null", 1, 3), ("late+t+null", 2, 5)]
    assert driver.drops == {
        ("stream_stream-left-table-right", "null_key"): 1,
        ("stream_stream-left-table-right", "expired_window_record"): 1,
    }


def test_what_time_lets_go_keeps_its_order_under_another_key(spark: SparkSession) -> None:
    builder = StreamsBuilder("held")
    left, right = (builder.stream(name, key="string", value="string") for name in ("left", "right"))
    held = left.left_join(right, plus, JoinWindows.of_time_difference_with_no_grace("10 ms"))
    held.select_key(lambda key, value: F.lit("one")).to_table().to_stream().to("out")
    driver = TopologyTestDriver(builder.build(), spark, shards=5)
    for number in (3, 0, 7, 1, 6, 2, 5, 4):
        driver.pipe("left", f"customer-{number}", str(number), ts=0)
    driver.pipe("left", "z", "z", ts=100)
    assert [r.value for r in driver.read("out")] == [f"{number}+null" for number in range(8)]


# -- one match ---------------------------------------------------------------------------------------------


def spreads() -> Topology:
    builder = StreamsBuilder("trades")
    trades = builder.stream("trades", key="string", value=json("price double"))
    quotes = builder.stream("quotes", key="string", value=json("bid double"))
    windows = JoinWindows.of_time_difference_and_grace(timedelta(seconds=5), timedelta(seconds=1))
    spread = trades.left_join(quotes, lambda t, q: t["price"] - q["bid"], windows, match="nearest", name="spread")
    spread.to("spreads", value="double")
    return builder.build()


def spreads_of(driver: TopologyTestDriver) -> list[tuple[object, object, int]]:
    driver.pipe("quotes", "acme", {"bid": 9.0}, ts=8_000)
    driver.pipe("trades", "acme", {"price": 10.0}, ts=10_000)
    driver.pipe("quotes", "acme", {"bid": 9.5}, ts=10_500)
    driver.pipe("trades", "other", {"price": 1.0}, ts=12_000)
    driver.pipe("quotes", "acme", {"bid": 7.0}, ts=30_000)
    return [(record.key, record.value, record.ts) for record in driver.read("spreads")]


SPREADS = [("acme", 0.5, 10_500), ("other", None, 12_000)]


@pytest.mark.usefixtures("spark")
def test_the_driver_joins_one_match_in_its_own_process() -> None:
    with TopologyTestDriver(spreads()) as driver:
        assert driver.runs_in == "process", driver.runs_in
        assert spreads_of(driver) == SPREADS


def test_spark_joins_one_match_as_the_driver_does(spark: SparkSession) -> None:
    with TopologyTestDriver(spreads(), spark, shards=2) as driver:
        assert driver.runs_in == "spark", driver.runs_in
        assert spreads_of(driver) == SPREADS
