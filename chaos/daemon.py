"""Spark's Python daemon, which imports what workers need before it forks them: what was killed is back sooner.

The setting `spark.python.daemon.module` of a round's session names it; each worker would import all of it for itself.
"""

from __future__ import annotations

import runpy
from importlib import import_module

MODULE = "chaos.daemon"
"""This module's name: so the processes that it forks are known."""
NEEDED = (
    "pandas",
    "pyarrow.compute",
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.streaming.stateful_processor_util",
    "millpond._spark.exchange",
    "millpond._spark.kafka_sink",
    "millpond._spark.processor",
)

if __name__ == "__main__":
    for module in NEEDED:  # one turn per module
        import_module(module)
    runpy.run_module("pyspark.daemon", run_name="__main__")
