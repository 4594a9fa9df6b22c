"""A driver that is killed while its topology takes the place of a running one: each record is written once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from tests.spark.changes import killed_deployment, running_topology
from tests.spark.changes.killed_change import run, topology
from tests.spark.changes.test_deployed_topology import behind
from tests.spark.checkpoints.killing import killed
from tests.spark.inputs_and_outputs.test_streaming import put
from tests.spark.serving.kit import repeated, until
from watersmeet._spark.checkpoint import lease as leases
from watersmeet._spark.checkpoint.folders import Folder
from watersmeet._spark.checkpoint.record import CheckpointFiles, look
from watersmeet._spark.deploy import Deployment

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

    def written_meanwhile(self) -> AbstractContextManager[None]:
        """A file every few seconds: a batch of the changed topology takes longer than one of the running one."""
        return repeated(self.write)


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


class RunningElsewhere:
    """The running topology in a process of its own, which is killed behind a batch or within one."""

    def __init__(self, spark: SparkSession, folder: Path, records: Records) -> None:
        self._spark, self._folder, self._records = spark, folder, records
        program = [sys.executable, "-m", running_topology.__name__, str(folder), "False"]
        root = Path(__file__).resolve().parents[3]
        self._process = subprocess.Popen(program, cwd=root, stderr=subprocess.DEVNULL, start_new_session=True)

    @property
    def _files(self) -> CheckpointFiles:
        return look(Folder(self._spark, str(self._folder / "cp")))

    @property
    def was_killed(self) -> bool:
        return self._process.returncode == -signal.SIGKILL

    def write(self) -> None:
        """Have one more batch committed."""
        committed = self._files.ends[1]
        self._records.write()
        until(lambda: self._files.ends[1] > committed)

    def write_without_commit(self) -> None:
        """Have one more batch written that will not be committed."""
        (self._folder / running_topology.HOLD).touch()
        self._records.write()
        until(lambda: self._files.unfinished)

    def kill(self) -> None:
        """Kill it, and its JVM; again is no error."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def kill_when_asked(self) -> None:
        """Kill it as soon as the next topology asks it to end."""

        def follow() -> None:
            epochs = self._folder / "cp" / leases.FOLDER
            until(lambda: any(file.name.endswith(".asked") for file in epochs.iterdir()))
            self.kill()

        threading.Thread(target=follow).start()

    def kill_at(self, moment: str, monkeypatch: pytest.MonkeyPatch, *, within_batch: bool) -> None:
        """Have it killed at one of `OF_RUNNING` of the next deployment, when it has a batch to catch up with."""
        moments = [moment]

        def act() -> None:
            if moments:
                moments.clear()
                if within_batch:
                    self.write_without_commit()
                (self.kill_when_asked if moment == "asked" else self.kill)()

        def take_lease(deployment: Deployment) -> Any:
            act()
            return take(deployment)

        behind(monkeypatch, "prepare", self.write)
        if moment in ("lease", "asked"):
            take = Deployment.lease
            monkeypatch.setattr(Deployment, "lease", take_lease)
        else:
            behind(monkeypatch, moment, act)


OF_RUNNING = ("prepare", "follow", "compare", "lease", "asked")
"""Moments at which the running topology is killed: behind a step of the deployment, or before it has the lease."""


@pytest.mark.parametrize("within_batch", [False, True], ids=["between_batches", "within_a_batch"])
@pytest.mark.parametrize(
    "moment",
    [pytest.param(moment, marks=() if moment in ("follow", "lease") else pytest.mark.proof) for moment in OF_RUNNING],
)
def test_a_running_topology_that_is_killed_leaves_its_place_or_a_batch_that_it_has_to_finish(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, within_batch: bool
) -> None:
    monkeypatch.setattr(leases, "BATCH_SECONDS", 1.0)
    records = Records(spark, tmp_path)
    put(spark, tmp_path / "other", (1, "X", 1), (2, "Y", 1))
    running = RunningElsewhere(spark, tmp_path, records)
    try:
        running.write()
        running.kill_at(moment, monkeypatch, within_batch=within_batch)
        refusal = pytest.raises(wm.ChangedTopology, match="A planned batch is not finished")
        with refusal if within_batch else nullcontext():
            run(spark, tmp_path, more=True, deploy=True)
        assert running.was_killed or moment == "asked"
    finally:
        running.kill()
    monkeypatch.undo()
    if within_batch:
        run(spark, tmp_path, more=False)
        check_written(spark, tmp_path, records.counts)
        run(spark, tmp_path, more=True, deploy=True)
    records.write()
    run(spark, tmp_path, more=True)
    check_written(spark, tmp_path, records.counts)
