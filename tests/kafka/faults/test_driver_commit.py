"""Small output is written by the driver: one transaction, in order of position; once, whoever wrote it before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from dev.broker import KafkaBroker
from tests.kafka.faults.test_exactly_once import rows, sinks_to, values
from tests.kafka.topics import committed, new_topic
from watersmeet._engine import row_sizes
from watersmeet._worker.kafka_client import TransactionalSender
from watersmeet._worker.writers import kafka as driver_commit
from watersmeet._worker.writers.kafka import DriverCommit, driver_name, record_bytes
from watersmeet.errors import SinkError

RECORDS = 400
SMALL, NONE = driver_commit.TASK_BYTES, 0
"""Limits: with the first the driver writes, with the second each task for itself."""


@pytest.fixture
def within(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the limit of what a task hands back."""
    return lambda size: monkeypatch.setattr(driver_commit, "TASK_BYTES", size)


def marker(broker: KafkaBroker, group: str, topic: str) -> int:
    """The batch that Kafka has of this group; negative: none."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    found = consumer.committed([TopicPartition(topic, 0)], timeout=30)[0].offset
    consumer.close()
    return int(found)


def half(spark: SparkSession, count: int) -> DataFrame:
    """The rows of the first of two tasks alone."""
    return rows(spark, 0, count).filter(F.col("value").cast("long") < count // 2)


def test_small_output_of_all_tasks_is_one_transaction_of_the_driver(spark: SparkSession, broker: KafkaBroker) -> None:
    topic = new_topic(broker)
    sinks = sinks_to(broker, topic)
    for batch in range(2):
        sinks(rows(spark, 100 * batch, 100), batch)
    assert values(broker, topic) == list(range(200))
    assert marker(broker, driver_name(sinks.identity), topic) == 1
    assert [marker(broker, f"{sinks.identity}-{task}", topic) < 0 for task in range(2)] == [True, True]


@pytest.mark.parametrize("first", [SMALL, NONE])
def test_a_batch_is_in_once_where_its_replay_takes_the_other_way(
    spark: SparkSession, broker: KafkaBroker, within: Callable[[int], None], first: int
) -> None:
    topic = new_topic(broker)
    within(first)
    sinks_to(broker, topic)(rows(spark, 0, 100), 0)
    within(SMALL if first == NONE else NONE)
    sinks = sinks_to(broker, topic)
    sinks(rows(spark, 0, 100), 0)
    assert values(broker, topic) == list(range(100))
    sinks(rows(spark, 100, 100), 1)
    assert values(broker, topic) == list(range(200))


@pytest.mark.parametrize("second", [SMALL, NONE])
def test_where_one_task_has_written_for_itself_the_replay_writes_the_others_alone(
    spark: SparkSession, broker: KafkaBroker, within: Callable[[int], None], second: int
) -> None:
    topic = new_topic(broker)
    within(NONE)
    # what a batch leaves when its second task fails
    sinks_to(broker, topic)(half(spark, 100), 0)
    assert values(broker, topic) == list(range(50))
    within(second)
    sinks_to(broker, topic)(rows(spark, 0, 100), 0)
    assert values(broker, topic) == list(range(100))


def test_of_a_batchs_tasks_some_write_themselves_and_some_do_not(
    spark: SparkSession, broker: KafkaBroker, within: Callable[[int], None]
) -> None:
    topic = new_topic(broker)
    sinks = sinks_to(broker, topic)
    # the first task has ten rows, the second a thousand
    frame = rows(spark, 0, 2_000).filter((F.col("value").cast("long") < 10) | (F.col("value").cast("long") >= 1_000))
    within(1_000)
    for _ in range(2):
        sinks(frame, 0)
    assert values(broker, topic) == [*range(10), *range(1_000, 2_000)]
    groups = (driver_name(sinks.identity), f"{sinks.identity}-0", f"{sinks.identity}-1")
    assert [marker(broker, group, topic) >= 0 for group in groups] == [True, False, True]


def held(*numbers: int) -> bytes:
    texts = [b"%d" % number for number in numbers]
    columns = {"topic": pa.array([0] * len(numbers), pa.int32()), "key": texts, "value": texts, "ts": list(numbers)}
    return row_sizes.encode(pa.table(columns))


def test_a_driver_that_was_passed_by_writes_nothing_twice(broker: KafkaBroker) -> None:
    topic = new_topic(broker)
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    # the second one begins with the batch that the first one has planned
    first, second = (DriverCommit(settings, f"app-{topic}", [topic], planned) for planned in (-1, 0))
    assert not first.begins(0)
    # it takes its id in the background: here before the second one does, also while the broker still loads
    assert first._takeover is not None
    first._takeover.result()
    assert not second.begins(0)
    second.write(0, {0: held(1, 2), 1: held(3)}, None)
    first.write(0, {0: held(1, 2), 1: held(3)}, None)
    assert values(broker, topic) == [1, 2, 3]
    assert not second.begins(1)
    second.write(1, {0: held(4)}, None)
    assert values(broker, topic) == [1, 2, 3, 4]


def test_batches_without_results_leave_the_takeover_to_the_first_batch_that_has_some(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, answers = new_topic(broker), threading.Event()
    asked = TransactionalSender._call

    def late(sender: TransactionalSender, name: str, *given: object, limit: float = 0.0) -> object:
        if name == "init_transactions":  # a coordinator that loads
            answers.wait()
        return asked(sender, name, *given, limit=limit)

    monkeypatch.setattr(TransactionalSender, "_call", late)
    driver = DriverCommit({"bootstrap.servers": broker.bootstrap_servers}, f"app-{topic}", [topic], -1)
    for batch in range(4):
        assert not driver.begins(batch)
    answers.set()
    driver.write(3, {0: held(1, 2)}, None)
    assert not driver.begins(4)
    driver.write(4, {0: held(3)}, None)
    driver.close()
    assert values(broker, topic) == [1, 2, 3]
    assert driver.takeovers == 1


def test_a_task_that_lives_on_cannot_write_what_the_driver_has_written(broker: KafkaBroker) -> None:
    topic = new_topic(broker)
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    zombie = driver_commit.TransactionalSender(settings, f"app-{topic}-1", topic)
    assert zombie.begin(0)
    zombie.send([topic], [b"3"], [b"3"], [1], [None], [-1])
    driver = DriverCommit(settings, f"app-{topic}", [topic], 0)
    assert not driver.begins(0)
    driver.write(0, {0: held(1, 2), 1: held(3)}, None)
    with pytest.raises(SinkError, match="Another writer has taken over"):
        zombie.commit(0)
    zombie.abandon()
    assert values(broker, topic) == [1, 2, 3]
    assert driver.begins(0)


def test_records_of_all_keys_and_sinks_are_in_order_of_position(
    spark: SparkSession, broker: KafkaBroker, kafka: wm.Kafka, tmp_path: Path
) -> None:
    source, out = new_topic(broker, "source"), new_topic(broker, "out")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for at in range(RECORDS):
        producer.produce(source, key=str(at % 37).encode(), value=str(at).encode(), timestamp=1_000 + at)
    assert producer.flush(60) == 0
    b = wm.StreamsBuilder("ordered")
    stream = b.stream(source, key="string", value="string")
    table = stream.to_table()
    stream.join(table, lambda value, other: F.concat(value, F.lit(" "), other)).to(out)
    stream.filter(lambda value: value % 2 == 0).to(out)
    query = b.build().start(
        spark, checkpoint=str(tmp_path / "cp"), kafka=kafka, available_now=True, local_cache=str(tmp_path / "c")
    )
    query.awaitTermination()
    found = [(record.partition, record.time) for record in committed(broker, out)]
    assert len(found) == RECORDS + RECORDS // 2
    assert found == sorted(found)


def test_the_size_of_records_does_not_depend_on_how_they_are_cut() -> None:
    header = [("a", b"1"), ("b", None)]
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    names = pa.array([None, [], [{"key": k, "value": v} for k, v in header]], kind)
    table = pa.table({"key": pa.array([1, None, 3]), "value": ["ä", None, "xyz"], "headers": names})
    assert record_bytes(table) == 3 * 16 + 2 * 8 + 2 + 3 + 3
    parts = [table.slice(start, 1) for start in range(3)]
    assert sum(map(record_bytes, parts)) == record_bytes(table) == record_bytes(pa.concat_tables(parts))
