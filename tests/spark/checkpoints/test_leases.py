"""One query per checkpoint: who comes second is told so, and nobody is kept out by one who is gone."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import watersmeet as wm
from tests.spark.inputs_and_outputs.test_streaming import Collector, put, run, topology
from watersmeet._spark.checkpoint import lease as leases
from watersmeet._spark.checkpoint import spark_logs
from watersmeet._spark.checkpoint.folders import Folder, local_folder
from watersmeet._spark.checkpoint.lease import Epochs
from watersmeet._spark.checkpoint.record import CheckpointFiles
from watersmeet._spark.checkpoint.spark_logs import reads_nothing
from watersmeet._spark.query import start as starting

HOLD = """
import sys
from watersmeet._spark.checkpoint import lease as leases
lease = leases.take(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held_elsewhere(checkpoint: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the checkpoint, until it is killed."""
    program = [sys.executable, "-c", HOLD, str(checkpoint)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        yield other
        other.kill()


def test_a_second_query_of_this_process_is_refused_and_the_first_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    put(spark, tmp_path / "left", (1, "a", 1))
    sink = Collector()
    made = topology(spark, tmp_path, wm.ForeachBatch(sink))
    first = made.start(spark, checkpoint=str(tmp_path / "cp"), local_cache=None)
    for checkpoint in (tmp_path / "cp", f"file://{tmp_path}/cp/"):
        with pytest.raises(wm.ConfigError, match=r"already\.\nGiven: .*, in this process\nHint: Stop it first"):
            made.start(spark, checkpoint=str(checkpoint))
    put(spark, tmp_path / "right", (1, "b", 2))
    first.processAllAvailable()
    first.stop()
    assert [row[1] for row in sink.rows()] == ["a-", "ab"]
    put(spark, tmp_path / "right", (1, "c", 3))
    run(made, spark, tmp_path)
    assert [row[1] for row in sink.rows()] == ["a-", "ab", "ac"]


def test_a_query_that_failed_keeps_nobody_out_though_nobody_asked_it_why(spark: SparkSession, tmp_path: Path) -> None:
    put(spark, tmp_path / "left", (1, "a", 1))
    sink = Collector(fail_in=0)
    made = topology(spark, tmp_path, wm.ForeachBatch(sink))
    failed = made.start(spark, checkpoint=str(tmp_path / "cp"), local_cache=None)
    with pytest.raises(StreamingQueryException):
        failed.streaming.awaitTermination()
    run(made, spark, tmp_path)
    assert len(sink.batches[0]) == 2


def test_a_start_that_fails_leaves_the_checkpoint_free(spark: SparkSession, tmp_path: Path) -> None:
    put(spark, tmp_path / "left", (1, "a", 1))
    made = topology(spark, tmp_path, wm.ForeachBatch(Collector()))
    for _ in range(2):
        with pytest.raises(wm.ConfigError, match="is more than shards"):
            made.start(spark, checkpoint=str(tmp_path / "cp"), shards=1, tasks=2)
    run(made, spark, tmp_path)


def test_another_process_of_this_machine_is_refused_until_the_first_has_died(tmp_path: Path) -> None:
    (tmp_path / "watersmeet").mkdir()
    with held_elsewhere(tmp_path) as other:
        with pytest.raises(wm.ConfigError, match="in another process of this machine"):
            leases.take(str(tmp_path))
        other.kill()
        other.wait()
        leases.take(str(tmp_path)).release()


def test_a_checkpoint_that_begins_is_locked_as_soon_as_it_is_there(tmp_path: Path) -> None:
    checkpoint = tmp_path / "new"
    lease = leases.take(str(checkpoint))
    (checkpoint / "watersmeet").mkdir(parents=True)
    lease.secure()
    program = [sys.executable, "-c", HOLD, str(checkpoint)]
    other = subprocess.run(program, capture_output=True, text=True, check=False, input="")
    assert "in another process" in other.stderr
    lease.release()
    lease.release()
    assert subprocess.run(program, capture_output=True, text=True, check=True, input="").stdout == "held\n"


def records(checkpoint: Path) -> list[dict[str, Any]]:
    files = (checkpoint / "watersmeet" / "topology").glob("part-*.txt")
    return sorted((json.loads(file.read_text()) for file in files), key=lambda row: row["number"])


def behind_the_first_look(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], None]) -> None:
    """Have something happen when the next start has looked into its checkpoint, and has no lease yet."""
    look, left = starting.look, [happens]

    def looked(folder: Folder) -> CheckpointFiles:
        found = look(folder)
        if left:
            left.pop()()
        return found

    monkeypatch.setattr(starting, "look", looked)


def test_of_two_first_starts_the_one_that_is_refused_leaves_no_record(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(spark, tmp_path / "left", (1, "a", 1))
    made, checkpoint = topology(spark, tmp_path, wm.ForeachBatch(Collector())), tmp_path / "cp"
    others: list[Any] = []

    def another_takes_it() -> None:
        (checkpoint / "watersmeet").mkdir(parents=True)
        other = held_elsewhere(checkpoint)
        other.__enter__()
        others.append(other)

    behind_the_first_look(monkeypatch, another_takes_it)
    with pytest.raises(wm.ConfigError, match="in another process of this machine"):
        made.start(spark, checkpoint=str(checkpoint), available_now=True)
    assert records(checkpoint) == []
    with suppress(Exception):
        others[0].__exit__(None, None, None)
    run(made, spark, tmp_path)
    assert [row["number"] for row in records(checkpoint)] == [0]


def test_a_start_goes_by_what_another_has_recorded_between_its_look_and_its_lease(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(spark, tmp_path / "left", (1, "a", 1))
    sink = Collector()
    made, checkpoint = topology(spark, tmp_path, wm.ForeachBatch(sink)), tmp_path / "cp"
    run(made, spark, tmp_path)
    (recorded,) = records(checkpoint)
    assert len(sink.rows()) == 1
    checkpoint.rename(tmp_path / "others")
    behind_the_first_look(monkeypatch, lambda: shutil.copytree(tmp_path / "others", checkpoint))
    run(made, spark, tmp_path)
    # it has gone on with the other's batches, under the other's identity
    assert [row["id"] for row in records(checkpoint)] == [recorded["id"]]
    assert len(sink.rows()) == 1


def test_a_query_whose_checkpoint_was_taken_over_gives_nothing_more_to_its_outputs(
    spark: SparkSession, tmp_path: Path
) -> None:
    put(spark, tmp_path / "left", (1, "a", 1))
    sink, checkpoint = Collector(), tmp_path / "cp"
    query = topology(spark, tmp_path, wm.ForeachBatch(sink)).start(
        spark, checkpoint=str(checkpoint), local_cache=str(tmp_path / "cache")
    )
    query.processAllAvailable()
    (checkpoint / "watersmeet" / "epochs" / "0000000002").write_text('{"owner": "b", "who": "another machine"}')
    put(spark, tmp_path / "right", (1, "b", 2))
    with pytest.raises(
        wm.ConfigError, match=r"taken this checkpoint over(.|\n)*epoch 1, epoch 2 was taken by another machine"
    ):
        query.processAllAvailable()
    query.stop()
    assert [row[1] for row in sink.rows()] == ["a-"]
    assert not (checkpoint / "commits" / "1").exists()


def test_each_start_has_the_next_epoch_and_says_when_it_has_ended(spark: SparkSession, tmp_path: Path) -> None:
    put(spark, tmp_path / "left", (1, "a", 1))
    made = topology(spark, tmp_path, wm.ForeachBatch(Collector()))
    for _ in range(2):
        run(made, spark, tmp_path)
    names = sorted(file.name for file in (tmp_path / "cp" / "watersmeet" / "epochs").iterdir())
    assert names == ["0000000001", "0000000001.ended", "0000000002", "0000000002.ended"]
    assert [row["epoch"] for row in records(tmp_path / "cp")] == [1]


@contextmanager
def running_elsewhere(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Epochs]:
    """A checkpoint with a batch, on a file system without locks, and the epoch of a query that runs on it."""
    put(spark, tmp_path / "left", (1, "a", 1))
    run(topology(spark, tmp_path, wm.ForeachBatch(Collector())), spark, tmp_path)
    monkeypatch.setattr(leases.MachineLease, "_lock", lambda *_: None)
    running = Epochs(local_folder(tmp_path / "cp/watersmeet/epochs"), "a", "another machine", "cp")
    running.take()
    yield running


def test_no_refused_start_ends_the_query_that_runs_where_no_lock_works(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = wm.ForeachBatch(Collector())
    same, other = topology(spark, tmp_path, sink), topology(spark, tmp_path, sink, how="left_join")
    with running_elsewhere(spark, tmp_path, monkeypatch) as running:
        before = sorted(file for file in (tmp_path / "cp").rglob("*") if not file.name.endswith("lock"))
        for made, options in ((other, {}), (same, {"shards": 8}), (same, {"tasks": 3})):
            with pytest.raises(wm.ChangedTopology):
                made.start(spark, checkpoint=str(tmp_path / "cp"), **options)
            running.check()
        assert sorted(file for file in (tmp_path / "cp").rglob("*") if not file.name.endswith("lock")) == before


@pytest.mark.parametrize("step", ["_hand_over", "_record"])
def test_a_takeover_that_fails_before_it_writes_gives_the_checkpoint_back(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    made = topology(spark, tmp_path, wm.ForeachBatch(Collector()))

    def fails(*_: Any) -> None:
        with pytest.raises(wm.ConfigError, match="taken this checkpoint over"):
            running.check()
        raise OSError("no space left")

    with running_elsewhere(spark, tmp_path, monkeypatch) as running:
        with monkeypatch.context() as broken:
            broken.setattr(starting._Start, step, fails)
            with pytest.raises(OSError, match="no space left"):
                made.start(spark, checkpoint=str(tmp_path / "cp"))
        running.check()
        assert not (tmp_path / "cp/offsets/1").exists()
        run(made, spark, tmp_path)
        with pytest.raises(wm.ConfigError, match="taken this checkpoint over"):
            running.check()


def test_a_takeover_goes_by_the_batch_that_the_first_query_has_planned_meanwhile(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, plans = topology(spark, tmp_path, wm.ForeachBatch(Collector())), tmp_path / "cp/offsets"
    seen: list[int] = []
    planned = spark_logs.checked_last_batch

    def noted(*given: Any, **named: Any) -> int:
        seen.append(planned(*given, **named))
        return seen[-1]

    monkeypatch.setattr(spark_logs, "checked_last_batch", noted)
    with running_elsewhere(spark, tmp_path, monkeypatch):
        secure = leases.MachineLease.secure

        def plans_first(lease: leases.MachineLease) -> bool:
            if not (plans / "1").exists():
                shutil.copy(plans / "0", plans / "1")
            return secure(lease)

        monkeypatch.setattr(leases.MachineLease, "secure", plans_first)
        seen.clear()
        run(made, spark, tmp_path)
    assert seen == [0, 1]
    assert (tmp_path / "cp/commits/1").exists()


def test_a_query_that_runs_elsewhere_without_a_batch_can_plan_none_behind_a_takeover(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Collector()
    made, plans = topology(spark, tmp_path, wm.ForeachBatch(sink)), tmp_path / "cp/offsets"
    with running_elsewhere(spark, tmp_path, monkeypatch):
        run(made, spark, tmp_path)
        # the number that the other one would plan next
        assert reads_nothing(Folder(spark, str(tmp_path / "cp")), 1)
        assert (tmp_path / "cp/commits/1").exists()
        assert not Folder(spark, str(plans)).log("1", "late", None)
        put(spark, tmp_path / "right", (1, "b", 2))
        run(made, spark, tmp_path)
    assert [row[1] for row in sink.rows()] == ["ab"]
    assert sorted(file.name for file in plans.iterdir() if not file.name.startswith(".")) == ["0", "1", "2"]


def test_a_changed_topology_is_refused_where_nobody_finishes_the_batch_that_another_one_has_planned(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = topology(spark, tmp_path, wm.ForeachBatch(Collector()))
    monkeypatch.setattr(leases, "BATCH_SECONDS", 0.0)
    with running_elsewhere(spark, tmp_path, monkeypatch) as running:
        plan = (tmp_path / "cp/offsets/0").read_text()
        (tmp_path / "cp/offsets/1").write_text(plan.replace('"logOffset":0', '"logOffset":1'))
        with pytest.raises(wm.ChangedTopology, match="A planned batch is not finished"):
            made.start(spark, checkpoint=str(tmp_path / "cp"), evolve=True, shards=6, tasks=3)
        running.check()
