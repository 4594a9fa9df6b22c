"""How many records of topics the next batch gets: as many as the last ones say that a limit of bytes allows.

Spark's Kafka source limits a batch by records. But the cost of a batch follows from the bytes of its records and of all
that is made of them: a changed row may have a hundred thousand results. Both are counted when the batch ends. The limit
of the next one is set in the running query; Spark has no public way for that. Where its classes look
otherwise than in Spark 4.3 the limit of records stays as it was given (law 8). A batch that was planned is run again as
it was planned. The limit is written with the numbers of each batch, so a start goes on with it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from watersmeet._spark.batches.synchronized_inputs import SynchronizedInputs
from watersmeet._spark.checkpoint.checkpoint import Checkpoint
from watersmeet._spark.metrics import lifetime_totals
from watersmeet._spark.metrics.observed import streaming_execution
from watersmeet._worker.wire.measures import CONSUMED, SENT, Tally
from watersmeet.io.kafka import Kafka

LEAST = 1_000
"""Records of a batch that is limited by its bytes: fewer would be lost in what any batch costs."""
GROWTH = 8
"""How many times as many records a batch gets behind one that was small: its bytes say little about each record."""


def planned(consumed: int, sent: int, limit: int, most: int, largest: int) -> int:
    """Records of the next batch.

    Parameters
    ----------
    consumed, sent : records of the last batch, and the bytes that were made of them.
    limit : records that it might have had.
    most, largest : records and bytes of a batch.

    >>> planned(1_000_000, 300 << 20, 1_000_000, 1_000_000, 1 << 30)
    1000000
    >>> planned(1_000_000, 8 << 30, 1_000_000, 1_000_000, 1 << 30), planned(20, 1 << 20, 125_000, 1_000_000, 1 << 30)
    (125000, 1000000)
    """
    if sent * GROWTH <= largest:
        return min(most, limit * GROWTH)
    wanted = max(LEAST, consumed * largest // sent)
    # records of inputs without this limit are counted, too: behind a batch that was too large it never grows
    return min(most, wanted if sent <= largest else min(wanted, limit))


def limited(kafka: Kafka | None, place: Checkpoint) -> Kafka | None:
    """The settings with the limit of records that the last batch of a checkpoint has left."""
    stored = None if kafka is None else lifetime_totals.read(place)
    if kafka is None or stored is None or stored.records_limit is None:
        return kafka
    found = copy.copy(kafka)
    least = min(LEAST, kafka.max_records_per_batch)
    limit = min(max(stored.records_limit, least), kafka.max_records_per_batch)
    object.__setattr__(found, "max_records_per_batch", limit)
    return found


def planning(spark: SparkSession, together: SynchronizedInputs, place: Checkpoint) -> Callable[[Tally], int | None]:
    """Plans the batches of a query: called with the counts of each one, on its thread, when all sinks have it.

    Parameters
    ----------
    together : the connection, and whether ends of batches are set in Spark's source, which then needs no limit.
    """
    kafka = together.kafka
    first = limited(kafka, place)
    if kafka is None or first is None:
        return lambda counts: None
    return _PlannedBatches(spark, kafka, first.max_records_per_batch, bool(together))


class _PlannedBatches:
    """Limits the batches of a query, one after the other."""

    def __init__(self, spark: SparkSession, kafka: Kafka, limit: int, together: bool) -> None:
        self._spark, self._kafka, self._limit, self._together = spark, kafka, limit, together

    def __call__(self, counts: Tally) -> int:
        found = {CONSUMED: 0, SENT: 0}
        for measure, count in counts.items():
            if measure.kind in found:
                found[measure.kind] += count
        if not found[CONSUMED]:
            return self._limit
        most = (self._kafka.max_records_per_batch, self._kafka.max_bytes_per_batch)
        limit = planned(found[CONSUMED], found[SENT], self._limit, *most)
        if limit != self._limit and (self._together or _limited(self._spark, self._limit, limit)):
            self._limit = limit
        return self._limit


def _limited(spark: SparkSession, before: int, records: int) -> bool:
    """Whether the query of this thread reads at most so many records a batch now, where it read `before` at most."""
    try:
        execution: Any = streaming_execution(spark)
        limits: Any = spark._jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit  # type: ignore[union-attr]
        sources, changed = execution.uniqueSources(), False
        each = sources.iterator()
        while each.hasNext():
            source = each.next()
            limit = source._2()
            if limit.getClass().getSimpleName() == "ReadMaxRows" and limit.maxRows() == before:
                sources, changed = sources.updated(source._1(), limits.maxRows(records)), True
        if changed:
            getattr(execution, "uniqueSources_$eq")(sources)
        return changed
    except Exception:
        # whatever another version or another kind of Spark does here: the limit of records is there
        return False
