"""A topology as a flow of Spark Declarative Pipelines, and a view behind it. `spark-pipelines run` runs both.

Orders are a table: an order that changes takes its old amount out of the total of its customer.
"""

from __future__ import annotations

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm

FOLDER = Path(__file__).resolve().parents[1]


def topology(server: SparkSession) -> wm.Topology:
    """What each customer has ordered, with the orders as they are now."""
    orders = server.readStream.schema("id long, customer string, amount double, at timestamp").json(
        str(FOLDER / "orders")
    )
    builder = wm.StreamsBuilder("shop")
    table = builder.table(orders, name="orders", key="id", timestamp="at", order="at")
    by_customer = table.group_by(lambda order: (order["customer"], order["amount"]))
    totals = by_customer.agg(total=wm.sum(lambda amount: amount), orders=wm.count())
    totals.to(wm.Writer("noop"), name="totals")
    return builder.build()


@dp.table
def changes() -> DataFrame:
    """Every change of a total."""
    place = FOLDER / "checkpoint"
    return wm.flow(topology, SparkSession.active(), "totals", checkpoint=place, shards=2, tasks=2, flat=True)


@dp.materialized_view
def totals() -> DataFrame:
    """The last change of each customer."""
    last = F.max_by(F.struct("total", "orders", "operation"), "sequence").alias("last")
    rows = SparkSession.active().read.table("changes").groupBy("key").agg(last)
    return rows.where("last.operation = 'upsert'").select(F.col("key").alias("customer"), "last.total", "last.orders")
