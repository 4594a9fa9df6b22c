"""Records as the Kafka sink writes them, and what it says when Kafka does not take them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dev.broker import KafkaBroker, free_ports
from tests.io.wire_kit import Part, Written, compiled_of
from tests.kafka.topics import committed, new_topic
from watersmeet._spark.outputs.output import OutputContext, TopicsWriter
from watersmeet._spark.outputs.outputs import BatchSinks
from watersmeet._worker.kafka_client import check_topics
from watersmeet._worker.writers.kafka import PLACED_ROWS
from watersmeet.errors import ConfigError, TopologyError, WatersmeetError
from watersmeet.io.kafka import Kafka
from watersmeet.io.outputs import ForeachBatch
from watersmeet.io.topics import Delivery, TopicSink

BOTH = pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])


def frame_of(spark: SparkSession, rows: list[tuple[Any, ...]]) -> DataFrame:
    frame = spark.createDataFrame(
        rows, "key string, value string, ts long, headers array<struct<key:string,value:binary>>"
    )
    return frame.coalesce(1)


def write(broker: KafkaBroker, frame: DataFrame, *topics: TopicSink, batch: int = 0, **settings: str) -> None:
    all_settings = {"bootstrap.servers": broker.bootstrap_servers, **settings}
    Written([(topic, Part()) for topic in topics], f"app-{topics[0].name}", all_settings)(frame, batch)


@BOTH
def test_a_record_keeps_key_value_time_and_headers(
    spark: SparkSession, broker: KafkaBroker, delivery: Delivery
) -> None:
    topic = new_topic(broker)
    headers = [("one", b"1"), ("none", None), ("one", b"")]
    write(broker, frame_of(spark, [("k", "v", 1234, headers)]), TopicSink(topic, delivery=delivery))
    (record,) = committed(broker, topic)
    assert (record.key, record.value, record.time) == (b"k", b"v", 1234)
    assert record.headers == (("one", b"1"), ("none", None), ("one", b""))


@BOTH
def test_null_and_empty_are_different_things(spark: SparkSession, broker: KafkaBroker, delivery: Delivery) -> None:
    topic = new_topic(broker)
    rows = [("k", None, 5, None), ("", "", 6, None), (None, "no key", 7, None)]
    write(broker, frame_of(spark, rows), TopicSink(topic, delivery=delivery))
    seen = {record.time: (record.key, record.value) for record in committed(broker, topic)}
    assert seen == {5: (b"k", None), 6: (b"", b""), 7: (None, b"no key")}


def test_times_before_1970_are_kept_and_time_zero_is_a_millisecond_late(
    spark: SparkSession, broker: KafkaBroker
) -> None:
    topic = new_topic(broker)
    write(broker, frame_of(spark, [("k", "v", -1, None), ("k", "v", 0, None)]), TopicSink(topic))
    assert [record.time for record in committed(broker, topic)] == [-1, 1]


def test_a_key_lies_where_kafkas_own_clients_put_it(spark: SparkSession, broker: KafkaBroker) -> None:
    # murmur2 of these keys as Kafka's own tests have it
    known = {
        "21": -973932308,
        "foobar": -790332482,
        "a-little-bit-long-string": -985981536,
        "a-little-bit-longer-string": -1486304829,
        "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        "abc": 479470107,
    }
    wanted = {key: (hashed & 0x7FFFFFFF) % 4 for key, hashed in known.items()}
    # of few records the client finds it out, of many it is told
    for times in (1, PLACED_ROWS // len(known) + 1):
        topic = new_topic(broker)
        rows = [(key, "", 1, None) for key in [*known, None, ""] * times]
        write(broker, frame_of(spark, rows), TopicSink(topic))
        written = committed(broker, topic)
        seen = {record.key.decode(): record.partition for record in written if record.key}
        assert (seen, len(written)) == (wanted, len(rows))
        assert sum(record.key is None for record in written) == times
        assert len({record.partition for record in written if record.key == b""}) == 1


def test_a_partitioner_of_the_users_places_many_records_too(spark: SparkSession, broker: KafkaBroker) -> None:
    rows = [(str(number % 50), "", 1, None) for number in range(PLACED_ROWS + 1)]
    placed = []
    for few in (True, False):
        topic = new_topic(broker)
        write(broker, frame_of(spark, rows[: 50 if few else None]), TopicSink(topic), partitioner="fnv1a")
        placed.append({record.key: record.partition for record in committed(broker, topic)})
    assert placed[0] == placed[1]


@BOTH
def test_each_key_keeps_the_order_of_the_rows(spark: SparkSession, broker: KafkaBroker, delivery: Delivery) -> None:
    topic = new_topic(broker)
    number = F.col("id")
    frame = spark.range(0, 30_000, 1, 1).select(
        (number % 7).cast("string").alias("key"), number.alias("value"), (number + 1).alias("ts")
    )
    # a queue this small is full again and again
    settings = {"queue.buffering.max.messages": "1000"}
    write(broker, frame, TopicSink(topic, value="long", delivery=delivery), **settings)
    by_key: dict[bytes | None, list[int]] = {}
    for record in committed(broker, topic):
        by_key.setdefault(record.key, []).append(int.from_bytes(record.value or b"", "big"))
    assert by_key == {b"%d" % key: list(range(key, 30_000, 7)) for key in range(7)}


class Runs:
    """Notes in a folder each time that a task reads rows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        (self.folder / str(len(list(self.folder.iterdir())))).touch()
        yield from batches


def test_several_topics_are_written_in_one_pass(spark: SparkSession, broker: KafkaBroker, tmp_path: Path) -> None:
    words, numbers = new_topic(broker, "words"), new_topic(broker, "numbers")
    frame = spark.createDataFrame([("a", 1, 10), ("b", 2, 20)], "word string, number long, ts long").coalesce(1)
    frame = frame.mapInArrow(Runs(tmp_path), frame.schema)
    outputs: list[Any] = [
        (TopicSink(words), Part("word", "number")),
        (TopicSink(numbers), Part("number", "word", lambda rows: pc.greater(rows["number"], 1))),
    ]
    Written(outputs, "app-two", {"bootstrap.servers": broker.bootstrap_servers})(frame, 0)
    assert len(list(tmp_path.iterdir())) == 1
    seen = {(record.topic, record.key, record.value) for record in committed(broker, words, numbers)}
    assert seen == {
        (words, b"a", (1).to_bytes(8, "big")),
        (words, b"b", (2).to_bytes(8, "big")),
        (numbers, (2).to_bytes(8, "big"), b"b"),
    }


def test_a_topic_beside_a_users_function_gets_the_same_rows(spark: SparkSession, broker: KafkaBroker) -> None:
    topic = new_topic(broker)
    seen: list[str] = []
    outputs: list[Any] = [
        (TopicSink(topic), Part()),
        (ForeachBatch(lambda frame, _: seen.extend(r["key"] for r in frame.collect())), Part()),
    ]
    frame = frame_of(spark, [("a", "1", 1, None), ("b", "2", 2, None)])
    Written(outputs, "app-beside", {"bootstrap.servers": broker.bootstrap_servers})(frame, 0)
    assert sorted(seen) == ["a", "b"]
    assert sorted(record.key or b"" for record in committed(broker, topic)) == [b"a", b"b"]


@BOTH
def test_a_record_too_large_fails_the_batch_and_says_what_to_raise(
    spark: SparkSession, broker: KafkaBroker, delivery: Delivery
) -> None:
    topic = new_topic(broker)
    frame = frame_of(spark, [("small", "v", 1, None), ("large", "v" * 2_000_000, 2, None)])
    with pytest.raises(Exception, match=r"larger than Kafka takes[^$]*message\.max\.bytes"):
        write(broker, frame, TopicSink(topic, delivery=delivery))
    if delivery == "exactly_once":
        assert committed(broker, topic) == []


@BOTH
def test_a_record_that_only_the_topic_finds_too_large_fails_the_batch_too(
    spark: SparkSession, broker: KafkaBroker, delivery: Delivery
) -> None:
    topic = new_topic(broker, max_message_bytes="1000")
    frame = frame_of(spark, [("small", "v", 1, None), ("large", "v" * 5_000, 2, None)])
    with pytest.raises(Exception, match=r"larger than Kafka takes[^$]*message\.max\.bytes"):
        write(broker, frame, TopicSink(topic, delivery=delivery))
    if delivery == "exactly_once":
        assert committed(broker, topic) == []


def test_a_missing_topic_is_named_at_the_start(broker: KafkaBroker, kafka: Kafka) -> None:
    there = new_topic(broker)
    check_topics(kafka, [there])
    with pytest.raises(ConfigError, match=r"(?s)Unknown topic nowhere.*Given: nowhere\n"):
        check_topics(kafka, [there, "nowhere"])


def test_a_topic_that_goes_missing_fails_the_batch(spark: SparkSession, broker: KafkaBroker) -> None:
    frame = frame_of(spark, [("k", "v", 1, None)])
    with pytest.raises(Exception, match="Kafka does not have a topic"):
        # a client gives a topic this long to appear
        write(
            broker,
            frame,
            TopicSink("nowhere", delivery="at_least_once"),
            **{"topic.metadata.propagation.max.ms": "100"},
        )


def test_a_kafka_that_is_not_there_is_an_error_and_not_a_wait_for_ever(spark: SparkSession) -> None:
    (port,) = free_ports(1)
    nobody = Kafka(f"127.0.0.1:{port}", producer={"request.timeout.ms": "500"})
    with pytest.raises(WatersmeetError, match="Kafka does not answer"):
        check_topics(nobody, ["any"])
    settings = {"bootstrap.servers": nobody.bootstrap_servers, "message.timeout.ms": "500"}
    sinks = Written([(TopicSink("any", delivery="at_least_once"), Part())], "app", settings)
    with pytest.raises(Exception, match="Kafka does not answer"):
        sinks(frame_of(spark, [("k", "v", 1, None)]), 0)


def test_a_format_that_cannot_write_the_type_is_refused(spark: SparkSession, broker: KafkaBroker) -> None:
    with pytest.raises(TopologyError, match="Hint: "):
        write(broker, frame_of(spark, [("k", "v", 1, None)]), TopicSink("any", value="long"))


def test_a_refused_setting_is_named_and_its_value_only_if_it_can_be_no_secret() -> None:
    for setting, value, refusal in (
        ("a.newer.setting", "canary-5431", "refuses the setting a.newer.setting=...."),
        ("debug", "canary-5431", "refuses the setting debug=...."),
        ("linger.ms", 900_001, "refuses the setting linger.ms=900001."),
    ):
        with pytest.raises(ConfigError, match=refusal) as refused:
            check_topics(Kafka("localhost:1", producer={setting: value}), ["any"])
        assert "canary" not in str(refused.value)
        assert "producer={" in (refused.value.hint or "")


def test_no_secret_is_shown_by_what_carries_it(spark: SparkSession) -> None:
    compiled = compiled_of(frame_of(spark, []), {})
    kafka = Kafka("host:1", security_protocol="SASL_SSL", producer={"ssl.key.password": "canary-5431"})
    topics = TopicsWriter(OutputContext(compiled, "app", kafka), ())
    assert "canary-5431" in topics._settings.values()
    assert "canary" not in repr(topics)
    assert "canary" not in repr(BatchSinks(compiled, (topics,)))
