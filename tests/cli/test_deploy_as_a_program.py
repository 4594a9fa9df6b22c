"""`watersmeet deploy` beside `watersmeet run`, each a program of its own: the place changes hands twice."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.serving.kit import repeated, until
from tests.spark.serving.readers import Reader, reading, row_over_http

pytestmark = pytest.mark.spark
ROOT = Path(__file__).resolve().parents[2]
MODULE = """
import time

from pyspark.sql import functions as F

import watersmeet as wm
from watersmeet._spark import deploy
from watersmeet._spark.deploy import Deployment

# however slow the machine is
deploy.LONGEST_PAUSE = float("inf")
prepare = Deployment.prepare


def prepare_slowly(self):
    prepare(self)
    while self._plans.last <= self.batch:
        time.sleep(0.1)


# so that there is a batch to catch up with
Deployment.prepare = prepare_slowly


def topology(spark, version, stored):
    builder = wm.StreamsBuilder("deployed")
    frame = spark.readStream.schema("k long, v string, ts long").parquet("FOLDER/in")
    records = builder.stream(frame, name="in", key="k", value="v", timestamp="ts")
    marked = records.map_values(lambda v: F.concat(v, F.lit(stored)), name="marked")
    marked.to_table(name="latest", store="latest").to(wm.Writer("parquet", path="FOLDER/latest"), name="last")
    counts = records.group_by_key().agg(n=wm.count(), name="counted").to_stream(name="counts")
    numbers = counts.map_values(lambda v: F.concat(v["n"].cast("string"), F.lit(version)), name="n")
    numbers.to(wm.Writer("parquet", path="FOLDER/counts"), name="out")
    return builder.build()


def blue(spark):
    return topology(spark, "", "")


def green(spark):
    return topology(spark, "!", "")


def other(spark):
    return topology(spark, "", "?")
"""


class Files:
    """Files of records that a query reads, and how many records each key has in them."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        (folder / "in").mkdir()
        self.counts = Counter[int]()

    def put(self, value: str) -> None:
        """A file with a record of each key."""
        self._count += 1
        rows = [{"k": key, "v": value, "ts": self._count} for key in range(3)]
        schema = pa.schema({"k": pa.int64(), "v": pa.string(), "ts": pa.int64()})
        pq.write_table(pa.Table.from_pylist(rows, schema), self._folder / "next")
        (self._folder / "next").rename(self._folder / "in" / f"{self._count:06d}.parquet")
        self.counts.update(row["k"] for row in rows)

    def written_meanwhile(self) -> AbstractContextManager[None]:
        """A file every few seconds."""
        return repeated(lambda: self.put("meanwhile"))


class Program:
    """A command of watersmeet in a process of its own, and what it prints."""

    def __init__(self, folder: Path, name: str, *arguments: str) -> None:
        self._file = folder / f"{name}.txt"
        paths = os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
        with self._file.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "watersmeet", *arguments, "--master", "local[2]"],
                cwd=folder,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": paths},
            )

    @property
    def text(self) -> str:
        return self._file.read_text()

    def check_runs(self) -> None:
        assert self.process.poll() is None, self.text

    def check_ends(self, code: int = 0) -> None:
        until(lambda: self.process.poll() is not None)
        assert self.process.returncode == code, self.text

    def kill(self) -> None:
        """End it and its JVM, if they still run."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def free_ports() -> int:
    """A port that nobody has, nor the one behind it."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


def check_counts(folder: Path, counts: Counter[int]) -> None:
    """Each record has counted once, and the marks of the versions change twice: to the changed one, and back."""
    rows = pq.read_table(folder / "counts", columns=["key", "value", "batch_id", "sequence"]).to_pylist()
    rows.sort(key=lambda row: (row["batch_id"], row["sequence"]))
    for key, count in counts.items():
        values = [row["value"] for row in rows if row["key"] == key]
        assert [value.removesuffix("!") for value in values] == [*map(str, range(1, count + 1))]
        assert [is_marked for is_marked, _ in groupby(value.endswith("!") for value in values)] == [False, True, False]


@dataclass
class Shop:
    """A folder of inputs, outputs and a checkpoint, with the programs that run on it."""

    folder: Path
    programs: ExitStack
    url: str

    @property
    def checkpoint(self) -> str:
        return str(self.folder / "cp")

    @property
    def serving(self) -> tuple[str, ...]:
        """Options of a program that runs until it is ended, and serves."""
        return "--trigger", "8 seconds", "--serve", self.url.removeprefix("http://"), "--table", "latest"

    def start(self, name: str, *arguments: str) -> Program:
        program = Program(self.folder, name, *arguments)
        self.programs.callback(program.kill)
        return program

    def run(self) -> Program:
        """The first topology, when it has answered."""
        counts = ("--checkpoint", self.checkpoint, "--shards", "2", "--tasks", "2")
        program = self.start("blue", "run", "shop:blue", *counts, *self.serving)

        def has_answered() -> bool:
            program.check_runs()
            answer = row_over_http(self.url, "latest", 1)
            return answer is not None and answer[1] is not None

        until(has_answered)
        return program

    def deploy(self, name: str, topology: str, *options: str) -> Program:
        return self.start(name, "deploy", self.checkpoint, topology, "--if-equal", "0", *options)

    def replace(self, old: Program, name: str, topology: str, *options: str) -> Program:
        """Have another topology take the place of one, which ends well."""
        new = self.deploy(name, topology, *options, *self.serving)

        def has_ended() -> bool:
            new.check_runs()
            return old.process.poll() is not None

        until(has_ended)
        old.check_ends()
        return new


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    (tmp_path / "shop.py").write_text(MODULE.replace("FOLDER", str(tmp_path)))
    with ExitStack() as programs:
        yield Shop(tmp_path, programs, f"http://127.0.0.1:{free_ports()}")


def read(files: Files, readers: list[Reader], value: str, program: Program) -> None:
    """Wait until a value that is written now comes to all readers."""

    def has_come() -> bool:
        program.check_runs()
        return all(reader.value == value for reader in readers)

    files.put(value)
    until(has_come)


def test_a_program_takes_the_place_of_another_and_readers_of_its_tables_go_on(shop: Shop) -> None:
    files = Files(shop.folder)
    files.put("first")
    blue = shop.run()
    with reading(shop.url, "latest", 1) as readers:
        with files.written_meanwhile():
            refused = shop.deploy("other", "shop:other", "--allow-changed-functions")
            refused.check_ends(1)
        assert "3 rows of the changed topology differ, and if_equal=0: the running query continues." in refused.text
        blue.check_runs()
        with files.written_meanwhile():
            green = shop.replace(blue, "green", "shop:green")
        read(files, readers, "second", green)
        assert "store latest: 3 rows, all equal" in green.text
        with files.written_meanwhile():
            back = shop.replace(green, "back", "shop:blue", "--back")
        read(files, readers, "third", back)
    back.process.send_signal(signal.SIGINT)
    back.check_ends()
    check_counts(shop.folder, files.counts)
