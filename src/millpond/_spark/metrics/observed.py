"""What Spark has observed of a batch under way, before it is committed (law 8).

Publicly Spark tells it of committed batches only. Known before, it can be kept so that a replayed batch counts once;
where Spark does not give it this way, numbers are kept behind the commit, from the progress.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

_QUERY = "sql.streaming.queryId"


def observed_of(spark: SparkSession, batch: int) -> Mapping[str, Any] | None:
    """The observed metrics of the batch whose thread asks, all of whose jobs have ended, as its progress will say them.

    Parameters
    ----------
    spark : the session that started the query.
    batch : its number.

    Returns
    -------
    Mapping or None : rows by the name of the observation; None where Spark does not give them.
    """
    try:
        query: Any = spark.streams.get(str(spark.sparkContext.getLocalProperty(_QUERY)))
        execution = query._jsq.streamingQuery().lastExecution()
        if execution.currentBatchId() != batch:
            return None
        found, rows = {}, execution.observedMetrics().iterator()
        while rows.hasNext():
            named = rows.next()
            found[named._1()] = json.loads(named._2().json())
        return found
    except Exception:
        # whatever another version or another kind of Spark does here: the public way is always there
        return None
