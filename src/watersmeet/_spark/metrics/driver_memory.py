"""Memory of the driver: of this Python process, and of its JVM.

The JVM's heap is known to itself alone, and the way there is an internal of PySpark's (law 8): where it does not exist,
as with Spark Connect, nothing is said of the JVM.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from watersmeet._worker.process import resident_bytes


def driver_bytes(spark: SparkSession) -> Mapping[str, int]:
    """Bytes by `python`, `jvm`, `heap` and `heap_limit`; sizes that the system or Spark does not say are missing."""
    found = {"python": resident_bytes(), **_of_jvm(spark)}
    return {part: size for part, size in found.items() if size}


def _of_jvm(spark: SparkSession) -> dict[str, int]:
    try:
        java: Any = spark.sparkContext._jvm
        runtime = java.java.lang.Runtime.getRuntime()
        process = int(java.java.lang.ProcessHandle.current().pid())
        used = int(runtime.totalMemory()) - int(runtime.freeMemory())
        return {"jvm": resident_bytes(process), "heap": used, "heap_limit": int(runtime.maxMemory())}
    except Exception:
        # whatever another version or another kind of Spark does here, or one that has ended
        return {}
