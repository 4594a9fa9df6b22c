"""Orders in Avro with a Schema Registry: what each customer has spent, whichever schema an order was written by.

Shops write orders by an older and a newer schema, as Confluent's serializer does; the topology reads all by the newer
one. The test driver pipes the bytes; in production the same topology reads the topic, and its start registers a schema
for what it writes:

    topology(registry).start(spark, checkpoint="/data/spent", kafka=wm.Kafka("localhost:9092"))

python examples/orders_in_avro.py http://localhost:8081
"""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import Column

import watersmeet as wm
from watersmeet.testing.driver import TopologyTestDriver
from watersmeet.testing.topics import TestRecord

PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
FIELDS: list[dict[str, Any]] = [{"name": "customer", "type": "string"}, {"name": "amount", "type": PRICE}]
OLDER = {"type": "record", "name": "Order", "fields": FIELDS}
# an order of the older schema has no discount: the newer one says what is read in its place
NEWER = OLDER | {"fields": [*FIELDS, {"name": "discount", "type": PRICE, "default": "\u0000"}]}
ORDERS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (OLDER, {"customer": "ann", "amount": Decimal("100.00")}),
    (NEWER, {"customer": "bob", "amount": Decimal("80.50"), "discount": Decimal("0.50")}),
    (OLDER, {"customer": "bob", "amount": Decimal("20.00")}),
    (NEWER, {"customer": "ann", "amount": Decimal("50.00"), "discount": Decimal("5.00")}),
]


def paid(order: Column) -> Column:
    """What an order has cost."""
    return (order["amount"] - order["discount"]).cast("decimal(12,2)")


def topology(registry: wm.SchemaRegistry) -> wm.Topology:
    """What each customer has spent, and in how many orders."""
    builder = wm.StreamsBuilder("spent-by-customer")
    orders = builder.stream("orders", key="long", value=wm.avro(NEWER, registry=registry))
    by_customer = orders.group_by(lambda order: order["customer"])
    spent = by_customer.agg(spent=wm.sum(paid), orders=wm.count())
    # a sink without a schema has one made of its type, and registers it
    spent.to("spent", value=wm.avro(registry=registry))
    return builder.build()


def run(url: str) -> list[TestRecord]:
    """The changes of what is spent."""
    client, place = SchemaRegistryClient({"url": url}), SerializationContext("orders", MessageField.VALUE)
    driver = TopologyTestDriver(topology(wm.SchemaRegistry(url)))
    for number, (schema, order) in enumerate(ORDERS):
        value = AvroSerializer(client, json.dumps(schema))(order, place)
        driver.pipe("orders", key=number, value=value, ts=1_000 * number)
    return driver.read("spent")


if __name__ == "__main__":
    wm.session("orders in Avro")
    for record in run(sys.argv[1]):
        print(record.ts, record.key, record.value)
