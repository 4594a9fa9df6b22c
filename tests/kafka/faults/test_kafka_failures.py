"""What goes wrong with a Kafka source: named, with what to do; and a Kafka that does not answer."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

import watersmeet as wm
from dev.broker import KafkaBroker
from tests.kafka.topics import new_topic
from watersmeet._spark.query import query as silence

PATIENCE = 300.0
"""Seconds after which what is waited for is not believed in."""


def produce(broker: KafkaBroker, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for number in range(count):
        producer.produce(topic, key=b"k", value=str(number).encode())
    assert producer.flush(30) == 0


def started(spark: SparkSession, folder: Path, topic: str, kafka: wm.Kafka, **options: Any) -> Any:
    b = wm.StreamsBuilder("failures")
    b.stream(topic, key="string", value="string").to(wm.Writer("noop"), name="out")
    return b.build().start(spark, checkpoint=str(folder / "cp"), kafka=kafka, local_cache=None, **options)


@pytest.mark.parametrize(
    ("setting", "value", "shown"),
    [
        ("fetch.max.wait.ms", "3000000000", "fetch.max.wait.ms=3000000000: Not a number of type INT."),
        ("partition.assignment.strategy", "canary-5431", "does not find."),
    ],
)
def test_a_consumer_setting_that_java_refuses_is_named_with_a_number_and_without_another_value(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path, setting: str, value: str, shown: str
) -> None:
    kafka = wm.Kafka(broker.bootstrap_servers, consumer={setting: value})
    topic = new_topic(broker)
    # what only the consumers take is read first where there are records
    produce(broker, topic, 1)
    with pytest.raises(wm.ConfigError, match=r"refuses the setting|names a class") as refused:
        started(spark, tmp_path, topic, kafka, available_now=True).awaitTermination()
    assert refused.value.message.endswith(shown)
    # nor does a traceback show it, as Spark's own text behind the error would
    assert "canary" not in "".join(traceback.format_exception(refused.value))


def test_a_topic_that_was_made_anew_is_named(spark: SparkSession, broker: KafkaBroker, tmp_path: Path) -> None:
    topic, kafka = new_topic(broker), wm.Kafka(broker.bootstrap_servers)
    produce(broker, topic, 5)
    started(spark, tmp_path, topic, kafka, available_now=True).awaitTermination()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    partitions = len(admin.list_topics(topic, 30).topics[topic].partitions)
    admin.delete_topics([topic])[topic].result(30)
    until = time.monotonic() + PATIENCE
    while True:  # a topic is there for a while after it was deleted
        try:
            admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
            break
        except Exception:
            assert time.monotonic() < until
            time.sleep(0.2)
    produce(broker, topic, 2)
    with pytest.raises(wm.SourceError, match=r"made anew(.|\n)*its id was(.|\n)*Hint: Begin a new checkpoint"):
        started(spark, tmp_path, topic, kafka, available_now=True).awaitTermination()


@pytest.mark.parametrize("part", ["reads", "writes"])
def test_a_topic_that_is_deleted_under_a_query_is_named(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path, part: str
) -> None:
    source, target = new_topic(broker), new_topic(broker)
    b = wm.StreamsBuilder("deleted")
    b.stream(source, key="string", value="string").to(target)
    limits = {"message.timeout.ms": 6_000, "request.timeout.ms": 3_000}
    kafka = wm.Kafka(broker.bootstrap_servers, producer=limits, retry_timeout="1 second")
    query = b.build().start(spark, checkpoint=str(tmp_path / "cp"), kafka=kafka, local_cache=None)
    produce(broker, source, 1)
    query.processAllAvailable()
    gone = source if part == "reads" else target
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_topics([gone])[gone].result(30)
    if part == "writes":
        produce(broker, source, 1)
    with pytest.raises(wm.SourceError, match=f"The topic '{gone}', which this query {part}, is gone from Kafka"):
        query.awaitTermination(PATIENCE)


def test_a_record_with_a_time_that_spark_cannot_read_is_named_and_the_hint_goes_on_behind_it(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    topic, latest = f"{new_topic(broker)}-far", str(2**63 - 1)
    broker.create_topics([topic], config={"message.timestamp.after.max.ms": latest})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for time_ms in (1_000, 2**63 // 1_000 + 5, 2_000):
        producer.produce(topic, key=b"k", value=b"v", timestamp=time_ms)
    assert producer.flush(30) == 0
    kafka = wm.Kafka(broker.bootstrap_servers)
    with pytest.raises(wm.SourceError, match=f"beyond the year 294247(.|\n)*topic {topic}, partition 0, offset 1: 922"):
        started(spark, tmp_path, topic, kafka, available_now=True).awaitTermination()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for done in admin.delete_records([TopicPartition(topic, 0, 2)]).values():
        done.result(30)
    going_on = wm.Kafka(broker.bootstrap_servers, source={"failOnDataLoss": "false"})
    query = started(spark, tmp_path, topic, going_on, available_now=True)
    query.awaitTermination()
    assert query.metrics().consumed == {topic: 1}


@contextmanager
def silenced(broker: KafkaBroker) -> Iterator[None]:
    """The broker takes connections and answers nothing."""
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def until_said(queries: list[Any]) -> None:
    until = time.monotonic() + PATIENCE
    while not all(query._silence.lasts for query in queries):
        assert time.monotonic() < until
        time.sleep(0.1)


def test_a_kafka_that_does_not_answer_is_said_and_holds_up_neither_stop_nor_drain(
    spark: SparkSession,
    broker: KafkaBroker,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(silence, "SAID_AFTER", 0.5)
    caplog.set_level(logging.WARNING, "watersmeet.query")
    topic, folders = new_topic(broker), (tmp_path / "stopped", tmp_path / "drained")
    produce(broker, topic, 1)
    # Spark's own stop waits for an answer, or as long as this
    kafka = wm.Kafka(broker.bootstrap_servers, consumer={"default.api.timeout.ms": 300_000})
    queries = [started(spark, folder, topic, kafka) for folder in folders]
    for query in queries:
        query.processAllAvailable()
    with silenced(broker):
        until_said(queries)
        assert caplog.text.count("Kafka has not answered since 20") >= len(queries)
        queries[0].stop()
        assert queries[1].drain()
        for query, folder in zip(queries, folders, strict=True):
            assert not query.isActive
            # its thread still waits, so nobody else gets the checkpoint, though Spark says that it has ended
            assert query.awaitTermination(0.1)
            query.stop()
            assert "in another process" in claimed_elsewhere(folder)
    assert caplog.text.count("ends in the background") == len(queries)
    produce(broker, topic, 1)
    for folder in folders:
        again = started(spark, folder, topic, wm.Kafka(broker.bootstrap_servers), available_now=True)
        again.awaitTermination()
        assert sum(each["numInputRows"] for each in again.recentProgress) == 1
        assert claimed_elsewhere(folder) == ""


def claimed_elsewhere(folder: Path) -> str:
    """What another process is told that takes the checkpoint."""
    program = "import sys; from watersmeet._spark.checkpoint import lease; lease.take(sys.argv[1])"
    command = [sys.executable, "-c", program, str(folder / "cp")]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def test_a_kafka_that_does_not_answer_for_too_long_is_an_error(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    topic = new_topic(broker)
    patience = {"default.api.timeout.ms": 3_000, "request.timeout.ms": 2_000}
    kafka = wm.Kafka(broker.bootstrap_servers, consumer=patience, source={"fetchOffset.numRetries": 1})
    query = started(spark, tmp_path, topic, kafka)
    query.processAllAvailable()
    hint = r"Kafka does not answer(.|\n)*Hint: .*fetchOffset.numRetries"
    with silenced(broker), pytest.raises(wm.SourceError, match=hint):
        assert query.awaitTermination(PATIENCE)
