"""Whether a path that a user gives means a folder on a disk of this machine.

What a path without a scheme means is said in Hadoop's settings, which PySpark's public API does not show; it shows what
Spark makes of a path that exists.
"""

from __future__ import annotations

import os
import sys
from weakref import WeakKeyDictionary

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from millpond._spark.session.settings import path_on_this_machine

_BEGINS_HERE: WeakKeyDictionary[SparkSession, bool] = WeakKeyDictionary()
"""What has been found out for a session."""


def folder_on_this_machine(spark: SparkSession, path: str) -> str | None:
    """The folder's whole path, if it is one of this machine."""
    here = path_on_this_machine(path)
    # two slashes at the beginning stand before the name of a host
    if here is None or (here.startswith("//") and not here.startswith("///")):
        return None
    if here == path and spark not in _BEGINS_HERE:
        _BEGINS_HERE[spark] = _begins_here(spark)
    if here == path and not _BEGINS_HERE[spark]:
        return None
    return os.path.abspath(f"/{here.lstrip('/')}" if here.startswith("/") else here)


def _begins_here(spark: SparkSession) -> bool:
    """Whether paths without a scheme are those of this machine; the one that is asked for is listed, not read."""
    try:
        found = spark.read.format("binaryFile").load(os.path.realpath(sys.executable)).inputFiles()
    except AnalysisException:
        return False
    return all(file.startswith("file:") for file in found)
