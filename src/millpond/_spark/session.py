"""A Spark session that fits: interpreter, state store, Kafka connector.

What a streaming query takes from its session is set anew around every start
(`settings`); here are the settings that are fixed when the session is made.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from millpond._spark import settings
from millpond.errors import ConfigError

SCALA = "2.13"
LONGEST_FOLDER = 60
"""Of sockets, in bytes: a socket's own name has about 45, and the shortest limit there is, macOS's, is 104."""
JAVA_OPTIONS = ("PYSPARK_SUBMIT_ARGS", "SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
"""Variables by which the JVM gets options beside Spark's settings."""
COLLECTOR_OPTION = re.compile(r"-XX:[+-]Use\w+GC\b")


def session(
    app_name: str = "millpond",
    *,
    master: str | None = None,
    kafka: bool = False,
    jars: Sequence[str] | None = None,
    config: dict[str, str] | None = None,
) -> SparkSession:
    """See `millpond.session.session`."""
    existing = SparkSession.getActiveSession()
    if existing is not None:
        _check_existing(existing, {**connector(kafka, jars), **(config or {})})
        settings.check(existing)
        return existing
    # A worker of another Python than the driver's refuses to work; Spark would take the first `python3`.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    if master is None and not _has_master():
        master = "local[*]"
    if master is not None:
        builder = builder.master(master)
    given = (config or {}).get("spark.master", master)
    here = of_this_machine(config or {}) if given is not None and given.startswith("local") else {}
    chosen = {**settings.SESSION, **here, **connector(kafka, jars), **(config or {})}
    for name, value in chosen.items():  # one turn per setting
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    settings.check(spark)
    return spark


def kafka_package() -> str:
    """Coordinates of the Kafka connector for the running Spark."""
    return f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}:{pyspark.__version__}"


def connector(kafka: bool, jars: Sequence[str] | None) -> dict[str, str]:
    """The settings that bring Spark's Kafka connector along."""
    if jars:
        return {"spark.jars": ",".join(jars)}
    return {"spark.jars.packages": kafka_package()} if kafka else {}


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
    # the JVM takes them over when it is started, and its workers from it
    for name, value in settings.ALLOCATOR.items():  # one turn per variable
        os.environ.setdefault(name, value)
    collector = {} if _names_collector(config) else settings.COLLECTOR
    return {**settings.LOCAL, **collector, **sockets(tempfile.gettempdir())}


def _names_collector(config: Mapping[str, str]) -> bool:
    """Whether somebody has chosen a garbage collector: of two the JVM takes none and ends."""
    said = [value for name, value in config.items() if name.endswith("JavaOptions")]
    said += [os.environ.get(name, "") for name in JAVA_OPTIONS]
    home = os.environ.get("SPARK_HOME") or os.path.dirname(pyspark.__file__)
    folder = os.environ.get("SPARK_CONF_DIR") or os.path.join(home, "conf")
    defaults = Path(folder) / "spark-defaults.conf"
    said += [defaults.read_text(errors="replace")] if defaults.is_file() else []
    return any(COLLECTOR_OPTION.search(text) for text in said)


def _has_master() -> bool:
    given = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    return "--master" in given or "MASTER" in os.environ or "SPARK_REMOTE" in os.environ


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
