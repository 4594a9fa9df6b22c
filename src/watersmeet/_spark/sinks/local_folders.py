"""Whether a path that a user gives means a folder on a disk of this machine."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from watersmeet._spark.session.settings import defaults_to_this_machine, path_on_this_machine


def folder_on_this_machine(spark: SparkSession, path: str) -> str | None:
    """The folder's whole path, if it is one of this machine."""
    here = path_on_this_machine(path)
    # two slashes at the beginning stand before the name of a host
    if here is None or (here.startswith("//") and not here.startswith("///")):
        return None
    if here == path and not defaults_to_this_machine(spark):
        return None
    return os.path.abspath(f"/{here.lstrip('/')}" if here.startswith("/") else here)
