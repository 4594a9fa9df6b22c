"""Where a checkpoint may lie: on a disk of this machine, or on an HDFS. A test runs on each by the same code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from chaos.hdfs_server import Hdfs
from watersmeet._spark.checkpoint.disk import Disk

DISK, HDFS = "disk", "hdfs"


@dataclass(frozen=True)
class CheckpointPlace:
    """Where a test's checkpoint lies, and the folder of everything else.

    Parameters
    ----------
    name : which kind of place.
    checkpoint : the path as a start takes it.
    folder : on this machine.
    """

    name: str
    checkpoint: str
    folder: Path

    @property
    def has_lock(self) -> bool:
        """Whether a lock keeps a second start out."""
        return self.name == DISK

    def another(self, name: str) -> CheckpointPlace:
        """One beside it, with its own inputs and outputs."""
        return CheckpointPlace(self.name, f"{self.checkpoint}-{name}", self.folder / name)

    def files(self, spark: SparkSession, folder: str) -> list[str]:
        """Names in a folder of the checkpoint, without the sums of a disk."""
        return sorted(name for name in Disk(spark).names(f"{self.checkpoint}/{folder}") if not name.startswith("."))


@pytest.fixture(scope="module")
def hdfs() -> Iterator[Hdfs]:
    with Hdfs() as running:
        yield running


# what holds on a disk other tests show: these, for both by one code, run there with --proof
@pytest.fixture(params=[pytest.param(DISK, marks=pytest.mark.proof), HDFS])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointPlace:
    if request.param == DISK:
        return CheckpointPlace(DISK, str(tmp_path / "cp"), tmp_path)
    running: Hdfs = request.getfixturevalue("hdfs")
    return CheckpointPlace(HDFS, f"{running.url}/{tmp_path.name}/cp", tmp_path)
