"""Spark with executors of their own on this machine, for tests: a home whose folders are theirs, a standalone cluster.

PySpark from PyPI has all that it takes but the scripts in `sbin`. Spark's workers write below its home, so each test
gets a home of links in a folder of its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from dev.fetch_jars import pyspark_jars

LOCAL_CLUSTER = "local-cluster[2,1,1024]"
"""Two executors of one core and 1 GB."""
_SECONDS = 300.0
_LOOK_SECONDS = 0.1


class ClusterFailed(RuntimeError):
    """A part of the cluster did not start; the message holds the end of its log."""


def spark_home(folder: Path) -> Path:
    """A home of the installed Spark in a folder, made of links."""
    home = folder / "spark-home"
    if home.exists():
        return home
    home.mkdir(parents=True)
    for entry in pyspark_jars().parent.iterdir():
        if entry.name not in ("work", "conf"):
            (home / entry.name).symlink_to(entry)
    return home


class Place(NamedTuple):
    """Where a part of the cluster runs: its address, and what stands before its command."""

    address: str = "127.0.0.1"
    within: tuple[str, ...] = ()


HERE = (Place(), Place(), Place())


@contextmanager
def standalone(
    folder: Path, environment: Mapping[str, str], places: Sequence[Place] = HERE, cores: int = 1
) -> Iterator[str]:
    """The address of a standalone cluster of workers with some cores each, while it lasts.

    Parameters
    ----------
    places : where the master runs, and each worker.
    cores : of a worker, each with 1 GB.
    """
    environment = {**environment, "SPARK_LOCAL_DIRS": str(folder / "local")}
    running: list[subprocess.Popen[bytes]] = []
    try:
        running.append(_started(folder, "master", environment, places[0], "--port", "0"))
        address = _said(running[0], folder / "master.log", r"Starting Spark master at (spark://\S+)")
        for number in range(len(places) - 1):
            name = f"worker-{number}"
            own = ("--cores", str(cores), "--memory", f"{cores}g", "--work-dir", str(folder / name))
            running.append(_started(folder, name, environment, places[1 + number], *own, address))
            _said(running[-1], folder / f"{name}.log", "(Successfully registered with master)")
        yield address
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait()


def _started(
    folder: Path, name: str, environment: Mapping[str, str], place: Place, *arguments: str
) -> subprocess.Popen[bytes]:
    home = spark_home(folder)
    kind = "master.Master" if name == "master" else "worker.Worker"
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [
                *(*place.within, str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}"),
                *("--webui-port", "0", "--host", place.address, *arguments),
            ],
            stdout=log,
            stderr=log,
            env={
                **environment,
                "SPARK_HOME": str(home),
                "SPARK_DAEMON_MEMORY": "256m",
                "SPARK_LOCAL_IP": place.address,
                **_verbose(folder),
            },
        )


def _verbose(folder: Path) -> dict[str, str]:
    """Settings of the log by which the parts say where they are."""
    settings = folder / "log4j2.properties"
    settings.write_text(
        "rootLogger.level = info\nrootLogger.appenderRef.console.ref = console\nappender.console.type = Console\n"
        "appender.console.name = console\nappender.console.layout.type = PatternLayout\n"
        "appender.console.layout.pattern = %m%n\n"
    )
    return {"LOG4J_CONFIGURATION_FILE": settings.as_uri()}


def _said(process: subprocess.Popen[bytes], log: Path, pattern: str) -> str:
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end and process.poll() is None:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found is not None:
            return found[1]
        time.sleep(_LOOK_SECONDS)
    raise ClusterFailed(f"{log.stem} has not started:\n{log.read_text(errors='replace')[-2_000:]}")


def cleaned(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment without what tells Spark where to run."""
    return {name: value for name, value in environment.items() if not name.startswith(("SPARK_", "PYSPARK_", "MASTER"))}
