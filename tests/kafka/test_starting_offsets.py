"""Topics that go on from where what an input begins with ends, through a real broker."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from dev.broker import KafkaBroker
from tests.kafka.test_kafka_source import drained, new_topic, source
from tests.spark.inputs_and_outputs.test_streaming import Collector, by_key
from watersmeet._spark.sources.sources import scan
from watersmeet.errors import ConfigError
from watersmeet.io.kafka import Kafka
from watersmeet.io.topics import Topic


def produce(broker: KafkaBroker, topic: str, *records: tuple[int, bytes, bytes, int]) -> None:
    """Records of (partition, key, value, timestamp)."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for partition, key, value, stamp in records:
        producer.produce(topic, key=key, value=value, timestamp=stamp, partition=partition)
    assert producer.flush(30) == 0


def test_a_topic_begins_at_the_offsets_or_at_the_time_that_a_snapshot_says_and_others_where_they_did(
    spark: SparkSession, broker: KafkaBroker, kafka: Kafka
) -> None:
    one, timed, other = new_topic(broker, 2), new_topic(broker, 3), new_topic(broker)
    produce(broker, one, *((n % 2, b"k", b"%d" % n, 1_000 + n) for n in range(10)))
    # nothing in the last partition is as new
    produce(broker, timed, *((n % 2, b"k", b"%d" % n, 1_000 + n) for n in range(10)), (2, b"k", b"old", 1_000))
    produce(broker, other, (0, b"k", b"other", 1))
    frame = spark.createDataFrame([("k", "v")], "key string, value string")

    def read(name: str, topic: str, **goes_on: Any) -> Any:
        made = source(name, Topic(topic, "string", "string"), "table" if goes_on else "stream")
        return replace(made, bootstrap=wm.Snapshot(frame, "key", value="value", **goes_on)) if goes_on else made

    moment = datetime.fromtimestamp(1.005, tz=UTC)
    nodes = [
        read("one", one, starting_offsets={1: 5, 0: 3}),
        read("timed", timed, starting_timestamp=moment),
        read("other", other),
    ]
    counts = {one: 2, timed: 3, other: 1}
    (scanned,) = scan(spark, nodes, kafka, partitions=counts)
    assert {(r["root"], r["partition"], r["offset"]) for r in drained(scanned.frame)} == {
        *((0, 0, offset) for offset in (3, 4)),
        *((1, 0, offset) for offset in (3, 4)),
        *((1, 1, offset) for offset in (2, 3, 4)),
        (2, 0, 0),
    }
    with pytest.raises(
        ConfigError, match=r"the 2 partitions of (.|\n)*Hint: starting_offsets=\{0: \.\.\., 1: \.\.\.\}"
    ):
        scan(spark, [read("one", one, starting_offsets={0: 1})], kafka, partitions=counts)
    with pytest.raises(ConfigError, match="2 inputs"):
        scan(spark, [read("one", one, starting_offsets="latest"), read("again", one)], kafka, partitions=counts)


def test_a_table_of_a_topic_goes_on_behind_its_snapshot(
    spark: SparkSession, broker: KafkaBroker, kafka: Kafka, tmp_path: Path
) -> None:
    topic, sink = new_topic(broker, 2), Collector()
    produce(broker, topic, (0, b"a", b'{"n": 1}', 10), (0, b"a", b'{"n": 2}', 20), (1, b"b", b'{"n": 3}', 30))

    def run(frame: DataFrame | None) -> None:
        b = wm.StreamsBuilder("behind")
        known = None if frame is None else wm.Snapshot(frame, "id", starting_offsets={0: 1, 1: 1})
        table = b.table(topic, key="string", value=wm.json("n int"), store="kept", bootstrap=known)
        table.map_values(lambda value: value["n"]).to(wm.ForeachBatch(sink), name="out")
        query = b.build().start(spark, checkpoint=tmp_path / "cp", kafka=kafka, available_now=True, local_cache=None)
        query.awaitTermination()

    run(spark.createDataFrame([("a", 1), ("b", 3), ("c", 4)], "id string, n int"))
    assert by_key([row[:2] for row in sink.rows()]) == {"a": [(1,), (2,)], "b": [(3,)], "c": [(4,)]}
    assert list(sink.batches) == [0]
    produce(broker, topic, (1, b"b", b'{"n": 5}', 40))
    run(None)
    assert by_key([row[:2] for row in sink.rows()]) == {"a": [(1,), (2,)], "b": [(3,), (5,)], "c": [(4,)]}
    kept = wm.read_state(spark, tmp_path / "cp", "kept", keys=["b", "c"]).collect()
    assert sorted((row.key, row.value.n) for row in kept) == [("b", 5), ("c", 4)]


def test_a_stream_of_a_topic_goes_on_behind_its_history(
    spark: SparkSession, broker: KafkaBroker, kafka: Kafka, tmp_path: Path
) -> None:
    topic, other, sink = new_topic(broker, 2), new_topic(broker), Collector()
    produce(broker, topic, (0, b"a", b"old", 10), (0, b"a", b"next", 20), (1, b"b", b"new", 30))
    produce(broker, other, (0, b"a", b"A", 1), (0, b"b", b"B", 2))
    frame = spark.createDataFrame([("a", "past", 1), ("b", "gone", 2)], "id string, v string, at long")
    goes_on: Any = {"starting_offsets": {0: 1, 1: 0}}

    def run(*, begins: bool = True) -> None:
        b = wm.StreamsBuilder("history")
        history = wm.Backfill(frame, "id", value="v", timestamp="at", order="at", **goes_on) if begins else None
        events = b.stream(topic, key="string", value="string", bootstrap=history)
        names = b.table(other, key="string", value="string")
        named = events.left_join(names, lambda event, name: F.concat(event, F.coalesce(name, F.lit("-"))))
        named.to(wm.ForeachBatch(sink), name="out")
        query = b.build().start(spark, checkpoint=tmp_path / "cp", kafka=kafka, available_now=True, local_cache=None)
        query.awaitTermination()

    run()
    assert by_key([row[:2] for row in sink.rows()]) == {"a": [("past-",)], "b": [("gone-",)]}
    with pytest.raises(ConfigError, match="was removed before its topic was read"):
        run(begins=False)
    for begins in (True, False):
        run(begins=begins)
        assert by_key([row[:2] for row in sink.rows()]) == {
            "a": [("past-",), ("nextA",)],
            "b": [("gone-",), ("newB",)],
        }


def test_each_topic_may_say_itself_where_it_begins_and_its_records_their_times(
    spark: SparkSession, broker: KafkaBroker, kafka: Kafka, tmp_path: Path
) -> None:
    one, other, third = new_topic(broker, 2), new_topic(broker), new_topic(broker)
    produce(broker, one, *((n % 2, b"k", b"%d" % n, 1_000 + n) for n in range(6)))
    produce(broker, other, *((0, b"k", b"%d" % n, 1_000 + n) for n in range(6)))
    produce(broker, third, (0, b"k", b"90", 1_000))
    builder = wm.StreamsBuilder("starts")
    read: dict[str, Any] = {"key": "string", "value": "string", "timestamp": lambda value: value.cast("long") * 10}
    first = builder.stream(one, **read, starting_offsets={0: 2, 1: 1})
    rest = builder.stream([other, third], **read, starting_offsets="earliest")
    shown = lambda value, record: F.concat_ws(  # noqa: E731
        "/", record["topic"], record["partition"].cast("string"), record["offset"].cast("string"), value
    )
    collector = Collector()
    first.merge(rest).map_values(shown).to(wm.ForeachBatch(collector), name="out")
    latest = Kafka(kafka.bootstrap_servers, starting_offsets="latest")
    query = builder.build().start(spark, checkpoint=tmp_path / "cp", kafka=latest, available_now=True)
    query.awaitTermination()
    found = sorted((value, int(at.timestamp() * 1000)) for _, value, at in collector.rows())
    wanted = [(f"{one}/0/2/4", 40), (f"{one}/1/1/3", 30), (f"{one}/1/2/5", 50), (f"{third}/0/0/90", 900)]
    wanted += [(f"{other}/0/{n}/{n}", n * 10) for n in range(6)]
    assert found == sorted(wanted)
