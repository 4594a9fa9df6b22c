"""What stands in a join or a set of tables on Spark is what Spark's own query gives of the latest rows.

All histories of a run are records of the same two tables: their keys and cities begin with the history's number, so
that rows of two histories never meet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet.testing.driver import TopologyTestDriver

TABLES = {"orders": "city string, amount long", "couriers": "city string, amount long"}
CITY = lambda value: value["city"]  # noqa: E731
CITIES = (CITY, CITY)
Built = Callable[[Any, Any], Any]
PAIRS = "SELECT o.city, o.amount, c.city, c.amount FROM orders o"


def both(order: Any, courier: Any) -> Any:
    """The values of both sides."""
    return F.struct(*(side[name].alias(f"{name}{n}") for n, side in enumerate((order, courier)) for name in FIELDS))


FIELDS = ("city", "amount")
QUERIES: dict[str, tuple[Built, str]] = {
    "join": (
        lambda one, other: one.join(other, both),
        f"{PAIRS} JOIN couriers c ON o.id = c.id",
    ),
    "left join": (
        lambda one, other: one.left_join(other, both),
        f"{PAIRS} LEFT JOIN couriers c ON o.id = c.id",
    ),
    "outer join": (
        lambda one, other: one.outer_join(other, both),
        f"{PAIRS} FULL JOIN couriers c ON o.id = c.id",
    ),
    "foreign key": (
        lambda one, other: one.join(other, both, foreign_key=CITY),
        f"{PAIRS} JOIN couriers c ON o.city = c.id",
    ),
    "left by foreign key": (
        lambda one, other: one.left_join(other, both, foreign_key=CITY),
        f"{PAIRS} LEFT JOIN couriers c ON o.city = c.id",
    ),
    "by value": (
        lambda one, other: one.join(other, both, on=CITIES),
        f"{PAIRS} JOIN couriers c ON o.city = c.city",
    ),
    "left by value": (
        lambda one, other: one.left_join(other, both, on="city"),
        f"{PAIRS} LEFT JOIN couriers c ON o.city = c.city",
    ),
    "outer by value": (
        lambda one, other: one.outer_join(other, both, on="city"),
        f"{PAIRS} FULL JOIN couriers c ON o.city = c.city",
    ),
    "with itself": (
        lambda one, _: one.join(one, both, on=CITY),
        f"{PAIRS} JOIN orders c ON o.city = c.city",
    ),
    "one to many": (
        lambda one, many: one.one_to_many_join(many, both, key=CITY),
        f"{PAIRS} JOIN couriers c ON o.id = c.city",
    ),
    "one to many, left": (
        lambda one, many: one.one_to_many_join(many, both, key=CITY, how="left"),
        f"{PAIRS} LEFT JOIN couriers c ON o.id = c.city",
    ),
    "semi by value": (
        lambda one, other: one.semi_join(other, on="city"),
        "SELECT city, amount FROM orders o WHERE EXISTS (SELECT 1 FROM couriers c WHERE c.city = o.city)",
    ),
    "anti by value": (
        lambda one, other: one.anti_join(other, on=CITIES),
        "SELECT city, amount FROM orders o WHERE NOT EXISTS (SELECT 1 FROM couriers c WHERE c.city = o.city)",
    ),
    "semi by foreign key": (
        lambda one, other: one.semi_join(other, foreign_key=CITY),
        "SELECT o.city, o.amount FROM orders o LEFT SEMI JOIN couriers c ON o.city = c.id",
    ),
    "anti by key": (
        lambda one, other: one.anti_join(other),
        "SELECT o.city, o.amount FROM orders o LEFT ANTI JOIN couriers c ON o.id = c.id",
    ),
    "union": (
        lambda one, other: one.union(other),
        "SELECT city, amount FROM orders UNION ALL"
        " SELECT c.city, c.amount FROM couriers c LEFT ANTI JOIN orders o ON o.id = c.id",
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
"""By name, what is built of two tables, and the query that gives the same."""


def changes(number: int) -> Iterator[tuple[str, str, dict[str, Any] | None]]:
    """A history: rows that come, change and go; few values, some of them null."""
    dice = Random(number)
    for _ in range(60):
        city = dice.choice([f"{number}a", f"{number}b", f"{number}c", None])
        value = {"city": city, "amount": dice.choice([1, 2, None])} if dice.random() < 0.7 else None
        yield dice.choice(list(TABLES)), f"{number}{dice.choice('abcdef')}", value


def topology() -> wm.Topology:
    """All of `QUERIES`, each with an output of its number."""
    builder = wm.StreamsBuilder("latest")
    tables = [builder.table(name, key="string", value=wm.json(fields)) for name, fields in TABLES.items()]
    for number, (build, _) in enumerate(QUERIES.values()):
        build(*tables).to(f"out-{number}", key="json", value="json")
    return builder.build()


def check(spark: SparkSession, numbers: range) -> int:
    """Compare what stands behind these histories, which go side by side; how many rows were compared."""
    latest: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in TABLES}
    with TopologyTestDriver(topology()) as driver:
        for ts, changed in enumerate(zip(*map(changes, numbers), strict=True)):
            for table, key, value in changed:
                driver.pipe(table, key=key, value=value, ts=ts)
                latest[table].pop(key, None)
                if value is not None:
                    latest[table][key] = value
        outputs = [driver.read(f"out-{number}") for number in range(len(QUERIES))]
    for name, fields in TABLES.items():
        rows = [(key, *value.values()) for key, value in latest[name].items()]
        spark.createDataFrame(rows, f"id string, {fields}").createOrReplaceTempView(name)
    compared = 0
    for (name, (_, query)), output in zip(QUERIES.items(), outputs, strict=True):
        last = {record.key: record.value for record in output}
        standing = Counter(tuple(value) for value in last.values() if value is not None)
        expected = Counter(tuple(row) for row in spark.sql(query).collect())
        assert (name, standing - expected, expected - standing) == (name, Counter(), Counter())
        compared += standing.total()
    return compared


def test_what_stands_is_what_spark_gives_of_the_latest_rows(spark: SparkSession) -> None:
    assert check(spark, range(20)) > 20 * len(QUERIES)


@pytest.mark.proof
@pytest.mark.parametrize("start", range(0, 5_000, 500))
def test_many_histories_end_with_what_spark_gives_of_the_latest_rows(spark: SparkSession, start: int) -> None:
    assert check(spark, range(start, start + 500)) > 500 * len(QUERIES)
