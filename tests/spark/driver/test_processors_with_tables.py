"""Processors that share stores and read tables, on Spark: what the driver gives in its own process, and restarts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from examples import processors_with_tables as programs
from watersmeet.testing.driver import TopologyTestDriver

Row = tuple[str, str, Any, int]


def warehouse(builder: wm.StreamsBuilder) -> list[Any]:
    orders, deliveries = (builder.stream(name, key="string", value="long") for name in ("orders", "deliveries"))
    return list(programs.warehouse(orders, deliveries))


def reminders(builder: wm.StreamsBuilder) -> list[Any]:
    carts = builder.stream("carts", key="string", value="string")
    customers = builder.table("customers", key="string", value="string", store="cities")
    offers = builder.global_table("offers", key="string", value="string", store="offers")
    return [programs.reminders(carts, customers, offers)]


def totals(builder: wm.StreamsBuilder) -> list[Any]:
    return [programs.running_totals(builder.stream("payments", key="string", value="long"))]


def drawn(*inputs: str) -> list[Row]:
    """Records of these inputs, many of them half an hour apart."""
    dice, found, time = Random("".join(inputs)), [], 0
    for _ in range(80):
        time += dice.choice((0, 1, 60_000, 1_800_000))
        name = dice.choice(inputs)
        number = name in ("orders", "deliveries", "payments")
        found.append((name, dice.choice("abcd"), dice.randrange(1, 6) if number else dice.choice("abcd"), time))
    return found


def results_of(build: Callable[[wm.StreamsBuilder], list[Any]], rows: list[Row], spark: Any = None) -> list[Any]:
    builder = wm.StreamsBuilder("processors")
    handles = build(builder)
    for number, handle in enumerate(handles):
        handle.to(f"out-{number}")
    driver = TopologyTestDriver(builder.build(), spark)
    assert driver.runs_in == ("process" if spark is None else "spark")
    for name, key, value, ts in rows:
        driver.pipe(name, key, value, ts=ts)
    outs = [driver.read(f"out-{number}") for number in range(len(handles))]
    return [[(result.key, result.value, result.ts) for result in out] for out in outs]


@pytest.mark.parametrize(
    ("build", "inputs"),
    [
        (warehouse, ("orders", "deliveries")),
        (reminders, ("carts", "carts", "customers", "offers")),
        (totals, ("payments",)),
    ],
)
def test_processors_with_tables_give_the_same_in_the_drivers_process_and_on_spark(
    spark: SparkSession, build: Callable[[wm.StreamsBuilder], list[Any]], inputs: tuple[str, ...]
) -> None:
    rows = drawn(*inputs)
    found = results_of(build, rows)
    assert all(len(out) > 8 for out in found)
    assert results_of(build, rows, spark) == found


def test_a_query_that_was_stopped_goes_on_with_the_store_that_its_processors_share(
    spark: SparkSession, tmp_path: Path
) -> None:
    found: list[Any] = []

    def keep(frame: Any, batch: int) -> None:
        found.extend(map(tuple, frame.select("key", "value").collect()))

    def topology() -> wm.Topology:
        builder = wm.StreamsBuilder("warehouse")
        read = spark.readStream.schema("k string, n long, ts long")
        orders, deliveries = (
            builder.stream(read.parquet(str(tmp_path / name)), name=name, key="k", value="n", timestamp="ts")
            for name in ("orders", "deliveries")
        )
        answers, _ = programs.warehouse(orders, deliveries)
        answers.to(wm.ForeachBatch(keep), name="out")
        return builder.build()

    def run(orders: list[tuple[str, int, int]], deliveries: list[tuple[str, int, int]]) -> None:
        for name, rows in (("orders", orders), ("deliveries", deliveries)):
            frame = spark.createDataFrame(rows, "k string, n long, ts long")
            frame.coalesce(1).write.mode("append").parquet(str(tmp_path / name))
        topology().start(spark, checkpoint=str(tmp_path / "cp"), available_now=True).awaitTermination()

    run([("tea", 1, 1), ("tea", 2, 3), ("cup", 1, 4)], [("tea", 5, 2)])
    assert found == [("tea", "sold out"), ("tea", "reserved"), ("cup", "sold out")]
    found.clear()
    run([("tea", 3, 5), ("tea", 1, 6)], [("cup", 2, 5)])
    assert sorted(found) == [("tea", "reserved"), ("tea", "sold out")]
    rows = wm.read_state(spark, str(tmp_path / "cp"), "stock").select("key", "value").collect()
    assert sorted(map(tuple, rows)) == [("cup", 2), ("tea", 0)]
