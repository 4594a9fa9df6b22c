"""Semi and anti joins and sets of tables on Spark, beside Spark's own joins of the latest rows."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet.testing.driver import TopologyTestDriver

TABLES = {"orders": "city string, amount long", "couriers": "city string, amount long"}
CITY = lambda value: value["city"]  # noqa: E731
Built = Callable[[Any, Any], Any]
QUERIES: dict[str, tuple[Built, str]] = {
    "semi by value": (
        lambda one, other: one.semi_join(other, on="city"),
        "SELECT * FROM orders o WHERE EXISTS (SELECT 1 FROM couriers c WHERE c.city = o.city)",
    ),
    "anti by value": (
        lambda one, other: one.anti_join(other, on=(CITY, CITY)),
        "SELECT * FROM orders o WHERE NOT EXISTS (SELECT 1 FROM couriers c WHERE c.city = o.city)",
    ),
    "semi by foreign key": (
        lambda one, other: one.semi_join(other, foreign_key=CITY),
        "SELECT o.* FROM orders o LEFT SEMI JOIN couriers c ON o.city = c.id",
    ),
    "anti by key": (
        lambda one, other: one.anti_join(other),
        "SELECT o.* FROM orders o LEFT ANTI JOIN couriers c ON o.id = c.id",
    ),
    "union": (
        lambda one, other: one.union(other),
        "SELECT * FROM orders UNION ALL SELECT c.* FROM couriers c LEFT ANTI JOIN orders o ON o.id = c.id",
    ),
    "intersect of values": (
        lambda one, other: one.distinct().intersect(other.distinct()),
        "SELECT city, amount FROM orders INTERSECT SELECT city, amount FROM couriers",
    ),
    "except of values": (
        lambda one, other: one.distinct().subtract(other.distinct()),
        "SELECT city, amount FROM orders EXCEPT SELECT city, amount FROM couriers",
    ),
}


def changes(seed: int) -> list[tuple[str, str, dict[str, Any] | None]]:
    """Rows that come, change and go; few values, some of them null."""
    dice = Random(seed)
    rows: list[tuple[str, str, dict[str, Any] | None]] = []
    for _ in range(60):
        value = {"city": dice.choice(["a", "b", "c", None]), "amount": dice.choice([1, 2, None])}
        rows.append((dice.choice(list(TABLES)), dice.choice("abcdef"), value if dice.random() < 0.7 else None))
    return rows


@pytest.mark.parametrize("seed", [1, 2])
def test_what_stands_is_what_spark_gives_of_the_latest_rows(spark: SparkSession, seed: int) -> None:
    builder = wm.StreamsBuilder("sets")
    tables = [builder.table(name, key="string", value=wm.json(fields)) for name, fields in TABLES.items()]
    for name, (build, _) in QUERIES.items():
        stream = build(*tables).to_stream()
        stream.map(lambda key, value: (F.to_json(F.struct(key.alias("k"))), value)).to(name.replace(" ", "-"))
    latest: dict[str, dict[str, Any]] = {name: {} for name in TABLES}
    with TopologyTestDriver(builder.build()) as driver:
        for ts, (table, key, value) in enumerate(changes(seed)):
            driver.pipe(table, key=key, value=value, ts=ts)
            latest[table].pop(key, None)
            if value is not None:
                latest[table][key] = value
        said = {name: {r.key: r.value for r in driver.read(name.replace(" ", "-"))} for name in QUERIES}
    for name, fields in TABLES.items():
        rows = [(key, row["city"], row["amount"]) for key, row in latest[name].items()]
        spark.createDataFrame(rows, f"id string, {fields}").createOrReplaceTempView(name)
    seen = 0
    for name, (_, query) in QUERIES.items():
        expected = sorted(repr((row["city"], row["amount"])) for row in spark.sql(query).collect())
        standing = sorted(repr((value["city"], value["amount"])) for value in said[name].values() if value is not None)
        assert (name, standing) == (name, expected)
        seen += len(expected)
    assert seen > len(QUERIES)
