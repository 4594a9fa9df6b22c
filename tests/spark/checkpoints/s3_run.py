"""A program for `test_s3`: a session that has Hadoop's S3A, what epochs do there, and what a start says.

Called with a file of settings and jars as JSON, and a folder; it prints what it finds as JSON.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import watersmeet as wm
from dev.jvm import SHORT_LIVED
from tests.spark.inputs_and_outputs.test_streaming import put, topology
from watersmeet._spark.checkpoint.disk import Disk
from watersmeet._spark.checkpoint.epoch_files import EpochsElsewhere
from watersmeet._spark.fencing.epochs import Epochs
from watersmeet._spark.session.session import session

RACES = 12
PLACE = "s3a://bucket/cp"


def race(disk: Disk, number: int) -> int:
    """How many of two threads make a file that is not there."""
    barrier, won = threading.Barrier(2), []

    def make(name: str) -> None:
        barrier.wait()
        if disk.create(f"{PLACE}/race/{number}", name):
            won.append(name)

    threads = [threading.Thread(target=make, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert disk.read(f"{PLACE}/race/{number}") in won
    return len(won)


def main(given: Path, folder: Path) -> None:
    """Do all of it."""
    told = json.loads(given.read_text())
    config = {"spark.ui.enabled": "false", "spark.driver.extraJavaOptions": SHORT_LIVED, **told["settings"]}
    spark = session("s3", master="local[2]", jars=told["jars"], config=config)
    disk = Disk(spark)
    found: dict[str, object] = {"kind": disk.kind(PLACE), "winners": [race(disk, n) for n in range(RACES)]}
    first, second = (Epochs(EpochsElsewhere(disk, f"{PLACE}/epochs"), name, name, PLACE) for name in "ab")
    first.take()
    second.take()
    second.check()
    try:
        first.check()
    except wm.ConfigError as error:
        found["passed by"] = str(error)
    put(spark, folder / "left", (1, "a", 1))
    made = topology(spark, folder, wm.ForeachBatch(lambda rows, batch: None))
    try:
        made.start(spark, checkpoint="s3a://bucket/query", available_now=True)
    except wm.ConfigError as error:
        found["refused"] = str(error)
    found["left"] = disk.names("s3a://bucket/query")
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
