"""Where the checkpoint of a round lies: on a disk of this machine, or on an HDFS or an S3 of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from chaos.hdfs_server import Hdfs
from chaos.hooks import CHECKPOINT
from dev.s3 import BUCKET, S3

DISK, HDFS, ON_S3 = "disk", "hdfs", "s3"
STORES = (DISK, HDFS, ON_S3)


@dataclass(frozen=True)
class Store:
    """A place, and how a session reaches it.

    Parameters
    ----------
    checkpoint : the path as a start takes it.
    jars, settings : of the session.
    """

    checkpoint: str
    jars: list[str] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)


@contextmanager
def store(name: str, folder: Path) -> Iterator[Store]:
    """A store of this name for a round in `folder`, which ends with it."""
    if name == HDFS:
        with Hdfs() as hdfs:
            yield Store(f"{hdfs.url}/{CHECKPOINT}")
    elif name == ON_S3:
        with S3() as s3:
            yield Store(f"s3a://{BUCKET}/{CHECKPOINT}", s3.jars, s3.settings)
    else:
        yield Store(str(folder / CHECKPOINT))
