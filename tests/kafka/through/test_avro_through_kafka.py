"""Avro with a registry from Kafka to Kafka: schemas that change between and within starts, and a restart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from dev.broker import KafkaBroker
from dev.registry import SchemaRegistryServer
from tests.kafka.topics import committed, new_topic

ID, NAME = {"name": "id", "type": "long"}, {"name": "name", "type": "string"}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}


def schema(*fields: Any) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


class Orders:
    """A topic that Confluent's serializer writes."""

    def __init__(self, broker: KafkaBroker, registry: SchemaRegistryServer) -> None:
        self.topic, self._registry = new_topic(broker, "orders"), SchemaRegistryClient({"url": registry.url})
        self._producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})

    def write(self, text: str, *rows: dict[str, Any]) -> None:
        context = SerializationContext(self.topic, MessageField.VALUE)
        serializer = AvroSerializer(self._registry, text)
        self.write_bytes(*(serializer(row, context) for row in rows))

    def write_bytes(self, *values: bytes | None) -> None:
        for value in values:
            self._producer.produce(self.topic, value, b"k", partition=0, timestamp=1_000)
        self._producer.flush()

    def read(self, raw: bytes) -> Any:
        return AvroDeserializer(self._registry)(raw, SerializationContext("", MessageField.VALUE))


def named(value: Column) -> Column:
    return F.struct(value["id"], F.upper(value["name"]).alias("name"))


@pytest.mark.parametrize("beside", [False, True], ids=["from blobs", "beside another sink"])
def test_orders_of_many_schemas_go_through_a_restart(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path, beside: bool
) -> None:
    with SchemaRegistryServer(login="ann:canary-5431").running() as server:
        server.login = None
        orders, out = Orders(broker, server), new_topic(broker)
        orders.write(schema(ID, NAME), {"id": 1, "name": "a"})
        orders.write_bytes(b"no Avro", None)
        server.login = "ann:canary-5431"
        registry = wm.SchemaRegistry(server.url, username="ann", password="canary-5431")

        def ran() -> dict[Any, int]:
            b = wm.StreamsBuilder("avro")
            read = b.stream(orders.topic, key="string", value=wm.avro(registry=registry), on_undecodable="skip")
            made = read.map_values(named)
            made.to(out, value=wm.avro(registry=registry))
            if beside:
                made.to(wm.Writer("parquet", path=str(tmp_path / "files")), name="files")
            query = b.build().start(spark, checkpoint=str(tmp_path / "c"), kafka=kafka, available_now=True)
            query.awaitTermination()
            return dict(query.drops)

        assert sum(ran().values()) == 1
        server.login = None
        orders.write(schema(NAME), {"name": "without an id"})
        orders.write(schema(ID, NAME, NOTE), {"id": 2, "name": "b", "note": "new"})
        # the latest has another type: only the recorded version can go on
        server.login = "ann:canary-5431"
        with pytest.raises(wm.ChangedTopology, match=r"version=1\)"):
            ran()
        del server.subjects[f"{orders.topic}-value"][1:]
        assert sum(ran().values()) == 1
        server.login = None
        values = [record.value for record in committed(broker, out)]
        found = [None if value is None else orders.read(value) for value in values]
        assert found == [{"id": 1, "name": "A"}, None, {"id": 2, "name": "B"}]
        assert set(server.subjects) == {f"{orders.topic}-value", f"{out}-value"}
    kept = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert b"canary" not in kept
