"""Spark's settings: what a session must have, and what a streaming query takes from it at every start.

A query copies its session's settings when it starts; a restart takes the
state store and the number of tasks from the checkpoint, everything else from the session again.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec

import pyspark
from pyspark.sql import SparkSession

from watersmeet._spark.session.counting import KEPT
from watersmeet.errors import ConfigError
from watersmeet.versions import LEAST_SPARK

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
DAEMON = "watersmeet._spark.session.daemon"
"""The module that Spark runs as its daemon; not imported here, since Python warns of a module that it runs then."""

# Pieces of state and of exchanges have up to 1 MB. G1 would treat each as an object apart, in regions of its own, since
# its own choice for a heap of a few GB is regions of 1 MB: a seventh of all time. And it would begin to mark the heap
# when less than half of it is taken, over and over. Spark puts the user's options behind.
_G1 = "-XX:G1HeapRegionSize=8m -XX:InitiatingHeapOccupancyPercent=70"

SESSION = {
    "spark.driver.defaultJavaOptions": _G1,
    "spark.executor.defaultJavaOptions": _G1,
    # Arrow's allocator gives memory back after 10 ms, and the next batch gets it cleared by the system again. What no
    # batch has needed for 10 s was a large one's: that goes back to the machine.
    "spark.executorEnv.MIMALLOC_PURGE_DELAY": "10000",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
}
"""What `watersmeet.session` sets when it makes a session."""

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
PLAIN_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

_ON_LINUX = {
    # The C library has it, as all else that a worker allocates: of two allocators each would keep what its largest part
    # of a task has taken, and this one gives all of it back when it is asked to (`worker.give_back`).
    "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",
    # on a cluster watersmeet may reach workers in archives that come after the daemon
    "spark.python.daemon.module": DAEMON,
}

LOCAL = {
    # Spark's default asks for links around each rename, and Hadoop without its native library starts a process for
    # each question: 60 in a batch of one join. Both write beside and rename.
    FILE_MANAGER: PLAIN_FILES,
    # blobs are compressed already, and what is shuffled stays on this machine
    "spark.shuffle.compress": "false",
    # a file for each task of the next stage, and then all of them in one: every blob would be written twice
    "spark.shuffle.sort.bypassMergeThreshold": "1",
    # they tell a broken disk from a broken network
    "spark.shuffle.checksum.enabled": "false",
    **(_ON_LINUX if sys.platform == "linux" else {}),
}
"""What it sets besides where Spark runs on this machine alone."""

ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(64 << 20)}
"""Environment of the JVM on this machine: what RocksDB, buffers and compilers free goes back to the system where it is
much. Smaller limits save 150 MB, and cost a tenth of the speed. Other C libraries pass both over.
"""

WORKERS_ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(32 << 20), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}
"""The same of its workers: memory that is given back within a task is got again a moment later, cleared by the system
each time. The first is the most that the C library takes.
"""

COLLECTOR = {
    "spark.driver.defaultJavaOptions": "-XX:+UseParallelGC "
    "-XX:GCTimeRatio=19 -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=30"
}
"""The same, unless somebody names a collector: a batch is not kept waiting by a pause, and what G1 does at every write
costs more than its short pauses are worth. Blobs only pass through the heap, so that it need not grow to all that it
may have: collecting may take a twentieth of the time, and not the hundredth that is the collector's own choice.
"""

AT_START = {
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    # without it every batch uploads whole RocksDB files
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # values are blobs, compressed already
    "spark.sql.streaming.stateStore.rocksdb.compression": "none",
    # with it Spark reads what is overwritten or removed, only to count rows: as many bytes as a batch writes, or more
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # versions of state that can still be read or gone back to; Spark's own 100 keep many times the state
    "spark.sql.streaming.minBatchesToRetain": "10",
    # pack gathers rows to 65,536; smaller batches cost a turn of Python each
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    # a few blobs of 1 MB: Spark's default gathers 64, in memory that the system has to clear each time
    "spark.sql.execution.arrow.maxBytesPerBatch": "4194304",
    # a streaming query has none, and Spark would say so twice at every start
    "spark.sql.adaptive.enabled": "false",
    # an exchange must have the tasks that the labels were chosen for
    "spark.sql.adaptive.streaming.stateless.enabled": "false",
    # each DataFrame is read by one task; Spark would put those of all of them into one
    "spark.sql.unionOutputPartitioning": "false",
    # a missing or broken file must not be passed over
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}

_EFFECTS = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.caseSensitive")
"""The user's own, on which the results of functions depend."""

_PROGRESS = "spark.sql.streaming.numRecentProgressUpdates"
_starting = threading.RLock()
"""Settings belong to a session: of two starts at once one would run under the other's, and leave them behind."""


def check(spark: SparkSession) -> None:
    """Raise or warn where the session cannot carry a topology.

    Raises
    ------
    ConfigError : Spark is too old, a package is missing, or a setting makes results wrong.
    """
    version = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if version < LEAST_SPARK:
        raise ConfigError(
            f"PySpark {pyspark.__version__} is too old.",
            given=f"PySpark {pyspark.__version__}",
            hint="Install PySpark 4.1 or later.",
        )
    if find_spec("google") is None or find_spec("google.protobuf") is None:
        raise ConfigError(
            "Spark's stateful workers need protobuf, which is not installed.", hint="pip install protobuf"
        )
    check_running(lambda name, default: str(spark.conf.get(name, default)))


def check_running(setting: Callable[[str, str], str]) -> None:
    """Raise or warn where settings that are fixed when a session is made do not fit.

    Parameters
    ----------
    setting : gives the value of a setting, or the given default.

    Raises
    ------
    ConfigError : one makes results wrong.
    """
    if setting("spark.speculation", "false").lower() == "true":
        raise ConfigError(
            "spark.speculation = true is not supported: it runs a task twice at once, and both would write.",
            given="spark.speculation = true",
            hint="Make the session with spark.speculation = false.",
        )
    if setting("spark.python.worker.reuse", "true").lower() != "true":
        warnings.warn(
            "spark.python.worker.reuse is off: every task starts a Python of its own, which takes a second.\n"
            "Hint: make the session without it, or with wm.session().",
            stacklevel=3,
        )


@contextmanager
def query_settings(
    spark: SparkSession,
    tasks: int,
    checkpoint: str,
    effects: Mapping[str, str] | None = None,
    file_manager: str | None = None,
) -> Iterator[None]:
    """While it lasts, the session has what a topology's query needs; then again what it had. One at a time.

    Parameters
    ----------
    tasks : of each exchange.
    checkpoint : the query's, with watersmeet's record in it.
    effects : what functions' results depend on, where that is to be another than the session's.
    file_manager : the class by which Spark has to write the checkpoint; None: as fits the place.
    """
    with _starting:
        wanted: dict[str, str | None] = {**AT_START, "spark.sql.shuffle.partitions": str(tasks), **(effects or {})}
        wanted[_PROGRESS] = str(max(KEPT, int(spark.conf.get(_PROGRESS, "100") or 0)))
        here, manager = on_this_disk(checkpoint), spark.conf.get(FILE_MANAGER, None)
        if file_manager is not None:
            wanted[FILE_MANAGER] = file_manager
        elif here and manager is None:
            wanted[FILE_MANAGER] = PLAIN_FILES
        elif not here and manager == PLAIN_FILES:
            # the session's own, for this disk. HDFS renames by it only where nothing is: of a batch that is run again
            # the state's files would stay those of the first try
            wanted[FILE_MANAGER] = None
        with overridden(spark, wanted):
            yield


def effects(spark: SparkSession) -> dict[str, str]:
    """The session's own settings on which the results of functions depend."""
    with _starting:
        return {name: str(spark.conf.get(name)) for name in _EFFECTS}


@contextmanager
def alone(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """While it lasts, the session has these settings, and no start has others."""
    with _starting, overridden(spark, wanted):
        yield


def on_this_disk(checkpoint: str) -> bool:
    """Whether the checkpoint, which exists, lies on a file system of this machine."""
    path = path_on_this_machine(checkpoint)
    return path is not None and os.path.isdir(os.path.join(path, "watersmeet"))


def path_on_this_machine(checkpoint: str) -> str | None:
    """The checkpoint's path, if its name may be one of this machine."""
    scheme, _, path = checkpoint.rpartition(":")
    return path if scheme in ("", "file") else None


@lru_cache(maxsize=1)
def defaults_to_this_machine(spark: SparkSession) -> bool:
    """Whether a path without a scheme is one of this machine; asked with a path that is there if it is."""
    try:
        found = spark.read.format("binaryFile").load(sys.executable).inputFiles()
    except Exception:  # whatever another file system says of a file that it does not have
        return False
    return found[0].startswith("file:")


@contextmanager
def overridden(spark: SparkSession, wanted: Mapping[str, str | None]) -> Iterator[None]:
    """While it lasts, the session has these settings; None: it does not have it."""
    before = {name: spark.conf.get(name, None) for name in wanted}
    try:
        _set(spark, wanted)
        yield
    finally:
        _set(spark, before)


def _set(spark: SparkSession, wanted: Mapping[str, str | None]) -> None:
    for name, value in wanted.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)
