"""A program as a user writes it, for the test of what is on its console: CHECKPOINT SERVERS ORDERS PAYMENTS OUT."""

from __future__ import annotations

import sys

from pyspark.sql import functions as F

import watersmeet as wm
from dev.jars import spark_jars


def main(checkpoint: str, servers: str, orders: str, payments: str, out: str) -> None:
    """What is open of each order, until nothing more is there."""
    spark = wm.session("console", master="local[2]", jars=spark_jars(), config={"spark.ui.enabled": "false"})
    b = wm.StreamsBuilder("console")
    left = b.table(orders, key="long", value=wm.json("amount double"))
    right = b.table(payments, key="long", value=wm.json("paid double"))
    left.left_join(right, lambda order, payment: F.struct(order["amount"], payment["paid"])).to(out)
    query = b.build().start(spark, checkpoint=checkpoint, kafka=wm.Kafka(servers), available_now=True, tasks=2)
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
