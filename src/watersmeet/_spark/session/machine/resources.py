"""Memory and folders: whether a JVM and its workers fit."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from watersmeet.errors import ConfigError

BESIDE_HEAP = 512 << 20
"""Bytes that a driver and one worker need besides the JVM's heap."""
LEAST_ROOM = 256 << 20
"""Bytes that a folder for temporary files must have: what one small batch shuffles, and the sockets of workers."""
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory() -> int | None:
    """Bytes of memory that this process may have: of the machine, or of its container; None where it is not known."""
    try:
        found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (AttributeError, ValueError, OSError):
        return None
    for limit in _LIMITS:
        try:
            text = Path(limit).read_text().strip()
        except OSError:
            continue
        found += [int(text)] if text.isdecimal() else []
    return min(found)


def checked_memory(heap: str, there: int | None) -> str:
    """The memory, as text.

    Parameters
    ----------
    heap : of the JVM, as Spark writes it: "1g".
    there : bytes that there are; None: not known.

    Raises
    ------
    ConfigError : the heap does not fit.
    """
    if there is None:
        return "not known"
    wanted = _bytes(heap)
    if wanted is not None and wanted + BESIDE_HEAP > there:
        raise ConfigError(
            f"The JVM's heap, spark.driver.memory={heap!r}, and {BESIDE_HEAP >> 20} MB for Python do not fit into "
            f"{there / (1 << 30):.1f} GiB of memory.",
            hint="Give the machine or the container more memory (2 GiB is enough for a start), or the heap less: "
            'wm.session(config={"spark.driver.memory": "512m"}), or in a file of `run`: [spark], then '
            '"spark.driver.memory" = "512m".',
        )
    return f"{there / (1 << 30):.1f} GiB, of which the JVM's heap may take {heap}"


def _bytes(text: str) -> int | None:
    found = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)b?\s*", text.lower())
    return int(found[1]) * _UNITS[found[2]] if found else None


def temporary_folders(local_dirs: str | None) -> list[str]:
    """The folders in which Spark puts temporary files.

    Parameters
    ----------
    local_dirs : what `spark.local.dir` says; the environment wins over it.
    """
    usual = "/tmp" if sys.platform == "linux" else tempfile.gettempdir()  # the JVM's own; on Linux it reads no TMPDIR
    said = os.environ.get("SPARK_LOCAL_DIRS") or local_dirs or usual
    return list(dict.fromkeys(filter(None, said.split(","))))


def checked_folders(folders: Iterable[str], least: int = LEAST_ROOM) -> str:
    """The folders for temporary files, as text.

    Parameters
    ----------
    least : bytes that each must have free.

    Raises
    ------
    ConfigError : none of them can be written to, or one is full.
    """
    told, failures = [], []
    for folder in folders:
        try:
            place = _there(folder)  # Spark makes what is missing of it
            with tempfile.TemporaryFile(dir=place) as file:
                file.write(b"0")
            free = shutil.disk_usage(place).free
        except OSError as error:
            failures.append(
                ConfigError(
                    f"The folder for temporary files {folder!r} cannot be written to: {error.strerror or error}.",
                    hint="Name another: SPARK_LOCAL_DIRS=/path.",
                )
            )
            continue
        if free < least:
            raise ConfigError(
                f"The folder for temporary files {folder!r} has {free >> 20} MB left, and {least >> 20} MB are needed.",
                hint="Remove files there, or name another folder: SPARK_LOCAL_DIRS=/path.",
            )
        told.append(f"{folder} ({free / (1 << 30):.1f} GiB free)")
    if not told and failures:
        raise failures[0]
    return ", ".join(told)


def _there(folder: str) -> Path:
    """The folder, or the nearest above it that is there."""
    path = Path(folder).absolute()
    return next(each for each in (path, *path.parents) if each.exists())


def checked_jars(jars: Iterable[str]) -> str:
    """Paths of jars, as text.

    Raises
    ------
    ConfigError : one is not there.
    """
    paths = list(jars)
    for jar in paths:
        path = jar.removeprefix("file:")
        if ":" not in path and not any(mark in path for mark in "*?[") and not os.path.isfile(path):
            raise ConfigError(
                f"The jar {jar!r} is not there.",
                hint="Name the path of a file of this machine; without jars=, wm.session(kafka=True) fetches Spark's "
                "Kafka connector.",
            )
    return ", ".join(Path(jar).name for jar in paths)
