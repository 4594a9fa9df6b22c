"""A topic that was deleted and made anew is another one: not read from its middle, and said of an output."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

import watersmeet as wm
from dev.broker import KafkaBroker
from tests.kafka.topics import PARTITIONS, committed, new_topic
from watersmeet._spark.checkpoint import record
from watersmeet._spark.checkpoint.folders import Folder
from watersmeet._spark.checkpoint.record import look

PATIENCE = 300.0
"""Seconds after which what is waited for is not believed in."""


def produce(broker: KafkaBroker, topic: str, value: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for number in range(count):
        producer.produce(topic, key=b"k", value=f"{value}{number}".encode())
    assert producer.flush(30) == 0


def make_anew(broker: KafkaBroker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    ask = record.asking(wm.Kafka(broker.bootstrap_servers), [topic])
    assert ask is not None
    before = ask()[topic]
    admin.delete_topics([topic])[topic].result(30)
    until = time.monotonic() + PATIENCE
    while True:  # a topic is there for a while after it was deleted
        try:
            admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
            break
        except Exception:
            assert time.monotonic() < until
            time.sleep(0.2)
    while ask().get(topic, before) == before:
        assert time.monotonic() < until
        time.sleep(0.1)


def run(spark: SparkSession, folder: Path, kafka: wm.Kafka, source: str, *outputs: str, **options: Any) -> None:
    b = wm.StreamsBuilder("anew")
    records = b.stream(source, key="string", value="string")
    for output in outputs:
        records.to(output)
    given = {"checkpoint": str(folder / "cp"), "kafka": kafka, "local_cache": None, "available_now": True}
    b.build().start(spark, **given, **options).awaitTermination()


def test_an_input_that_was_made_anew_with_more_records_is_refused_with_both_ids_until_it_is_allowed(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    source, out, kafka = new_topic(broker), new_topic(broker), wm.Kafka(broker.bootstrap_servers)
    ask = record.asking(kafka, [source])
    assert ask is not None
    produce(broker, source, "old", 5)
    run(spark, tmp_path, kafka, source, out)
    before = ask()[source]
    make_anew(broker, source)
    produce(broker, source, "new", 9)
    told = f"topic {source}: its id was {before}, it is {ask()[source]}"
    with pytest.raises(wm.SourceError, match=r"made anew(.|\n)*Hint: .*allow_recreated_topics=True") as refused:
        run(spark, tmp_path, kafka, source, out)
    assert refused.value.given == told
    assert len(committed(broker, out)) == 5
    run(spark, tmp_path, kafka, source, out, allow_recreated_topics=True)
    assert [each.value for each in committed(broker, out)][5:] == [b"new5", b"new6", b"new7", b"new8"]
    # from now on that is the topic
    run(spark, tmp_path, kafka, source, out)


def test_an_input_that_is_made_anew_while_a_query_runs_ends_it_before_anything_of_it_is_written(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    source, out = new_topic(broker), new_topic(broker)
    produce(broker, source, "old", 9)

    def behind_the_first_batch(_: Any, batch: int) -> None:
        if batch == 0:
            make_anew(broker, source)
            produce(broker, source, "new", 20)

    b = wm.StreamsBuilder("anew-meanwhile")
    records = b.stream(source, key="string", value="string")
    records.to(out)
    records.to(wm.ForeachBatch(behind_the_first_batch), name="behind")
    kafka = wm.Kafka(broker.bootstrap_servers, max_records_per_batch=3)
    given = {"checkpoint": str(tmp_path / "cp"), "kafka": kafka, "local_cache": None, "available_now": True}
    with pytest.raises(wm.SourceError, match=f"(?s)made anew.*topic {source}: its id was"):
        b.build().start(spark, **given).awaitTermination()
    assert [each.value for each in committed(broker, out)] == [b"old0", b"old1", b"old2"]


def test_each_batch_asks_for_the_ids_and_an_output_is_said_once(broker: KafkaBroker) -> None:
    source, out, kafka = new_topic(broker), new_topic(broker), wm.Kafka(broker.bootstrap_servers)
    ask = record.asking(kafka, [source, out])
    assert ask is not None
    watch = record.TopicWatch(ask, dict(ask()), frozenset({source}), frozenset({out}))
    watch(0)
    make_anew(broker, out)
    with pytest.warns(UserWarning, match=rf"'{out}', which this query writes, was deleted(.|\n)*Hint: "):
        watch(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        watch(2)
    make_anew(broker, source)
    with pytest.raises(wm.SourceError, match=f"topic {source}: its id was"):
        watch(3)


def test_an_output_that_was_made_anew_is_said_at_the_start(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    source, out, kafka = new_topic(broker), new_topic(broker), wm.Kafka(broker.bootstrap_servers)
    produce(broker, source, "old", 5)
    run(spark, tmp_path, kafka, source, out)
    make_anew(broker, out)
    produce(broker, source, "new", 2)
    with pytest.warns(UserWarning, match=rf"'{out}', which this query writes, was deleted(.|\n)*new checkpoint"):
        run(spark, tmp_path, kafka, source, out)
    assert len(committed(broker, out)) == 2


def test_what_marks_the_batches_stays_where_it_is_when_an_output_is_added(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    source, kafka = new_topic(broker), wm.Kafka(broker.bootstrap_servers)
    first, second = new_topic(broker, "b-second"), new_topic(broker, "a-first")
    assert second < first
    produce(broker, source, "x", 3)
    run(spark, tmp_path, kafka, source, first)
    produce(broker, source, "y", 3)
    run(spark, tmp_path, kafka, source, first, second, evolve=True)
    produce(broker, source, "z", 3)
    run(spark, tmp_path, kafka, source, first, second)
    place = look(Folder(spark, str(tmp_path / "cp"))).last
    assert place is not None
    assert place.facts.marks == first
    group = {"bootstrap.servers": broker.bootstrap_servers, "group.id": f"{place.identity('anew')}-driver"}
    consumer = Consumer(group)
    found = consumer.committed([TopicPartition(first, 0), TopicPartition(second, 0)], timeout=30)
    consumer.close()
    assert [each.offset for each in found] == [2, -1001]
    assert (len(committed(broker, first)), len(committed(broker, second))) == (9, 6)
