"""How often a transactional id is taken over is counted: by its writer, and in the metrics of a batch."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from confluent_kafka import Producer
from pyspark.sql import SparkSession

import watersmeet as wm
from dev.broker import KafkaBroker
from tests.kafka.topics import committed, new_topic
from watersmeet._spark.outputs.batch_gate import BatchGate
from watersmeet._worker.kafka_client import RetriedTransaction, TransactionalSender, client_settings

RECORDS, VALUE = 100, b"x" * 30_000
"""Of more bytes than tasks hand back to the driver."""


def written(out: TransactionalSender, topic: str, batch: int) -> int:
    """A batch with one record; how often its id was taken over for it."""
    made = RetriedTransaction(
        out,
        lambda: out.begin(batch),
        lambda _: out.send([topic], [b"k"], [b"v"], [1], [None], [-1]),
        lambda: out.commit(batch),
        is_once=True,
    )
    assert made.begin()
    made.send(pa.table({"value": ["v"]}))
    made.commit()
    return made.takeovers


def test_a_writer_takes_its_id_over_at_first_and_when_another_has_had_it(broker: KafkaBroker, kafka: wm.Kafka) -> None:
    topic = new_topic(broker)
    one, other = (TransactionalSender(client_settings(kafka), f"{topic}-0", topic) for _ in range(2))
    assert [written(one, topic, 0), written(one, topic, 1)] == [1, 0]
    assert [written(other, topic, 2), written(other, topic, 3)] == [1, 0]
    # the first attempt is fenced, the second one takes it back
    assert written(one, topic, 4) == 1
    assert len(committed(broker, topic)) == 5
    for each in (one, other):
        each.abandon()


def test_the_takeovers_of_all_tasks_of_a_batch_are_added() -> None:
    gate = BatchGate()
    for batch in range(200):
        gate.note_transaction(batch, 0.5, 2)
        gate.note_transaction(batch, 0.25, 1)
    assert gate.takeovers == dict.fromkeys(gate.transactions, 3)
    assert gate.transactions[199] == 0.5


def test_the_metrics_of_a_batch_have_its_takeovers(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path
) -> None:
    source, out = new_topic(broker), new_topic(broker)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for number in range(RECORDS):
        producer.produce(source, key=b"%d" % number, value=VALUE)
    assert producer.flush(60) == 0
    b = wm.StreamsBuilder("takeovers")
    b.table(source, key="string", value="string").to(out, delivery="exactly_once")
    given = {"kafka": kafka, "available_now": True, "local_cache": None}
    query = b.build().start(spark, checkpoint=str(tmp_path / "cp"), **given)
    query.awaitTermination()
    assert len(committed(broker, out)) == RECORDS
    batch = query.metrics().batch
    assert batch is not None
    # each task that writes has an id of its own, and the driver has one
    tasks = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    assert 1 <= batch.takeovers <= tasks + 1
