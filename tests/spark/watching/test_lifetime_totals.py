"""The numbers that a checkpoint keeps of all its batches: each batch counts once, whatever fails in between."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from tests.spark.checkpoints.killing import killed
from tests.spark.inputs_and_outputs.test_streaming import Collector, put, run
from tests.spark.watching import killed_counts
from tests.spark.watching.test_metrics import send, topology
from watersmeet._spark.checkpoint.folders import Folder
from watersmeet._spark.checkpoint.record import look
from watersmeet._spark.metrics.lifetime import read
from watersmeet._spark.metrics.metrics import Metrics

DROPS = {("left", "null_key"): 1, ("right", "negative_timestamp"): 1}


def kept(spark: SparkSession, folder: Path) -> tuple[tuple[int | None, int], Metrics]:
    """Last batch and number of batches, and the numbers."""
    checkpoint = look(Folder(spark, str(folder / "cp"))).last
    assert checkpoint is not None
    found = read(checkpoint)
    assert found is not None
    return (found.totals.last, found.totals.batches), found.totals.metrics(active=False, at_ms=found.at_ms)


def newest(folder: Path, what: str) -> Path:
    return max(folder.joinpath("cp").glob(what), key=lambda file: file.stat().st_mtime_ns)


def test_a_batch_that_failed_or_was_run_again_counts_once_in_what_the_checkpoint_keeps(
    spark: SparkSession, tmp_path: Path
) -> None:
    send(spark, tmp_path)
    made = topology(spark, tmp_path, wm.ForeachBatch(Collector(fail_in=1)))
    with pytest.raises(Exception, match="killed behind the sink"):
        run(made, spark, tmp_path)
    counted, now = kept(spark, tmp_path)
    assert (counted, now.consumed, now.drops) == ((0, 1), {"left": 51, "right": 50}, {("left", "null_key"): 1})
    again = run(made, spark, tmp_path).metrics()
    counted, whole = kept(spark, tmp_path)
    assert (counted, whole.consumed, whole.drops) == ((1, 2), {"left": 77, "right": 66}, DROPS)
    assert {name: table.rows for name, table in whole.tables.items()} == {"both.left": 34, "both.right": 35}
    # the sizes of what its one batch did not touch are those that were kept
    assert again.tables == whole.tables
    assert whole.batch == again.batch
    # as a kill leaves it between the last batch's numbers and its commit, its commit being cut off
    for commit in tmp_path.joinpath("cp", "commits").glob("*1*"):
        commit.unlink()
    for commit in tmp_path.joinpath("cp", "commits").glob(".*1*"):
        commit.unlink()
    assert kept(spark, tmp_path)[0] == (0, 1)
    run(made, spark, tmp_path)
    counted, now = kept(spark, tmp_path)
    assert (counted, now.consumed, now.drops) == ((1, 2), whole.consumed, DROPS)
    put(spark, tmp_path / "left", (None, "no key", 300))
    run(made, spark, tmp_path)
    counted, now = kept(spark, tmp_path)
    assert (counted, now.drops) == ((2, 3), DROPS | {("left", "null_key"): 2})
    # numbers that were cut off are those of the batch before
    file = tmp_path / "cp" / "watersmeet" / "totals" / "0"
    file.write_bytes(file.read_bytes()[:-9])
    assert kept(spark, tmp_path)[0] == (1, 2)
    # what an earlier life of the folder has left is not counted
    for name in ("offsets", "commits", "sources", "state"):
        shutil.rmtree(tmp_path / "cp" / name)
    (tmp_path / "cp" / "metadata").unlink()
    run(made, spark, tmp_path)
    counted, now = kept(spark, tmp_path)
    assert (counted, now.drops) == ((2, 3), DROPS | {("left", "null_key"): 2})


def test_after_kill_9_at_any_moment_of_a_batch_no_record_counts_twice_and_none_is_lost(
    spark: SparkSession, tmp_path: Path
) -> None:
    for first in (0, 6, 12):
        put(spark, tmp_path / "in", *((n, "v", n) for n in range(first, first + 12)), (None, "no key", 1))
    for moment in ("task", "reported", "written", "committed"):
        killed(killed_counts, tmp_path, moment)
    killed_counts.run(spark, tmp_path)
    counted, now = kept(spark, tmp_path)
    assert counted == (2, 3)
    assert (now.consumed, now.produced, now.drops) == ({"in": 39}, {"out": 36}, {("count-in", "null_key"): 3})
    (operator,) = now.operators.values()
    assert (operator.processed, operator.forwarded) == (36, 36)
    assert {name: table.rows for name, table in now.tables.items()} == {"counts": 24}
    assert now.latency["in"].records == 39
