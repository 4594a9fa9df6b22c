"""A changed topology upon its checkpoint: what goes on, in one piece or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import millpond as mp
from millpond._spark.checkpoint.checkpoint import CHANGED, Checkpoint, look
from millpond._spark.checkpoint.files import Folder
from millpond._spark.query.handover import Handover
from millpond._spark.query.start import handover_of
from millpond._spark.query.start_options import StartOptions
from millpond._spark.session import settings
from tests.spark.test_streaming import Collector, put, reader, run

EVOLVE = {"evolve": True}


def topology(spark: SparkSession, folder: Path, sink: Any, *, more: Any = None, joins: bool = False) -> mp.Topology:
    """Counts of values and the latest value of each key; with `more` another input and output, before all else."""
    b = mp.StreamsBuilder("changed")
    other = None
    if more is not None:
        rows = reader(spark, folder / "other")
        other = b.stream(rows, name="other", key="k", value="v", timestamp="ts").to_table(store="others", name="others")
    records = b.stream(reader(spark, folder / "in"), name="in", key="k", value="v", timestamp="ts")
    latest = records.to_table(name="latest", store="latest")
    counted = records.select_key(lambda v: v, name="by value").group_by_key().agg(n=mp.count(), name="counted")
    counts = counted.map_values(lambda v: v["n"].cast("string"), name="n").to_stream(name="counts")
    counts.to(sink, name="out")
    if other is not None:
        latest.to_stream(name="s").join(other, lambda a, c: F.concat(a, c), name="joined").to(more, name="more")
    return b.build()


def test_a_batch_that_was_not_finished_is_finished_by_the_topology_that_planned_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink = Collector(fail_in=1)
    old, more = topology(spark, tmp_path, mp.ForeachBatch(sink)), mp.ForeachBatch(Collector())
    put(spark, tmp_path / "in", (1, "a", 1))
    run(old, spark, tmp_path)
    put(spark, tmp_path / "in", (1, "a", 2))
    with pytest.raises(Exception, match="killed behind the sink"):
        run(old, spark, tmp_path)
    new = topology(spark, tmp_path, mp.ForeachBatch(sink), more=more)
    with pytest.raises(mp.ChangedTopology, match=r"planned and not finished(.|\n)*Hint: Start it once more as it was"):
        run(new, spark, tmp_path, **EVOLVE)
    run(old, spark, tmp_path)
    put(spark, tmp_path / "in", (1, "a", 3))
    run(new, spark, tmp_path, **EVOLVE)
    assert [row[1] for row in sink.rows()] == ["1", "2", "3"]


def prepared(spark: SparkSession, made: mp.Topology, folder: Path) -> tuple[Handover, Checkpoint]:
    """A change that is about to be made."""
    options = StartOptions(evolve=True)
    return handover_of(made.physical, spark, str(folder / "cp"), options)


def test_a_change_that_breaks_off_anywhere_leaves_the_old_topology_and_one_that_is_recorded_the_new_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    sink, added = Collector(), Collector()
    old = topology(spark, tmp_path, mp.ForeachBatch(sink))
    new = topology(spark, tmp_path, mp.ForeachBatch(sink), more=mp.ForeachBatch(added))
    put(spark, tmp_path / "in", (1, "a", 1))
    run(old, spark, tmp_path)
    steps = len(prepared(spark, new, tmp_path)[0].steps())
    for done in range(1, steps + 1):
        handover, place = prepared(spark, new, tmp_path)
        with settings.query_settings(spark, 2, str(tmp_path / "cp")):
            for step in handover.steps()[:done]:
                step()
        assert look(Folder(spark, str(tmp_path / "cp"))).place.path == str(tmp_path / "cp")
        put(spark, tmp_path / "in", (1, "a", 1 + done))
        run(old, spark, tmp_path)
        assert [row[1] for row in sink.rows()] == [str(number + 1) for number in range(done + 1)]
    handover, place = prepared(spark, new, tmp_path)
    with settings.query_settings(spark, 2, str(tmp_path / "cp")):
        handover.run()
        place.record()
    # the process has died before the query began
    with pytest.raises(mp.ChangedTopology, match="belongs to another topology"):
        run(old, spark, tmp_path)
    put(spark, tmp_path / "in", (1, "a", 100))
    run(new, spark, tmp_path)
    assert [row[1] for row in sink.rows()] == [str(number + 1) for number in range(steps + 2)]
    assert [path.name for path in (tmp_path / "cp" / CHANGED).iterdir()] == [place.logs.rpartition("/")[2]]
