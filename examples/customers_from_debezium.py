"""A database's tables by Debezium, joined, and kept in SQLite: each order with its customer, whichever of them changes.

Debezium writes the tables `orders` and `customers` to a topic each, a change event for each changed row. The join finds
an order's customer by the foreign key `customer_id`; its result has one row for each order in a table of SQLite. This
program writes the events itself, and has the query go on twice upon one checkpoint. Where no broker is at hand:

python dev/broker.py run --topic shop.orders --topic shop.customers
python examples/customers_from_debezium.py localhost:9092
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm

# time in ms, table, operation (r: a row of the first snapshot), key, the row after the change
Change = tuple[int, str, str, int, dict[str, object] | None]
ANN: dict[str, object] = {"id": 1001, "name": "Ann", "city": "Ann Arbor"}
BOB: dict[str, object] = {"id": 1002, "name": "Bob", "city": "Bobcaygeon"}
ORDERS: list[Change] = [
    (1_000, "customers", "r", 1001, ANN),
    (1_000, "customers", "r", 1002, BOB),
    (2_000, "orders", "c", 1, {"id": 1, "customer_id": 1001, "amount": "100.00"}),
    (3_000, "orders", "c", 2, {"id": 2, "customer_id": 1002, "amount": "80.50"}),
]
MOVED = ANN | {"city": "Anchorage"}
LATER: list[Change] = [(4_000, "customers", "u", 1001, MOVED), (5_000, "customers", "d", 1002, None)]


def described(order: Column, customer: Column) -> Column:
    """The order's amount, and who pays it."""
    return F.struct(order["amount"], customer["name"], customer["city"])


def topology(url: str) -> wm.Topology:
    """Orders joined with customers by `orders.customer_id`, kept in the table `orders` of the database at `url`."""
    builder, key = wm.StreamsBuilder("orders-by-customer"), wm.debezium_key("id long")
    # the columns that are wanted; decimals as Debezium writes them with decimal.handling.mode=string
    orders = builder.table("shop.orders", key=key, value=wm.debezium("customer_id long, amount decimal(10,2)"))
    customers = builder.table("shop.customers", key=key, value=wm.debezium("name string, city string"))
    joined = orders.join(customers, described, foreign_key=lambda order: order["customer_id"])
    joined.to(wm.DatabaseTable(url, table="orders", key="order_id", create=True))
    return builder.build()


def write(server: str, changes: list[Change]) -> None:
    """Write change events, as Debezium does by Kafka Connect's JsonConverter without schemas."""
    producer = Producer({"bootstrap.servers": server, "enable.idempotence": True})
    for ts, table, operation, key, row in changes:
        event = {"before": None, "after": row, "source": {"ts_ms": ts}, "op": operation}
        # behind a deletion Debezium writes a null value, which says nothing more and is counted
        for value in [json.dumps(event)] + [None] * (operation == "d"):
            producer.produce(f"shop.{table}", key=json.dumps({"id": key}), value=value, timestamp=ts)
    producer.flush()


def run(spark: SparkSession, server: str, folder: Path, changes: list[Change]) -> list[tuple[int, str, str, str]]:
    """The rows of the table once the query has taken these changes, too."""
    write(server, changes)
    checkpoint, made = folder / "checkpoint", topology(f"sqlite:///{folder}/shop.db")
    made.start(spark, checkpoint=checkpoint, kafka=wm.Kafka(server), available_now=True).awaitTermination()
    with closing(sqlite3.connect(folder / "shop.db")) as shop:
        return shop.execute("SELECT order_id, amount, name, city FROM orders ORDER BY order_id").fetchall()


if __name__ == "__main__":
    session = wm.session("orders by customer", kafka=True)
    with tempfile.TemporaryDirectory() as folder:
        for changes in (ORDERS, LATER):
            print(*run(session, sys.argv[1], Path(folder), changes), sep="\n")
