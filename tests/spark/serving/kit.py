"""A running query whose tables are served: files in, a batch for each, and what its checkpoint says of each batch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import watersmeet as wm
from watersmeet._spark.query.query import Query
from watersmeet._worker.formats.arrow_types import arrow_schema

TIMEOUT = 600.0


@contextmanager
def repeated(call: Callable[[], object], seconds: float = 4.0) -> Iterator[None]:
    """Call a function every so many seconds, in a thread of its own, until the end of the block."""
    done = threading.Event()

    def follow() -> None:
        while not done.wait(seconds):
            call()

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@dataclass
class Inputs:
    """Folders of Parquet files, of which each is an input that a query reads as they come."""

    spark: SparkSession
    folder: Path
    _files: int = 0
    _schemas: dict[str, pa.Schema] = field(default_factory=dict)

    def read(self, name: str, schema: str) -> DataFrame:
        """An input."""
        (self.folder / name).mkdir(parents=True, exist_ok=True)
        frame = self.spark.readStream.schema(schema).parquet(str(self.folder / name))
        self._schemas[name] = arrow_schema(frame.schema)
        return frame

    def put(self, name: str, *records: Mapping[str, Any]) -> None:
        """A file with these records, all of it at once."""
        self._files += 1
        beside = self.folder / f"{name}-{self._files}"
        pq.write_table(pa.Table.from_pylist(list(records), schema=self._schemas[name]), beside)
        beside.rename(self.folder / name / f"{self._files:06d}.parquet")


@dataclass
class RunningQuery:
    """A topology that runs, with served tables.

    Attributes
    ----------
    first : a batch that the replica has had.
    """

    spark: SparkSession
    folder: Path
    inputs: Inputs
    query: Query = field(init=False)
    first: int | None = None

    @property
    def checkpoint(self) -> str:
        return str(self.folder / "checkpoint")

    def start(self, topology: wm.Topology, tables: list[str] | None = None, **options: Any) -> Query:
        self.query = topology.start(self.spark, checkpoint=self.checkpoint, shards=2, tasks=2)
        if tables:
            self.query.serve(tables=tables, **options)
        return self.query

    def caught_up(self) -> int:
        """The batch of the replica when all that is there has been processed."""
        self.query.processAllAvailable()
        last = committed(self.checkpoint)
        until(lambda: (served := self.query._served) is not None and served.batch == last)
        return last


def committed(checkpoint: str) -> int:
    return max((int(f.name) for f in Path(checkpoint, "commits").glob("[0-9]*")), default=-1)


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + TIMEOUT
    while not holds():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


def rows(table: pa.Table) -> list[str]:
    """The rows, in an order that depends on them alone."""
    return sorted(map(repr, table.to_pylist()))
