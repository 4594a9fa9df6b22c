"""JSON from Kafka to Kafka: functions give the same in the workers and by Spark, and the same bytes are written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from dev.broker import KafkaBroker
from tests.kafka.topics import committed, new_topic
from watersmeet._spark.dataflow.fusion import SWITCH

RECORDS = 600
ORDER = "customer string, item string, quantity int, amount double, at timestamp, price decimal(12,3), tags array<int>"
PAYMENT = "paid double, method string, seen date, notes map<string,string>"


def order(at: int) -> dict[str, object] | None:
    if at % 13 == 12:
        return None
    return {
        "customer": None if at % 7 == 3 else f'Zoë "{at}"\t\\',
        "item": f"item {at % 9}",
        "quantity": at % 5,
        "amount": at * 1.1 - 3,
        "at": f"2024-02-29T23:59:{at % 60:02d}.{at:06d}Z",
        "price": f"{at}.05",
        "tags": [None, 1, at][: at % 4],
    }


def payment(at: int) -> dict[str, object] | None:
    if at % 17 == 5:
        return None
    return {"paid": at / 7, "method": "card", "seen": f"2024-03-{at % 28 + 1:02d}", "notes": {"k": None, "n": str(at)}}


def produced(broker: KafkaBroker) -> tuple[str, str]:
    topics = new_topic(broker, "orders"), new_topic(broker, "payments")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for at in range(RECORDS):
        for topic, value in zip(topics, (order(at), payment(at * 3)), strict=True):
            body = None if value is None else json.dumps(value).encode()
            producer.produce(topic, key=(at * 31 % 97).to_bytes(8, "big"), value=body, timestamp=1_000 + at)
    assert producer.flush(60) == 0
    return topics


def open_order(one: Column, two: Column) -> Column:
    rest = one["amount"] - F.coalesce(two["paid"], F.lit(0.0))
    return F.struct(*map(one.getField, ("customer", "item", "at", "price", "tags")), rest.alias("open"), two["notes"])


def topology(topics: tuple[str, str], out: str, *, value: str) -> wm.Topology:
    b = wm.StreamsBuilder("json")
    orders, payments = (b.table(t, key="long", value=wm.json(s)) for t, s in zip(topics, (ORDER, PAYMENT), strict=True))
    large = orders.filter(lambda each: each["quantity"] > 0)
    joined = large.left_join(payments, open_order).filter(lambda each: each["open"] > 0)
    if value == "json":
        joined.to(out)
    else:
        joined.map_values(lambda each: F.concat(each["item"], F.lit("|"), each["open"].cast("int").cast("string"))).to(
            out
        )
    return b.build()


@pytest.mark.parametrize("value", ["json", "string"])
def test_json_joined_and_filtered_is_the_same_wherever_functions_run(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path, value: str
) -> None:
    topics, found = produced(broker), []
    for where in ("", "spark"):
        out = new_topic(broker)
        spark.conf.set(SWITCH, where)
        try:
            query = topology(topics, out, value=value).start(
                spark, checkpoint=str(tmp_path / f"cp{where}"), kafka=kafka, available_now=True
            )
            query.awaitTermination()
        finally:
            spark.conf.unset(SWITCH)
        by_key: dict[bytes | None, list[tuple[bytes | None, int]]] = {}
        for record in committed(broker, out):
            by_key.setdefault(record.key, []).append((record.value, record.time))
        found.append(by_key)
    assert found[0] == found[1]
    assert sum(map(len, found[0].values())) > RECORDS / 2
