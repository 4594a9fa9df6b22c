"""The option `idle_after` on Spark: pending results come out when nothing comes any more, and only with it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet._spark.query.start import StartOptions
from watersmeet.errors import ChangedTopology, ConfigError

SCHEMA = "k string, v string, ts long"
PATIENCE = 240


def plus(left: Column, right: Column) -> Column:
    return F.concat_ws("+", F.coalesce(left, F.lit("null")), F.coalesce(right, F.lit("null")))


def put(spark: SparkSession, path: Path, *rows: tuple[str, str, int]) -> None:
    spark.createDataFrame(rows, SCHEMA).coalesce(1).write.mode("append").parquet(str(path))


class Sink:
    """Keeps what each batch wrote last."""

    def __init__(self) -> None:
        self._batches: dict[int, list[tuple[Any, ...]]] = {}

    def __call__(self, frame: Any, batch: int) -> None:
        self._batches[batch] = [tuple(row) for row in frame.select("key", "value", "timestamp").collect()]

    def values(self) -> list[str]:
        return [row[1] for batch in sorted(self._batches) for row in self._batches[batch]]

    def wait_for(self, query: Any, *values: str) -> None:
        """Until all of these have come; how long it takes decides nothing."""
        deadline = time.monotonic() + PATIENCE
        while set(values) - set(self.values()):
            assert time.monotonic() < deadline, self.values()
            assert not query.awaitTermination(0.2)


def topology(spark: SparkSession, folder: Path, sink: Any) -> wm.Topology:
    builder = wm.StreamsBuilder("idle")
    sides = []
    for name in ("left", "right"):
        (folder / name).mkdir(exist_ok=True)
        frame = spark.readStream.schema(SCHEMA).parquet(str(folder / name))
        sides.append(builder.stream(frame, name=name, key="k", value="v", timestamp="ts"))
    windows = wm.JoinWindows.of_time_difference_and_grace("10 ms", "5 ms")
    sides[0].left_join(sides[1], plus, windows).to(wm.ForeachBatch(sink), name="out")
    return builder.build()


def test_pending_results_come_out_when_the_input_rests_and_are_not_repeated_by_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = Sink()
    made = topology(spark, tmp_path, sink)
    options: dict[str, Any] = {"checkpoint": str(tmp_path / "cp"), "local_cache": str(tmp_path / "c"), "tasks": 1}
    put(spark, tmp_path / "left", ("k", "a", 100), ("q", "b", 100))
    query = made.start(spark, idle_after="1 second", **options)
    try:
        sink.wait_for(query, "a+null", "b+null")
    finally:
        query.stop()
    put(spark, tmp_path / "left", ("k", "late", 105), ("k", "far", 10**12))
    query = made.start(spark, idle_after="2 seconds", **options)
    try:
        # No record could be later than the last one: the clock alone lets go of it.
        sink.wait_for(query, "late+null", "far+null")
    finally:
        query.stop()
    assert sorted(sink.values()) == ["a+null", "b+null", "far+null", "late+null"]
    with pytest.raises(ChangedTopology, match="another clock"):
        made.start(spark, **options)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"idle_after": "10 ms"}, "1 second or more"),
        ({"idle_after": "1 minute", "available_now": True}, "a query that stops does not wait"),
    ],
)
def test_what_cannot_rest_is_refused(options: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        StartOptions(**options)


def test_a_topology_in_which_nothing_waits_for_time_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    builder = wm.StreamsBuilder("no windows")
    frame = spark.readStream.schema(SCHEMA).parquet(str(tmp_path))
    builder.stream(frame, name="in", key="k", value="v", timestamp="ts").to(wm.ForeachBatch(Sink()), name="out")
    with pytest.raises(ConfigError, match="nothing in this topology waits for time"):
        builder.build().start(spark, checkpoint=str(tmp_path / "cp"), idle_after="1 minute")
