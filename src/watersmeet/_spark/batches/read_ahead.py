"""Times of the records that lie ahead in topics: a consumer of its own reads them, some thousands of each partition.

Kafka's list of offsets by time is no way to learn them: it finds the ends of transactions, too, at the time when they
were written, and of a topic's records it knows the first one with a time, not the first behind an offset.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from watersmeet._spark.batches.cuts import PartitionTimes
from watersmeet._worker.writers import kafka_client
from watersmeet.errors import SinkError
from watersmeet.io.kafka import Kafka

Place = tuple[str, int]
"""A topic and the number of one of its partitions."""
_AT_ONCE = 10_000
_LOOK_SECONDS = 0.1
_SETTINGS = {
    # no group is joined and no offset kept: Kafka's client wants a name all the same
    "group.id": "watersmeet-read-ahead",
    "enable.auto.commit": "false",
    "enable.partition.eof": "true",
    "isolation.level": "read_committed",
    "queued.max.messages.kbytes": "16384",
    "fetch.wait.max.ms": "50",
    # offsets that are gone are lost records: Spark's source says so
    "auto.offset.reset": "error",
}


class ReadAhead:
    """Reads the times of records in some partitions.

    Parameters
    ----------
    kafka : the connection.
    begins : the offset of each partition's first record.
    ranks : each topic's place among records of one time.
    bounded : whether to read to the ends as they are first met, and no further.
    clock : gives seconds.

    Attributes
    ----------
    partitions : what is known of each.
    """

    def __init__(
        self,
        kafka: Kafka,
        begins: Mapping[Place, int],
        ranks: Mapping[str, int],
        *,
        bounded: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._clock, self._bounded = kafka_client.client(), clock, bounded
        order = {place: rank for rank, place in enumerate(sorted(begins, key=lambda at: (ranks[at[0]], at[1])))}
        self.partitions = {place: PartitionTimes(order[place], begin) for place, begin in begins.items()}
        self._at_end: dict[Place, float] = {}
        self._paused: set[Place] = set()
        self._consumer = kafka_client.make(self._client.Consumer, {**kafka_client.client_settings(kafka), **_SETTINGS})
        self._consumer.assign([self._client.TopicPartition(*place, begin) for place, begin in begins.items()])

    def close(self) -> None:
        """Leave the topics."""
        self._consumer.close()

    def resting(self, place: Place) -> float | None:
        """For how many seconds a partition has had no more records than are known; None: it has, or may have."""
        since = self._at_end.get(place)
        if since is None or (place in self._paused and not self._bounded):
            return None
        return self._clock() - since

    def behind(self, place: Place, end: int) -> int:
        """How many offsets there are from one on, as the last answer of Kafka has said."""
        _, high = self._consumer.get_watermark_offsets(self._client.TopicPartition(*place), cached=True)
        return max(0, int(high) - end)

    def read(self, wanted: int) -> None:
        """Read what is there, of each partition until so many records are known; returns when nothing more is there.

        Raises
        ------
        SinkError : Kafka refuses to be read.
        """
        until = self._clock() + _LOOK_SECONDS
        self._turn(wanted)
        while self._clock() < until and len(self._paused) < len(self.partitions):
            messages = self._consumer.consume(_AT_ONCE, 0.02)
            if messages:
                self._take(messages)
                self._turn(wanted)
                until = self._clock() + _LOOK_SECONDS

    def _turn(self, wanted: int) -> None:
        """Read on where few records are known, and not where many are."""
        full = {place for place, times in self.partitions.items() if len(times) >= wanted}
        full |= set(self._at_end) if self._bounded else set()
        for turn, places in ((self._consumer.pause, full - self._paused), (self._consumer.resume, self._paused - full)):
            if places:
                turn([self._client.TopicPartition(*place) for place in places])
        self._paused = full

    def _take(self, messages: list[Any]) -> None:
        found = defaultdict[Place, list[tuple[int, int]]](list)
        for message in messages:
            error, place = message.error(), (message.topic(), message.partition())
            if self._bounded and place in self._at_end:
                continue
            if error is None:
                found[place].append((message.offset(), message.timestamp()[1]))
                self._at_end.pop(place, None)
            elif error.code() == self._client.KafkaError._PARTITION_EOF:
                # what was read before comes first
                self._add(place, found.pop(place, []), message.offset())
                self._at_end.setdefault(place, self._clock())
            elif not error.retriable() and place in self.partitions:
                raise SinkError(
                    "Kafka refuses to be read.",
                    given=f"partition {place[1]} of {place[0]}: {error.name()}: {error.str()}",
                    hint="max_task_idle reads topics a second time, with the settings of wm.Kafka(...) that are not "
                    "under consumer=.",
                )
        for place, records in found.items():
            self._add(place, records, records[-1][0] + 1)

    def _add(self, place: Place, records: list[tuple[int, int]], end: int) -> None:
        offsets, times = np.array(records, dtype=np.int64).reshape(-1, 2).T
        self.partitions[place].add(offsets, times, end)
