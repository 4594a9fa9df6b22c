"""Spark's Python daemon, which imports what watersmeet's workers need before it forks them.

Each worker would import all of it for itself, PySpark from an archive without compiled code: 1.35 CPU-seconds, and a
query of one join has six workers. The setting `spark.python.daemon.module` names it: Spark then runs this module
(`session.DAEMON`). On Linux alone: elsewhere what is imported may not outlive a fork. There it starts threads of
jemalloc and OpenBLAS, which both start anew in the forked process.
"""

from __future__ import annotations

import gc
import os
from importlib import import_module
from socket import socket
from typing import Any

NEEDED = (
    "pandas",
    "pyarrow.compute",
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.streaming.stateful_processor_util",
    "watersmeet._worker.pack",
    "watersmeet._worker.writers.kafka",
    "watersmeet._spark.dataflow.level",
)


def main() -> None:
    """Import, and be PySpark's daemon from then on."""
    # not with this module: it wants a system that has signals
    from pyspark import daemon

    for module in NEEDED:
        import_module(module)
    # what workers share with this process stays shared: looking for garbage would write upon it
    gc.freeze()
    _take_rows_straight()
    work = daemon.worker

    def worker(sock: socket, authenticated: bool) -> int:
        try:
            return work(sock, authenticated)
        except BrokenPipeError:
            # The program has ended while its worker was about to answer: nothing that its console should show. To
            # return would flush what is left to say, and complain of the same pipe.
            os._exit(1)

    daemon.worker = worker
    daemon.manager()


def _take_rows_straight() -> None:
    """Have levels take their rows straight from Arrow (`straight`)."""
    from pyspark import worker as spark

    from watersmeet._worker.spark_worker import straight

    read: Any = spark.read_udfs

    def read_udfs(*args: Any) -> Any:
        function, *extras = read(*args)
        return (straight(function), *extras)

    spark.read_udfs = read_udfs


if __name__ == "__main__":
    main()
