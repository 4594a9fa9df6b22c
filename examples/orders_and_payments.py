"""Two tables that keep changing, joined: what is still to be paid of each order.

    python examples/orders_and_payments.py

Reads changes of orders and of payments from DataFrames and writes the changes of the joined table to Parquet files. The
same topology reads and writes Kafka when the two frames and the writer are replaced by topics (see the README).
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm

# (order, customer, amount, time in ms); an order without a customer is deleted
ORDERS = [(1, "ann", 100.0, 1), (2, "bob", 80.0, 2), (1, "ann", 120.0, 5), (3, "cid", 50.0, 6), (2, None, None, 9)]
PAYMENTS = [(1, 30.0, 3), (2, 80.0, 4), (1, 120.0, 7)]


def to_pay(order: Column, payment: Column) -> Column:
    """What an order still owes; an order without a payment owes all."""
    paid = F.coalesce(payment["paid"], F.lit(0.0))
    return F.struct(order["customer"], (order["amount"] - paid).alias("open"))


def topology(orders: DataFrame, payments: DataFrame, output: Path) -> wm.Topology:
    """Orders left-joined with their payments."""
    builder = wm.StreamsBuilder("orders-and-payments")
    # a null value is a tombstone: it deletes the row
    order = F.when(F.col("customer").isNotNull(), F.struct("customer", "amount"))
    left = builder.table(orders, name="orders", key="id", value=order, timestamp="at", order="at")
    right = builder.table(payments, name="payments", key="id", value=F.struct("paid"), timestamp="at", order="at")
    left.left_join(right, to_pay).to(wm.Writer("parquet", path=str(output)), name="open-orders")
    return builder.build()


def run(spark: SparkSession, folder: Path) -> DataFrame:
    """The changes of the joined table, in order of their timestamps."""
    orders = spark.createDataFrame(ORDERS, "id long, customer string, amount double, at long")
    payments = spark.createDataFrame(PAYMENTS, "id long, paid double, at long")
    made = topology(orders, payments, folder / "open-orders")
    made.start(spark, checkpoint=str(folder / "checkpoint"), available_now=True).awaitTermination()
    return spark.read.parquet(str(folder / "open-orders")).orderBy("timestamp", "key")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        run(wm.session("orders and payments"), Path(folder)).show(truncate=False)
