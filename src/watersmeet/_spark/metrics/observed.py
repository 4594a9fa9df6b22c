"""What Spark has observed of a query: of the batch under way, and of those behind the one that was looked at last.

Publicly Spark tells of committed batches only. Known before the commit, it can be kept so that a replayed batch counts
once (law 8); where Spark does not give it this way, numbers are kept behind the commit, from the progress.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.listener import StreamingQueryProgress

_QUERY = "sql.streaming.queryId"


def observed_of(spark: SparkSession, batch: int) -> Mapping[str, Any] | None:
    """The observed metrics of the batch of this thread, after all its jobs have ended, as its progress will have them.

    Parameters
    ----------
    spark : the session that started the query.
    batch : its number.

    Returns
    -------
    Mapping or None : rows by the name of the observation; None where Spark does not give them.
    """
    try:
        execution = streaming_execution(spark).lastExecution()
        if execution.currentBatchId() != batch:
            return None
        observations, rows = {}, execution.observedMetrics().iterator()
        while rows.hasNext():
            entry = rows.next()
            observations[entry._1()] = json.loads(entry._2().json())
        return observations
    except Exception:
        # whatever another version or another kind of Spark does here: the public way is always there
        return None


def streaming_execution(spark: SparkSession) -> Any:
    """Spark's own object of the query that runs this thread's batch; raises where there is none of this kind."""
    query: Any = spark.streams.get(str(spark.sparkContext.getLocalProperty(_QUERY)))
    return query._jsq.streamingQuery()


def progresses_behind(query: StreamingQuery, timestamp: str) -> list[StreamingQueryProgress]:
    """The progresses that Spark keeps behind the one with this timestamp, all that it keeps where it has none such.

    Spark's own `recentProgress` converts all of them, a hundred or more. Each costs a millisecond or two, and of small
    batches a few are new whenever somebody looks.
    """
    running: Any = query
    recent, progresses = running._jsq.recentProgress(), list[StreamingQueryProgress]()
    for at in reversed(range(len(recent))):
        progress = StreamingQueryProgress.fromJson(json.loads(recent[at].json()))
        if progress["timestamp"] == timestamp:
            break
        progresses.append(progress)
    return progresses[::-1]
