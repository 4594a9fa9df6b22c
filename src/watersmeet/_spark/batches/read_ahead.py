"""The records that lie ahead in topics: a consumer of its own reads them, some thousands of each partition.

Kafka's list of offsets by time is no way to learn them: it finds the ends of transactions, too, at the time when they
were written, and of a topic's records it knows the first one with a time, not the first behind an offset.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from watersmeet._spark.batches.cuts import PartitionTimes, next_cut, reached_by_all
from watersmeet._worker.writers import kafka_client
from watersmeet.errors import ChangedTopology, SinkError
from watersmeet.io.kafka import Kafka

Place = tuple[str, int]
"""A topic and the number of one of its partitions."""
_AT_ONCE = 10_000
_LOOK_SECONDS = 0.1
_CHECK_SECONDS = 30.0
"""Between two looks at how many partitions there are."""
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


class BatchOrder(Protocol):
    """An order of the records of some partitions, which says where batches may end.

    Attributes
    ----------
    begins : offset of the first record of each partition.
    """

    begins: Mapping[Place, int]

    def since(self, place: Place) -> int:
        """From which offset a partition is to be read; before its first record only to learn what was before."""

    def known(self, place: Place) -> int:
        """How many records of a partition are known, and in no batch yet."""

    def wanted(self, usual: int) -> int:
        """How many records of a partition are to be known, where a batch usually needs so many."""

    def waits(self) -> bool:
        """Whether records are left that come out if one waits."""

    def add(self, place: Place, records: Sequence[Any], end: int) -> None:
        """Take records of a partition, behind those that are known.

        Parameters
        ----------
        records : messages of Kafka's client.
        end : the offset behind the last one, or behind what follows it and is no record.
        """

    def take(self, awaited: Collection[Place], limit: int) -> dict[Place, int] | None:
        """Take the records of the next batch away: where it ends in each partition; None: there is none yet.

        Parameters
        ----------
        awaited : partitions that may have more records soon.
        limit : records of a batch; more only if records that cannot be parted are more.
        """


class TimeOrder:
    """The order of a batch: by time, input and partition.

    Parameters
    ----------
    begins : offset of the first record of each partition.
    ranks : each topic's place among records of one time.
    """

    def __init__(self, begins: Mapping[Place, int], ranks: Mapping[str, int]) -> None:
        self.begins = begins
        order = {place: rank for rank, place in enumerate(sorted(begins, key=lambda at: (ranks[at[0]], at[1])))}
        self._partitions = {place: PartitionTimes(order[place], begin) for place, begin in begins.items()}

    def since(self, place: Place) -> int:
        """As each order."""
        return self.begins[place]

    def known(self, place: Place) -> int:
        """As each order."""
        return len(self._partitions[place])

    def wanted(self, usual: int) -> int:
        """As each order."""
        return usual

    def waits(self) -> bool:
        """As each order."""
        return any(map(len, self._partitions.values()))

    def add(self, place: Place, records: Sequence[Any], end: int) -> None:
        """As each order."""
        pairs = [(each.offset(), each.timestamp()[1]) for each in records]
        offsets, times = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        self._partitions[place].add(offsets, times, end)

    def take(self, awaited: Collection[Place], limit: int) -> dict[Place, int] | None:
        """As each order."""
        most = reached_by_all(self._partitions[place] for place in awaited)
        cut = next_cut([*self._partitions.values()], most, limit)
        return None if cut is None else {place: times.take(cut) for place, times in self._partitions.items()}


class ReadAhead:
    """Reads the records in some partitions.

    Parameters
    ----------
    kafka : the connection.
    order : takes what is known of each partition.
    bounded : whether to read to the ends as they are first met, and no further.
    clock : gives seconds.
    """

    def __init__(
        self, kafka: Kafka, order: BatchOrder, *, bounded: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client, self._clock, self._bounded, self.order = kafka_client.client(), clock, bounded, order
        self._kafka = kafka
        self._checked = clock()
        self._at_end: dict[Place, float] = {}
        self._paused: set[Place] = set()
        self._consumer = kafka_client.make(self._client.Consumer, {**kafka_client.client_settings(kafka), **_SETTINGS})
        self._consumer.assign([self._since(place) for place in order.begins])

    def _since(self, place: Place) -> Any:
        begin, since = self.order.begins[place], self.order.since(place)
        if since < begin:
            timeout = kafka_client.seconds(kafka_client.client_settings(self._kafka))
            low, _ = self._consumer.get_watermark_offsets(self._client.TopicPartition(*place), timeout=timeout)
            since = min(max(since, low), begin)
        return self._client.TopicPartition(*place, since)

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
        ChangedTopology : a topic has got more partitions, which the query does not read.
        """
        if self._clock() >= self._checked + _CHECK_SECONDS:
            self._checked = self._clock()
            self._check_partitions()
        until, wanted = self._clock() + _LOOK_SECONDS, self.order.wanted(wanted)
        self._turn(wanted)
        while self._clock() < until and len(self._paused) < len(self.order.begins):
            messages = self._consumer.consume(_AT_ONCE, 0.02)
            if messages:
                self._take(messages)
                self._turn(wanted)
                until = self._clock() + _LOOK_SECONDS

    def _check_partitions(self) -> None:
        for topic, number in new_partitions(self._kafka, self.order.begins):
            raise ChangedTopology(
                "A topic has more partitions than at the start.",
                given=f"topic {topic}, partition {number}",
                hint="Time is kept per partition: if you accept that late records may be judged by another partition's "
                "time, start again with allow_partition_change=True, else begin anew.",
            )

    def _turn(self, wanted: int) -> None:
        """Read on where few records are known, and not where many are."""
        full = {place for place in self.order.begins if self.order.known(place) >= wanted}
        full |= set(self._at_end) if self._bounded else set()
        for turn, places in ((self._consumer.pause, full - self._paused), (self._consumer.resume, self._paused - full)):
            if places:
                turn([self._client.TopicPartition(*place) for place in places])
        self._paused = full

    def _take(self, messages: list[Any]) -> None:
        found = defaultdict[Place, list[Any]](list)
        for message in messages:
            error, place = message.error(), (message.topic(), message.partition())
            if self._bounded and place in self._at_end:
                continue
            if error is None:
                found[place].append(message)
                self._at_end.pop(place, None)
            elif error.code() == self._client.KafkaError._PARTITION_EOF:
                # what was read before comes first
                self.order.add(place, found.pop(place, []), message.offset())
                self._at_end.setdefault(place, self._clock())
            elif not error.retriable() and place in self.order.begins:
                raise SinkError(
                    "Kafka refuses to be read.",
                    given=f"partition {place[1]} of {place[0]}: {error.name()}: {error.str()}",
                    hint="max_task_idle reads topics a second time, with the settings of wm.Kafka(...) that are not "
                    "under consumer=.",
                )
        for place, records in found.items():
            self.order.add(place, records, records[-1].offset() + 1)


def new_partitions(kafka: Kafka, begins: Mapping[Place, int]) -> dict[Place, int]:
    """The partitions that the topics have got since a batch was planned, with the offset of their first record.

    Parameters
    ----------
    begins : offsets of the known partitions.
    """
    admin = kafka_client.admin(kafka)
    found = dict[Place, int]()
    for topic in {topic for topic, _ in begins}:
        known = admin.list_topics(topic, timeout=kafka_client.seconds(kafka_client.client_settings(kafka)))
        found |= {(topic, number): 0 for number in known.topics[topic].partitions if (topic, number) not in begins}
    return found
