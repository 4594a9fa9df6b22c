"""A database's table by Debezium: each order with its customer, whichever of the two changes in the database.

Debezium writes the tables `orders` and `customers` to a topic each, a change event for each changed row. Here the test
driver pipes such events; in production the same topology reads the topics:

    topology().start(spark, checkpoint="/data/orders", kafka=mp.Kafka("localhost:9092"))

python examples/customers_from_debezium.py
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

import millpond as mp
from millpond.testing import TestRecord, TopologyTestDriver

ANN = {"id": 1001, "name": "Ann", "city": "Ann Arbor"}
BOB = {"id": 1002, "name": "Bob", "city": "Bobcaygeon"}
# database time in ms, table, operation (r: a row of the first snapshot), the row's key, the row after the change
CHANGES: list[tuple[int, str, str, int, dict[str, Any] | None]] = [
    (1_000, "customers", "r", 1001, ANN),
    (1_000, "customers", "r", 1002, BOB),
    (2_000, "orders", "c", 1, {"id": 1, "customer_id": 1001, "amount": "100.00"}),
    (3_000, "orders", "c", 2, {"id": 2, "customer_id": 1002, "amount": "80.50"}),
    (4_000, "customers", "u", 1001, ANN | {"city": "Anchorage"}),
    (5_000, "customers", "d", 1002, None),
]


def described(order: Column, customer: Column) -> Column:
    """The order's amount, and who pays it."""
    return F.struct(order["amount"], customer["name"], customer["city"])


def topology() -> mp.Topology:
    """Orders joined with customers by `orders.customer_id`."""
    builder = mp.StreamsBuilder("orders-by-customer")
    # the columns that are wanted; decimals as Debezium writes them with decimal.handling.mode=string
    order = mp.debezium("customer_id long, amount decimal(10,2)")
    orders = builder.table("shop.orders", key=mp.debezium_key("id long"), value=order)
    customer = mp.debezium("name string, city string")
    customers = builder.table("shop.customers", key=mp.debezium_key("id long"), value=customer)
    joined = orders.join(customers, described, foreign_key=lambda order: order["customer_id"])
    joined.to("orders-with-customer")
    return builder.build()


def event(ts: int, operation: str, row: dict[str, Any] | None) -> bytes:
    """A change event, as Debezium writes it by Kafka Connect's JsonConverter without schemas."""
    return json.dumps({"before": None, "after": row, "source": {"ts_ms": ts}, "op": operation}).encode()


def run() -> list[TestRecord]:
    """The changes of the joined table."""
    driver = TopologyTestDriver(topology())
    for ts, table, operation, key, row in CHANGES:
        topic, key_bytes = f"shop.{table}", json.dumps({"id": key}).encode()
        driver.pipe(topic, key=key_bytes, value=event(ts, operation, row), ts=ts)
        if operation == "d":
            # behind a deletion Debezium writes a null value, which says nothing more and is counted
            driver.pipe(topic, key=key_bytes, value=None, ts=ts)
    return driver.read("orders-with-customer")


if __name__ == "__main__":
    mp.session("orders by customer")
    for record in run():
        print(record.ts, record.key, record.value)
