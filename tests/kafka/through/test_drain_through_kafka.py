"""A query from Kafka to Kafka that is drained: it ends behind one batch, and nothing runs twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import SparkSession

import watersmeet as wm
from dev.broker import KafkaBroker
from tests.kafka.topics import committed, new_topic

# many batches, so that the query is drained among them
RECORDS, A_BATCH = 2_000, 20


def started(spark: SparkSession, folder: Path, kafka: wm.Kafka, topics: tuple[str, str], **options: Any) -> Any:
    builder = wm.StreamsBuilder("drained")
    builder.table(topics[0], key="string", value="string", store="kept").to(topics[1])
    return builder.build().start(spark, checkpoint=str(folder / "checkpoint"), kafka=kafka, **options)


def logged(folder: Path, log: str) -> list[int]:
    return sorted(int(path.name) for path in (folder / "checkpoint" / log).iterdir() if path.name.isdigit())


def test_a_drained_query_ends_behind_its_batch_and_the_next_start_reads_the_rest(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    topics = new_topic(broker, "in"), new_topic(broker)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for number in range(RECORDS):
        producer.produce(topics[0], key=f"{number % 7}", value=f"{number}", timestamp=number + 1)
    assert producer.flush(60) == 0
    query = started(spark, tmp_path, wm.Kafka(broker.bootstrap_servers, max_records_per_batch=A_BATCH), topics)
    while query.lastProgress is None:
        assert not query.awaitTermination(0.05)
    assert query.drain()
    written, done = len(committed(broker, topics[1])), logged(tmp_path, "commits")
    assert logged(tmp_path, "offsets") == done
    # a batch is no larger than always: the one that was under way, not all that there is
    assert 0 < written <= A_BATCH * len(done) < RECORDS
    rest = started(spark, tmp_path, wm.Kafka(broker.bootstrap_servers), topics, available_now=True)
    rest.awaitTermination()
    assert sum(batch["numInputRows"] for batch in rest.recentProgress) == RECORDS - written
    assert sorted(int(record.value or b"") for record in committed(broker, topics[1])) == list(range(RECORDS))
