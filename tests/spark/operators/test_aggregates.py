"""Aggregates through Spark: folds of Columns and of plain functions, every type, a restart, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.inputs_and_outputs.test_streaming import Collector, put, reader, run
from watersmeet.errors import FunctionError, TopologyError
from watersmeet.testing.driver import TopologyTestDriver

ORDERS = "customer string, amount double, price decimal(10,2), at timestamp, tags array<string>"


def order(customer: str | None, amount: float | None, price: str, at: int, *tags: str) -> dict[str, Any]:
    moment = datetime(2024, 1, 1, 0, 0, at, tzinfo=UTC)
    return {"customer": customer, "amount": amount, "price": Decimal(price), "at": moment, "tags": list(tags)}


def topology() -> wm.Topology:
    b = wm.StreamsBuilder("aggregates")
    orders = b.stream("orders", key="long", value=wm.json(ORDERS))
    grouped = orders.group_by(lambda value: value["customer"])
    grouped.count(name="count").to("count")
    grouped.aggregate(
        lambda: F.lit(0.0), lambda key, value, total: total + F.coalesce(value["amount"], F.length(key).cast("double"))
    ).to("columns")
    plain = wm.python(lambda value, seen: [*seen, *value["tags"]], returns="array<string>")
    grouped.aggregate(lambda: F.array().cast("array<string>"), plain).to("plain")
    grouped.reduce(lambda one, other: F.when(other["amount"] > one["amount"], other).otherwise(one)).to("largest")
    grouped.agg(
        n=wm.count(),
        total=wm.sum(lambda value: value["price"]),
        mean=wm.avg(lambda value: value["amount"]),
        latest=wm.max(lambda value: value["at"]),
        tags=wm.collect_set(lambda value: F.get(value["tags"], 0)),
        top=wm.top_k(lambda value: value["amount"], k=2),
    ).to("named")
    rows = b.table("rows", key="long", value=wm.json(ORDERS))
    by_day = rows.group_by(
        lambda value: (F.struct(value["customer"], F.to_date(value["at"]).alias("day")), value["amount"])
    )
    by_day.agg(n=wm.count(), least=wm.min(lambda amount: amount)).to("table")
    by_day.reduce(lambda one, other: one + other, lambda one, other: one - other).filter(lambda v: v > 3).to("filtered")
    return b.build()


@pytest.fixture(scope="module")
def results(spark: SparkSession) -> tuple[dict[str, list[Any]], dict[tuple[str, str], int]]:
    built = topology()
    driver = TopologyTestDriver(built, spark)
    steps = [
        (1, order("ann", 2.0, "1.10", 5, "a", "b"), 5),
        (2, order("bob", None, "2.20", 6), 6),
        (3, order("ann", 5.0, "3.30", 1, "c"), 3),
        (4, order(None, 1.0, "9.99", 2), 8),
        (5, None, 9),
        (1, order("bob", 4.0, "1.00", 7, "a"), 7),
    ]
    for key, value, ts in steps:
        driver.pipe("orders", key, value, ts=ts)
        driver.pipe("rows", key, value, ts=ts)
    said = {sink.output: [(r.key, r.value, r.ts) for r in driver.read(sink.output)] for sink in built.plan.sinks}
    return said, driver.drops


def test_counts_leave_out_records_without_key_or_value_and_say_how_many(results: Any) -> None:
    said, drops = results
    assert said["count"] == [("ann", 1, 5), ("bob", 1, 6), ("ann", 2, 5), ("bob", 2, 7)]
    # the key that a selector makes of no value is null, too
    assert (drops["count", "null_key"], drops.get(("count", "null_value"), 0)) == (2, 0)


def test_folds_of_columns_are_evaluated_in_the_level(results: Any) -> None:
    said, _ = results
    assert said["columns"] == [("ann", 2.0, 5), ("bob", 3.0, 6), ("ann", 7.0, 5), ("bob", 7.0, 7)]
    assert [(key, value["amount"], ts) for key, value, ts in said["largest"]] == [
        ("ann", 2.0, 5),
        ("bob", None, 6),
        ("ann", 5.0, 5),
        ("bob", None, 7),
    ]


def test_plain_functions_get_and_give_plain_values(results: Any) -> None:
    said, _ = results
    assert said["plain"] == [("ann", ["a", "b"], 5), ("bob", [], 6), ("ann", ["a", "b", "c"], 5), ("bob", ["a"], 7)]


def test_aggregates_by_name_have_the_types_that_spark_has_for_them(results: Any) -> None:
    said, _ = results
    assert [(key, value["n"], value["total"], value["mean"]) for key, value, _ in said["named"]] == [
        ("ann", 1, Decimal("1.10"), 2.0),
        ("bob", 1, Decimal("2.20"), None),
        ("ann", 2, Decimal("4.40"), 3.5),
        ("bob", 2, Decimal("3.20"), 4.0),
    ]
    assert [(value["tags"], value["top"]) for _, value, _ in said["named"]] == [
        (["a"], [2.0]),
        ([], []),
        (["a", "c"], [5.0, 2.0]),
        (["a"], [4.0]),
    ]
    assert [value["latest"].second for _, value, _ in said["named"]] == [5, 6, 5, 7]


def test_a_row_leaves_its_group_before_it_comes_into_another_one(results: Any) -> None:
    said, _ = results
    assert [(key["customer"], value, ts) for key, value, ts in said["table"]] == [
        ("ann", Row(n=1, least=2.0), 5),
        ("ann", Row(n=2, least=2.0), 5),
        (None, Row(n=1, least=1.0), 8),
        ("ann", Row(n=1, least=5.0), 7),
        ("bob", Row(n=1, least=4.0), 7),
    ]
    assert [(key["customer"], value) for key, value, _ in said["filtered"]] == [
        ("ann", 7.0),
        ("ann", 5.0),
        ("bob", 4.0),
    ]


def test_a_fold_that_only_spark_could_evaluate_is_refused_and_the_hint_works(spark: SparkSession) -> None:
    grouped = wm.StreamsBuilder("refused").stream("in", key="string", value="long").group_by_key()
    doubled = F.udf(lambda value: 2 * value, "long")
    with pytest.raises(FunctionError, match="PythonUDF") as error:
        grouped.aggregate(lambda: F.lit(0), lambda value, total: total + doubled(value))
    assert "wm.python(lambda value, aggregate" in str(error.value.hint)
    table = grouped.aggregate(lambda: F.lit(0), wm.python(lambda value, total: total + 2 * value, returns="long"))
    assert table.value_type.simpleString() == "bigint"


def test_types_of_folds_are_checked_where_they_are_written(spark: SparkSession) -> None:
    grouped = wm.StreamsBuilder("types").stream("in", key="string", value="long").group_by_key()
    assert grouped.aggregate(lambda: 0, lambda value, total: total + value).value_type.simpleString() == "bigint"
    with pytest.raises(FunctionError, match="returns string, but the aggregate"):
        grouped.reduce(lambda one, other: F.concat(other, F.lit("x")))
    with pytest.raises(FunctionError, match="Unknown type"):
        grouped.aggregate(lambda: 0, wm.python(lambda value, total: total, returns="longish"))
    with pytest.raises(FunctionError, match="takes a field of value, which is no struct"):
        grouped.aggregate(lambda: 0, lambda value, total: total + value["field"])
    with pytest.raises(TopologyError, match="takes numbers"):
        grouped.agg(total=wm.sum(lambda value: value.cast("string")))
    with pytest.raises(FunctionError, match="null"):
        grouped.aggregate(lambda: F.lit(None).cast("long"), lambda value, total: total)


LARGE = 2**53


def test_a_hot_key_goes_on_behind_a_restart_and_where_a_batch_runs_again(spark: SparkSession, tmp_path: Path) -> None:
    def built(sink: Any) -> wm.Topology:
        b = wm.StreamsBuilder("restart")
        stream = b.stream(reader(spark, tmp_path / "in"), name="in", key="k", value="v", timestamp="ts")
        counted = stream.group_by(lambda value: value).agg(n=wm.count(), total=wm.sum(lambda value: F.lit(LARGE) + 1))
        counted.to_stream().to(wm.ForeachBatch(sink), name="out")
        return b.build()

    sink = Collector(fail_in=1)
    many = [(n, name, n) for n in range(1_000) for name in ("hot", f"k{n}")]
    put(spark, tmp_path / "in", *many)
    run(built(sink), spark, tmp_path)
    put(spark, tmp_path / "in", (1, "hot", 1_001), (4, "k5", 1_002), (5, None, 1_003))
    with pytest.raises(Exception, match="killed behind the sink"):
        run(built(sink), spark, tmp_path)
    run(built(sink), spark, tmp_path)
    assert sink.batches[1][0] == sink.batches[1][1]
    said = [(key, value["n"], value["total"]) for key, value, _ in sink.rows()]
    assert [row[1:] for row in said if row[0] == "hot"] == [(n, n * (LARGE + 1)) for n in range(1, 1_002)]
    assert [row for row in said if row[0] == "k5"] == [("k5", 1, LARGE + 1), ("k5", 2, 2 * LARGE + 2)]
