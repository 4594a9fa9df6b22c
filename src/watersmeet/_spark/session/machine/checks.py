"""All checks of the machine: a session raises the first that fails, `watersmeet doctor` lists them all."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from watersmeet._spark.session.machine.java import found_java, is_set_by_spark
from watersmeet._spark.session.machine.resources import (
    checked_folders,
    checked_jars,
    checked_memory,
    memory,
    temporary_folders,
)
from watersmeet._spark.session.machine.versions import checked_python, checked_spark
from watersmeet._spark.session.master import HEAP, default_settings, is_one_jvm, submitted_settings


@dataclass(frozen=True)
class Wanted:
    """The session that is about to start.

    Parameters
    ----------
    settings : Spark's, those of its files included.
    jars : paths that the user gave.
    here : whether all of it runs on this machine.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    jars: Sequence[str] = ()
    here: bool = True

    @classmethod
    def of(cls, master: str, jars: Sequence[str], config: Mapping[str, str]) -> Wanted:
        """The session of this master, with the settings of Spark's files and these in place of them."""
        # PySpark puts PYSPARK_SUBMIT_ARGS behind its own settings, and the JVM's heap is the one that is named last
        heap = {name: value for name, value in submitted_settings().items() if name == HEAP}
        return cls({**default_settings(), **config, **heap}, jars, here=is_one_jvm(master))

    @property
    def heap(self) -> str:
        """The JVM's heap, as Spark writes it."""
        return self.settings.get(HEAP) or os.environ.get("SPARK_DRIVER_MEMORY") or "1g"


def checks(wanted: Wanted) -> dict[str, Callable[[], str]]:
    """By name, each check: it returns what was found, or raises ConfigError."""
    workers = os.environ.get("PYSPARK_PYTHON") if wanted.here else None
    found: dict[str, Callable[[], str]] = {
        "Python": lambda: checked_python(workers),
        "PySpark": checked_spark,
        "Java": lambda: str(found_java()),
        "memory": lambda: checked_memory(wanted.heap, memory()),
        "temporary files": lambda: checked_folders(temporary_folders(wanted.settings.get("spark.local.dir"))),
    }
    if is_set_by_spark():
        del found["Java"]
    if wanted.jars:
        found["jars"] = lambda: checked_jars(wanted.jars)
    return found


def check_machine(wanted: Wanted) -> None:
    """Raise unless Spark can start here; no JVM is started to find out.

    Raises
    ------
    ConfigError : the first check that fails.
    """
    for check in checks(wanted).values():
        check()
