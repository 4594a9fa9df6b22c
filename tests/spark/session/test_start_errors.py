"""What a start refuses, or warns of, before anything runs: errors of watersmeet with hints, none of the JVM's."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from tests.spark.inputs_and_outputs.test_streaming import put, reader
from watersmeet._spark.outputs.files import warn_of_replays
from watersmeet._spark.query import failures
from watersmeet._spark.query.start import StartOptions, layout_of
from watersmeet.errors import SinkError

Start = Callable[..., Any]


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path) -> Start:
    put(spark, tmp_path / "in", (1, "a", 1))

    def started(*sinks: Any, checkpoint: str | None = None, **options: Any) -> Any:
        b = wm.StreamsBuilder("refused")
        stream = b.stream(reader(spark, tmp_path / "in"), name="in", key="k", value="v", timestamp="ts")
        for number, sink in enumerate(sinks):
            stream.to(sink, name=f"out{number}")
        return b.build().start(spark, checkpoint=checkpoint or str(tmp_path / "cp"), local_cache=None, **options)

    return started


def test_an_unknown_format_is_refused_and_nothing_is_recorded(start: Start, tmp_path: Path) -> None:
    for more in ((), (wm.Writer("noop"),)):
        with pytest.raises(wm.ConfigError, match=r"Unknown format 'excel' of wm\.Writer(.|\n)*Hint: "):
            start(wm.Writer("excel", path="/nowhere"), *more)
    assert not (tmp_path / "cp").exists()


def test_a_checkpoint_that_cannot_be_written_is_refused(start: Start, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for checkpoint in (tmp_path / "file", tmp_path / "file" / "cp", "nosuch://x", "nosuch://host/cp"):
        with pytest.raises(wm.ConfigError, match=r"The checkpoint cannot be written(.|\n)*Hint: Give a folder"):
            start(wm.Writer("noop"), checkpoint=str(checkpoint))


@pytest.mark.parametrize("trigger", ["nonsense", "1 fortnight", 5, "-1 second"])
def test_a_trigger_that_is_no_duration_is_refused(trigger: Any) -> None:
    with pytest.raises(wm.WatersmeetError, match=rf"{re.escape(repr(trigger))}\.\nHint: "):
        StartOptions(trigger=trigger)
    assert StartOptions(trigger="1 minute").trigger_options == {"processingTime": "60000 milliseconds"}


def test_a_format_that_may_write_a_replayed_batch_twice_is_warned_of() -> None:
    with pytest.warns(UserWarning, match=r"written twice by the format 'jdbc'(.|\n)*Hint: take wm.ForeachBatch"):
        warn_of_replays(wm.Writer("jdbc", url="u"), single=False)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["parquet", "delta", "memory", "console", "noop", "json"])
def test_a_format_that_holds_a_replayed_batch_once_is_not_warned_of(kind: str) -> None:
    warn_of_replays(wm.Writer(kind, path="p"), single=False)
    warn_of_replays(wm.Writer("iceberg", path="p"), single=True)


def test_of_fewer_shards_than_cores_there_are_as_many_tasks_as_shards() -> None:
    assert layout_of(StartOptions(shards=1), None, parallelism=4) == (1, 1)
    assert layout_of(StartOptions(), None, parallelism=4) == (8, 4)


def test_a_writer_whose_path_is_a_file_is_refused(start: Start, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for path in (tmp_path / "file", tmp_path / "file" / "out"):
        with pytest.raises(wm.ConfigError, match=r"its path is a file: '.*/file'(.|\n)*Hint: Name a folder"):
            start(wm.Writer("parquet", path=str(path)))
    with pytest.raises(wm.ConfigError, match=r"/proc/out.* cannot write to its path: (.|\n)*Hint: Give a folder"):
        start(wm.Writer("parquet", path="/proc/out"))
    with pytest.raises(wm.ConfigError, match=r's3://bucket/out.*No FileSystem for scheme "s3"(.|\n)*s3a://'):
        start(wm.Writer("json", path="s3://bucket/out"))
    with pytest.raises(wm.ConfigError, match=r"does not write streams to a database(.|\n)*Hint: .*wm.DatabaseTable"):
        start(wm.Writer("jdbc", url="jdbc:sqlite:/x"))


def test_a_function_of_batches_that_raises_ends_the_query_with_its_own_line_in_few_lines(start: Start) -> None:
    def write(frame: Any, batch: int) -> None:
        raise ValueError("no such shop")

    query = start(wm.ForeachBatch(write), available_now=True)
    with pytest.raises(SinkError, match="The output 'out0' raised ValueError: no such shop") as error:
        query.awaitTermination()
    assert re.search(rf"Given: write, line \d+ of {re.escape(__file__)}, batch 0", str(error.value))
    assert len(traceback.format_exception(error.value)) < 15
    assert len("".join(traceback.format_exception(error.value)).splitlines()) < 40


def test_a_misspelt_method_in_a_function_of_batches_is_the_functions_own_mistake(start: Start) -> None:
    def write(frame: Any, batch: int) -> None:
        frame.selct("key")

    query = start(wm.ForeachBatch(write), available_now=True)
    with pytest.raises(SinkError, match=r"The output 'out0' raised PySparkAttributeError: .*selct") as error:
        query.awaitTermination()
    assert f"of {__file__}, batch 0" in str(error.value)


def test_a_function_of_batches_that_the_jvm_lets_down_is_told_with_its_line(start: Start) -> None:
    def write(frame: Any, batch: int) -> None:
        frame.write.parquet("/proc/out")

    query = start(wm.ForeachBatch(write), available_now=True)
    with pytest.raises(SinkError, match=r"wm\.ForeachBatch failed: ") as error:
        query.awaitTermination()
    assert f"of {__file__}" in str(error.value)


def test_packages_that_sparks_workers_lack_are_said() -> None:
    said = RuntimeError("PythonException: ModuleNotFoundError: No module named 'pyarrow'\n at org.x")
    error = failures.translate(said, "/cp")
    assert isinstance(error, wm.ConfigError)
    assert "workers lack a package" in error.message
    assert "PYSPARK_PYTHON" in str(error.hint)


def test_what_spark_says_of_an_end_is_shown_without_its_plan_and_its_stacks(start: Start) -> None:
    def write(frame: Any, batch: int) -> None:
        frame.selectExpr("raise_error('enough')").collect()

    query = start(wm.ForeachBatch(write), available_now=True)
    with pytest.raises(Exception, match="enough") as error:
        query.awaitTermination()
    printed = "".join(traceback.format_exception(error.value))
    assert "=== Streaming Query ===" not in printed
    assert len(printed.splitlines()) < 60


@pytest.mark.parametrize(
    ("refused", "wanted"),
    [
        (OSError(28, "No space left on device"), "No space is left .*Hint: Make room"),
        (
            Exception("java.io.IOException: No space left on device\n\tat x\nHint: allow_partition_change=True"),
            "No space",
        ),
        (OSError(24, "Too many open files"), "may not open more files.*Hint: .*ulimit -n 4096"),
    ],
)
def test_a_limit_of_the_system_is_named_with_its_cure(refused: Exception, wanted: str) -> None:
    found = failures.of_start(refused, "/cp")
    assert isinstance(found, wm.ConfigError)
    assert re.search(wanted, str(found), re.DOTALL)


def test_a_query_answers_wrong_calls_with_hints(start: Start) -> None:
    query = start(wm.Writer("noop"))
    wrong: list[tuple[Callable[[], Any], str]] = [
        (lambda: query.serve(), "needs tables.*tables="),
        (lambda: query.await_termination(), "no 'await_termination'.*awaitTermination"),
        (lambda: query.close(), "no 'close'.*stop()"),
        (lambda: query.state(), "needs store.*query.state"),
        (lambda: query.awaitTermination("5"), "timeout='5'.*timeout= is a number"),
        (lambda: query.drain(timeout="5 seconds"), "timeout='5 seconds'"),
        (lambda: query.serve(table="x"), "no option table='x'.*tables"),
    ]
    try:
        for call, wanted in wrong:
            with pytest.raises(wm.WatersmeetError, match=f"(?s){wanted}"):
                call()
    finally:
        query.stop()
