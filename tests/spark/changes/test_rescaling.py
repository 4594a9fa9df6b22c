"""Another number of shards and tasks for a checkpoint: the results are those of any other number (law 1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.changes import killed_change
from tests.spark.checkpoints.killing import killed
from tests.spark.inputs_and_outputs.test_streaming import Collector, put, reader, run

LAYOUTS = ((4, 2), (7, 3), (2, 1), (2, 2))
MOMENTS = ("clear", "gather", "carry_state", "moved", "number_state", "write_logs")


def topology(spark: SparkSession, folder: Path, sink: Any) -> wm.Topology:
    """A windowed join with rows that wait, a table, a global table, a count, a foreign key: state of every kind."""
    b = wm.StreamsBuilder("rescaled")
    options: Any = {"key": "k", "value": "v", "timestamp": "ts"}
    left, right = (b.stream(reader(spark, folder / name), name=name, **options) for name in ("left", "right"))
    within = wm.JoinWindows.of_time_difference_and_grace("5 ms", "10 ms")
    pairs = left.outer_join(right, lambda a, c: F.concat_ws("+", a, c), within, name="pairs")
    names = b.global_table(reader(spark, folder / "names"), name="names", store="names", **options)
    latest = right.to_table(name="latest", store="latest")
    counted = left.group_by(lambda v: F.substring(v, 1, 1), name="by letter").count(name="counted")
    referred = left.to_table(name="referring").join(
        latest, lambda a, c: F.concat(a, c), foreign_key=lambda v: F.length(v).cast("long"), name="referred"
    )
    named = pairs.join(names, lambda v, n: F.concat(v, n), key=lambda k, v: F.lit(1).cast("long"), name="named")
    told = [
        named,
        counted.to_stream(name="counts").map(lambda k, v: (F.lit(0).cast("long"), F.concat(k, v.cast("string")))),
        referred.to_stream(name="foreign"),
    ]
    for number, stream in enumerate(told):
        stream.to(sink[number], name=f"out{number}")
    return b.build()


def fill(spark: SparkSession, folder: Path, number: int) -> None:
    """The records of a run."""
    for side, shift in (("left", 0), ("right", 1)):
        rows = ((n % 9, "abcdefg"[(n + number) % 7] * (1 + n % 5), 10 * number + n // 2 + shift) for n in range(30))
        put(spark, folder / side, *rows)


def in_layouts(spark: SparkSession, folder: Path, layouts: Any) -> list[list[Any]]:
    """The records of each output, those of a key in order, over runs that each have a number of shards and tasks."""
    sinks = [Collector() for _ in range(3)]
    put(spark, folder / "names", (1, "!", 0))
    built = topology(spark, folder, [wm.ForeachBatch(sink) for sink in sinks])
    for number, (shards, tasks) in enumerate(layouts):
        fill(spark, folder, number)
        run(built, spark, folder, shards=shards, tasks=tasks, evolve=True)
    assert sorted(sinks[0].batches) == list(range(len(layouts)))
    return [sorted(sink.rows(), key=lambda row: str(row[0])) for sink in sinks]


def test_results_over_other_numbers_of_shards_and_tasks_are_those_over_one(spark: SparkSession, tmp_path: Path) -> None:
    changing = in_layouts(spark, tmp_path / "changing", LAYOUTS)
    assert all(len(rows) > 50 for rows in changing)
    assert changing == in_layouts(spark, tmp_path / "fixed", [LAYOUTS[0]] * len(LAYOUTS))
    for store in ("latest", "names"):
        kept = [
            sorted((row["key"], row["value"]) for row in wm.read_state(spark, tmp_path / name / "cp", store).collect())
            for name in ("changing", "fixed")
        ]
        assert kept[0] == kept[1] != []


def test_another_number_of_shards_is_refused_without_evolve_and_planned_with_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    sinks = [Collector() for _ in range(3)]
    put(spark, tmp_path / "names", (1, "!", 0))
    fill(spark, tmp_path, 0)
    built = topology(spark, tmp_path, [wm.ForeachBatch(sink) for sink in sinks])
    run(built, spark, tmp_path, shards=4, tasks=2)
    with pytest.raises(wm.ChangedTopology, match="another number of shards") as refused:
        run(built, spark, tmp_path, shards=8)
    assert "evolve=True" in str(refused.value)
    assert not wm.plan_change(tmp_path / "cp", built).changed
    planned = wm.plan_change(tmp_path / "cp", built, shards=8)
    assert planned.possible
    assert planned.changed
    assert "settings shards: changed (was 4, is 8)" in str(planned)
    run(built, spark, tmp_path, shards=8, evolve=True)
    # from now on it is the recorded number
    run(built, spark, tmp_path)
    assert not wm.plan_change(tmp_path / "cp", built, shards=8, tasks=2).changed


@pytest.mark.parametrize("moments", [("carry_state",), pytest.param(MOMENTS, marks=pytest.mark.proof)])
def test_a_driver_that_is_killed_while_state_is_divided_leaves_the_old_shards_or_the_new_ones(
    spark: SparkSession, tmp_path: Path, moments: tuple[str, ...]
) -> None:
    put(spark, tmp_path / "in", (0, "a", 1), (1, "a", 2), (2, "b", 3))
    killed_change.run(spark, tmp_path, more=False)
    for number, moment in enumerate(moments, 4):
        killed(killed_change, tmp_path, moment, 5)
        put(spark, tmp_path / "in", (0, "a", number))
        killed_change.run(spark, tmp_path, more=False)
    killed(killed_change, tmp_path, "recorded", 5)
    put(spark, tmp_path / "in", (5, "a", 100))
    with pytest.raises(wm.ChangedTopology, match="another number of shards"):
        killed_change.run(spark, tmp_path, more=False)
    killed_change.run(spark, tmp_path, more=False, shards=5, tasks=1)
    counts = spark.read.parquet(str(tmp_path / "counts")).where("key = 'a'").orderBy("batch_id", "sequence").collect()
    assert [row["value"] for row in counts] == [str(number + 1) for number in range(3 + len(moments))]
    kept = wm.read_state(spark, tmp_path / "cp", "latest").collect()
    assert {(row["key"], row["value"]) for row in kept} == {(0, "a"), (1, "a"), (2, "b"), (5, "a")}
