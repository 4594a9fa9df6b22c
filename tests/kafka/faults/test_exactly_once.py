"""Exactly once: whatever is run again, torn off or done twice at a time, a reader sees a record once."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dev.broker import KafkaBroker
from tests.io.wire_kit import Part, Written, compiled_of, sinks_of
from tests.kafka.topics import committed, new_topic
from watersmeet._spark.outputs.outputs import prepared
from watersmeet._worker.kafka_client import BY_KEY, TransactionalSender
from watersmeet.errors import SinkError
from watersmeet.io.kafka import Kafka
from watersmeet.io.topics import TopicSink


def sinks_to(broker: KafkaBroker, *topics: str, identity: str | None = None) -> Written:
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    return Written([(TopicSink(topic), Part()) for topic in topics], identity or f"app-{topics[0]}", settings)


def rows(spark: SparkSession, first: int, count: int, tasks: int = 2) -> DataFrame:
    number = F.col("id")
    return spark.range(first, first + count, 1, tasks).select(
        number.cast("string").alias("key"), number.cast("string").alias("value"), (number + 1).alias("ts")
    )


def values(broker: KafkaBroker, *topics: str) -> list[int]:
    return sorted(int(record.value or b"") for record in committed(broker, *topics))


def test_a_batch_that_is_run_again_is_written_once(spark: SparkSession, broker: KafkaBroker) -> None:
    topic = new_topic(broker)
    sinks = sinks_to(broker, topic)
    for batch in (0, 0, 1, 2, 2):
        sinks(rows(spark, 100 * batch, 100), batch)
    assert values(broker, topic) == list(range(300))


class Counted:
    """Notes in a folder how many rows a task has read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        count = 0
        for batch in batches:
            count += len(batch)
            yield batch
        (self.folder / f"{len(list(self.folder.iterdir()))}-{count}").touch()


def test_a_batch_that_is_skipped_is_still_read_to_its_end(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    # the state of the levels above is saved at the end of their rows, written or not
    topic = new_topic(broker)
    frame = rows(spark, 0, 30_000, tasks=1)
    for _ in range(2):
        sinks_to(broker, topic)(frame.mapInArrow(Counted(tmp_path), frame.schema), 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0-30000", "1-30000"]
    assert len(values(broker, topic)) == 30_000


def test_another_checkpoint_of_the_same_application_skips_nothing(spark: SparkSession, broker: KafkaBroker) -> None:
    topic = new_topic(broker)
    sinks_to(broker, topic, identity="app-one")(rows(spark, 0, 10), 0)
    sinks_to(broker, topic, identity="app-other")(rows(spark, 10, 10), 0)
    assert values(broker, topic) == list(range(20))


def test_a_checkpoint_that_was_rolled_back_is_refused(spark: SparkSession, broker: KafkaBroker) -> None:
    topic = new_topic(broker)
    sinks = sinks_to(broker, topic)
    for batch in range(3):
        sinks(rows(spark, 10 * batch, 10), batch)
    with pytest.raises(Exception, match="The checkpoint is older than the output"):
        sinks(rows(spark, 10, 10), 1)
    assert values(broker, topic) == list(range(30))


class FailOnce:
    """Fails after its last row unless there is a file: by an error, by dying, or by going on for ever."""

    def __init__(self, how: str, mark: Path) -> None:
        self.how = how
        self.mark = mark

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches
        if self.mark.exists():
            return
        self.mark.touch()
        if self.how == "error":
            raise RuntimeError("torn off")
        if self.how == "death":
            os.kill(os.getpid(), signal.SIGKILL)
        while True:
            time.sleep(0.1)


def torn_off(sinks: Written, frame: DataFrame, how: str, mark: Path) -> None:
    """Runs a batch that fails half way; "stopped": cancelled when all its rows are out, but not the end."""

    def cancel() -> None:
        while not mark.exists():
            time.sleep(0.05)
        frame.sparkSession.interruptAll()

    canceller = threading.Thread(target=cancel)
    if how == "stopped":
        canceller.start()
    with pytest.raises(Exception, match=r"torn off|crashed|cancelled"):
        sinks(frame, 0)
    if how == "stopped":
        canceller.join()


@pytest.mark.parametrize("how", ["error", "death", "stopped"])
def test_a_task_that_ends_half_way_leaves_nothing_and_is_written_whole_later(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path, how: str
) -> None:
    topics = new_topic(broker, "a"), new_topic(broker, "b")
    sinks = sinks_to(broker, *topics)
    mark = tmp_path / f"mark-{how}"
    # so much that the sink has most of it, and not all, when the stage above fails
    frame = rows(spark, 0, 100_000, tasks=1).withColumn("value", F.lpad("value", 200, "0"))
    frame = frame.mapInArrow(FailOnce(how, mark), frame.schema)
    torn_off(sinks, frame, how, mark)
    sinks(frame, 0)
    assert values(broker, topics[0]) == values(broker, topics[1]) == list(range(100_000))


def send(sender: TransactionalSender, topic: str, value: bytes) -> None:
    sender.send([topic], [b"k"], [value], [1], [None], [BY_KEY])


def test_of_two_writers_of_one_task_the_later_wins_and_the_other_is_told(broker: KafkaBroker) -> None:
    topic = new_topic(broker)
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    zombie, living = (TransactionalSender(settings, f"app-{topic}-0", topic) for _ in range(2))
    assert zombie.begin(0)
    send(zombie, topic, b"0")
    assert living.begin(0)
    send(living, topic, b"0")
    with pytest.raises(SinkError, match="Another writer has taken over"):
        zombie.commit(0)
    zombie.abandon()
    living.commit(0)
    assert values(broker, topic) == [0]


def test_a_worker_that_was_passed_by_takes_over_again_without_losing_or_repeating(
    broker: KafkaBroker,
) -> None:
    topic = new_topic(broker)
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    workers = [TransactionalSender(settings, f"app-{topic}-0", topic) for _ in range(2)]
    # tasks wander from worker to worker, and each batch is tried twice
    for batch, turn in enumerate([0, 1, 0, 0, 1, 1, 0]):
        for attempt in range(2):
            worker = workers[(turn + attempt) % 2]
            if worker.begin(batch):
                send(worker, topic, b"%d" % batch)
                worker.commit(batch)
    assert values(broker, topic) == list(range(7))


def test_a_transaction_that_outlasts_kafkas_patience_is_an_error_and_leaves_nothing(
    broker: KafkaBroker,
) -> None:
    topic = new_topic(broker)
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    slow = TransactionalSender(settings, f"app-{topic}-0", topic)
    assert slow.begin(0)
    send(slow, topic, b"0")
    # what the broker does when the time is up: it fences the writer and ends its transaction
    taken = TransactionalSender(settings, f"app-{topic}-0", topic)
    taken._take_over()
    with pytest.raises(SinkError, match=r"transaction\.timeout\.ms"):
        slow.commit(0)
    assert values(broker, topic) == []


def run(spark: SparkSession, kafka: Kafka, source: Path, checkpoint: Path, topic: str) -> None:
    frame = spark.readStream.schema("key string, value string, ts long").parquet(str(source))
    compiled = compiled_of(frame.repartition(2, "key"), {"out": Part()})
    query = prepared(
        compiled,
        sinks_of(compiled, {"out": TopicSink(topic)}),
        kafka=kafka,
        query_name=None,
        checkpoint=str(checkpoint),
        trigger={"availableNow": True},
        identity=f"app-{topic}",
    ).start()
    query.awaitTermination()


def test_a_query_that_dies_after_the_sinks_commit_and_before_sparks_repeats_nothing(
    spark: SparkSession, broker: KafkaBroker, kafka: Kafka, tmp_path: Path
) -> None:
    topic, source, checkpoint = new_topic(broker), tmp_path / "source", tmp_path / "checkpoint"
    rows(spark, 0, 1000).write.mode("append").parquet(str(source))
    run(spark, kafka, source, checkpoint, topic)
    # exactly what such a death leaves: the batch is in Kafka, Spark's log does not say so
    for left in [*(checkpoint / "commits").glob("0"), *(checkpoint / "commits").glob(".0.crc")]:
        left.unlink()
    rows(spark, 1000, 1000).write.mode("append").parquet(str(source))
    run(spark, kafka, source, checkpoint, topic)
    assert (checkpoint / "commits" / "0").exists()
    assert values(broker, topic) == list(range(2000))
