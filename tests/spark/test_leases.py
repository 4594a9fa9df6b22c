"""One query per checkpoint: who comes second is told so, and nobody is kept out by one who is gone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import millpond as mp
from millpond._spark.query import leases
from tests.spark.test_streaming import Collector, put, run, topology

HOLD = """
import sys
from millpond._spark.query import leases
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
    made = topology(spark, tmp_path, mp.ForeachBatch(sink))
    first = made.start(spark, checkpoint=str(tmp_path / "cp"), local_cache=None)
    for checkpoint in (tmp_path / "cp", f"file://{tmp_path}/cp/"):
        with pytest.raises(mp.ConfigError, match=r"already\.\nGiven: .*, in this process\nHint: Stop it first"):
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
    made = topology(spark, tmp_path, mp.ForeachBatch(sink))
    failed = made.start(spark, checkpoint=str(tmp_path / "cp"), local_cache=None)
    with pytest.raises(StreamingQueryException):
        failed.streaming.awaitTermination()
    run(made, spark, tmp_path)
    assert len(sink.batches[0]) == 2


def test_a_start_that_fails_leaves_the_checkpoint_free(spark: SparkSession, tmp_path: Path) -> None:
    put(spark, tmp_path / "left", (1, "a", 1))
    made = topology(spark, tmp_path, mp.ForeachBatch(Collector()))
    for _ in range(2):
        with pytest.raises(mp.ConfigError, match="at most as many tasks"):
            made.start(spark, checkpoint=str(tmp_path / "cp"), shards=1, tasks=2)
    run(made, spark, tmp_path)


def test_another_process_of_this_machine_is_refused_until_the_first_has_died(tmp_path: Path) -> None:
    (tmp_path / "millpond").mkdir()
    with held_elsewhere(tmp_path) as other:
        with pytest.raises(mp.ConfigError, match="in another process of this machine"):
            leases.take(str(tmp_path))
        other.kill()
        other.wait()
        leases.take(str(tmp_path)).release()


def test_a_checkpoint_that_begins_is_locked_as_soon_as_it_is_there(tmp_path: Path) -> None:
    checkpoint = tmp_path / "new"
    lease = leases.take(str(checkpoint))
    (checkpoint / "millpond").mkdir(parents=True)
    lease.secure()
    program = [sys.executable, "-c", HOLD, str(checkpoint)]
    other = subprocess.run(program, capture_output=True, text=True, check=False, input="")
    assert "in another process" in other.stderr
    lease.release()
    lease.release()
    assert subprocess.run(program, capture_output=True, text=True, check=True, input="").stdout == "held\n"
