"""Timers of processors by the wall clock on Spark: batches without input fire them, restarts keep them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import watersmeet as wm

SCHEMA = "k string, v long, ts long"
PATIENCE = 240


class Wait:
    """Sends a record on a while after a file with its key's name has come; looks every 100 ms.

    Parameters
    ----------
    gates : the folder of these files.
    fails : a file; the first time that a record would be sent on, it is made, and an error raised.
    """

    def __init__(self, gates: Path, fails: Path | None) -> None:
        self._gates, self._fails = gates, fails

    def init(self, context: Any) -> None:
        self.held = context.get_store("held")

    def process(self, record: Any, context: Any) -> None:
        self.held.put(record.value)
        context.set_timer(context.wall_clock + 100, clock="wall")

    def on_wall_timer(self, key: Any, timestamp: int, context: Any) -> None:
        if not (self._gates / key).exists():
            context.set_timer(context.wall_clock + 100, clock="wall")
            return
        if self._fails is not None and not self._fails.exists():
            self._fails.touch()
            raise RuntimeError("once")
        context.forward(value=f"{self.held.get()}, recently: {0 <= context.wall_clock - timestamp < 3_600_000}")


class Sink:
    """Keeps what each batch wrote last."""

    def __init__(self) -> None:
        self._batches: dict[int, list[tuple[str, str]]] = {}

    def __call__(self, frame: Any, batch: int) -> None:
        self._batches[batch] = [(row.key, str(row.value)) for row in frame.select("key", "value").collect()]

    def rows(self) -> list[tuple[str, str]]:
        return [row for batch in sorted(self._batches) for row in self._batches[batch]]

    def wait_for(self, query: Any, count: int) -> None:
        end = time.monotonic() + PATIENCE
        while len(self.rows()) < count and time.monotonic() < end and query.streaming.isActive:
            time.sleep(0.1)
        assert len(self.rows()) >= count, query.exception()()


def put(spark: SparkSession, path: Path, *rows: tuple[str, int, int]) -> None:
    spark.createDataFrame(rows, SCHEMA).coalesce(1).write.mode("append").parquet(str(path))


class Query:
    """A topology with its sinks, started and stopped."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self._spark, self._path = spark, path
        self.sink, self.read, self.gates, self.source = Sink(), Sink(), path / "gates", path / "in"
        self.gates.mkdir()

    def start(self, *, fails: Path | None = None, **options: Any) -> Any:
        builder, gates = wm.StreamsBuilder("wall"), self.gates
        frame = self._spark.readStream.schema(SCHEMA).parquet(str(self.source))
        records = builder.stream(frame, name="in", key="k", value="v", timestamp="ts")
        records.to(wm.ForeachBatch(self.read), name="read")
        stores = [wm.ValueStore("held", "long")]
        waited = records.process_values(lambda: Wait(gates, fails), value="string", stores=stores, name="wait")
        waited.to(wm.ForeachBatch(self.sink), name="out")
        folders = {"checkpoint": str(self._path / "cp"), "local_cache": str(self._path / "c")}
        return builder.build().start(self._spark, **folders, tasks=1, **options)


def test_timers_fire_while_the_input_rests_and_behind_a_restart_and_once_where_a_batch_runs_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = Query(spark, tmp_path)
    (made.gates / "a").touch()
    put(spark, made.source, ("a", 1, 0), ("never", 2, 5))
    query = made.start()
    try:
        made.sink.wait_for(query, 1)
        put(spark, made.source, ("c", 3, 7))
        made.read.wait_for(query, 3)
    finally:
        query.stop()
    assert made.sink.rows() == [("a", "1, recently: True")]
    # the batch that fires it fails, and is run again
    (made.gates / "c").touch()
    query = made.start(fails=tmp_path / "failed")
    with pytest.raises(Exception, match="on_wall_timer: RuntimeError: once"):
        query.awaitTermination(PATIENCE)
    query = made.start(fails=tmp_path / "failed")
    try:
        made.sink.wait_for(query, 2)
    finally:
        query.stop()
    assert made.sink.rows() == [("a", "1, recently: True"), ("c", "3, recently: True")]


def test_a_query_that_stops_when_everything_is_processed_fires_what_is_due_then(
    spark: SparkSession, tmp_path: Path
) -> None:
    made, end = Query(spark, tmp_path), time.monotonic() + PATIENCE
    put(spark, made.source, ("a", 1, 0))
    made.start(available_now=True).awaitTermination(PATIENCE)
    assert made.read.rows() == [("a", "1")]
    (made.gates / "a").touch()
    while not made.sink.rows() and time.monotonic() < end:
        made.start(available_now=True).awaitTermination(PATIENCE)
    assert made.sink.rows() == [("a", "1, recently: True")]
