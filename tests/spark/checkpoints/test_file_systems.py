"""What a checkpoint promises, on disk, HDFS and S3 by the same tests: starts, kills, takeovers, changes, reads."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from tests.spark.changes import killed_change, killed_deployment
from tests.spark.changes import test_changed_topology as changed
from tests.spark.changes.test_killed_deployments import Records, check_written
from tests.spark.checkpoints import killed_place
from tests.spark.checkpoints import test_bootstrap as begun
from tests.spark.checkpoints.file_systems import CheckpointPlace, hdfs, place, s3
from tests.spark.checkpoints.killed_place import ENDED, IN_A_BATCH, MARK, MOMENTS, STARTS, STILL, database
from tests.spark.checkpoints.killing import killed
from tests.spark.inputs_and_outputs import test_streaming as joined
from tests.spark.inputs_and_outputs.test_streaming import Collector, put
from watersmeet._spark import deploy

__all__ = ["hdfs", "place", "s3"]


PASSED_BY = "taken this checkpoint over|another driver has taken the checkpoint over|this one was about to write"
"""Said by a query where another one has its checkpoint, or a file of it, or the batch that was to come."""


def fed(spark: SparkSession, folder: Path) -> None:
    """Three batches, in whose second one a record may end or hold up the driver."""
    put(spark, folder / "in", (1, "a", 1), (2, "b", 2), (1, "c", 3))
    put(spark, folder / "in", (2, "d", 4), (1, "e", 5), (4, MARK, 6), (3, "f", 7))
    put(spark, folder / "in", (4, "g", 8), (1, "h", 9))


def outputs(spark: SparkSession, folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """What stands in the table, and what the files tell."""
    rows = {name: spark.read.parquet(str(folder / name)).collect() for name in ("all", "even")}
    found = {name: sorted((row["batch_id"], row["key"], row["value"]) for row in some) for name, some in rows.items()}
    table = database(folder).execute("SELECT id, n FROM counts ORDER BY id")
    return {**found, "table": [tuple(row.values()) for row in table]}


EXPECTED = {
    "all": [
        (0, 1, "1"),
        (0, 1, "2"),
        (0, 2, "1"),
        (1, 1, "3"),
        (1, 2, "2"),
        (1, 3, "1"),
        (1, 4, "1"),
        (2, 1, "4"),
        (2, 4, "2"),
    ],
    "even": [(0, 2, "1"), (1, 2, "2"), (1, 4, "1"), (2, 4, "2")],
    "table": [(1, 4), (2, 2), (3, 1), (4, 2)],
}


@pytest.mark.proof
def test_a_driver_that_is_killed_in_a_batch_and_in_its_commits_loses_and_repeats_nothing(
    spark: SparkSession, place: CheckpointPlace
) -> None:
    fed(spark, place.folder)
    for moment in MOMENTS:
        killed(killed_place, place.checkpoint, place.folder, moment)
    assert place.files(spark, "commits") == ["0"]
    killed_place.run(spark, place.checkpoint, place.folder)
    assert outputs(spark, place.folder) == EXPECTED
    # with nothing of this machine's: the state is what the checkpoint has
    put(spark, place.folder / "in", (1, "i", 10), (2, "j", 11))
    killed_place.run(spark, place.checkpoint, place.folder, local_cache=str(place.folder / "cold"))
    assert outputs(spark, place.folder)["table"] == [(1, 5), (2, 3), (3, 1), (4, 2)]
    counts = wm.read_state(spark, place.checkpoint, "counts").select("key", "value.n").collect()
    assert sorted(map(tuple, counts)) == [(1, 5), (2, 3), (3, 1), (4, 2)]
    assert len(place.files(spark, "watersmeet/epochs")) >= 1


def test_a_start_that_is_killed_between_checks_at_its_lease_or_in_its_first_batch_keeps_no_later_one_out(
    spark: SparkSession, place: CheckpointPlace
) -> None:
    put(spark, place.folder / "in", (1, "a", 1), (2, "b", 2), (1, "c", 3))
    killed(killed_place, place.checkpoint, place.folder, ENDED)
    put(spark, place.folder / "in", (2, "d", 4), (1, "e", 5), (4, MARK, 6), (3, "f", 7))
    put(spark, place.folder / "in", (4, "g", 8), (1, "h", 9))
    for moment in (*STARTS, IN_A_BATCH):
        killed(killed_place, place.checkpoint, place.folder, moment)
    killed_place.run(spark, place.checkpoint, place.folder)
    # where no lock works, a start has planned a batch that reads nothing
    first = 0 if place.has_lock else 1
    later = {name: [(n + first * (n > 0), *row) for n, *row in EXPECTED[name]] for name in ("all", "even")}
    assert outputs(spark, place.folder) == EXPECTED | later


@contextmanager
def standing_still(place: CheckpointPlace) -> Iterator[subprocess.Popen[bytes]]:
    """Another driver, in the middle of its second batch, all of whose processes are stopped."""
    program = [sys.executable, "-m", killed_place.__name__, place.checkpoint, str(place.folder), STILL]
    said = place.folder / "said"
    with said.open("wb") as log, subprocess.Popen(program, stdout=log, stderr=log, start_new_session=True) as first:
        try:
            while not (place.folder / "waiting").exists():
                assert first.poll() is None, said.read_text()
                time.sleep(0.1)
            os.killpg(first.pid, signal.SIGSTOP)
            yield first
        finally:
            os.killpg(first.pid, signal.SIGKILL)


def test_a_driver_that_is_suspended_keeps_its_lock_or_is_passed_by_and_commits_nothing(
    spark: SparkSession, place: CheckpointPlace
) -> None:
    fed(spark, place.folder)
    with standing_still(place) as first:
        if place.has_lock:
            with pytest.raises(wm.ConfigError, match="in another process of this machine"):
                killed_place.run(spark, place.checkpoint, place.folder)
        else:
            killed_place.run(spark, place.checkpoint, place.folder, local_cache=str(place.folder / "second"))
        (place.folder / "go").touch()
        os.killpg(first.pid, signal.SIGCONT)
        first.wait()
    ended = (place.folder / "ended").read_text()
    # one that is passed by may see first that the other has removed its unfinished files
    assert ended == "well" if place.has_lock else re.search(PASSED_BY, ended), ended
    assert outputs(spark, place.folder) == EXPECTED
    put(spark, place.folder / "in", (1, "i", 10))
    killed_place.run(spark, place.checkpoint, place.folder)
    assert outputs(spark, place.folder)["table"] == [(1, 5), (2, 2), (3, 1), (4, 2)]


@pytest.mark.proof
def test_two_queries_of_one_process_are_one_too_many(spark: SparkSession, place: CheckpointPlace) -> None:
    put(spark, place.folder / "left", (1, "a", 1))
    made = joined.topology(spark, place.folder, wm.ForeachBatch(Collector()))
    first = made.start(spark, checkpoint=place.checkpoint, local_cache=None)
    with pytest.raises(wm.ConfigError, match="in this process"):
        made.start(spark, checkpoint=f"{place.checkpoint}/")
    first.stop()


def test_a_failed_batch_and_starts_without_a_cache_give_what_one_run_gives(
    spark: SparkSession, place: CheckpointPlace
) -> None:
    sinks = {"torn": Collector(fail_in=1), "whole": Collector()}
    for name, sink in sinks.items():
        at = place.another(name)
        for number in range(3):
            put(spark, at.folder / "left", *((n, f"a{number}{n}", n + 10 * number) for n in range(20)))
            put(spark, at.folder / "right", *((n, f"c{number}{n}", n + 11 * number) for n in range(10, 30)))
        made = joined.topology(spark, at.folder, wm.ForeachBatch(sink))
        for cache in ("first", "second") if name == "torn" else ("only",):
            query = made.start(
                spark, checkpoint=at.checkpoint, available_now=True, local_cache=str(at.folder / cache), shards=4
            )
            if cache == "first":
                with pytest.raises(Exception, match="killed behind the sink"):
                    query.awaitTermination()
            else:
                query.awaitTermination()
    assert [len(tries) for _, tries in sorted(sinks["torn"].batches.items())][:2] == [1, 2]
    assert joined.by_key(sinks["torn"].rows()) == joined.by_key(sinks["whole"].rows())


def test_a_changed_topology_goes_on_and_its_stores_are_read(spark: SparkSession, place: CheckpointPlace) -> None:
    sink, added = Collector(), Collector()

    def run(made: wm.Topology, **options: Any) -> None:
        made.start(spark, checkpoint=place.checkpoint, available_now=True, **options).awaitTermination()

    def stored(store: str, **options: Any) -> set[tuple[Any, ...]]:
        rows = wm.read_state(spark, place.checkpoint, store, **options).collect()
        return {(row["key"], row["value"]) for row in rows}

    old = changed.topology(spark, place.folder, wm.ForeachBatch(sink))
    for number in range(2):
        put(spark, place.folder / "in", (number, "a", number + 1), (7, "b", number + 1))
        run(old)
    new = changed.topology(spark, place.folder, wm.ForeachBatch(sink), more=wm.ForeachBatch(added))
    planned = wm.plan_change(place.checkpoint, new)
    assert {item.name for item in planned.started_empty} == {"others"}
    with pytest.raises(wm.ChangedTopology, match="belongs to another topology"):
        run(new)
    put(spark, place.folder / "other", (7, "X", 1), (1, "Y", 1))
    put(spark, place.folder / "in", (7, "a", 10))
    run(new, evolve=True, shards=6, tasks=3)
    assert [row[:2] for row in sink.rows() if row[0] == "a"] == [("a", "1"), ("a", "2"), ("a", "3")]
    assert [row[:2] for row in added.rows()] == [(7, "aX")]
    assert stored("latest") == {(0, "a"), (1, "a"), (7, "a")}
    assert {store.name for store in wm.stores(spark, place.checkpoint)} == {"latest", "counted.aggregate", "others"}
    # and back
    put(spark, place.folder / "in", (7, "c", 11))
    run(old, evolve=True)
    assert stored("latest") == {(0, "a"), (1, "a"), (7, "c")}


@pytest.mark.proof
def test_topologies_take_the_place_of_others_also_after_kills_and_each_record_is_written_once(
    spark: SparkSession, place: CheckpointPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deploy, "LONGEST_PAUSE", float("inf"))  # however slow the machine is
    records, folder = Records(spark, place.folder), place.folder
    options = {"checkpoint": place.checkpoint, "shards": 4, "tasks": 2, "trigger": "8 seconds"}

    def run(*, more: bool) -> None:
        """All that there is."""
        records.write()
        killed_change.run(spark, folder, more=more, checkpoint=place.checkpoint)

    put(spark, folder / "other", (1, "X", 1), (2, "Y", 1))
    run(more=False)
    query = killed_change.topology(spark, folder, more=False).start(spark, **options)
    with records.written_meanwhile():
        killed(killed_deployment, folder, True, "follow", place.checkpoint)
    assert query.isActive
    with records.written_meanwhile():
        killed(killed_deployment, folder, True, "recorded", place.checkpoint)
    records.write()
    with nullcontext() if place.has_lock else pytest.raises(Exception, match=PASSED_BY):
        query.awaitTermination()
    run(more=True)
    query = killed_change.topology(spark, folder, more=True).start(spark, **options)
    # in one process the running query ends behind its batch, with a lock or without one
    with records.written_meanwhile():
        changed_query = query.upgrade(killed_change.topology(spark, folder, more=False))
    assert query.exception() is None
    assert changed_query.drain()
    run(more=False)
    check_written(spark, folder, records.counts)


@pytest.mark.proof
def test_tables_begin_with_their_snapshots(spark: SparkSession, place: CheckpointPlace) -> None:
    sinks = {name: Collector(fail_in=0 if name == "limited" else None) for name in begun.SINKS}
    given = begun.snapshots(spark, place.folder)

    def run(**bootstrap: wm.Snapshot) -> None:
        made = begun.topology(spark, place.folder, sinks, **bootstrap)
        made.start(spark, checkpoint=place.checkpoint, available_now=True).awaitTermination()

    begun.load(spark, place.folder, begun.LOADED)
    with pytest.raises(Exception, match="killed behind the sink"):
        run(**given)
    for file in (place.folder / "snapshot").iterdir():
        file.unlink()
    run(**given)
    begun.load(spark, place.folder, begun.LATER)
    run()
    wanted = begun.expected()
    for name, sink in sinks.items():
        found = [(key, value, round(at.timestamp() * 1_000)) for key, value, at in sink.rows()]
        assert begun.by_key(found) == begun.by_key(wanted[name]), name
