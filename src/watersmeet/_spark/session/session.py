"""A Spark session that fits: interpreter, state store, Kafka connector.

Settings that a streaming query takes from its session are set anew around every start
(`settings`); here are the settings that are fixed when the session is made.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial

from pyspark import SparkContext
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkRuntimeError
from pyspark.sql import SparkSession

from watersmeet._spark.session import settings
from watersmeet._spark.session.archive import archive_options
from watersmeet._spark.session.check import of_connect
from watersmeet._spark.session.connector import kafka_jars, kafka_package
from watersmeet._spark.session.console import log_options, without_chatter
from watersmeet._spark.session.in_worker import session_of_worker
from watersmeet._spark.session.machine.checks import Wanted, check_machine
from watersmeet._spark.session.master import configured_master, default_settings, is_one_jvm
from watersmeet.errors import ConfigError

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
        _check_existing(existing, {**_given_jars(jars), **config})
        if kafka and not jars:
            _check_connector(existing)
        settings.check(existing)
        return existing
    has_jvm = "PYSPARK_GATEWAY_PORT" in os.environ or SparkContext._gateway is not None
    configured = None if master or "spark.master" in config else configured_master()
    chosen_master = config.get("spark.master") or master or configured or "local[*]"
    _refuse_remote(chosen_master)
    if not has_jvm:
        check_machine(Wanted.of(chosen_master, jars or (), config))
    # A worker of another Python than the driver's refuses to work; Spark would take the first `python3`.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    builder = builder.master(chosen_master) if configured is None else builder
    here = of_this_machine(config) if is_one_jvm(chosen_master) else {}
    brought = {} if has_jvm and not jars else connector(kafka, jars, config)
    made = {**settings.SESSION, **here, **brought}
    said = _java_options(config)
    made[JVM] = " ".join(filter(None, (made[JVM], log_options(said), archive_options(said) if here else "")))
    spark = _started(builder, {**made, **config})
    if kafka and has_jvm:
        _check_connector(spark)
    settings.check(spark)
    return spark


def _refuse_remote(master: str) -> None:
    if master.startswith("remote "):
        # the variable's value may have a token
        raise of_connect("SPARK_REMOTE is set", "topology.start(spark, ...)")


def _started(builder: SparkSession.Builder, made: Mapping[str, str]) -> SparkSession:
    for name, value in made.items():
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
    told = {**default_settings(), **config}
    said = [told.get("spark.jars.packages", ""), told.get("spark.jars", ""), os.environ.get("PYSPARK_SUBMIT_ARGS", "")]
    if jars or not kafka or any("spark-sql-kafka" in text for text in said):
        return _given_jars(jars)
    if "spark.jars.repositories" in told:
        # Spark knows best how to ask them
        return {"spark.jars.packages": kafka_package()}
    return _given_jars([*filter(None, told.get("spark.jars", "").split(",")), *kafka_jars(told)])


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
    for name, value in settings.ALLOCATOR.items():
        os.environ.setdefault(name, value)
    chosen = {name for name, value in settings.ALLOCATOR.items() if os.environ[name] != value}
    workers = {f"spark.executorEnv.{n}": v for n, v in settings.WORKERS_ALLOCATOR.items() if n not in chosen}
    # of two collectors the JVM takes none and ends
    named = any(COLLECTOR_OPTION.search(text) for text in _java_options(config))
    collector = {} if named else settings.COLLECTOR
    return {**settings.LOCAL, **workers, **collector, **sockets(temporary_folder())}


def temporary_folder() -> str:
    """A new folder that this user alone can open; it is removed when this process ends.

    A process that can open a worker's socket, or change a jar, can run code there.
    """
    folder = tempfile.mkdtemp(prefix="wm-")
    atexit.register(partial(shutil.rmtree, folder, ignore_errors=True))
    return folder


def _java_options(config: Mapping[str, str]) -> list[str]:
    """Texts in which others may give the JVM options."""
    said = [value for name, value in config.items() if name.endswith("JavaOptions")]
    said += [os.environ.get(name, "") for name in JAVA_OPTIONS]
    said += default_settings().values()
    return said


def _check_existing(spark: SparkSession, wanted: dict[str, str]) -> None:
    other = {name: spark.conf.get(name, None) for name, value in wanted.items()}
    other = {name: found for name, found in other.items() if found != wanted[name]}
    if other:
        name, found = next(iter(other.items()))
        raise ConfigError(
            "There is a Spark session already, made with other settings.",
            given=f"{name} = {found}",
            hint=f"Stop it first (spark.stop()), or make it with {name} = {wanted[name]}.",
        )
