"""What must outlive a loss of power is on the disk before it is named: the record, and the files of a batch."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from watersmeet._spark.checkpoint.folders import Folder
from watersmeet._spark.outputs import files
from watersmeet._worker import process
from watersmeet._worker.writers.files import FileOutput, FileWrite

SCHEMA = pa.schema([("key", pa.string()), ("value", pa.string())])


@pytest.fixture
def on_the_disk(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what was written through, in order, as they were then."""
    found: list[str] = []
    real: Callable[[int], None] = os.fsync

    def fsync(place: int) -> None:
        found.append(Path(f"/proc/self/fd/{place}").readlink().name)
        real(place)

    monkeypatch.setattr(process.os, "fsync", fsync)
    return found


def test_a_record_is_on_the_disk_with_all_folders_above_it(
    spark: SparkSession, tmp_path: Path, on_the_disk: list[str]
) -> None:
    Folder(spark, str(tmp_path / "cp")).append("watersmeet/topology", "{}")
    (record,) = (tmp_path / "cp" / "watersmeet" / "topology").iterdir()
    assert on_the_disk == [f".{record.name}.new", "topology", "watersmeet", "cp", tmp_path.name]


def test_a_batchs_files_are_on_the_disk_before_the_batch_has_its_name(tmp_path: Path, on_the_disk: list[str]) -> None:
    output = FileOutput(str(tmp_path / "out"), SCHEMA, "snappy")
    rows = pa.RecordBatch.from_pydict({"key": ["a"], "value": ["b"]}, schema=SCHEMA)
    for _ in range(2):  # a replay puts its files into the folder that is there
        with files.written([output], 3) as write:
            assert isinstance(write, FileWrite)
            (told,) = write([(0, rows)])
            files._show(Path(write.places[0]), tmp_path / "out" / "batch_id=3", set(told["file"].to_pylist()))
    beside = Path(write.places[0]).name.rpartition(".")[0]
    shown = [name.rpartition(".")[0] if name.startswith(".batch") else name for name in on_the_disk]
    first = [".part-00000.parquet.0", beside, "out"]
    assert shown == [*first, ".part-00000.parquet.0", beside, "batch_id=3", "out"]
