"""Records of Kafka as Arrow in a Python worker: through Spark's source, and read by the worker itself.

Run by its path: `python bench/studies/inputs/kafka_arrow.py [records]`. The same topic of four partitions (keys of 8
bytes, values of 100 characters) is read to its end both ways, by turns: by Spark's batch source with `mapInArrow`
behind it, which counts, and by the client librdkafka in one process, which makes Arrow of what it gets. Printed are
CPU-seconds of all processes for a million records; the broker's are apart and not counted.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.measuring.measure import Sampler
from bench.workloads.datasets import values
from dev.broker import KafkaBroker
from dev.jars import spark_jars
from watersmeet._spark.session import session

TOPIC, PARTITIONS, AT_ONCE = "records", 4, 10_000


def fill(servers: str, records: int) -> None:
    """Write the topic."""
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "linger.ms": 50,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    texts = values(records, np.random.default_rng(1)).to_pylist()
    for number, text in enumerate(texts):
        producer.produce(TOPIC, text, number.to_bytes(8, "big"), partition=number % PARTITIONS)
        if number % 1_000 == 0:
            producer.poll(0 if len(producer) < 500_000 else 1)
    producer.flush()


def by_spark(spark: SparkSession, servers: str) -> int:
    """The records that a function of Arrow batches gets from Spark's source."""
    given = {"kafka.bootstrap.servers": servers, "subscribe": TOPIC}
    rows = spark.read.format("kafka").options(**given).load()
    columns = rows.select("key", "value", "partition", "offset", F.unix_millis("timestamp").alias("ts"))

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"n": [sum(len(batch) for batch in batches)]})

    found = columns.mapInArrow(counted, "n long").agg(F.sum("n")).first()
    assert found is not None
    return int(found[0])


def by_client(servers: str) -> int:
    """The records that the client reads, as Arrow."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "none", "enable.auto.commit": False})
    total = 0
    for partition in range(PARTITIONS):
        end = consumer.get_watermark_offsets(TopicPartition(TOPIC, partition))[1]
        consumer.assign([TopicPartition(TOPIC, partition, 0)])
        at = 0
        while at < end:
            found = consumer.consume(AT_ONCE, timeout=1.0)
            columns = {
                "key": pa.array([each.key() for each in found], pa.binary()),
                "value": pa.array([each.value() for each in found], pa.binary()),
                "offset": pa.array([each.offset() for each in found], pa.int64()),
                "ts": pa.array([each.timestamp()[1] for each in found], pa.int64()),
            }
            batch = pa.RecordBatch.from_pydict(columns)
            total += len(batch)
            at += len(batch)
    consumer.close()
    return total


def main(records: int) -> None:
    """Three turns of each, by turns."""
    spark = session("kafka-arrow", jars=spark_jars(), config={"spark.ui.enabled": "false"})
    with KafkaBroker() as broker:
        broker.create_topics([TOPIC], PARTITIONS)
        fill(broker.bootstrap_servers, records)
        for turn in range(3):
            begin, before = time.monotonic(), time.process_time()
            assert by_client(broker.bootstrap_servers) == records
            own = time.process_time() - before
            print(f"{turn}: client {own / records * 1e6:.2f} CPU-s a million, {time.monotonic() - begin:.1f} s")
            begin = time.monotonic()
            with Sampler(os.getpid(), interval=0.1) as sampler:
                time.sleep(0.5)
                started = dict(sampler.usage.cpu)
                assert by_spark(spark, broker.bootstrap_servers) == records
                time.sleep(0.5)
            used = {pid: seconds - started.get(pid, 0.0) for pid, seconds in sampler.usage.cpu.items()}
            spent = sum(seconds for pid, seconds in used.items() if pid != broker.pid)
            print(f"{turn}: Spark  {spent / records * 1e6:.2f} CPU-s a million, {time.monotonic() - begin:.1f} s")
    spark.stop()


if __name__ == "__main__":
    main(*[int(each) for each in sys.argv[1:]] or [2_000_000])
