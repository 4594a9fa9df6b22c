"""The versions of PySpark that watersmeet runs with, asked before anything of PySpark's is imported by name."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, version

_ARCHIVES = ("pyspark.zip", "-src.zip")
LEAST_SPARK = (4, 1)
"""The first version whose arbitrary-state processor has all that watersmeet uses."""


def check_pyspark(installed: str | None, place: str | None = None) -> None:
    """Raise unless this version of PySpark will do.

    Parameters
    ----------
    installed : the installed version, as text; None: there is none.
    place : the folder that it is imported from; None: not known.

    Raises
    ------
    ImportError : it will not.
    """
    least = ".".join(map(str, LEAST_SPARK))
    numbers = tuple(int(part) for part in (installed or "0").split(".")[:2] if part.isdecimal())
    if installed is None or numbers < LEAST_SPARK:
        where = f", imported from {place}" if place else ""
        status = "and there is none" if installed is None else f"and this is PySpark {installed}{where}"
        # an installed one does not help where another stands before it
        cure = ", and take that folder from PYTHONPATH if it is another Spark's" if where else ""
        hint = f"pip install 'pyspark>={least}'{cure}"
        raise ImportError(f"watersmeet needs PySpark {least} or later, {status}.\nHint: {hint}")


def pyspark_version() -> str | None:
    """The version of PySpark that is there: of the package, which Spark's own folder (SPARK_HOME) may bring instead."""
    try:
        module_version = getattr(import_module("pyspark"), "__version__", None)
    except ImportError:
        return None
    try:
        return str(module_version) if module_version is not None else version("pyspark")
    except PackageNotFoundError:
        return None


def _place() -> str | None:
    file = getattr(sys.modules.get("pyspark"), "__file__", None)
    return None if file is None else os.path.dirname(file)


def without_archives(path: Sequence[str]) -> list[str]:
    """The path without the archives of a PySpark that is also installed on it.

    Spark puts them before all else for its workers. They hold the same modules, which Python would compile anew in each
    process: that is most of a daemon's start.
    """
    archives = [entry for entry in path if entry.endswith(_ARCHIVES)]
    remaining = [entry for entry in path if entry not in archives]
    names = (os.path.basename(archive).partition("-")[0].removesuffix(".zip") for archive in archives)
    specs = {name: PathFinder.find_spec(name, remaining) for name in names}
    package = getattr(specs.get("pyspark"), "origin", None) or ""
    library = os.path.join(os.path.dirname(package), "python", "lib")
    is_installed = None not in specs.values() and {*map(os.path.dirname, archives)} == {library}
    return remaining if is_installed else list(path)


if "pyspark" not in sys.modules:
    sys.path[:] = without_archives(sys.path)
check_pyspark(pyspark_version(), _place())


def own_version() -> str:
    """The version of watersmeet; "unknown" where it was not installed, but only put on the path."""
    try:
        return version("watersmeet")
    except PackageNotFoundError:
        return "unknown"
