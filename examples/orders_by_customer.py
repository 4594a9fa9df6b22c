"""A foreign-key join with deletes: each order with the customer it refers to, whichever of the two changes.

python examples/orders_by_customer.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm

CUSTOMERS = [("ann", "Ann Arbor", 1), ("bob", "Bobcaygeon", 2), ("ann", "Anchorage", 6), ("bob", None, 8)]
ORDERS = [(1, "ann", 100.0, 3), (2, "bob", 80.0, 4), (3, "ann", 50.0, 5), (3, "bob", 50.0, 7)]


def described(order: Column, customer: Column) -> Column:
    """The order's amount and the customer's city."""
    return F.struct(order["amount"], customer["city"])


def topology(orders: DataFrame, customers: DataFrame, output: Path) -> wm.Topology:
    """Orders joined with customers by `orders.customer`."""
    builder = wm.StreamsBuilder("orders-by-customer")
    order = F.struct("customer", "amount")
    customer = F.when(F.col("city").isNotNull(), F.struct("city"))
    left = builder.table(orders, name="orders", key="id", value=order, timestamp="at", order="at")
    right = builder.table(customers, name="customers", key="name", value=customer, timestamp="at", order="at")
    joined = left.join(right, described, foreign_key=lambda order: order["customer"])
    joined.to(wm.Writer("parquet", path=str(output)), name="orders-with-city")
    return builder.build()


def run(spark: SparkSession, folder: Path) -> DataFrame:
    """The changes of the joined table, in order of their timestamps."""
    orders = spark.createDataFrame(ORDERS, "id long, customer string, amount double, at long")
    customers = spark.createDataFrame(CUSTOMERS, "name string, city string, at long")
    made = topology(orders, customers, folder / "orders-with-city")
    made.start(spark, checkpoint=str(folder / "checkpoint"), available_now=True).awaitTermination()
    return spark.read.parquet(str(folder / "orders-with-city")).orderBy("timestamp", "key")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        run(wm.session("orders by customer"), Path(folder)).show(truncate=False)
