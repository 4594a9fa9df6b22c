"""With one task all levels run in one group: results, state and changes are those of a stage for each level."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.inputs_and_outputs.test_streaming import Collector, put, reader, run
from watersmeet._plan.physical import Physical
from watersmeet._spark.checkpoint.folders import Folder
from watersmeet._spark.checkpoint.record import look
from watersmeet._spark.dataflow.fusion import Fusion, check_groups, group_numbers
from watersmeet._spark.query.start import StartOptions, layout_of
from watersmeet._worker import spill


def topology(spark: SparkSession, folder: Path, sink: Any) -> wm.Topology:
    """Counts by letter of a foreign-key join: three levels, and the last one's state goes by the first one's."""
    b = wm.StreamsBuilder("groups")
    options: Any = {"key": "k", "value": "v", "timestamp": "ts"}
    left, right = (b.table(reader(spark, folder / name), name=name, **options) for name in ("left", "right"))
    joined = left.join(
        right, lambda a, c: F.concat(a, c), foreign_key=lambda v: F.length(v).cast("long"), name="joined"
    )
    counted = joined.group_by(lambda k, v: (F.substring(v, -1, 1), v), name="by letter").count(name="n", store="n")
    counted.to(wm.ForeachBatch(sink), name="out")
    return b.build()


def in_batches(spark: SparkSession, folder: Path, layouts: list[tuple[int, int]]) -> list[Any]:
    sink = Collector()
    built = topology(spark, folder, sink)
    assert built.physical.levels > 1
    for number, (shards, tasks) in enumerate(layouts):
        put(spark, folder / "left", *((k, "x" * (1 + (k + number) % 4), 10 * number + k) for k in range(12)))
        put(spark, folder / "right", *((k, "abc"[(k + number) % 3], 10 * number + k) for k in range(1, 5)))
        run(built, spark, folder, shards=shards, tasks=tasks, evolve=True)
    return sorted(sink.rows(), key=lambda row: str(row[0]))


def groups_with_state(spark: SparkSession, folder: Path) -> int:
    """How many groups of levels have state in a checkpoint, wherever a change has moved it."""
    return len(look(Folder(spark, str(folder / "cp"))).spark_folder.names("state/[0-9]*"))


def test_one_task_has_all_levels_in_one_group_and_the_results_of_several(spark: SparkSession, tmp_path: Path) -> None:
    """Whether it stays so, or another number of tasks takes the levels apart and puts them together again."""
    expected = in_batches(spark, tmp_path / "two", [(3, 2)] * 4)
    assert in_batches(spark, tmp_path / "changing", [(3, 1), (3, 1), (3, 2), (5, 1)]) == expected
    assert [groups_with_state(spark, tmp_path / name) for name in ("changing", "two")] == [1, 4]
    stores = [wm.read_state(spark, tmp_path / name / "cp", "n").collect() for name in ("changing", "two")]
    rows = [sorted((row["key"], row["value"]) for row in store) for store in stores]
    assert rows[0] == rows[1] != []


def test_a_group_of_levels_ends_where_spark_evaluates_a_function(spark: SparkSession, tmp_path: Path) -> None:
    b = wm.StreamsBuilder("cut")
    stream = b.stream("in", key="long", value="string")
    upper = F.udf(lambda text: text.upper())
    counted = stream.group_by(lambda v: F.substring(v, 1, 1)).count()
    named = counted.to_stream().map(lambda k, v: (upper(k), v)).group_by_key().count()
    named.to_stream().map(lambda k, v: (v, k)).group_by_key().count().to("out")
    physical = b.build().physical
    assert physical.levels == 3
    assert group_numbers(Fusion(spark, physical), tasks=1) == [1, 2, 2]
    assert group_numbers(Fusion(spark, physical), tasks=2) == []


def test_what_the_groups_have_asked_of_functions_is_not_asked_again(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def physical(name: str) -> Physical:
        b = wm.StreamsBuilder("once")
        counted = b.stream("in", key="long", value="string").group_by(lambda v: F.substring(v, 1, 1)).count(name=name)
        counted.to_stream().map(lambda k, v: (v, k)).group_by_key().count().to("out")
        return b.build().physical

    plan, other = physical("n"), Fusion(spark, physical("m"))
    earlier, later = Fusion(spark, plan), Fusion(spark, plan.in_groups([1, 1]))
    assert group_numbers(earlier, tasks=1) == [1, 1]
    monkeypatch.setattr(Fusion, "_tried", None)
    later.take(earlier)
    other.take(earlier)
    for operator in plan.operators:
        assert later.fused(operator) == earlier.fused(operator)
    with pytest.raises(TypeError):
        other.fused(other.physical.operators[0])


def test_a_function_that_has_become_sparks_within_a_group_is_refused_with_the_way_on(spark: SparkSession) -> None:
    b = wm.StreamsBuilder("become")
    counted = b.stream("in", key="long", value="string").group_by(lambda v: F.substring(v, 1, 1)).count()
    counted.to_stream().map(lambda k, v: (v, k)).group_by_key().count().to("out")
    physical = b.build().physical.in_groups([1, 1])
    check_groups(physical, Fusion(spark, physical))
    spark.conf.set("watersmeet.functions", "spark")
    try:
        with pytest.raises(wm.ConfigError, match=r"workers evaluated when this checkpoint began(.|\n)*evolve=True"):
            check_groups(physical, Fusion(spark, physical))
    finally:
        spark.conf.unset("watersmeet.functions")


def test_a_query_that_begins_with_few_records_has_one_task_and_a_shard_for_each_core() -> None:
    assert layout_of(StartOptions(), None, parallelism=4, is_small=lambda: True) == (4, 1)
    assert layout_of(StartOptions(tasks=2), None, parallelism=4, is_small=lambda: True) == (4, 2)
    assert layout_of(StartOptions(shards=6), None, parallelism=4, is_small=lambda: True) == (6, 4)


def test_blobs_beyond_memory_wait_in_a_file_and_come_back_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "INPUTS_HELD_BYTES", 20)
    waiting = spill.WaitingBlobs()
    blobs = [(number % 3, number, bytes([number]) * 7) for number in range(12)]
    for turn in range(2):
        for label, port, content in blobs:
            waiting.add(label, port + turn, content)
        assert waiting.labels() == [0, 1, 2]
        for label in waiting.labels():
            assert list(waiting.take(label)) == [(p + turn, content) for at, p, content in blobs if at == label]
        assert waiting.labels() == []
