"""Where a running query's Kafka source ends its next batch, said by us in place of what the topics have.

Spark has no public way for that. Its source holds the ends of a query that reads what is available now, and plans no
batch beyond them: these are set, as often as a batch may go on. Before they are known, the source waits for more
records than there are (`GATE`, options of Spark's own).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from watersmeet._spark.batches.read_ahead import Place
from watersmeet.errors import ConfigError

_ALL = str((1 << 63) - 1)
GATE: Mapping[str, str] = {
    "minOffsetsPerTrigger": _ALL,
    "maxOffsetsPerTrigger": _ALL,  # not less than the other
    "maxTriggerDelay": "100000000d",
}
"""Options with which the source gives no records until its ends are set."""
_SOURCE, _LIMIT = "KafkaMicroBatchStream", "CompositeReadLimit"


class BatchEnds:
    """The ends of one query's batches.

    Parameters
    ----------
    spark : its session.
    query : runs, with a source that has the options of `GATE`.
    """

    def __init__(self, spark: SparkSession, query: StreamingQuery) -> None:
        running: Any = query
        self._jvm: Any = spark._jvm
        self._execution = running._jsq.streamingQuery()
        self._source: Any = None

    def find(self) -> bool:
        """Whether the query has made its source by now.

        Raises
        ------
        ConfigError : Spark's classes are not those of the versions that are known.
        """
        try:
            for source, limit in self._limits():
                names = (source.getClass().getSimpleName(), limit.getClass().getSimpleName())
                if names == (_SOURCE, _LIMIT):
                    self._source = source
            return self._source is not None
        except Exception as error:
            raise _unknown(error) from error

    def planned(self) -> dict[Place, int] | None:
        """Where the last planned batch ends; None: none was planned yet."""
        return self._offsets(self._execution.availableOffsets())

    def committed(self) -> dict[Place, int] | None:
        """Where the last committed batch ends; None: there is none."""
        return self._offsets(self._execution.committedOffsets())

    def first(self) -> dict[Place, int]:
        """Where the first batch of the checkpoint ended, which had no records; none if Spark has removed its plan."""
        stored = self._execution.offsetLog().get(0)
        if stored.isEmpty():
            return {}
        return self._offsets(stored.get().toStreamProgress(self._execution.sources())) or {}

    def set(self, ends: Mapping[Place, int]) -> None:
        """Let the batches that are to be planned end here.

        Raises
        ------
        ConfigError : Spark's classes are not those of the versions that are known.
        """
        by_topic: dict[str, dict[str, int]] = {}
        for (topic, number), end in sorted(ends.items()):
            by_topic.setdefault(topic, {})[str(number)] = end
        try:
            offsets = self._jvm.org.apache.spark.sql.kafka010.JsonUtils.partitionOffsets(json.dumps(by_topic))
            self._field("allDataForTriggerAvailableNow").set(self._source, offsets)
            self._field("isTriggerAvailableNow").set(self._source, True)
            limit = self._jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit.allAvailable()
            for source, before in self._limits():
                if source.equals(self._source) and before.getClass().getSimpleName() == _LIMIT:
                    limits = self._execution.uniqueSources().updated(source, limit)
                    getattr(self._execution, "uniqueSources_$eq")(limits)
        except Exception as error:
            raise _unknown(error) from error

    def _limits(self) -> list[tuple[Any, Any]]:
        found, each = [], self._execution.uniqueSources().iterator()
        while each.hasNext():
            pair = each.next()
            found.append((pair._1(), pair._2()))
        return found

    def _field(self, name: str) -> Any:
        field = self._source.getClass().getDeclaredField(name)
        field.setAccessible(True)
        return field

    def _offsets(self, progress: Any) -> dict[Place, int] | None:
        found = progress.get(self._source)
        if found.isEmpty():
            return None
        read = json.loads(found.get().json())
        return {(topic, int(number)): end for topic, ends in read.items() for number, end in ends.items()}


def _unknown(error: Exception) -> ConfigError:
    return ConfigError(
        "max_task_idle has no effect on this Spark: its Kafka source does not say where batches end.",
        given=f"{type(error).__name__}: {error!s:.200}",
        hint="Leave max_task_idle out of wm.Kafka(...), or take PySpark 4.3.",
    )
