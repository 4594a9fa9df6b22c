"""What a start refuses, or warns of, before anything runs: errors of watersmeet with hints, none of the JVM's."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from tests.spark.inputs_and_outputs.test_streaming import put, reader
from watersmeet._spark.query.start_options import StartOptions, layout_of
from watersmeet._spark.sinks.batch_writer import warn_of_replays

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
        with pytest.raises(
            wm.ConfigError, match=r"Unknown format 'parket'(.|\n)*Given: wm.Writer\('parket'\)(.|\n)*Hint: "
        ):
            start(wm.Writer("parket", path="/nowhere"), *more)
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
        warn_of_replays(wm.Writer("jdbc", url="u"), alone=False)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["parquet", "delta", "memory", "console", "noop", "json"])
def test_a_format_that_holds_a_replayed_batch_once_is_not_warned_of(kind: str) -> None:
    warn_of_replays(wm.Writer(kind, path="p"), alone=False)
    warn_of_replays(wm.Writer("iceberg", path="p"), alone=True)


def test_of_fewer_shards_than_cores_there_are_as_many_tasks_as_shards() -> None:
    assert layout_of(StartOptions(shards=1), None, parallelism=4) == (1, 1)
    assert layout_of(StartOptions(), None, parallelism=4) == (8, 4)
