"""Spark's daemon of Python workers, with the imports done before it forks: workers start with them loaded.

Spark's own daemon forks first, so every worker of a query (one per task and stage) imports pandas, pyarrow and
PySpark for itself, PySpark from a zip archive that holds no compiled code: a second of CPU for each. Spark does so
because a fork keeps no threads, and a library may start one when it is imported. So this daemon looks: where a
thread was started that does not bear a fork, or cannot be seen, it turns into Spark's own. Run as a program by
Spark, which `session` tells to.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

PRELOADED = (
    "numpy",
    "pyarrow.compute",
    "pandas",
    "pyspark.worker",
    "pyspark.sql.streaming.stateful_processor_util",
    "pyspark.sql.streaming.value_state_client",
    "pyspark.sql.streaming.map_state_client",
    "pyspark.sql.streaming.proto.StateMessage_pb2",
    "millpond._spark.exchange",
    "millpond._spark.processor",
    "millpond._spark.kafka_sink",
)
# jemalloc stops its thread before a fork and starts it again in the child
_BEAR_FORKS = frozenset({"jemalloc_bg_thd"})


def main() -> None:
    """Be Spark's daemon, with the imports done where that is safe."""
    # numpy's OpenBLAS would start threads; nothing here uses it
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        for name in PRELOADED:
            importlib.import_module(name)
        safe = not foreign_threads()
    except Exception:
        safe = False
    if not safe:
        os.execv(sys.executable, [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]])
    from pyspark import daemon

    daemon.manager()


def foreign_threads() -> list[str]:
    """Names of this process's threads that a fork would lose; one unknown where the system tells nothing."""
    tasks = Path("/proc/self/task")
    if not tasks.is_dir():
        return ["unknown"]
    others = [task for task in tasks.iterdir() if task.name != str(os.getpid())]
    names = [(task / "comm").read_text().strip() for task in others]
    return sorted(name for name in names if name not in _BEAR_FORKS)


if __name__ == "__main__":
    main()
