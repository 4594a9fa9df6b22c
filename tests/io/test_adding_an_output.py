"""Adding an output: a class that answers, a file that writes it, and a line in one table.

The folder `appended` holds all that such an output is. It runs here without a change of anything else, through a batch
that is run again; CONTRIBUTING.md has the guide.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.io.appended.target import AppendedLines
from tests.io.appended.writer import LinesWriter
from tests.spark.inputs_and_outputs.test_streaming import put, reader
from watersmeet._plan.evolve import described
from watersmeet._spark.outputs import outputs
from watersmeet.errors import ConfigError, TopologyError
from watersmeet.testing.driver import TopologyTestDriver


@pytest.fixture(scope="module", autouse=True)
def _in_the_table() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(outputs.WRITERS, AppendedLines, LinesWriter)  # type: ignore[arg-type]
        yield


class FailsOnce:
    """A function behind the output, which fails in the second batch."""

    def __init__(self) -> None:
        self.failed = False

    def __call__(self, frame: Any, batch: int) -> None:
        if batch == 1 and not self.failed:
            self.failed = True
            raise RuntimeError("failed behind the output")


def run(topology: wm.Topology, spark: SparkSession, folder: Path) -> None:
    topology.start(spark, checkpoint=str(folder / "cp"), available_now=True).awaitTermination()


def test_it_writes_each_batch_once_also_one_that_is_run_again(spark: SparkSession, tmp_path: Path) -> None:
    builder, lines = wm.StreamsBuilder("lines"), tmp_path / "out.csv"
    stream = builder.stream(reader(spark, tmp_path / "in"), name="in", key="k", value="v", timestamp="ts")
    counts = stream.group_by_key().count(name="counts").to_stream()
    counts.to(AppendedLines(str(lines)), name="lines")  # type: ignore[call-overload]
    counts.to(wm.ForeachBatch(FailsOnce()), name="behind")
    topology = builder.build()
    put(spark, tmp_path / "in", (1, "a", 1), (1, "b", 2), (2, "c", 3))
    put(spark, tmp_path / "in", (1, "d", 4))
    with pytest.raises(Exception, match="failed behind the output"):
        run(topology, spark, tmp_path)
    assert sorted(lines.read_text().split()) == ["1;1", "1;2", "1;3", "2;1"]
    run(topology, spark, tmp_path)
    assert sorted(lines.read_text().split()) == ["1;1", "1;2", "1;3", "2;1"]


def test_the_test_driver_reads_it_as_any_other_and_a_checkpoint_records_what_it_says(spark: SparkSession) -> None:
    builder = wm.StreamsBuilder("lines")
    builder.stream("in", key="string", value="long").to(AppendedLines("/data/out"), name="lines")  # type: ignore[call-overload]
    topology = builder.build()
    driver = TopologyTestDriver(topology)
    driver.pipe("in", "a", 1, ts=1)
    assert [(record.key, record.value) for record in driver.read("lines")] == [("a", 1)]
    assert described(topology.physical, {})["sinks"] == {"lines": {"output": "lines", "file": "/data/out"}}
    assert "lines" in topology.to_mermaid()


def test_what_it_does_not_write_is_refused_where_it_is_written(spark: SparkSession, tmp_path: Path) -> None:
    builder = wm.StreamsBuilder("lines")
    stream: Any = builder.stream("in", key="string", value="long")
    with pytest.raises(TopologyError, match="A line has no place for values of this type"):
        stream.map_values(lambda value: F.struct(value.alias("field"))).to(AppendedLines("/data/out"), name="lines")
    with pytest.raises(TopologyError, match="has no name of its own: name=None"):
        stream.to(AppendedLines("/data/out"))
    stream.to(AppendedLines("/data/out"), name="one")
    with pytest.raises(TopologyError, match="Two outputs write one file"):
        stream.to(AppendedLines("/data/out"), name="two")
    stream.to(AppendedLines(str(tmp_path / "none" / "out")), name="other")
    with pytest.raises(ConfigError, match="The file's folder is not there"):
        builder.build().start(spark, checkpoint=str(tmp_path / "cp"))


def test_it_lies_in_two_files() -> None:
    files = Path(__file__).with_name("appended").glob("[a-z]*.py")
    assert sorted(file.stem for file in files) == ["target", "writer"]
