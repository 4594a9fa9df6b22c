"""A table kept in a database: what each order still has to pay, one row an order, deleted with the order.

python examples/open_orders_in_a_database.py
"""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm

ORDERS = [(1, "ann", 100.0, 1), (2, "bob", 80.0, 2), (3, "ann", 50.0, 3), (2, None, None, 7)]
PAYMENTS = [(1, 30.0, 4), (2, 80.0, 5), (1, 60.0, 6)]


def still_open(order: Column, payments: Column) -> Column:
    """The order's customer, and what is not paid yet."""
    paid = F.coalesce(payments["paid"], F.lit(0.0))
    return F.struct(order["customer"], (order["amount"] - paid).alias("open"))


def topology(orders: DataFrame, payments: DataFrame, url: str) -> wm.Topology:
    """Orders with the sum of their payments, kept in the table `open_orders`."""
    builder = wm.StreamsBuilder("open-orders")
    order = F.when(F.col("customer").isNotNull(), F.struct("customer", "amount"))
    table = builder.table(orders, name="orders", key="id", value=order, timestamp="at", order="at")
    stream = builder.stream(payments, name="payments", key="order", value="amount", timestamp="at", order="at")
    paid = stream.group_by_key().agg(paid=wm.sum(lambda amount: amount))
    joined = table.left_join(paid, still_open)
    joined.to(wm.DatabaseTable(url, table="open_orders", key="order_id", create=True))
    return builder.build()


def run(spark: SparkSession, folder: Path) -> list[tuple[int, str, float]]:
    """The rows of the table, as anybody reads them."""
    orders = spark.createDataFrame(ORDERS, "id long, customer string, amount double, at long")
    payments = spark.createDataFrame(PAYMENTS, "order long, amount double, at long")
    made = topology(orders, payments, f"sqlite:///{folder}/shop.db")
    made.start(spark, checkpoint=str(folder / "checkpoint"), available_now=True).awaitTermination()
    with closing(sqlite3.connect(folder / "shop.db")) as shop:
        return shop.execute("SELECT order_id, customer, open FROM open_orders ORDER BY order_id").fetchall()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for row in run(wm.session("open orders"), Path(folder)):
            print(*row)
