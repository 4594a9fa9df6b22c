"""Spark's settings: what a session must have, and what a streaming query takes from it at every start.

A query copies its session's settings when it starts; a restart takes the
state store and the number of tasks from the checkpoint, everything else from the session again.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import json
import os
import re
import secrets
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

import pyspark
from pyspark import SparkContext
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException, PySparkRuntimeError
from pyspark.sql import DataFrame, SparkSession

from watersmeet._spark.machine import (
    SessionConfig,
    check_machine,
    configured_master,
    default_settings,
    folder_of_settings,
    is_one_jvm,
    java_program,
)
from watersmeet._worker import process
from watersmeet.errors import PACKAGE_FOLDER, ConfigError, WatersmeetError
from watersmeet.versions import LEAST_SPARK

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
DAEMON = "watersmeet._spark.worker_daemon"
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

_CONNECT_MODE = "SPARK_CONNECT_MODE_ENABLED"
FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
PLAIN_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

_ON_LINUX = {
    # The C library has it, as all else that a worker allocates: of two allocators each would keep what its largest part
    # of a task has taken, and this one gives all of it back when it is asked to (`process.give_back`).
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

COMPILER = (
    "-XX:Tier4InvocationThreshold=40000 -XX:Tier4MinInvocationThreshold=5000 "
    "-XX:Tier4CompileThreshold=120000 -XX:Tier4BackEdgeThreshold=320000"
)
"""The same: eight times the usual number of calls before the JVM's second compiler takes a method. A load has them in
seconds. A start and small traffic call thousands of methods just often enough: that was a quarter of a start's CPU.
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

_POLLING = "spark.sql.streaming.pollingDelay"
_POLLING_DELAY = "50ms"
"""Between two looks for new records where there are none: Spark's 10 ms are half of the CPU of a query that waits."""
_PROGRESS = "spark.sql.streaming.numRecentProgressUpdates"
_PROGRESSES = 100
"""That Spark keeps at least, while a topology runs: more than there are batches between two looks."""
_with_daemon: set[str] = set()
"""Applications in which the daemon has been started."""
_starting = threading.RLock()
"""Settings belong to a session: of two starts at once one would run under the other's, and leave them behind."""


def check(spark: SparkSession) -> None:
    """Raise or warn where the session cannot carry a topology."""
    version = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if version < LEAST_SPARK:
        raise ConfigError(f"PySpark {pyspark.__version__} is too old.", hint="Install PySpark 4.1 or later.")
    if find_spec("google") is None or find_spec("google.protobuf") is None:
        raise ConfigError(
            "Spark's stateful workers need protobuf, which is not installed.", hint="pip install protobuf"
        )
    check_running(lambda name, default: str(spark.conf.get(name, default)))


def check_running(setting: Callable[[str, str], str]) -> None:
    """Raise or warn where settings that are fixed when a session is made do not fit."""
    if setting("spark.speculation", "false").lower() == "true":
        raise ConfigError(
            "spark.speculation = true is not supported: it runs a task twice at once, and both would write.",
            hint="Make the session with spark.speculation = false.",
        )
    if setting("spark.python.worker.reuse", "true").lower() != "true":
        warnings.warn(
            "spark.python.worker.reuse is off: every task starts a Python of its own, which takes a second.\n"
            "Hint: make the session without it, or with wm.session().",
            stacklevel=3,
        )


def begin_daemon(spark: SparkSession) -> None:
    """Have Spark start its Python daemon, once in an application: its imports take as long as a start's questions."""
    context = spark.sparkContext
    if is_one_jvm(str(context.master)) and context.applicationId not in _with_daemon:
        _with_daemon.add(context.applicationId)

        def run() -> list[Any]:
            return spark.range(0, 1, 1, 1).mapInArrow(lambda batches: batches, "id long").collect()

        process.in_background(run, "the daemon of workers")


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
        settings: dict[str, str | None] = {**AT_START, "spark.sql.shuffle.partitions": str(tasks), **(effects or {})}
        settings[_PROGRESS] = str(max(_PROGRESSES, int(spark.conf.get(_PROGRESS, "100") or 0)))
        if spark.conf.get(_POLLING, None) is None:
            settings[_POLLING] = _POLLING_DELAY
        is_local, manager = on_this_disk(checkpoint), spark.conf.get(FILE_MANAGER, None)
        if file_manager is not None:
            settings[FILE_MANAGER] = file_manager
        elif is_local and manager is None:
            settings[FILE_MANAGER] = PLAIN_FILES
        elif not is_local and manager == PLAIN_FILES:
            # the session's own, for this disk. HDFS renames by it only where nothing is: of a batch that is run again
            # the state's files would stay those of the first try
            settings[FILE_MANAGER] = None
        with overridden(spark, settings):
            yield


def keep_settings(spark: SparkSession, tasks: int) -> None:
    """Give the session what a topology's query needs, for a query that the user starts himself.

    Raises
    ------
    ConfigError : settings cannot be changed here, as within the function of a pipeline.
    """
    settings = {**AT_START, "spark.sql.shuffle.partitions": str(tasks)}
    missing = {name: value for name, value in settings.items() if str(spark.conf.get(name, None)) != value}
    with _starting:
        try:
            _set(spark, missing)
        except PySparkException as refusal:
            raise ConfigError(
                f"The session lacks settings that the topology's query needs: {', '.join(sorted(missing)):.200}.",
                given=str(refusal).partition("\n")[0],
                hint="Give them where the session is configured: "
                + ", ".join(f"{name}: {value!r}" for name, value in sorted(missing.items())),
            ) from None


def effects(spark: SparkSession) -> dict[str, str]:
    """The session's own settings on which the results of functions depend."""
    with _starting:
        return {name: str(spark.conf.get(name)) for name in _EFFECTS}


@contextmanager
def exclusive_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """While it lasts, the session has these settings, and no start has others."""
    with _starting, overridden(spark, settings):
        yield


def on_this_disk(checkpoint: str) -> bool:
    """Whether the checkpoint, which exists, lies on a file system of this machine."""
    path = path_on_this_machine(checkpoint)
    return path is not None and os.path.isdir(os.path.join(path, "watersmeet"))


def path_on_this_machine(checkpoint: str) -> str | None:
    scheme, _, path = checkpoint.rpartition(":")
    return path if scheme in ("", "file") else None


@contextmanager
def overridden(spark: SparkSession, settings: Mapping[str, str | None]) -> Iterator[None]:
    """While it lasts, the session has these settings; None: it does not have it."""
    previous = {name: spark.conf.get(name, None) for name in settings}
    # within the function of a pipeline nothing may be set, not even to what it is
    changed = {name: value for name, value in settings.items() if value != previous[name]}
    try:
        _set(spark, changed)
        yield
    finally:
        _set(spark, {name: previous[name] for name in changed})


def _set(spark: SparkSession, settings: Mapping[str, str | None]) -> None:
    for name, value in settings.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


# Spark's Kafka connector: the jars of the running Spark's version, or of the newest one that is known to work with it.
#
# Fetched with the Ivy that PySpark ships, once for each version of PySpark, into the user's cache folder; later
# sessions find them there. Spark would fetch them by itself (`spark.jars.packages`), but only the one version, at every
# start again, with 60 lines on the console; and where that version is not to be had the JVM ends.

SCALA = "2.13"
CONNECTOR = f"spark-sql-kafka-0-10_{SCALA}"
KNOWN = (
    ("org.apache.spark", CONNECTOR, "4.2.0"),
    ("org.apache.spark", f"spark-token-provider-kafka-0-10_{SCALA}", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.12.0"),
)
"""The newest connector that was tried with PySpark from 4.1 on, and what it needs besides Spark's own jars."""
_ADMIN = "4.4.0"
"""The version of Kafka's client that describes a streams group with its nodes."""
SETTINGS = "spark.jars.ivySettings"
"""Spark's name for the path of a file that tells Ivy of a mirror."""
_SECONDS = 600

# Of the connector's own needs Spark's jars have all but those of these organisations; a second copy does harm.
_FOREIGN = r"""<exclude org="^(?!org\.apache\.(spark|kafka|commons)$).*" matcher="regexp"/>
    <exclude org="org.apache.spark" module="^(?!spark-(sql|token-provider)-kafka).*" matcher="regexp"/>
    <exclude org="org.apache.commons" module="^(?!commons-pool2$).*" matcher="regexp"/>"""


def kafka_package() -> str:
    return f"org.apache.spark:{CONNECTOR}:{pyspark.__version__}"


def kafka_jars(settings: Mapping[str, str], home: Path | None = None, version: str = pyspark.__version__) -> list[str]:
    """Paths of the connector's jars: those at hand, or fetched now.

    Parameters
    ----------
    settings : Spark's; of them `spark.jars.ivySettings` counts.
    home : the folder that holds them; default: of this user's cache.
    version : of Spark.
    """
    home = _cache_home() if home is None else home
    jars = at_hand(home, version)
    if jars:
        return [str(jar) for jar in jars]
    failure = ""
    for name, dependencies in ((version, _exact_dependency(version)), (f"{version}-known", _pinned_dependencies())):
        folder = home / name
        failure = _fetched(dependencies, folder, settings.get(SETTINGS))
        if not failure:
            if name != version:
                print(
                    f"watersmeet: Spark's Kafka connector {version} is not to be had; "
                    f"taking {KNOWN[0][2]}, which works with it.",
                    file=sys.stderr,
                )
            return [str(jar) for jar in sorted(folder.glob("*.jar"))]
    raise ConfigError(
        "Spark's Kafka connector could not be fetched.",
        given=failure,
        hint="Fetch these jars where there is a network and pass their paths, wm.session(jars=[...]): "
        + ", ".join(f"{name}-{revision}.jar" for _, name, revision in KNOWN)
        + f'. Or name a mirror in an Ivy settings file: config={{"{SETTINGS}": "ivysettings.xml"}}.',
    )


def at_hand(home: Path | None = None, version: str = pyspark.__version__) -> list[Path]:
    """The connector's jars that were fetched before; those of the version itself come first."""
    home = _cache_home() if home is None else home
    listed = [sorted((home / name).glob("*.jar")) for name in (version, f"{version}-known")]
    return next(filter(None, listed), [])


def _cache_home() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "watersmeet" / "kafka-connector"


def admin_client(settings: Mapping[str, str], home: Path | None = None) -> Path:
    """Kafka's Java client that knows of streams groups: at hand, or fetched now; arguments as for `kafka_jars`."""
    name = f"kafka-clients-{_ADMIN}"
    folder = (_cache_home() if home is None else home) / name
    dependency = f'<dependency org="org.apache.kafka" name="kafka-clients" rev="{_ADMIN}" transitive="false"/>'
    failure = "" if folder.is_dir() else _fetched(dependency, folder, settings.get(SETTINGS))
    if failure:
        hint = f"It lies in libs/ of Kafka's archive: pass it, --client /opt/kafka/libs/{name}.jar."
        raise ConfigError(f"Kafka's Java client {_ADMIN} could not be fetched.", given=failure, hint=hint)
    return folder / f"{name}.jar"


def _exact_dependency(version: str) -> str:
    dependency = (
        f'<dependency org="org.apache.spark" name="{CONNECTOR}" rev={quoteattr(version)} conf="default->default"/>'
    )
    return f"{dependency}\n    {_FOREIGN}"


def _pinned_dependencies() -> str:
    return "\n    ".join(
        f'<dependency org="{org}" name="{name}" rev="{rev}" conf="default->default" transitive="false"/>'
        for org, name, rev in KNOWN
    )


def _fetched(dependencies: str, folder: Path, settings: str | None) -> str:
    """Have Ivy lay the wanted jars into the folder, all or none; what went wrong, nothing if all is well."""
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as staging:
            into = Path(staging) / "jars"
            descriptor = Path(staging) / "ivy.xml"
            descriptor.write_text(
                '<ivy-module version="2.0">\n  <info organisation="watersmeet" module="session"/>\n'
                f'  <configurations><conf name="default"/></configurations>\n  <dependencies>\n    {dependencies}\n'
                "  </dependencies>\n</ivy-module>\n"
            )
            done = subprocess.run(
                _ivy(descriptor, into, settings), capture_output=True, text=True, check=False, timeout=_SECONDS
            )
            if done.returncode != 0:
                return _reason(done.stdout.splitlines() + done.stderr.splitlines())
            shutil.rmtree(folder, ignore_errors=True)
            # renamed when it is whole: what a start that breaks off leaves is not taken for it
            into.rename(folder)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return str(problem)
    return ""


def _ivy(descriptor: Path, into: Path, settings: str | None) -> list[str]:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations
    return [
        java_program() or "java",
        *_proxies(),
        *("-cp", os.path.join(spec.submodule_search_locations[0], "jars", "*"), "org.apache.ivy.Main"),
        *(["-settings", settings] if settings else []),
        *("-ivy", str(descriptor), "-confs", "default", "-types", "jar", "bundle", "-warn"),
        *("-retrieve", str(into / "[artifact]-[revision].[ext]")),
    ]


def _proxies() -> list[str]:
    """Java's options for the proxies that pip takes from the environment; Java passes those over."""
    options = []
    for scheme in ("http", "https"):
        value = os.environ.get(f"{scheme}_proxy") or os.environ.get(f"{scheme.upper()}_PROXY") or ""
        parts = urlsplit(value if "://" in value else f"//{value}")
        if parts.hostname:
            options += [f"-D{scheme}.proxyHost={parts.hostname}", f"-D{scheme}.proxyPort={parts.port or 80}"]
    return options


def _reason(lines: Iterable[str]) -> str:
    """Of Ivy's report the lines that say what is missing, each once."""
    telling = [line.strip(" \t:") for line in lines if "not found" in line or "error" in line.lower()]
    return "; ".join(dict.fromkeys(telling))[:500] or "Ivy has failed without a word"


# What Spark says on the console of a session that watersmeet makes: no warnings of what is as it should be.
#
# Of the driver alone; executors have files of their own. Log4j leaves out its own lines (`log_options`). The JVM itself
# and Spark's Python workers write past it to the JVM's standard error, which therefore runs through a pipe to a thread
# of this process (`without_chatter`).

LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
CHATTER = re.compile(
    rb"WARNING: Using incubator modules: jdk\.incubator\.vector\b"
    rb"|(Starting )?Streaming TransformWithState\w+ Python worker\b"
    # Java 24 and later, of Spark's options, and of Spark's and Netty's own calls
    rb"|WARNING: (package \S+ not in |A (restricted|terminally deprecated) method in |\S+ (has been|was) called by "
    rb"|Use --enable-native-access|Restricted methods will be|Please consider reporting this"
    rb"|sun\.misc\.Unsafe::\S+ will be removed in)"
)
"""Beginnings of lines that every healthy program causes."""
_PAUSE = 0.02
"""Seconds without a line, after which the end of the program does not wait for another."""
_PAUSES = 25


def log_options(options: Iterable[str]) -> str:
    """The JVM's option that names watersmeet's settings of the log; nothing where these options name others."""
    has_settings = any(folder_of_settings().glob("log4j*"))
    if has_settings or any("log4j" in text for text in options) or "LOG4J_CONFIGURATION_FILE" in os.environ:
        return ""
    # as an address it has no spaces
    return f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}"


@contextmanager
def without_chatter() -> Iterator[None]:
    """A JVM that is started meanwhile has its standard error read by a thread, which leaves out the chatter.

    Where the system does not allow this, standard error stays as it is.
    """
    try:
        target = os.dup(2) if os.name == "posix" else -1
    except OSError:  # a program without standard error
        target = -1
    if target < 0:
        yield
        return
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.flush()
    read, write = os.pipe()
    os.dup2(write, 2)
    os.close(write)
    pump = threading.Thread(target=_pump, args=(read, target), name="stderr of the JVM", daemon=True)
    pump.start()
    atexit.register(_wait_for_last_lines, read)
    try:
        yield
    finally:
        with suppress(OSError, ValueError, AttributeError):
            sys.stderr.flush()
        os.dup2(target, 2)


def _pump(read: int, target: int) -> None:
    tail, was_chatter = b"", False
    with suppress(OSError):
        while piece := os.read(read, 1 << 16):
            *lines, tail = (tail + piece).split(b"\n")
            for line in lines:
                # the workers' lines end with an empty one
                was_chatter = bool(CHATTER.match(line)) or (was_chatter and not line)
                if not was_chatter:
                    _write(target, line + b"\n")
            if b"\r" in tail:  # a line that is drawn again and again, such as Spark's progress
                _write(target, tail)
                tail = b""
        _write(target, tail)
    os.close(read)


def _wait_for_last_lines(read: int) -> None:
    """Wait until the thread has passed on what is in the pipe; it ends with the program."""
    with suppress(OSError, ValueError):  # closed, as the JVM has ended
        for _ in range(_PAUSES):
            if not select.select([read], [], [], _PAUSE)[0]:
                return
            time.sleep(_PAUSE)


def _write(target: int, data: bytes) -> None:
    while data:
        try:
            data = data[os.write(target, data) :]
        except BlockingIOError:  # another program has set the terminal or the pipe not to wait
            select.select([], [target], [], _PAUSE)


# The session that a user gives: whether it is one, and whether it still runs.


def check_session(spark: Any, call: str) -> None:
    """Raise unless it is a Spark session that runs; `call` says how, for the hint."""
    if not (hasattr(spark, "conf") and hasattr(spark, "createDataFrame")):
        raise ConfigError(
            f"This call takes a Spark session, and not {type(spark).__name__}: {spark!r:.80}.",
            hint=f"Make one, spark = wm.session('app'), and call {call}.",
        )
    if is_connect(spark):
        raise of_connect(f"{type(spark).__module__}.{type(spark).__name__}", call)
    if _has_stopped(spark):
        raise ConfigError(
            "The Spark session has been stopped: nothing can run in it any more.",
            hint=f"Make another, spark = wm.session('app'), and call {call}.",
        )


def is_connect(spark: Any) -> bool:
    """Whether a session is one of Spark Connect, which has no JVM beside it (serverless compute gives such ones)."""
    return any(cls.__module__.startswith("pyspark.sql.connect.") for cls in type(spark).__mro__)


def of_connect(subject: str, call: str) -> ConfigError:
    """The error that `subject`, a session of Spark Connect or its place, cannot do this; the hint has the call."""
    return ConfigError(
        f"A session of Spark Connect, as serverless compute has it, cannot run a topology: {subject:.120}.",
        hint=f"Run the program on the driver (spark-submit, a classic cluster, or local[*]), without SPARK_REMOTE: "
        f"spark = wm.session('app'), {call}. In a pipeline: wm.flow(build, spark, name, checkpoint=...). "
        "docs/deploy.md#spark-connect-and-serverless.",
    )


@contextmanager
def connect_server(spark: Any) -> Iterator[tuple[SparkSession, Callable[[DataFrame], str]]]:
    """A session of the JVM that serves a session of Spark Connect, and a function that shares a DataFrame of it.

    While it lasts, PySpark's functions make columns of that session. The function gives SQL for the one of Connect.

    Raises
    ------
    ConfigError : it is no session of Spark Connect, or the server is another process.
    """
    # PySpark looks at this variable to learn whose columns its functions make
    mode = os.environ.pop(_CONNECT_MODE, None)
    try:
        server = SparkSession.getActiveSession()
        if not is_connect(spark) or server is None:
            raise ConfigError(
                "wm.flow needs the session of a pipeline with its server in this process: "
                f"{type(spark).__module__}.{type(spark).__name__:.80}.",
                hint="Call it in a function under @dp.table, and start spark-pipelines without a remote server. "
                "Elsewhere write the output to a table, topology.frame(...).writeStream.toTable(name), and read that: "
                "spark.readStream.table(name).",
            )
        yield server.newSession(), _view_query
    finally:
        if mode is not None:
            os.environ[_CONNECT_MODE] = mode


def _view_query(frame: DataFrame) -> str:
    """SQL that reads the DataFrame in any session of the same JVM."""
    view = f"watersmeet_{uuid.uuid4().hex}"
    frame.createGlobalTempView(view)
    # a pipeline takes each plain name for one of its own or of the catalog; of an expression only Spark learns the name
    return f"SELECT * FROM IDENTIFIER('global_temp.' || '{view}')"


def check_threads(needed_by: str) -> None:
    """Raise where PySpark does not keep a thread of the JVM for each of Python's.

    Such a thread has the properties of its jobs, and can end its query without an interruption.

    Parameters
    ----------
    needed_by : the call or the option that needs these threads.
    """
    value = os.environ.get("PYSPARK_PIN_THREAD", "true")
    if value.lower() != "true":
        raise ConfigError(
            f"{needed_by} does not work with PYSPARK_PIN_THREAD={value}: PySpark then shares threads of the JVM.",
            hint="Leave that variable out.",
        )


def _has_stopped(spark: Any) -> bool:
    try:
        # of a stopped context it asks what is not there any more
        _ = spark.sparkContext.defaultParallelism
    except AttributeError as error:
        return "NoneType" in str(error)
    except Exception:
        return False
    return False


# The archive of Spark's classes: a JVM that finds one reads and checks no class files, which is a third of a start.
#
# Made once (`watersmeet.prepare`), it lies in the user's cache folder; a JVM of another version, or with other jars of
# Spark's, passes over it by itself (the JDK's class data sharing: JEP 310 and 350). A matter of speed alone.

_OTHERS = re.compile(r"-Xshare|SharedArchiveFile|ArchiveClassesAtExit|AOTCache|AOTMode|-agent|-javaagent")
"""Options of somebody who has an archive or a cache (JEP 483), or with which the JVM takes none."""
_NAME = re.compile(r"[0-9a-f]+-(\d+)\.jsa")
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
"""Else the JVM says on the console where an archive does not fit it."""


def java() -> Path:
    return Path(java_program() or "java").resolve()


def archive_place() -> Path:
    identity = f"{java()} {Path(os.environ.get('SPARK_HOME') or pyspark.__file__).resolve()} {pyspark.__version__}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "watersmeet" / "classes" / hashlib.sha256(identity.encode()).hexdigest()[:16]


def archives(place: Path) -> list[Path]:
    """The archives of this place that are whole: the size is in the name, since a JVM dies of one that was cut off."""
    candidates = [(_NAME.fullmatch(file.name), file) for file in place.parent.glob(f"{place.name}-*.jsa")]
    return [file for name, file in candidates if name is not None and int(name[1]) == file.stat().st_size]


def archive_options(options: Iterable[str]) -> str:
    """The JVM's options that name the archive; nothing where there is none, or these options name another."""
    paths = archives(archive_place())
    if not paths or re.search(r"\s", str(paths[0])) or any(_OTHERS.search(text) for text in options):
        return ""
    return f"-XX:SharedArchiveFile={paths[0]} {_QUIET}"


# What `wm.session` gives in a worker of Spark's, which has no session.
#
# A function that lies in a module is sent by the module's name, and a worker imports the module to find it. Whatever
# the module does at its top then happens there too: a test module that makes its session at its top is to be imported
# all the same.


class NoSession:
    """Stands for the session in a worker: whatever is asked of it is refused."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ConfigError(
            f"A worker of Spark has no session, and a function reads {name!r} of one.",
            hint="The module is imported in the workers, which call its functions: use the session within functions "
            "(a fixture, def main()), and leave the module's top to wm.session(...) alone.",
        )


def session_of_worker() -> SparkSession | None:
    """The replacement of the session in a worker; None on the driver."""
    return cast("SparkSession", NoSession()) if process.in_task() else None


# A Spark session that fits: interpreter, state store, Kafka connector.
#
# Settings that a streaming query takes from its session are set anew around every start (`query_settings`); here are
# the settings that are fixed when the session is made.

LONGEST_FOLDER = 60
"""Of sockets, in bytes: a socket's own name has about 45, and the shortest limit there is, macOS's, is 104."""
JAVA_OPTIONS = ("PYSPARK_SUBMIT_ARGS", "SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
"""Variables by which the JVM gets options beside Spark's settings."""
JVM = "spark.driver.defaultJavaOptions"
COLLECTOR_OPTION = re.compile(r"-XX:[+-]Use\w+GC\b")


def session(
    app_name: str = "watersmeet",
    *,
    master: str | None = None,
    kafka: bool = False,
    jars: Sequence[str] | None = None,
    config: dict[str, str] | None = None,
) -> SparkSession:
    """See `watersmeet.session.session`."""
    config = config or {}
    in_worker = session_of_worker()
    if in_worker is not None:
        return in_worker
    existing = SparkSession.getActiveSession()
    if existing is not None:
        _check_existing(existing, {**({"spark.master": master} if master else {}), **_given_jars(jars), **config})
        if kafka and not jars:
            _check_connector(existing)
        check(existing)
        return existing
    has_jvm = "PYSPARK_GATEWAY_PORT" in os.environ or SparkContext._gateway is not None
    configured = None if master or "spark.master" in config else configured_master()
    chosen_master = config.get("spark.master") or master or configured or "local[*]"
    _refuse_remote(chosen_master)
    if not has_jvm:
        check_machine(SessionConfig.of(chosen_master, jars or (), config))
    # A worker of another Python than the driver's refuses to work; Spark would take the first `python3`.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    builder = builder.master(chosen_master) if configured is None else builder
    local_settings = of_this_machine(config) if is_one_jvm(chosen_master) else {}
    connector_settings = {} if has_jvm and not jars else connector(kafka, jars, config)
    defaults = {**SESSION, **local_settings, **connector_settings}
    defaults[JVM] = _jvm_options(defaults[JVM], _java_options(config), is_local=bool(local_settings))
    spark = _started(builder, {**defaults, **config})
    if kafka and has_jvm:
        _check_connector(spark)
    check(spark)
    return spark


def _refuse_remote(master: str) -> None:
    if master.startswith("remote "):
        # the variable's value may have a token
        raise of_connect("SPARK_REMOTE is set", "topology.start(spark, ...)")


def _started(builder: SparkSession.Builder, settings: Mapping[str, str]) -> SparkSession:
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        with without_chatter():
            return builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise ConfigError(
            "The JVM of Spark ended before it answered; its own message stands above.",
            hint="`watersmeet doctor` checks Java, memory and folders; see docs/runbook.md#no-start.",
        ) from None


def connector(kafka: bool, jars: Sequence[str] | None, config: Mapping[str, str]) -> dict[str, str]:
    """The settings that bring Spark's Kafka connector along."""
    settings = {**default_settings(), **config}
    texts = [
        settings.get("spark.jars.packages", ""),
        settings.get("spark.jars", ""),
        os.environ.get("PYSPARK_SUBMIT_ARGS", ""),
    ]
    if jars or not kafka or any("spark-sql-kafka" in text for text in texts):
        return _given_jars(jars)
    if "spark.jars.repositories" in settings:
        # Spark knows best how to ask them
        return {"spark.jars.packages": kafka_package()}
    return _given_jars([*filter(None, settings.get("spark.jars", "").split(",")), *kafka_jars(settings)])


def _given_jars(jars: Sequence[str] | None) -> dict[str, str]:
    return {"spark.jars": ",".join(jars)} if jars else {}


def _check_connector(spark: SparkSession) -> None:
    """Raise where the JVM was started without the connector: it takes no jars any more."""
    try:
        spark.read.format("kafka").load()
    except AnalysisException:
        raise ConfigError(
            "Spark is running already, without its Kafka connector.",
            given="kafka=True",
            hint=f"Start it with the connector: spark-submit --packages {kafka_package()} (or --jars), or make the "
            "first session of this process with wm.session(kafka=True).",
        ) from None
    except IllegalArgumentException:
        # the connector is there, and says that it was not told of any topic
        return


def sockets(folder: str) -> dict[str, str]:
    """The settings by which Spark talks to its Python workers through files in `folder` and not through the network.

    Nothing where the folder's name leaves too little room for a socket's: the system takes about a hundred
    characters, and Spark ends the JVM over a longer one.
    """
    if not hasattr(socket, "AF_UNIX") or len(os.fsencode(folder)) > LONGEST_FOLDER:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": folder}


def of_this_machine(config: Mapping[str, str]) -> dict[str, str]:
    """The settings for Spark on this machine alone."""
    # the JVM takes them over when it is started; its workers have their own, unless somebody has chosen for both
    for name, value in ALLOCATOR.items():
        os.environ.setdefault(name, value)
    custom = {name for name, value in ALLOCATOR.items() if os.environ[name] != value}
    workers = {f"spark.executorEnv.{n}": v for n, v in WORKERS_ALLOCATOR.items() if n not in custom}
    # of two collectors the JVM takes none and ends
    has_collector = any(COLLECTOR_OPTION.search(text) for text in _java_options(config))
    collector = {} if has_collector else COLLECTOR
    return {**LOCAL, **workers, **collector, **sockets(temporary_folder())}


def temporary_folder() -> str:
    """A new folder that this user alone can open; it is removed when this process ends.

    A process that can open a worker's socket, or change a jar, can run code there.
    """
    folder = tempfile.mkdtemp(prefix="wm-")
    atexit.register(partial(shutil.rmtree, folder, ignore_errors=True))
    return folder


def _java_options(config: Mapping[str, str]) -> list[str]:
    """Texts in which others may give the JVM options."""
    options = [value for name, value in config.items() if name.endswith("JavaOptions")]
    options += [os.environ.get(name, "") for name in JAVA_OPTIONS]
    options += default_settings().values()
    return options


def _jvm_options(default: str, java_options: list[str], *, is_local: bool) -> str:
    local = (COMPILER, archive_options(java_options)) if is_local else ()
    return " ".join(filter(None, (default, log_options(java_options), *local)))


def _check_existing(spark: SparkSession, settings: dict[str, str]) -> None:
    differences = {name: spark.conf.get(name, None) for name, value in settings.items()}
    differences = {name: current for name, current in differences.items() if current != settings[name]}
    if differences:
        name, current = next(iter(differences.items()))
        raise ConfigError(
            "There is a Spark session already, made with other settings.",
            given=f"{name} = {current}",
            hint=f"Stop it first (spark.stop()), or make it with {name} = {settings[name]}.",
        )


# Warnings that stand on the user's own line, however deep below they are found.


def warn(message: str, hint: str) -> None:
    """Warn: what is so, and what to do or to know, in the form of our errors."""
    frame, depth = sys._getframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE_FOLDER):
        frame, depth = frame.f_back, depth + 1
    warnings.warn(f"{message}\nHint: {hint}", stacklevel=depth)


# Connectors of table formats: each is made for one version of Spark, and says by missing classes that it is another.

PAIRS = "Delta 4.4 works with PySpark 4.2, Iceberg 1.12 with PySpark 4.1"
"""The pairs of versions that `make versions` tries."""
_UNFIT = (
    *("NoSuchMethodError", "NoSuchFieldError", "NoClassDefFoundError", "ClassNotFoundException"),
    *("AbstractMethodError", "IncompatibleClassChangeError", "CATALOG_PLUGIN_CLASS_NOT_FOUND"),
    *("Cannot find catalog plugin class", "DATA_SOURCE_NOT_FOUND", "DELTA_CONFIGURE_SPARK_SESSION"),
)
"""What Java and Spark say where a class is missing, or was made for another version."""


@contextmanager
def connecting(spark: SparkSession, table: str) -> Iterator[None]:
    """Around what asks a table's connector: one that does not work is said with the versions that do.

    Raises
    ------
    ConfigError : the connector is missing, or made for another Spark.
    """
    try:
        yield
    except WatersmeetError:
        raise
    except Exception as error:
        text = str(error)
        if not any(word in text for word in _UNFIT):
            raise
        lines = [line.strip() for line in text.splitlines() if any(word in line for word in _UNFIT)]
        raise ConfigError(
            f"The connector of the table {table!r} is missing, or does not work with Spark {spark.version}.",
            given=lines[0][:200],
            hint=f"{PAIRS}: take one of these pairs, with the connector's jars in spark.jars (docs/lakehouse.md).",
        ) from None


# How the Kafka client's settings, which may hold secrets, reach the tasks that write.
#
# Values pickled into a function lie in block stores and broadcast files, and the properties of a job lie in the
# event log, unless the session was made with a setting of the same name: Spark blacks out only those. So neither
# has the settings. They are split: a random pad goes as a property of the job, and what the pad turns into the
# settings goes with the function. One without the other says nothing but the length.


@contextmanager
def handed_over(
    spark: SparkSession, settings: Mapping[str, Any], name: str = process.SECRETS_PROPERTY
) -> Iterator[bytes]:
    """The settings that a function needs for `received`, in tasks of the jobs that this thread starts while it lasts.

    A streaming query that is started while it lasts keeps the property for all its jobs.
    """
    content = json.dumps(dict(settings)).encode()
    pad = secrets.token_bytes(len(content))
    context = spark.sparkContext
    context.setLocalProperty(name, pad.hex())
    try:
        yield process.combined(content, pad)
    finally:
        context.setLocalProperty(name, None)  # type: ignore[arg-type]  # documented: removes it
