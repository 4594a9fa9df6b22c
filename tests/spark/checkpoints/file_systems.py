"""Where a checkpoint may lie: on a disk of this machine, on an HDFS, or on S3. A test runs on each by the same code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from chaos.hdfs_server import Hdfs
from dev.s3 import S3 as S3Server
from tests.spark.checkpoints.killing import SETTINGS
from watersmeet._spark.checkpoint.folders import Folder

DISK, HDFS, S3 = "disk", "hdfs", "s3"


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
        return sorted(Folder(spark, f"{self.checkpoint}/{folder}").names())


@pytest.fixture(scope="module")
def hdfs() -> Iterator[Hdfs]:
    with Hdfs() as running:
        yield running


@pytest.fixture(scope="module")
def s3(spark: SparkSession) -> Iterator[S3Server]:
    with S3Server() as running:
        # Spark takes Hadoop's settings from the session's own as well
        given = {name.removeprefix("spark.hadoop."): value for name, value in running.settings.items()}
        for name, value in given.items():
            spark.conf.set(name, value)
        yield running
        for name in given:
            spark.conf.unset(name)


# what holds on a disk other tests show: these, for all three by one code, run there with --proof
@pytest.fixture(params=[pytest.param(DISK, marks=pytest.mark.proof), HDFS, S3])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointPlace:
    if request.param == DISK:
        return CheckpointPlace(DISK, str(tmp_path / "cp"), tmp_path)
    if request.param == S3:
        server: S3Server = request.getfixturevalue("s3")
        (tmp_path / SETTINGS).write_text(json.dumps({"settings": server.settings, "jars": server.jars}))
        return CheckpointPlace(S3, f"s3a://bucket/{tmp_path.name}/cp", tmp_path)
    running: Hdfs = request.getfixturevalue("hdfs")
    return CheckpointPlace(HDFS, f"{running.url}/{tmp_path.name}/cp", tmp_path)
