"""Outputs of the user's own: a batch is one call, on the driver or in each task, also where it is run again."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from tests.io.test_adding_an_output import FailsOnce, run
from tests.io.wire_kit import Part, compiled_of, sinks_of
from tests.spark.inputs_and_outputs.test_streaming import put, reader
from watersmeet._spark.outputs.output import OutputBatch, OutputContext, UserOutputWriter
from watersmeet._worker.writers.kafka import Written
from watersmeet.errors import ConfigError, FunctionError, SinkError, TopologyError
from watersmeet.io.outputs import UserOutputTarget
from watersmeet.testing.driver import TopologyTestDriver

Posted = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def posted() -> Iterator[tuple[str, Posted]]:
    """The address of a server, and what has been posted to it."""
    found: Posted = []

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.append((self.path, json.loads(body)))
            self.send_response(500 if self.path == "/broken" else 200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", found
    server.shutdown()
    server.server_close()


@dataclass
class HttpOutput(wm.Output):
    """Posts each batch, at least once."""

    url: str

    def write(self, rows: pa.Table, batch: wm.BatchInfo) -> None:
        body = json.dumps({"batch": batch.number, "rows": rows.select(["key", "value"]).to_pylist()})
        urlopen(Request(self.url, body.encode(), {"Content-Type": "application/json"})).close()


@dataclass
class Counts(wm.Output):
    """Keeps rows in a file of SQLite for each writer, with the number of the batch: exactly once."""

    folder: str
    written_by = "tasks"

    def write(self, rows: pa.Table, batch: wm.BatchInfo) -> None:
        with self._open(batch.writer) as file:
            pairs = zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True)
            file.executemany("INSERT INTO rows VALUES (?, ?)", pairs)
            file.execute("INSERT INTO batches VALUES (?)", (batch.number,))

    def last_batch(self, writer: str) -> int:
        with self._open(writer) as file:
            (last,) = file.execute("SELECT max(number) FROM batches").fetchone()
        return -1 if last is None else int(last)

    def _open(self, writer: str) -> sqlite3.Connection:
        made = sqlite3.connect(Path(self.folder, f"{writer}.db"))
        made.execute("CREATE TABLE IF NOT EXISTS rows (key, value)")
        made.execute("CREATE TABLE IF NOT EXISTS batches (number)")
        return made


def all_rows(folder: Path) -> list[tuple[Any, ...]]:
    found = [sqlite3.connect(file).execute("SELECT key, value FROM rows").fetchall() for file in folder.glob("*.db")]
    return sorted(row for rows in found for row in rows)


def test_a_batch_that_is_run_again_comes_again_with_its_number_and_what_the_output_has_is_left_out(
    spark: SparkSession, tmp_path: Path, posted: tuple[str, Posted]
) -> None:
    url, bodies = posted
    (tmp_path / "counts").mkdir()
    builder = wm.StreamsBuilder("own")
    stream = builder.stream(reader(spark, tmp_path / "in"), name="in", key="k", value="v", timestamp="ts")
    counts = stream.group_by_key().count(name="counts")
    counts.to(HttpOutput(f"{url}/counts"), name="http")
    counts.to(Counts(str(tmp_path / "counts")), name="kept")
    counts.to_stream().to(wm.ForeachBatch(FailsOnce()), name="behind")
    topology = builder.build()
    put(spark, tmp_path / "in", (1, "a", 1), (1, "b", 2), (2, "c", 3), (3, "c", 3))
    put(spark, tmp_path / "in", (1, "d", 4), (3, "c", 5))
    with pytest.raises(Exception, match="failed behind the output"):
        run(topology, spark, tmp_path)
    run(topology, spark, tmp_path)
    # at least once: what it gets again is the same, under the same number
    assert [body["batch"] for _, body in bodies] == [0, 1, 1]
    assert bodies[1] == bodies[2]
    assert sorted((row["key"], row["value"]) for row in bodies[0][1]["rows"]) == [(1, 1), (1, 2), (2, 1), (3, 1)]
    assert [row["value"] for row in bodies[0][1]["rows"] if row["key"] == 1] == [1, 2]
    # exactly once
    assert all_rows(tmp_path / "counts") == [(1, 1), (1, 2), (1, 3), (2, 1), (3, 1), (3, 2)]


def test_what_it_raises_is_told_with_its_own_line(
    spark: SparkSession, tmp_path: Path, posted: tuple[str, Posted]
) -> None:
    url, _ = posted
    builder = wm.StreamsBuilder("own")
    stream = builder.stream(reader(spark, tmp_path / "in"), name="in", key="k", value="v", timestamp="ts")
    stream.to(HttpOutput(f"{url}/broken"), name="http")
    put(spark, tmp_path / "in", (1, "a", 1))
    line = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "urlopen(Request" in text)
    with pytest.raises(SinkError) as raised:
        run(builder.build(), spark, tmp_path)
    said = str(raised.value)
    assert said.startswith("The output 'http' raised HTTPError: HTTP Error 500: Internal Server Error")
    assert f"HttpOutput.write, line {line} of {__file__}, batch 0" in said
    assert "Hint: Remove the cause" in said


class Has(wm.Output):
    """Has some batch already."""

    def __init__(self, last: int, by: str = "driver") -> None:
        self.last, self.written_by = last, by  # type: ignore[misc, assignment]
        self.asked: list[str] = []

    def write(self, rows: pa.Table, batch: wm.BatchInfo) -> None:
        raise AssertionError("it has the batch")

    def last_batch(self, writer: str) -> int:
        self.asked.append(writer)
        return self.last


def test_a_checkpoint_that_is_older_than_the_output_is_refused(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", 1, 2)], "key string, value int, ts long")
    compiled = compiled_of(frame, {"out": Part()})

    def passing(output: wm.Output, planned: int) -> UserOutputWriter:
        context = OutputContext(compiled, "app-1", written=Written(planned, 2))
        return UserOutputWriter(context, tuple(sinks_of(compiled, {"out": UserOutputTarget(output)})))

    passing(Has(3), 3).begin()
    with pytest.raises(ConfigError, match=r"(?s)older than the output.*batch 3 is there, the last one planned is 2"):
        passing(Has(3), 2).begin()
    tasks = Has(-1, "tasks")
    passing(tasks, -1).begin()
    assert tasks.asked == ["app-1-0", "app-1-1"]
    passing(Has(3), 3).write(OutputBatch(3, compiled))
    with pytest.raises(ConfigError, match=r"(?s)older than the output.*batch 2 is to be written, batch 3 is in"):
        passing(Has(3), 3).write(OutputBatch(2, compiled))
    with pytest.raises(SinkError, match=r"(?s)it has the batch.*Has.write, line \d+ of .*batch 4"):
        passing(Has(3), 3).write(OutputBatch(4, compiled))


class Rows(wm.Output):
    """Keeps a row for each key, with keys that are texts."""

    keeps_rows = True
    topic, formats, claim, name = 1, 2, 3, 4

    def write(self, rows: pa.Table, batch: wm.BatchInfo) -> None:
        """Nowhere."""

    def check_types(self, key: pa.DataType, value: pa.DataType) -> None:
        if not pa.types.is_string(key):
            raise TopologyError("Keys are texts.", given=key)

    def check(self) -> None:
        raise ConfigError("It cannot be reached.")


class Unpickled(Rows):
    """Has what is not sent to workers."""

    written_by = "tasks"

    def __init__(self) -> None:
        self.lock = threading.Lock()


def test_the_test_driver_reads_it_as_any_other_output_whatever_names_it_has() -> None:
    builder = wm.StreamsBuilder("own")
    table = builder.table("in", key="string", value="long")
    table.to(Rows(), name="rows")
    table.to(Rows(), name="others")
    driver = TopologyTestDriver(builder.build())
    driver.pipe("in", "a", 1, ts=1)
    assert [(record.key, record.value) for record in driver.read("rows")] == [("a", 1)]


def test_what_it_cannot_write_is_refused_on_the_line_that_writes_to_it(spark: SparkSession, tmp_path: Path) -> None:
    builder = wm.StreamsBuilder("own")
    table: Any = builder.table("in", key="string", value="long")
    with pytest.raises(TopologyError, match="Keys are texts"):
        builder.table("numbers", key="long", value="long").to(Rows(), name="numbers")
    with pytest.raises(TopologyError, match="A stream cannot be written to"):
        table.to_stream().to(Rows(), name="rows")
    with pytest.raises(TopologyError, match=r"This is the class: make an output of it, stream.to\(Rows\(...\)"):
        table.to(Rows, name="rows")
    with pytest.raises(TopologyError, match="has no name of its own: name=None"):
        table.to(Rows())
    with pytest.raises(TopologyError, match=r"Give them to Rows\(...\)"):
        table.to(Rows(), name="rows", value="long")
    with pytest.raises(TopologyError, match=r"written_by='both'"):
        table.to(Has(1, "both"), name="rows")
    with pytest.raises(FunctionError, match="Nothing has no method write"):
        table.to(type("Nothing", (wm.Output,), {})(), name="rows")
    table.to(Rows(), name="rows")
    with pytest.raises(ConfigError, match="It cannot be reached"):
        builder.build().start(spark, checkpoint=str(tmp_path / "cp"))
    other = wm.StreamsBuilder("own")
    other.table("in", key="string", value="long").to(Unpickled(), name="rows")
    with pytest.raises(ConfigError, match=r"(?s)cannot be pickled.*Hint: Open connections in write"):
        other.build().start(spark, checkpoint=str(tmp_path / "cp"))
