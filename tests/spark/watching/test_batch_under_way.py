"""A batch that hangs is seen while it hangs: its time grows, and is gone when it has ended."""

from __future__ import annotations

import threading
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import watersmeet as wm
from tests.spark.serving.kit import Inputs, RunningQuery, until
from watersmeet._spark.metrics.exporters import families


def test_the_time_of_the_batch_under_way_grows_while_it_hangs_and_ends_with_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    hangs, goes_on = threading.Event(), threading.Event()

    def write(rows: DataFrame, batch: int) -> None:
        rows.count()
        hangs.set()
        goes_on.wait()

    running = RunningQuery(spark, tmp_path, Inputs(spark, tmp_path / "in"))
    builder = wm.StreamsBuilder("hanging")
    frame = running.inputs.read("events", "k string, v long, ts long")
    builder.stream(frame, name="events", key="k", value="v", timestamp="ts").to(wm.ForeachBatch(write), name="out")
    query = running.start(builder.build())
    try:
        assert query.metrics().under_way_seconds is None
        running.inputs.put("events", {"k": "a", "v": 1, "ts": 1})
        hangs.wait()
        first = query.metrics().under_way_seconds
        assert first is not None
        until(lambda: (query.metrics().under_way_seconds or 0.0) > first)
        said = {name: samples for name, _, _, samples in families(query.metrics())}
        assert said["watersmeet_batch_under_way_seconds"][0][1] > 0.0
        goes_on.set()
        query.processAllAvailable()
        assert query.metrics().under_way_seconds is None
    finally:
        goes_on.set()
        query.stop()
    assert query.metrics().under_way_seconds is None
