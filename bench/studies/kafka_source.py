"""CPU of a record of Kafka in a streaming query: by Spark's own source, and by a data source in Python.

Run by its path: `python bench/studies/kafka_source.py [records]`. A topic of four partitions (keys of 8 bytes, values
of 100 characters) is read to its end by a streaming query with `available_now`, by turns with each source, in one run.
The data source in Python is the least that could take the place of Spark's own: `latestOffset` says where a batch ends
(public since Spark 4.2), and each task reads its range with librdkafka and gives Arrow batches. Behind both stands the
same `mapInArrow`, which counts, as watersmeet's first stage stands there. Printed are CPU-microseconds a record of all
processes but the broker, and the ratio of the medians: what it would cost to leave the private way into Spark's source
(`QuerySources`), which tells it where a batch ends.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.measuring.measure import Sampler
from bench.studies.inputs.kafka_arrow import PARTITIONS, TOPIC, fill
from dev.broker import KafkaBroker
from dev.jars import spark_jars
from watersmeet._spark.session import session

AT_ONCE, TURNS = 10_000, 3
COLUMNS = "key binary, value binary, partition int, offset long, ts long"


class Range(InputPartition):
    """The records of a partition that a batch takes."""

    def __init__(self, partition: int, begin: int, end: int) -> None:
        self.partition, self.begin, self.end = partition, begin, end


class TopicReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads ranges of a topic with librdkafka."""

    def __init__(self, options: dict[str, str]) -> None:
        self._servers, self._topic = options["servers"], options["topic"]
        self._ends: dict[str, int] = {}

    def _consumer(self) -> Any:
        from confluent_kafka import Consumer

        return Consumer({"bootstrap.servers": self._servers, "group.id": "none", "enable.auto.commit": False})

    def prepareForTriggerAvailableNow(self) -> None:
        """Note where the topic ends."""
        from confluent_kafka import TopicPartition

        consumer = self._consumer()
        places = [TopicPartition(self._topic, partition) for partition in range(PARTITIONS)]
        self._ends = {str(place.partition): consumer.get_watermark_offsets(place)[1] for place in places}
        consumer.close()

    def initialOffset(self) -> dict[str, int]:
        """The beginning of each partition."""
        return {str(partition): 0 for partition in range(PARTITIONS)}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        """Where the batch ends: here at the end of the topic."""
        return self._ends or start

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Range]:
        """A task of each partition."""
        return [Range(int(name), start[name], end[name]) for name in end if start[name] < end[name]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a range."""
        from confluent_kafka import TopicPartition

        assert isinstance(partition, Range)
        consumer, number, at = self._consumer(), partition.partition, partition.begin
        consumer.assign([TopicPartition(self._topic, number, at)])
        while at < partition.end:
            records = consumer.consume(min(AT_ONCE, partition.end - at), timeout=1.0)
            if records:
                at = records[-1].offset() + 1
                columns = {
                    "key": pa.array([each.key() for each in records], pa.binary()),
                    "value": pa.array([each.value() for each in records], pa.binary()),
                    "partition": pa.array([number] * len(records), pa.int32()),
                    "offset": pa.array([each.offset() for each in records], pa.int64()),
                    "ts": pa.array([each.timestamp()[1] for each in records], pa.int64()),
                }
                yield pa.RecordBatch.from_pydict(columns)
        consumer.close()


class TopicSource(DataSource):
    """A topic of Kafka, by the client for Python."""

    @classmethod
    def name(cls) -> str:
        """The format."""
        return "topic"

    def schema(self) -> str:
        """The columns of a record."""
        return COLUMNS

    def streamReader(self, schema: Any) -> TopicReader:
        """The reader of a query."""
        return TopicReader(dict(self.options))


def by_spark(spark: SparkSession, servers: str) -> DataFrame:
    """The topic by Spark's own source."""
    options = {"kafka.bootstrap.servers": servers, "subscribe": TOPIC, "startingOffsets": "earliest"}
    rows = spark.readStream.format("kafka").options(**options).load()
    return rows.select("key", "value", "partition", "offset", F.unix_millis("timestamp").alias("ts"))


def by_python(spark: SparkSession, servers: str) -> DataFrame:
    """The topic by a data source in Python."""
    return spark.readStream.format("topic").options(servers=servers, topic=TOPIC).load()


def read(frame: DataFrame) -> int:
    """The records that a query of the source counts, to the end of the topic."""
    counts: list[int] = []

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"n": [sum(len(batch) for batch in batches)]})

    def note(rows: DataFrame, _: int) -> None:
        counts.extend(row["n"] for row in rows.collect())

    with tempfile.TemporaryDirectory() as checkpoint:
        writer = frame.mapInArrow(counted, "n long").writeStream.foreachBatch(note)
        writer.trigger(availableNow=True).option("checkpointLocation", checkpoint).start().awaitTermination()
    return sum(counts)


def spent(spark: SparkSession, frame: DataFrame, broker: KafkaBroker, records: int) -> float:
    """CPU-microseconds a record of a query, in all processes but the broker."""
    with Sampler(os.getpid(), interval=0.1) as sampler:
        time.sleep(0.5)
        before = dict(sampler.usage.cpu)
        assert read(frame) == records
        time.sleep(0.5)
    seconds = {pid: total - before.get(pid, 0.0) for pid, total in sampler.usage.cpu.items() if pid != broker.pid}
    return sum(seconds.values()) / records * 1e6


def main(records: int) -> None:
    """Turns of both sources, one after the other, behind one of each that is not counted."""
    spark = session("kafka-source", jars=spark_jars(), config={"spark.ui.enabled": "false"})
    spark.dataSource.register(TopicSource)
    sides = {"Spark's own source": by_spark, "a source in Python": by_python}
    figures: dict[str, list[float]] = {name: [] for name in sides}
    with KafkaBroker() as broker:
        broker.create_topics([TOPIC], PARTITIONS)
        fill(broker.bootstrap_servers, records)
        for turn in range(TURNS + 1):
            for name, source in sides.items():
                cost = spent(spark, source(spark, broker.bootstrap_servers), broker, records)
                print(f"{name}: {cost:.2f} CPU-microseconds a record{'' if turn else ', to warm up'}", flush=True)
                figures[name] += [cost] if turn else []
    own, python = (statistics.median(costs) for costs in figures.values())
    print(f"a source in Python costs {python / own:.2f} times the CPU ({python:.2f} against {own:.2f})")
    spark.stop()


if __name__ == "__main__":
    main(*[int(each) for each in sys.argv[1:]] or [1_000_000])
