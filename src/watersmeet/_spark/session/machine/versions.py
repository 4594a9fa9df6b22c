"""Python, PySpark, and the Spark that it starts: whether they are of versions that fit each other."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pyspark

from watersmeet.errors import ConfigError

NEWEST_PYTHON = (3, 13)
"""The newest that was tried; pyproject.toml has the same."""
_SECONDS = 60


def checked_python(workers: str | None, version: tuple[int, ...] = sys.version_info[:2]) -> str:
    """This Python and that of the workers, as text.

    Parameters
    ----------
    workers : the program that PYSPARK_PYTHON names, if workers run on this machine.
    version : of this Python, two numbers.

    Raises
    ------
    ConfigError : this one is too new, or the workers' is not there, or of another version.
    """
    if version > NEWEST_PYTHON:
        raise ConfigError(
            f"Python {'.'.join(map(str, version))} has not been tried with watersmeet: it runs on Python 3.11 to "
            f"{'.'.join(map(str, NEWEST_PYTHON))}.",
            hint="Make an environment of one of these: python3.13 -m venv .venv.",
        )
    if workers and workers != sys.executable:
        _check_workers(workers, version)
    return f"{platform.python_version()}, {sys.executable}"


def _check_workers(program: str, version: tuple[int, ...]) -> None:
    here = ".".join(map(str, version))
    hint = f"Unset PYSPARK_PYTHON: the workers then run {sys.executable}."
    try:
        code = "import sys; print('%d.%d' % sys.version_info[:2])"
        done = subprocess.run([program, "-c", code], capture_output=True, text=True, check=False, timeout=_SECONDS)
        found = done.stdout.strip() if done.returncode == 0 else ""
    except (OSError, subprocess.TimeoutExpired):
        found = ""
    if found != here:
        what = f"is Python {found}, and this one is {here}" if found else "is not a Python that runs"
        raise ConfigError(f"PYSPARK_PYTHON={program!r} {what}.", hint=hint)


def checked_spark() -> str:
    """PySpark and the Spark that it starts, as text.

    Raises
    ------
    ConfigError : another PySpark is installed than the one that is imported, or SPARK_HOME is another Spark.
    """
    package = Path(pyspark.__file__).resolve().parent
    _check_installed(package)
    home = os.environ.get("SPARK_HOME")
    if home is None:
        return f"{pyspark.__version__}, {package}"
    if not Path(home, "bin", "spark-submit").is_file():
        raise ConfigError(
            f"SPARK_HOME={home!r} has no bin/spark-submit, so it is not a Spark.",
            hint=f"Unset SPARK_HOME: PySpark has a Spark {pyspark.__version__} of its own.",
        )
    found = spark_version(Path(home))
    if found is not None and _minor(found) != _minor(pyspark.__version__):
        raise ConfigError(
            f"SPARK_HOME={home!r} is Spark {found}, and PySpark is {pyspark.__version__} ({package}).",
            hint="Unset SPARK_HOME: PySpark has a Spark of its own. Or install the PySpark of that version.",
        )
    return f"{pyspark.__version__}, {package}; SPARK_HOME={home} is Spark {found or 'of an unknown version'}"


def _check_installed(package: Path) -> None:
    try:
        installed = distribution("pyspark")
    except PackageNotFoundError:
        return
    home = os.environ.get("SPARK_HOME")
    if home and package.is_relative_to(Path(home).resolve()):
        return  # that Spark's own, which it starts itself
    place = Path(str(installed.locate_file("pyspark"))).resolve()
    if place != package and _minor(installed.version) != _minor(pyspark.__version__):
        raise ConfigError(
            f"Python imports PySpark {pyspark.__version__} from {package}, but {installed.version} is installed in "
            f"{place.parent}.",
            hint=f"Take {package.parent} from PYTHONPATH, or install pyspark=={pyspark.__version__}.",
        )


def spark_version(home: Path) -> str | None:
    """The version of the Spark in a folder; None where its jars do not name it."""
    names = [re.fullmatch(r"spark-core_[\d.]+-(.+)\.jar", jar.name) for jar in home.glob("jars/spark-core_*.jar")]
    return next((name[1] for name in names if name is not None), None)


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]
