"""A driver that is killed while its topology takes the place of a running one: each record is written once."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from tests.spark.changes import killed_deployment
from tests.spark.changes.killed_change import run, topology
from tests.spark.checkpoints.killing import killed
from tests.spark.inputs_and_outputs.test_streaming import put

BESIDE = (
    *("clear", "copy_running", "gather", "carry_state", "number_state", "write_logs", "carry"),
    *("prepare", "follow", "catch_up", "compare"),
)
"""Moments at which the running topology goes on."""
SWITCH = ("lease", "pending", "finish", "recorded")


class Records:
    """Writes files of records while others do something, and knows how often each value was written."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder
        self._rng, self._time = random.Random(7), 0
        self.counts = Counter[str]()

    def write(self) -> None:
        self._time += 1
        rows = [(self._rng.randrange(5), self._rng.choice("abc"), self._time) for _ in range(3)]
        put(self._spark, self._folder / "in", *rows)
        self.counts.update(value for _, value, _ in rows)

    @contextmanager
    def written_meanwhile(self) -> Iterator[None]:
        """A file every few seconds: a batch of the changed topology takes longer than one of the running one."""
        done = threading.Event()

        def follow() -> None:
            while not done.wait(4.0):
                self.write()

        thread = threading.Thread(target=follow)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def check_written(spark: SparkSession, folder: Path, counts: Counter[str]) -> None:
    """Each record has counted once: the counts of a value go up by one, without a gap and without a double."""
    written = spark.read.parquet(str(folder / "counts")).orderBy("batch_id", "sequence").collect()
    for value, count in counts.items():
        assert [row["value"] for row in written if row["key"] == value] == [*map(str, range(1, count + 1))]


@pytest.mark.parametrize(
    "moments",
    [
        ("follow", "lease", "recorded"),
        *(pytest.param(moments, marks=pytest.mark.proof) for moments in (BESIDE[:6], BESIDE[6:], SWITCH, SWITCH * 2)),
    ],
    ids=["three", "copied", "followed", "switched", "switched_twice"],
)
def test_a_driver_that_is_killed_while_it_deploys_leaves_the_checkpoint_to_one_topology(
    spark: SparkSession, tmp_path: Path, moments: tuple[str, ...]
) -> None:
    records, more = Records(spark, tmp_path), False
    put(spark, tmp_path / "other", (1, "X", 1), (2, "Y", 1))
    records.write()
    for moment in moments:
        made = topology(spark, tmp_path, more=more)
        running = made.start(spark, checkpoint=str(tmp_path / "cp"), shards=4, tasks=2, trigger="8 seconds")
        running.processAllAvailable()
        with records.written_meanwhile():
            killed(killed_deployment, tmp_path, not more, moment)
        if moment in BESIDE:
            assert running.isActive, moment
            running.processAllAvailable()
            assert running.drain()
        else:
            running.awaitTermination()
        records.write()
        if moment == "recorded":
            with pytest.raises(wm.ChangedTopology):
                run(spark, tmp_path, more=more)
            more = not more
        run(spark, tmp_path, more=more)
        check_written(spark, tmp_path, records.counts)
    made = topology(spark, tmp_path, more=more)
    running = made.start(spark, checkpoint=str(tmp_path / "cp"), shards=4, tasks=2, trigger="8 seconds")
    with records.written_meanwhile():
        run(spark, tmp_path, more=not more, deploy=True)
    assert not running.isActive
    run(spark, tmp_path, more=not more)
    check_written(spark, tmp_path, records.counts)
