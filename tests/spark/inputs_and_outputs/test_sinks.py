"""How a topology's rows leave it without Kafka: Spark's writers, users' functions, several sinks at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from watersmeet._spark.dataflow.compile import CompiledFrame
from watersmeet._spark.dataflow.selection import Selection
from watersmeet._spark.sinks.functions import FunctionPass
from watersmeet._spark.sinks.kind import Chosen
from watersmeet._spark.sinks.sinks import BatchSinks, prepared
from watersmeet._spark.sinks.writers import WriterPass
from watersmeet.errors import ConfigError
from watersmeet.io.dataframes import ForeachBatch, Writer
from watersmeet.io.outputs import SinkTarget
from watersmeet.io.topics import TopicSink


def even() -> Selection:
    return Selection(F.col("number") % 2 == 0, "word", "number")


def big() -> Selection:
    return Selection(F.col("number") > 2, "number", "word")


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


def functions_of(*chosen: tuple[ForeachBatch, Selection]) -> BatchSinks:
    return BatchSinks(tuple(FunctionPass(Chosen(number, None, *each)) for number, each in enumerate(chosen)))


def writers_of(spark: SparkSession, *chosen: tuple[Writer, Selection]) -> BatchSinks:
    passes = (WriterPass(Chosen(number, None, *each), "app-1", spark) for number, each in enumerate(chosen))
    return BatchSinks(tuple(passes))


def run(spark: SparkSession, folder: Path, chosen: Sequence[tuple[SinkTarget, Selection]]) -> None:
    """One query over files that hold `rows`."""
    source = str(folder / "source")
    rows(spark).coalesce(1).write.parquet(source)
    frame = spark.readStream.schema(rows(spark).schema).parquet(source)
    names = [f"sink{i}" for i in range(len(chosen))]
    selectors = {name: selection for name, (_, selection) in zip(names, chosen, strict=True)}
    query = prepared(
        CompiledFrame(frame, selectors, "root"),
        [(SimpleNamespace(name=name), target) for name, (target, _) in zip(names, chosen, strict=True)],
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
    assert found.columns == ["key", "value", "timestamp"]
    seen = found.select("key", "value", F.unix_millis("timestamp").alias("ts")).orderBy("key").collect()
    assert seen == [Row(key="b", value=2, ts=20), Row(key="d", value=4, ts=40)]


def test_a_memory_writer_fills_the_table_it_names(spark: SparkSession, tmp_path: Path) -> None:
    run(spark, tmp_path, [(Writer("memory", path="evens"), even())])
    assert sorted(r["key"] for r in spark.table("evens").collect()) == ["b", "d"]


def test_several_sinks_of_one_query_each_get_their_own_rows(spark: SparkSession, tmp_path: Path) -> None:
    seen: list[tuple[int, list[Any]]] = []
    chosen: list[tuple[SinkTarget, Selection]] = [
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
    writers_of(spark, *writers)(frame, 0)
    assert runs.count() == 2


def test_a_function_that_reads_little_still_lets_every_task_run_to_its_end(spark: SparkSession, tmp_path: Path) -> None:
    frame, runs = counted(spark, tmp_path / "runs")
    functions_of((ForeachBatch(lambda rows, batch: None), even()))(frame, 0)
    assert runs.count() == 2


def test_nothing_stays_persisted_after_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    frame, _ = counted(spark, tmp_path / "runs")

    def fail(rows: DataFrame, batch: int) -> None:
        assert frame.is_cached
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        functions_of((ForeachBatch(fail), even()))(frame, 0)
    assert not frame.is_cached


def test_a_replayed_batch_is_in_the_files_once(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "out")
    sinks = writers_of(spark, (Writer("parquet", path=path), even()), (Writer("noop"), even()))
    for batch in (0, 1, 1):
        sinks(rows(spark), batch)
    found = spark.read.parquet(path).orderBy("batch_id", "key").select("batch_id", "key").collect()
    assert [tuple(r) for r in found] == [(0, "b"), (0, "d"), (1, "b"), (1, "d")]


def test_a_file_writer_takes_its_options(spark: SparkSession, tmp_path: Path) -> None:
    writer = Writer("csv", path=str(tmp_path / "out"), sep="|", header=True)
    writers_of(spark, (writer, even()), (Writer("noop"), even()))(rows(spark).coalesce(1), 0)
    (part,) = (tmp_path / "out" / "batch_id=0").glob("part-*")
    assert part.read_text().splitlines()[:1] == ["key|value|timestamp"]


def test_a_topic_without_a_kafka_is_refused_at_the_start(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="kafka= is left out"):
        run(spark, tmp_path, [(TopicSink("out"), even())])
