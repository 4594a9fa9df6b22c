"""The join of two updating tables, twice: watersmeet's, and one group per key in plain Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

from bench.workloads.datasets import DDL, SIDES
from bench.workloads.every import EVERY, WINDOW
from bench.workloads.workload import handles_of

_Joined = Row("key", "value", "ts")
OUT = "key long, value string, ts long"


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    """A side's files, one per batch."""
    return spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(str(folder))


def sides(add: Callable[..., Any], spark: SparkSession, data: Path) -> list[Any]:
    """Both sides as streams or tables of a topology; `add` is the builder's method."""
    options = {"key": "key", "value": "value", "timestamp": "ts", "order": "seq"}
    return [add(stream(spark, data / side), name=side, **options) for side in SIDES]


def start_watersmeet(spark: SparkSession, data: Path, checkpoint: str) -> Any:
    """The topology of three lines."""
    import watersmeet as wm

    builder = wm.StreamsBuilder("bench")
    left, right = sides(builder.table, spark, data)
    left.join(right, F.concat).to(wm.Writer("noop"), name="joined")
    return builder.build().start(spark, checkpoint=checkpoint, available_now=True, local_cache=f"{checkpoint}-cache")


def start_windows(spark: SparkSession, data: Path, checkpoint: str) -> Any:
    """Two streams joined within a window, from files."""
    import watersmeet as wm

    builder = wm.StreamsBuilder("bench")
    left, right = sides(builder.stream, spark, data)
    within = wm.JoinWindows.of_time_difference_and_grace(WINDOW, WINDOW)
    left.join(right, F.concat, within).to(wm.Writer("noop"), name="joined")
    return builder.build().start(spark, checkpoint=checkpoint, available_now=True, local_cache=f"{checkpoint}-cache")


def start_on_kafka(workload: str, delivery: str = "exactly_once", *, record_cache: bool = False) -> Any:
    """A workload from topics to a topic; `data` is "servers outputs batch topic topic ...".

    One whose data are in two parts goes on until it is stopped: a query of what is available fixes its end at its
    start, and the second part comes later. It looks for that twice a second and not all the time: the part comes
    within milliseconds, partition by partition, and a batch that begins in between has other work than the next one.
    """

    def start(spark: SparkSession, data: Path, checkpoint: str) -> Any:
        import watersmeet as wm

        servers, outs, batch, *topics = str(data).split(" ")
        builder, chosen = wm.StreamsBuilder("bench"), EVERY[workload]
        for handle, out in zip(handles_of(chosen, builder, topics), outs.split(","), strict=True):
            handle.to(out, delivery=delivery, **chosen.formats())
        kafka = wm.Kafka(servers, max_records_per_batch=int(batch))
        if chosen.parted:
            spark.conf.set("spark.sql.streaming.pollingDelay", "500ms")
        return builder.build().start(
            spark,
            checkpoint=checkpoint,
            available_now=not chosen.parted,
            local_cache=f"{checkpoint}-cache",
            kafka=kafka,
            record_cache=record_cache,
        )

    return start


def start_in_spark(workload: str) -> Any:
    """Spark's own aggregation in update mode, from a topic to a topic, at least once."""

    def start(spark: SparkSession, data: Path, checkpoint: str) -> Any:
        servers, out, batch, topic = str(data).split(" ")
        given = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
        read = spark.readStream.format("kafka").options(**given, maxOffsetsPerTrigger=batch).load()
        aggregated = EVERY[workload].in_spark
        assert aggregated is not None
        query = aggregated(read).writeStream.format("kafka").outputMode("update").trigger(availableNow=True)
        return query.options(
            **{"kafka.bootstrap.servers": servers, "topic": out, "checkpointLocation": checkpoint}
        ).start()

    return start


def start_trickle(levels: int) -> Any:
    """A stream of topic `clicks` joined with so many tables, keyed anew in between; `data` are the servers."""

    def start(spark: SparkSession, data: Path, checkpoint: str) -> Any:
        import watersmeet as wm

        builder = wm.StreamsBuilder("bench")
        joined = builder.stream("clicks", key="long", value="string")
        for number in range(levels):
            if number:
                joined = joined.select_key(lambda key, value: (key * 7 + 1) % 1_000)
            table = builder.table(f"table{number}", key="long", value="string")
            joined = joined.join(table, F.concat)
        joined.to("out")
        topology = builder.build()
        assert topology.physical.levels == levels
        cache = f"{checkpoint}-cache"
        return topology.start(spark, checkpoint=checkpoint, local_cache=cache, kafka=wm.Kafka(str(data)))

    return start


def start_trickle_in_spark(spark: SparkSession, data: Path, checkpoint: str) -> Any:
    """Spark's own aggregation of topic `clicks`, the latest value of each key; `data` are the servers."""
    servers = {"kafka.bootstrap.servers": str(data)}
    read = spark.readStream.format("kafka").options(**servers, subscribe="clicks", startingOffsets="earliest").load()
    latest = read.groupBy("key").agg(F.max(F.col("value").cast("string")).alias("value"))
    write = latest.writeStream.format("kafka").outputMode("update").options(**servers, topic="out")
    return write.option("checkpointLocation", checkpoint).start()


def start_shards(shards: int) -> Any:
    """A windowed join behind which a table is joined: what is told to every shard passes through a level, too."""

    def start(spark: SparkSession, data: Path, checkpoint: str) -> Any:
        import watersmeet as wm

        builder = wm.StreamsBuilder("bench")
        left, right = sides(builder.stream, spark, data)
        within = wm.JoinWindows.of_time_difference_and_grace(WINDOW, WINDOW)
        joined = left.left_join(right, F.concat, within).select_key(lambda key, value: key % 1_000)
        joined.to_table().to(wm.Writer("noop"), name="latest")
        cache = f"{checkpoint}-cache"
        return builder.build().start(spark, checkpoint=checkpoint, available_now=True, local_cache=cache, shards=shards)

    return start


def start_per_key(spark: SparkSession, data: Path, checkpoint: str) -> Any:
    """The naive way: a group per key, a ValueState per side."""
    both = [stream(spark, data / side).withColumn("side", F.lit(i)) for i, side in enumerate(SIDES)]
    joined = (
        both[0]
        .unionByName(both[1])
        .groupBy("key")
        .transformWithState(statefulProcessor=PerKeyJoin(), outputStructType=OUT, outputMode="append", timeMode="None")
    )
    return (
        joined.writeStream.format("noop")
        .outputMode("append")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )


class PerKeyJoin(StatefulProcessor):
    """Inner join of two tables, a key at a time: state is read once per key and batch, written if changed."""

    def init(self, handle: Any) -> None:
        """Declare the two sides."""
        self._sides = [handle.getValueState(side, "value string, ts long") for side in SIDES]

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        """Join a key's changes in their order."""
        now = [state.get() for state in self._sides]
        changed = [False, False]
        for row in sorted(rows, key=lambda each: (each["ts"], each["seq"])):
            side = row["side"]
            before = now[side]
            now[side] = None if row["value"] is None else (row["value"], row["ts"])
            changed[side] = True
            other = now[1 - side]
            if other is None or (before is None and now[side] is None):
                continue
            value = None if now[side] is None else now[0][0] + now[1][0]
            yield _Joined(key[0], value, max(row["ts"], other[1]))
        for side in (0, 1):
            if changed[side] and now[side] is None:
                self._sides[side].clear()
            elif changed[side]:
                self._sides[side].update(now[side])

    def close(self) -> None:
        """Nothing is held open."""
