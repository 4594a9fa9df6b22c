"""A query that is drained ends between two batches: the next start has nothing to run again."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from tests.spark.inputs_and_outputs.test_streaming import Collector, put, reader
from watersmeet.errors import ConfigError, SinkError

FILES = 6


class Pausing(Collector):
    """A sink that, in its second batch, says so and waits until it may go on."""

    def __init__(self, fail_in: int | None = None) -> None:
        super().__init__(fail_in)
        self.reached, self.go_on = threading.Event(), threading.Event()

    def __call__(self, frame: Any, batch: int) -> None:
        super().__call__(frame, batch)
        if batch == 1:
            self.reached.set()
            assert self.go_on.wait(600)


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    for file in range(FILES):
        put(spark, tmp_path / "in", *((n, f"{file}", 10 * file) for n in range(5)), (9, "no time", -5))
    yield tmp_path
    for query in spark.streams.active:
        query.stop()


def started(spark: SparkSession, folder: Path, sink: Any, **options: Any) -> Any:
    """One file a batch, into a table, out again."""
    b = wm.StreamsBuilder("drained")
    source = b.table(reader(spark, folder / "in"), name="in", key="k", value="v", timestamp="ts", store="kept")
    source.to(sink, name="out")
    given = {"checkpoint": folder / "cp", "local_cache": folder / "cache", **options}
    return b.build().start(spark, **given)


def logged(folder: Path, log: str) -> list[int]:
    return sorted(int(path.name) for path in (folder / "cp" / log).iterdir() if path.name.isdigit())


def drain_behind_its_batch(query: Any, sink: Pausing) -> bool:
    """Drain while the second batch is being written; it is let go on only when the gate is closed."""
    assert sink.reached.wait(600)
    assert query.drain(timeout=0) is False
    sink.go_on.set()
    return bool(query.drain())


def test_the_batch_under_way_is_finished_and_the_next_start_runs_nothing_again(
    spark: SparkSession, folder: Path
) -> None:
    sink = Pausing()
    query = started(spark, folder, wm.ForeachBatch(sink))
    assert drain_behind_its_batch(query, sink)
    assert not query.isActive
    assert query.exception() is None
    assert logged(folder, "offsets") == logged(folder, "commits") == [0, 1]
    started(spark, folder, wm.ForeachBatch(sink), available_now=True).awaitTermination()
    assert {batch: len(tries) for batch, tries in sink.batches.items()} == dict.fromkeys(range(FILES), 1)
    assert [value for key, value, _ in sink.rows() if key == 3] == [str(file) for file in range(FILES)]


def test_an_idle_query_is_drained_at_once_and_a_drained_one_again(spark: SparkSession, folder: Path) -> None:
    sink = Collector()
    query = started(spark, folder, wm.ForeachBatch(sink), name="drained")
    query.processAllAvailable()
    assert repr(query) == f"Query('drained', active, checkpoint={str(folder / 'cp')!r})"
    assert {"drain", "drops", "lastProgress", "isActive", "stop"} <= set(dir(query))
    assert query.drain()
    assert "ended" in repr(query)
    assert query.drain(timeout=0)
    query.stop()
    assert logged(folder, "offsets") == logged(folder, "commits") == list(range(FILES))


def test_a_query_that_has_failed_says_so_when_it_is_drained(spark: SparkSession, folder: Path) -> None:
    sink = Pausing(fail_in=2)
    query = started(spark, folder, wm.ForeachBatch(sink))
    sink.go_on.set()
    with pytest.raises(SinkError, match="killed behind the sink"):
        query.awaitTermination()
    for _ in range(2):
        with pytest.raises(SinkError, match="killed behind the sink"):
            query.drain()


def test_a_batch_that_fails_while_the_query_is_drained_is_raised(spark: SparkSession, folder: Path) -> None:
    class Failing(Pausing):
        def __call__(self, frame: Any, batch: int) -> None:
            super().__call__(frame, batch)
            assert batch != 1, "killed at the gate"

    sink = Failing()
    query = started(spark, folder, wm.ForeachBatch(sink))
    with pytest.raises(SinkError, match="killed at the gate"):
        drain_behind_its_batch(query, sink)
    assert logged(folder, "commits") == [0]


def test_behind_one_spark_writer_the_batch_is_run_to_its_end(spark: SparkSession, folder: Path) -> None:
    out = wm.Writer("parquet", path=str(folder / "out"))
    query = started(spark, folder, out)
    while query.lastProgress is None:
        query.awaitTermination(0.05)
    assert query.drain()
    assert logged(folder, "offsets") == logged(folder, "commits")
    assert query.drops == {("in", "negative_timestamp"): len(logged(folder, "commits"))}
    started(spark, folder, out, available_now=True).awaitTermination()
    rows = spark.read.parquet(str(folder / "out"))
    assert sorted((row["key"], row["value"]) for row in rows.collect()) == sorted(
        (n, f"{file}") for n in range(5) for file in range(FILES)
    )


def test_without_threads_of_their_own_draining_is_refused(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = started(spark, folder, wm.ForeachBatch(Collector()))
    monkeypatch.setenv("PYSPARK_PIN_THREAD", "false")
    with pytest.raises(ConfigError, match=r"query\.drain\(\) does not work with PYSPARK_PIN_THREAD=false"):
        query.drain()
    query.stop()


def test_ctrl_c_drains_the_query_that_a_program_waits_for_and_a_second_one_stops_it(
    spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sink = Pausing()
    query = started(spark, folder, wm.ForeachBatch(sink))

    def press() -> None:
        assert sink.reached.wait(600)
        os.kill(os.getpid(), signal.SIGINT)
        while not query._gate.closed:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        # it is stopped although its batch is not written yet
        while query.streaming.isActive:
            time.sleep(0.01)
        sink.go_on.set()

    pressing = threading.Thread(target=press)
    before = signal.getsignal(signal.SIGINT)
    pressing.start()
    query.awaitTermination()
    pressing.join()
    assert signal.getsignal(signal.SIGINT) is before
    assert not query.isActive
    assert logged(folder, "offsets") == [0, 1]
    assert capsys.readouterr().err.count("Ctrl-C again stops it at once") == 1
