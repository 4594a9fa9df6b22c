"""The value of a constant expression, as Spark computes it, without a job, and without Spark's planner.

Law 8: the JVM is asked for it where the session shows it, which takes a tenth of a second; else Spark plans a query,
which takes seconds in a new session. The values are the same.
"""

from __future__ import annotations

from pyspark.sql import Column, SparkSession


def text_of(spark: SparkSession, constant: Column) -> str:
    """A text.

    Parameters
    ----------
    spark : the session; its settings apply.
    constant : a Column of text that reads no row.
    """
    frame = spark.range(1).select(constant)
    try:
        named = frame._jdf.queryExecution().analyzed().expressions().apply(0)
        return str(named.eval(None).toString())
    except Exception:  # whatever a session says that shows no plans, or an expression that waits for the planner
        (row,) = frame.collect()
        return str(row[0])
