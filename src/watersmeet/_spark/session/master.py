"""Which master of Spark is configured, before there is a session: watersmeet chooses none where anybody has."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pyspark
from pyspark import SparkConf, SparkContext

HEAP = "spark.driver.memory"
_ONE_JVM = re.compile(r"local(\[[^\]]*\])?")
_PROPERTY = re.compile(r"^\s*([\w.\-]+)(?:\s*[=:]\s*|\s+)(.*?)\s*$")


def is_one_jvm(master: str) -> bool:
    """Whether all runs in the driver's JVM; `local-cluster[...]` has executors of its own, if on this machine."""
    return _ONE_JVM.fullmatch(master) is not None


def configured_master() -> str | None:
    """The master that spark-submit, the environment or Spark's files name; None where none does.

    In Spark's own order: the command line, its settings, the file of settings, the variable MASTER. SPARK_REMOTE, which
    names a server of Spark Connect, is in the place of a master.
    """
    if "SPARK_REMOTE" in os.environ:
        return f"remote {os.environ['SPARK_REMOTE']}"
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return _master_of_the_jvm()
    named, _, _ = _of_the_command_line()
    return named or default_settings().get("spark.master") or os.environ.get("MASTER")


def default_settings() -> dict[str, str]:
    """The settings of Spark's file of defaults, where there is one, and in place of them the submitted ones."""
    _, given, file = _of_the_command_line()
    return {**_properties(_defaults_file() if file is None else Path(file)), **given}


def submitted_settings() -> dict[str, str]:
    """The settings that PYSPARK_SUBMIT_ARGS names."""
    return _of_the_command_line()[1]


def _master_of_the_jvm() -> str | None:
    """Under spark-submit the JVM is there before Python is, and has read everything."""
    try:
        # what making the context does first; it has no public name
        SparkContext._ensure_initialized()
    except AttributeError:
        return None
    return SparkConf().get("spark.master")


def _of_the_command_line() -> tuple[str | None, dict[str, str], str | None]:
    """The master, the settings and the file of settings that arguments for spark-submit name."""
    words = iter(shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "")))
    named, settings, file = None, dict[str, str](), None
    for word in words:
        option, joined, value = word.partition("=")
        if option not in ("--master", "--conf", "-c", "--properties-file", "--driver-memory"):
            continue
        value = value if joined else next(words, "")
        if option == "--master":
            named = value
        elif option == "--properties-file":
            file = value
        elif option == "--driver-memory":
            settings[HEAP] = value
        else:
            name, _, content = value.partition("=")
            settings[name] = content
    return named, settings, file


def folder_of_settings() -> Path:
    """Spark's folder of files with settings; it need not be there."""
    home = os.environ.get("SPARK_HOME") or os.path.dirname(pyspark.__file__)
    return Path(os.environ.get("SPARK_CONF_DIR") or os.path.join(home, "conf"))


def _defaults_file() -> Path:
    return folder_of_settings() / "spark-defaults.conf"


def _properties(file: Path) -> dict[str, str]:
    if not file.is_file():
        return {}
    lines = file.read_text(errors="replace").splitlines()
    found = [_PROPERTY.match(line) for line in lines if not line.lstrip().startswith(("#", "!"))]
    return {match[1]: match[2] for match in found if match is not None}
