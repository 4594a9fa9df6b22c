"""How a topology's rows leave it without Kafka: Spark's writers, users' functions, several sinks at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from tests.io.wire_kit import Part, Written, compiled_of, sinks_of
from watersmeet._spark.outputs.outputs import prepared
from watersmeet.errors import ConfigError, SinkError
from watersmeet.io.outputs import ForeachBatch, SinkTarget, Writer
from watersmeet.io.topics import TopicSink


def even() -> Part:
    return Part("word", "number", lambda rows: pc.equal(pc.bit_wise_and(rows["number"], 1), 0))


def big() -> Part:
    return Part("number", "word", lambda rows: pc.greater(rows["number"], 2))


class Runs:
    """Notes in a folder each task that has read its rows to the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches
        context = TaskContext.get()
        (self.folder / str(context.taskAttemptId())).touch()

    def count(self) -> int:
        return len(list(self.folder.iterdir()))


def rows(spark: SparkSession) -> DataFrame:
    given = [("a", 1, 10, 0), ("b", 2, 20, 1), ("c", 3, 30, 2), ("d", 4, 40, 3)]
    return spark.createDataFrame(given, "word string, number long, ts long, offset long")


def counted(spark: SparkSession, folder: Path) -> tuple[DataFrame, Runs]:
    runs = Runs(folder)
    frame = rows(spark).repartition(2, "word")
    return frame.mapInArrow(runs, frame.schema), runs


def run(spark: SparkSession, folder: Path, chosen: Sequence[tuple[SinkTarget, Part]]) -> None:
    """One query over files that hold `rows`."""
    source = str(folder / "source")
    rows(spark).coalesce(1).write.parquet(source)
    frame = spark.readStream.schema(rows(spark).schema).parquet(source)
    compiled = compiled_of(frame, {f"sink{i}": part for i, (_, part) in enumerate(chosen)})
    query = prepared(
        compiled,
        sinks_of(compiled, {f"sink{i}": target for i, (target, _) in enumerate(chosen)}),
        kafka=None,
        query_name=None,
        checkpoint=str(folder / "checkpoint"),
        trigger={"availableNow": True},
        identity="app-1",
    ).start()
    query.awaitTermination()


def test_a_single_writer_is_sparks_own_sink_and_shows_key_value_and_timestamp(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "out")
    run(spark, tmp_path, [(Writer("parquet", path=path), even())])
    # what Spark's file sink keeps, and a foreachBatch would not
    assert (tmp_path / "out" / "_spark_metadata").exists()
    found = spark.read.parquet(path)
    assert found.columns == ["key", "value", "timestamp", "sequence"]
    seen = found.select("key", "value", F.unix_millis("timestamp").alias("ts")).orderBy("key").collect()
    assert seen == [Row(key="b", value=2, ts=20), Row(key="d", value=4, ts=40)]


def test_a_memory_writer_fills_the_table_it_names(spark: SparkSession, tmp_path: Path) -> None:
    run(spark, tmp_path, [(Writer("memory", path="evens"), even())])
    assert sorted(r["key"] for r in spark.table("evens").collect()) == ["b", "d"]


def test_several_sinks_of_one_query_each_get_their_own_rows(spark: SparkSession, tmp_path: Path) -> None:
    seen: list[tuple[int, list[Any]]] = []
    chosen: list[tuple[SinkTarget, Part]] = [
        (Writer("json", path=str(tmp_path / "even")), even()),
        (ForeachBatch(lambda frame, batch: seen.append((batch, frame.collect()))), big()),
        (Writer("memory", path="big_ones"), big()),
    ]
    run(spark, tmp_path, chosen)
    found = spark.read.json(str(tmp_path / "even"))
    assert sorted((r["key"], r["value"], r["batch_id"]) for r in found.collect()) == [
        ("b", 2, 0),
        ("d", 4, 0),
    ]
    assert [(batch, sorted((r["key"], r["value"]) for r in got)) for batch, got in seen] == [(0, [(3, "c"), (4, "d")])]
    assert sorted(r["value"] for r in spark.table("big_ones").collect()) == ["c", "d"]


def test_several_sinks_compute_the_frame_once(spark: SparkSession, tmp_path: Path) -> None:
    frame, runs = counted(spark, tmp_path / "runs")
    writers = [(Writer("parquet", path=str(tmp_path / str(i))), even()) for i in range(3)]
    Written([*writers])(frame, 0)
    assert runs.count() == 2


def test_a_function_that_reads_little_still_lets_every_task_run_to_its_end(spark: SparkSession, tmp_path: Path) -> None:
    frame, runs = counted(spark, tmp_path / "runs")
    Written([(ForeachBatch(lambda rows, batch: None), even())])(frame, 0)
    assert runs.count() == 2


def test_nothing_stays_persisted_after_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    frame, _ = counted(spark, tmp_path / "runs")

    def fail(rows: DataFrame, batch: int) -> None:
        assert sinks.frame is not None
        assert sinks.frame.is_cached
        raise RuntimeError("no")

    sinks = Written([(ForeachBatch(fail), even())])
    with pytest.raises(SinkError, match=r"out0.* raised RuntimeError: no"):
        sinks(frame, 0)
    assert sinks.frame is not None
    assert not sinks.frame.is_cached


def test_a_replayed_batch_is_in_the_files_once(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "out")
    sinks = Written([(Writer("parquet", path=path), even()), (Writer("noop"), even())])
    for batch in (0, 1, 1):
        sinks(rows(spark), batch)
    found = spark.read.parquet(path).orderBy("batch_id", "key").select("batch_id", "key").collect()
    assert [tuple(r) for r in found] == [(0, "b"), (0, "d"), (1, "b"), (1, "d")]


def test_a_file_writer_takes_its_options(spark: SparkSession, tmp_path: Path) -> None:
    writer = Writer("csv", path=str(tmp_path / "out"), sep="|", header=True)
    Written([(writer, even()), (Writer("noop"), even())])(rows(spark).coalesce(1), 0)
    (part,) = (tmp_path / "out" / "batch_id=0").glob("part-*")
    assert part.read_text().splitlines()[:1] == ["key|value|timestamp|sequence"]


def test_a_topic_without_a_kafka_is_refused_at_the_start(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="kafka= is left out"):
        run(spark, tmp_path, [(TopicSink("out"), even())])
