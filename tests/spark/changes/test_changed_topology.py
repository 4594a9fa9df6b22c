"""A changed topology upon its checkpoint: what goes on, in one piece or not at all."""

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
from watersmeet._spark import session
from watersmeet._spark.checkpoint import spark_logs
from watersmeet._spark.checkpoint.folders import Folder
from watersmeet._spark.checkpoint.record import CHANGED, Checkpoint, look
from watersmeet._spark.evolve import Handover
from watersmeet._spark.query.start import StartOptions, _Start

EVOLVE = {"evolve": True}
MOMENTS = ("clear", "gather", "carry_state", "moved", "number_state", "write_logs")


def topology(spark: SparkSession, folder: Path, sink: Any, *, more: Any = None, joins: bool = False) -> wm.Topology:
    """Counts of values and the latest value of each key; with `more` another input and output, before all else."""
    b = wm.StreamsBuilder("changed")
    other = None
    if more is not None:
        rows = reader(spark, folder / "other")
        other = b.stream(rows, name="other", key="k", value="v", timestamp="ts").to_table(store="others", name="others")
    records = b.stream(reader(spark, folder / "in"), name="in", key="k", value="v", timestamp="ts")
    latest = records.to_table(name="latest", store="latest")
    counted = records.select_key(lambda v: v, name="by value").group_by_key().agg(n=wm.count(), name="counted")
    counts = counted.map_values(lambda v: v["n"].cast("string"), name="n").to_stream(name="counts")
    counts.to(sink, name="out")
    if other is not None:
        latest.to_stream(name="s").join(other, lambda a, c: F.concat(a, c), name="joined").to(more, name="more")
    return b.build()


def rows_of(spark: SparkSession, folder: Path, store: str) -> set[tuple[Any, ...]]:
    found = wm.read_state(spark, folder / "cp", store).collect()
    return {(row["key"], row["value"]) for row in found}


def test_what_is_kept_goes_on_with_its_numbers_beside_what_is_added_and_without_what_is_gone(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink, added = Collector(), Collector()
    old = topology(spark, tmp_path, wm.ForeachBatch(sink))
    for number in range(2):
        put(spark, tmp_path / "in", (number, "a", number + 1), (7, "b", number + 1))
        run(old, spark, tmp_path)
    new = topology(spark, tmp_path, wm.ForeachBatch(sink), more=wm.ForeachBatch(added))
    planned = wm.plan_change(tmp_path / "cp", new)
    assert planned.possible
    assert {item.name for item in planned.unchanged if item.what == "store"} == {"latest", "counted.aggregate"}
    assert {item.name for item in planned.started_empty} == {"others"}
    with pytest.raises(wm.ChangedTopology, match="belongs to another topology"):
        run(new, spark, tmp_path)
    put(spark, tmp_path / "other", (7, "X", 1), (1, "Y", 1))
    put(spark, tmp_path / "in", (7, "a", 10))
    run(new, spark, tmp_path, **EVOLVE)
    assert [row[:2] for row in sink.rows() if row[0] == "a"] == [("a", "1"), ("a", "2"), ("a", "3")]
    assert sorted(sink.batches) == sorted({*range(len(sink.batches))})
    assert all(len(tries) == 1 for tries in sink.batches.values())
    assert [row[:2] for row in added.rows()] == [(7, "aX")]
    assert rows_of(spark, tmp_path, "latest") == {(0, "a"), (1, "a"), (7, "a")}
    # from now on without the option, and with it nothing happens
    put(spark, tmp_path / "in", (1, "c", 11))
    run(new, spark, tmp_path)
    put(spark, tmp_path / "in", (1, "c", 12))
    run(new, spark, tmp_path, **EVOLVE)
    assert [row[:2] for row in added.rows()[1:]] == [(1, "cY"), (1, "cY")]
    # and back: what was added is dropped, the rest goes on
    assert "store others of joined: dropped" in str(wm.plan_change(tmp_path / "cp", old))
    put(spark, tmp_path / "in", (1, "c", 13))
    run(old, spark, tmp_path, **EVOLVE)
    assert [row[1] for row in sink.rows() if row[0] == "c"] == ["1", "2", "3"]
    assert {store.name for store in wm.stores(spark, tmp_path / "cp")} == {"latest", "counted.aggregate"}
    # that of the change before is there until the next one
    assert len(list((tmp_path / "cp" / CHANGED).iterdir())) == 2


def typed(spark: SparkSession, folder: Path, *, wide: bool) -> wm.Topology:
    """A table of a struct, looked up by a stream, written to files that are the only output."""
    b = wm.StreamsBuilder("typed")
    fields = "n int, name string" if not wide else "n long, more string, name string"
    rows = spark.readStream.schema(f"k long, {fields}, ts long").json(str(folder / "rows"))
    table = b.table(rows, name="rows", key="k", timestamp="ts", order=["ts"], store="kept")
    asked = b.stream(reader(spark, folder / "in"), name="in", key="k", value="v", timestamp="ts")
    joined = asked.join(table, lambda v, row: F.struct(v.alias("asked"), row.alias("row")), name="joined")
    joined.map_values(lambda v: F.to_json(v), name="told").to(wm.Writer("parquet", path=str(folder / "out")), name="o")
    return b.build()


def test_stored_rows_are_read_as_a_wider_type_and_others_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    def rows(number: int, text: str) -> None:
        (tmp_path / "rows").mkdir(exist_ok=True)
        (tmp_path / "rows" / f"{number}.json").write_text(text)

    rows(0, '{"k": 1, "n": 5, "name": "a", "ts": 1}\n{"k": 2, "name": "b", "ts": 2}\n')
    put(spark, tmp_path / "in", (1, "x", 3))
    run(typed(spark, tmp_path, wide=False), spark, tmp_path)
    wide = typed(spark, tmp_path, wide=True)
    planned = wm.plan_change(tmp_path / "cp", wide)
    assert {item.name for item in planned.widened} == {"kept"}
    rows(1, '{"k": 3, "n": 5000000000, "more": "m", "name": "c", "ts": 4}\n')
    run(wide, spark, tmp_path, allow_changed_functions=True, **EVOLVE)
    put(spark, tmp_path / "in", (1, "y", 5), (2, "y", 5), (3, "y", 5))
    run(wide, spark, tmp_path)
    written = spark.read.parquet(str(tmp_path / "out")).orderBy("sequence").collect()
    told = [(row["key"], row["value"]) for row in written]
    assert told[0] == (1, '{"asked":"x","row":{"n":5,"name":"a"}}')
    assert sorted(told[1:]) == [
        (1, '{"asked":"y","row":{"n":5,"name":"a"}}'),
        (2, '{"asked":"y","row":{"name":"b"}}'),
        (3, '{"asked":"y","row":{"n":5000000000,"more":"m","name":"c"}}'),
    ]
    back = wm.plan_change(tmp_path / "cp", typed(spark, tmp_path, wide=False))
    assert not back.possible
    assert "value: more: is no longer there" in str(back)
    with pytest.raises(wm.ChangedTopology, match=r"cannot go on(.|\n)*more: is no longer there(.|\n)*Hint: wm\.plan_"):
        run(typed(spark, tmp_path, wide=False), spark, tmp_path, allow_changed_functions=True, **EVOLVE)


def test_a_batch_that_was_not_finished_is_finished_by_the_topology_that_planned_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = Collector(fail_in=1)
    old, more = topology(spark, tmp_path, wm.ForeachBatch(sink)), wm.ForeachBatch(Collector())
    put(spark, tmp_path / "in", (1, "a", 1))
    run(old, spark, tmp_path)
    put(spark, tmp_path / "in", (1, "a", 2))
    with pytest.raises(Exception, match="killed behind the sink"):
        run(old, spark, tmp_path)
    new = topology(spark, tmp_path, wm.ForeachBatch(sink), more=more)
    with pytest.raises(
        wm.ChangedTopology, match=r"A planned batch is not finished(.|\n)*Hint: Start it once more as it was"
    ):
        run(new, spark, tmp_path, **EVOLVE)
    run(old, spark, tmp_path)
    put(spark, tmp_path / "in", (1, "a", 3))
    run(new, spark, tmp_path, **EVOLVE)
    assert [row[1] for row in sink.rows()] == ["1", "2", "3"]


def prepared(spark: SparkSession, made: wm.Topology, folder: Path) -> tuple[Handover, Checkpoint]:
    """A change that is about to be made."""
    start = _Start(made.physical, Folder(spark, str(folder / "cp")), StartOptions(evolve=True))
    found = look(start.folder)
    assert found.binding is not None
    checkpoint = start._checkpoint(found, found.binding.effects)
    planned = spark_logs.checked_last_batch(found.spark_folder, 0)
    return Handover(start.topology, found.spark_folder, found.binding, checkpoint, planned, {}), checkpoint


def test_a_change_that_breaks_off_anywhere_leaves_the_old_topology_and_one_that_is_recorded_the_new_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink, added = Collector(), Collector()
    old = topology(spark, tmp_path, wm.ForeachBatch(sink))
    new = topology(spark, tmp_path, wm.ForeachBatch(sink), more=wm.ForeachBatch(added))
    put(spark, tmp_path / "in", (1, "a", 1))
    run(old, spark, tmp_path)
    steps = len(prepared(spark, new, tmp_path)[0].steps())
    for done in range(1, steps + 1):
        handover, checkpoint = prepared(spark, new, tmp_path)
        with session.query_settings(spark, 2, str(tmp_path / "cp")):
            for step in handover.steps()[:done]:
                step()
        assert look(Folder(spark, str(tmp_path / "cp"))).spark_folder.path == str(tmp_path / "cp")
        put(spark, tmp_path / "in", (1, "a", 1 + done))
        run(old, spark, tmp_path)
        assert [row[1] for row in sink.rows()] == [str(number + 1) for number in range(done + 1)]
    handover, checkpoint = prepared(spark, new, tmp_path)
    with session.query_settings(spark, 2, str(tmp_path / "cp")):
        handover.run()
        checkpoint.record()
    # the process has died before the query began
    with pytest.raises(wm.ChangedTopology, match="belongs to another topology"):
        run(old, spark, tmp_path)
    put(spark, tmp_path / "in", (1, "a", 100))
    run(new, spark, tmp_path)
    assert [row[1] for row in sink.rows()] == [str(number + 1) for number in range(steps + 2)]
    assert [path.name for path in (tmp_path / "cp" / CHANGED).iterdir()] == [checkpoint.logs.rpartition("/")[2]]


@pytest.mark.parametrize("moments", [("carry_state", "moved"), pytest.param(MOMENTS, marks=pytest.mark.proof)])
def test_a_driver_that_is_killed_in_a_change_leaves_the_old_topology_or_the_new_one(
    spark: SparkSession, tmp_path: Path, moments: tuple[str, ...]
) -> None:
    put(spark, tmp_path / "other", (1, "X", 0))
    put(spark, tmp_path / "in", (0, "a", 1))
    put(spark, tmp_path / "in", (1, "a", 2))
    killed_change.run(spark, tmp_path, more=False)
    for number, moment in enumerate(moments, 3):
        killed(killed_change, tmp_path, moment)
        put(spark, tmp_path / "in", (1, "a", number))
        killed_change.run(spark, tmp_path, more=False)
    killed(killed_change, tmp_path, "recorded")
    put(spark, tmp_path / "in", (1, "b", 100), (1, "a", 101))
    with pytest.raises(wm.ChangedTopology, match="belongs to another topology"):
        killed_change.run(spark, tmp_path, more=False)
    killed_change.run(spark, tmp_path, more=True)
    counts, latest, more = (spark.read.parquet(str(tmp_path / name)) for name in ("counts", "latest", "more"))
    told = [row["value"] for row in counts.where("key = 'a'").orderBy("batch_id", "sequence").collect()]
    assert told == [str(number + 1) for number in range(3 + len(moments))]
    assert latest.count() == 4 + len(moments)
    assert {row["value"] for row in more.collect()} >= {"bX", "aX"}
    assert rows_of(spark, tmp_path, "latest") == {(0, "a"), (1, "a")}
