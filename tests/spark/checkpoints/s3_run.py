"""A program for `test_s3`: a session that has Hadoop's S3A, what epochs and plans do there, and what a start says.

Called with a file of settings and jars as JSON, and a folder; it prints what it finds as JSON.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import watersmeet as wm
from dev.jvm import SHORT_LIVED
from dev.s3 import CARELESS
from tests.spark.inputs_and_outputs.test_streaming import put, topology
from watersmeet._spark.checkpoint.folders import CONDITIONAL_MANAGER, Folder, HadoopFiles, add_conditional_files
from watersmeet._spark.checkpoint.lease import Epochs
from watersmeet._spark.session import FILE_MANAGER, session

RACES = 12
PLAIN = "plain"
PLACE, QUERY = "s3a://bucket/cp", "s3a://bucket/query"
MANAGERS = "org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager"


def race(make: Callable[[str], bool]) -> list[str]:
    """Which of two threads make a file that is not there."""
    barrier, won = threading.Barrier(2), []

    def run(name: str) -> None:
        barrier.wait()
        if make(name):
            won.append(name)

    threads = [threading.Thread(target=run, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return won


def epochs(folder: Folder) -> list[int]:
    """How many of two make a file, in each race."""
    found = []
    for number in range(RACES):
        won = race(lambda name, file=f"race/{number}": folder.create(file, name))
        assert folder.text(f"race/{number}") in won
        found.append(len(won))
    return found


class SparksFiles:
    """Files as Spark writes them into its logs, by the file manager of the session."""

    def __init__(self, spark: SparkSession) -> None:
        inner: Any = spark
        self._path = inner._jvm.org.apache.hadoop.fs.Path
        create = getattr(inner._jvm, MANAGERS).create
        self.manager = create(self._path(PLACE), inner._jsparkSession.sessionState().newHadoopConf())
        self.losers: set[str] = set()

    def write(self, name: str, text: str, *, replace: bool = False, cancel: bool = False) -> bool:
        """Whether a file could be written."""
        try:
            out = self.manager.createAtomic(self._path(f"{PLACE}/{name}"), replace)
            out.write(bytearray(text.encode()))
            out.cancel() if cancel else out.close()
        except Exception as error:
            thrown: Any = error
            self.losers.add(thrown.java_exception.getClass().getName())
            return False
        return True


def plans(spark: SparkSession, folder: Folder, found: dict[str, object]) -> None:
    """What the file manager does that Spark is to use."""
    add_conditional_files(spark, PLACE)
    spark.conf.set(FILE_MANAGER, CONDITIONAL_MANAGER)
    files = SparksFiles(spark)
    found["manager"] = files.manager.getClass().getName()
    planned = []
    for number in range(RACES):
        won = race(lambda name, number=number: files.write(f"offsets/{number}", name))
        assert folder.text(f"offsets/{number}") in won
        planned.append(len(won))
    found["planned"], found["losers"] = planned, sorted(files.losers)
    assert files.write("state", "first", replace=True)
    assert files.write("state", "second", replace=True)
    assert files.write("cancelled", "gone", cancel=True)
    found["replaced"], found["cancelled"] = folder.text("state"), folder.text("cancelled")
    spark.conf.unset(FILE_MANAGER)


def main(given: Path, folder: Path) -> None:
    """Do all of it."""
    told = json.loads(given.read_text())
    config = {"spark.ui.enabled": "false", "spark.driver.extraJavaOptions": SHORT_LIVED, **told["settings"]}
    # of a second bucket S3A is told that it cannot write conditionally
    config[f"spark.hadoop.fs.s3a.bucket.{PLAIN}.create.conditional.enabled"] = "false"
    spark = session("s3", master="local[2]", jars=told["jars"], config=config)
    store = Folder(spark, PLACE)
    assert isinstance(store, HadoopFiles)
    found: dict[str, object] = {"kind": store.kind(), "winners": epochs(store)}
    first, second = (Epochs(store.below("epochs"), name, name, PLACE) for name in "ab")
    first.take()
    second.take()
    second.check()
    try:
        first.check()
    except wm.ConfigError as error:
        found["passed by"] = str(error)
    plans(spark, store, found)
    put(spark, folder / "left", (1, "a", 1))
    made = topology(spark, folder, wm.ForeachBatch(lambda rows, batch: None))
    for bucket in (PLAIN, CARELESS):
        place = f"s3a://{bucket}/query"
        try:
            made.start(spark, checkpoint=place, available_now=True)
        except wm.ConfigError as error:
            left = Folder(spark, place)
            found[bucket] = [str(error), left.names("watersmeet/epochs/*"), left.names("offsets/*")]
    for _ in range(2):
        made.start(spark, checkpoint=QUERY, available_now=True, local_cache=str(folder / "cache")).awaitTermination()
        put(spark, folder / "left", (2, "b", 2))
    found["batches"] = sorted(int(name) for name in Folder(spark, QUERY).names("commits/[0-9]*"))
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
