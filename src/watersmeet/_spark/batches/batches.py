"""Where a query's batches end in its topics: `max_task_idle`, `transactions` and limits of records and bytes.

With `max_task_idle` they end at times that all partitions have reached. Kafka Streams' tasks take the earliest record
of all partitions, and wait for a partition without any (KIP-353, KIP-695). Here a thread reads the times of the records
that lie ahead and says to Spark's source where the next batch ends. Where batches end decides nothing about results, so
other ends would do as well; Spark records those that it has planned, and runs an unfinished batch again with them.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy as shallow_copy
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from watersmeet._engine.rows import Int64s
from watersmeet._plan.nodes import SourceNode
from watersmeet._spark.checkpoint.record import Checkpoint
from watersmeet._spark.metrics import lifetime
from watersmeet._worker import kafka_client
from watersmeet._worker.counts import CONSUMED, SENT, Counts, Measure
from watersmeet.errors import ChangedTopology, ConfigError, SourceError, installing
from watersmeet.io.kafka import Kafka

# Where a batch ends if inputs are kept together: at a time that all partitions have reached (KIP-353, KIP-695).
#
# A record's place in the order of a batch is the latest timestamp that its partition has had so far, then its input and
# partition (`order_ts` and the rest of a position). A cut is such a place. A batch takes the records up to it of every
# partition, and the next batch all behind it, so batches one after the other have the order of a single one.

_EARLIEST: Final = -(1 << 63)
_LATEST: Final = (1 << 63) - 1


@dataclass(frozen=True, order=True)
class Cut:
    """A place in the order of all records."""

    ms: int  # the latest timestamp so far, in ms since 1970
    rank: int = _LATEST  # of several partitions with this time, those up to this one


END: Final = Cut(_LATEST)
"""Behind all records."""


class PartitionTimes:
    """The times of a partition's records that have been looked at and are in no batch yet.

    Parameters
    ----------
    rank : the partition's place among records of one time.
    start : offset of its first record.

    Attributes
    ----------
    end : offset behind what has been looked at.
    """

    def __init__(self, rank: int, start: int) -> None:
        self.rank, self.end = rank, start
        self._offsets = self._times = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def times(self) -> Int64s:
        """The latest timestamp up to each record, ascending."""
        return self._times

    @property
    def reached(self) -> Cut:
        """The place of the last record, before which nothing lies that comes later; before all if there is none."""
        return Cut(int(self._times[-1]) if len(self) else _EARLIEST, self.rank)

    def add(self, offsets: Int64s, times: Int64s, end: int) -> None:
        """Add records behind the others.

        Parameters
        ----------
        offsets, times : of each; times in ms since 1970.
        end : the offset behind the last one, or behind what follows it and is no record.
        """
        if len(offsets):
            so_far = np.maximum(np.maximum.accumulate(times), self.reached.ms)
            self._offsets = np.concatenate([self._offsets, offsets])
            self._times = np.concatenate([self._times, so_far])
        self.end = max(self.end, end)

    def count(self, cut: Cut) -> int:
        """How many of the records lie before a cut, or at it."""
        return int(np.searchsorted(self._times, cut.ms, "right" if self.rank <= cut.rank else "left"))

    def take(self, cut: Cut) -> int:
        """Take the records up to a cut away: the offset of the next one."""
        count = self.count(cut)
        self._offsets, self._times = self._offsets[count:], self._times[count:]
        return int(self._offsets[0]) if len(self) else self.end


def reached_by_all(awaited: Iterable[PartitionTimes]) -> Cut:
    """The place behind which nothing may be taken.

    Parameters
    ----------
    awaited : partitions that may have more records soon.
    """
    return min((partition.reached for partition in awaited), default=END)


def next_cut(partitions: Collection[PartitionTimes], most: Cut, limit: int) -> Cut | None:
    """Where the next batch ends.

    Parameters
    ----------
    partitions : all.
    most : behind it nothing may be taken.
    limit : records of a batch; more only if records that cannot be parted are more.

    Returns
    -------
    Cut or None : None: nothing can be taken yet.

    >>> one, other = PartitionTimes(0, 0), PartitionTimes(1, 0)
    >>> one.add(np.array([0, 1]), np.array([10, 30]), 2)
    >>> other.add(np.array([0, 1, 2]), np.array([5, 10, 20]), 3)
    >>> next_cut([one, other], reached_by_all([one, other]), 100)
    Cut(ms=20, rank=1)
    >>> next_cut([one, other], END, 2)
    Cut(ms=5, rank=9223372036854775807)
    """
    counts = [partition.count(most) for partition in partitions]
    if sum(counts) <= limit:
        return most if sum(counts) else None
    times = np.unique(
        np.concatenate([partition.times[:count] for partition, count in zip(partitions, counts, strict=True)])
    )
    low, high = 0, len(times)
    while low < high:
        middle = (low + high) // 2
        if sum(partition.count(_at(times, middle, most)) for partition in partitions) <= limit:
            low = middle + 1
        else:
            high = middle
    return _at(times, max(low - 1, 0), most)


def _at(times: Int64s, number: int, most: Cut) -> Cut:
    return min(Cut(int(times[number])), most)


# The records that lie ahead in topics: a consumer of its own reads them, some thousands of each partition.
#
# Kafka's list of offsets by time is no way to learn them: it finds the ends of transactions, too, at the time when they
# were written, and of a topic's records it knows the first one with a time, not the first behind an offset.

Partition = tuple[str, int]
"""A topic and the number of one of its partitions."""
_AT_ONCE = 10_000
_READ_AHEAD_LOOK_SECONDS = 0.1
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

    begins: Mapping[Partition, int]

    def since(self, place: Partition) -> int:
        """From which offset a partition is to be read; before its first record only to learn what was before."""

    def known(self, place: Partition) -> int:
        """How many records of a partition are known, and in no batch yet."""

    def wanted(self, usual: int) -> int:
        """How many records of a partition are to be known, where a batch usually needs so many."""

    def waits(self) -> bool:
        """Whether records are left that come out if one waits."""

    def add(self, place: Partition, records: Sequence[Any], end: int) -> None:
        """Take records of a partition, behind those that are known.

        Parameters
        ----------
        records : messages of Kafka's client.
        end : the offset behind the last one, or behind what follows it and is no record.
        """

    def take(self, awaited: Collection[Partition], limit: int) -> dict[Partition, int] | None:
        """Take the records of the next batch away: where it ends in each partition; None: there is none yet.

        Parameters
        ----------
        awaited : partitions that may have more records soon.
        limit : records of a batch; more only if records that cannot be parted are more.
        """

    def waiting(self) -> dict[str, str]:
        """The rest of transactions that the next batch waits for, as texts, by transaction."""

    def left(self) -> dict[str, int]:
        """How many records of each topic are known and in no batch, and are not those of a batch before."""


class TimeOrder(BatchOrder):
    """The order of a batch: by time, input and partition.

    Parameters
    ----------
    begins : offset of the first record of each partition.
    ranks : each topic's place among records of one time.
    """

    def __init__(self, begins: Mapping[Partition, int], ranks: Mapping[str, int]) -> None:
        self.begins = begins
        order = {place: rank for rank, place in enumerate(sorted(begins, key=lambda at: (ranks[at[0]], at[1])))}
        self._partitions = {place: PartitionTimes(order[place], start) for place, start in begins.items()}

    def since(self, place: Partition) -> int:
        return self.begins[place]

    def known(self, place: Partition) -> int:
        return len(self._partitions[place])

    def wanted(self, usual: int) -> int:
        return usual

    def waits(self) -> bool:
        return any(map(len, self._partitions.values()))

    def add(self, place: Partition, records: Sequence[Any], end: int) -> None:
        pairs = [(record.offset(), record.timestamp()[1]) for record in records]
        offsets, times = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        self._partitions[place].add(offsets, times, end)

    def take(self, awaited: Collection[Partition], limit: int) -> dict[Partition, int] | None:
        most = reached_by_all(self._partitions[place] for place in awaited)
        cut = next_cut([*self._partitions.values()], most, limit)
        return None if cut is None else {place: times.take(cut) for place, times in self._partitions.items()}

    def waiting(self) -> dict[str, str]:
        """Partitions are waited for as long as `max_task_idle` says."""
        return {}

    def left(self) -> dict[str, int]:
        return {}


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
        self._at_end: dict[Partition, float] = {}
        self._paused: set[Partition] = set()
        self._consumer = kafka_client.make(self._client.Consumer, {**kafka_client.client_settings(kafka), **_SETTINGS})
        self._consumer.assign([self._since(place) for place in order.begins])

    def _since(self, place: Partition) -> Any:
        start, since = self.order.begins[place], self.order.since(place)
        if since < start:
            timeout = kafka_client.seconds(kafka_client.client_settings(self._kafka))
            low, _ = self._consumer.get_watermark_offsets(self._client.TopicPartition(*place), timeout=timeout)
            since = min(max(since, low), start)
        return self._client.TopicPartition(*place, since)

    def close(self) -> None:
        """Leave the topics."""
        self._consumer.close()

    def resting(self, place: Partition) -> float | None:
        """For how many seconds a partition has had no more records than are known; None: it has, or may have."""
        since = self._at_end.get(place)
        if since is None or (place in self._paused and not self._bounded):
            return None
        return self._clock() - since

    def behind(self, place: Partition, end: int) -> int:
        """How many offsets there are from one on, as the last answer of Kafka has said."""
        _, high = self._consumer.get_watermark_offsets(self._client.TopicPartition(*place), cached=True)
        return max(0, int(high) - end)

    def read(self, count: int) -> None:
        """Read what is there, of each partition until so many records are known; returns when nothing more is there."""
        if self._clock() >= self._checked + _CHECK_SECONDS:
            self._checked = self._clock()
            self._check_partitions()
        until, count = self._clock() + _READ_AHEAD_LOOK_SECONDS, self.order.wanted(count)
        self._turn(count)
        while self._clock() < until and len(self._paused) < len(self.order.begins):
            messages = self._consumer.consume(_AT_ONCE, 0.02)
            if messages:
                self._take(messages)
                self._turn(count)
                until = self._clock() + _READ_AHEAD_LOOK_SECONDS

    def _check_partitions(self) -> None:
        for topic, number in new_partitions(self._kafka, self.order.begins):
            raise ChangedTopology(
                "A topic has more partitions than at the start.",
                given=f"topic {topic}, partition {number}",
                hint="Time is kept per partition: if you accept that late records may be judged by another partition's "
                "time, start again with allow_partition_change=True, else begin anew.",
            )

    def _turn(self, count: int) -> None:
        """Read on where few records are known, and not where many are."""
        full = {place for place in self.order.begins if self.order.known(place) >= count}
        full |= set(self._at_end) if self._bounded else set()
        for turn, places in ((self._consumer.pause, full - self._paused), (self._consumer.resume, self._paused - full)):
            if places:
                turn([self._client.TopicPartition(*place) for place in places])
        self._paused = full

    def _take(self, messages: list[Any]) -> None:
        by_place = defaultdict[Partition, list[Any]](list)
        for message in messages:
            error, place = message.error(), (message.topic(), message.partition())
            if self._bounded and place in self._at_end:
                continue
            if error is None:
                by_place[place].append(message)
                self._at_end.pop(place, None)
            elif error.code() == self._client.KafkaError._PARTITION_EOF:
                # what was read before comes first
                self.order.add(place, by_place.pop(place, []), message.offset())
                self._at_end.setdefault(place, self._clock())
            elif not error.retriable() and place in self.order.begins:
                raise SourceError(
                    "Kafka refuses to be read.",
                    given=f"partition {place[1]} of {place[0]}: {error.name()}: {error.str()}",
                    hint="max_task_idle and transactions read topics a second time, with the settings of "
                    "wm.Kafka(...) that are not under consumer=.",
                )
        for place, records in by_place.items():
            self.order.add(place, records, records[-1].offset() + 1)


def new_partitions(kafka: Kafka, begins: Mapping[Partition, int]) -> dict[Partition, int]:
    """The partitions that the topics have got since a batch was planned, with the offset of their first record.

    Parameters
    ----------
    begins : offsets of the known partitions.
    """
    admin = kafka_client.admin(kafka)
    partitions = dict[Partition, int]()
    for topic in {topic for topic, _ in begins}:
        metadata = admin.list_topics(topic, timeout=kafka_client.seconds(kafka_client.client_settings(kafka)))
        partitions |= {
            (topic, number): 0 for number in metadata.topics[topic].partitions if (topic, number) not in begins
        }
    return partitions


# Batches of whole transactions of a database, by what Debezium says of them (`provide.transaction.metadata`).
#
# An event names its transaction. Debezium's own topic says when a transaction has ended, and how many events each table
# has of it. A batch ends behind a transaction of which all events are there, in the order in which they have ended.

_LOOK_BACK = 100_000
"""Records of a topic of transactions in which a start looks for the transactions that were before."""
_LOOK_BACK_EVENTS = 100
"""Records of a table's partition in which a start looks for the last event before."""
_CONNECTORS = ("db2", "informix", "mariadb", "mongodb", "mysql", "oracle", "postgresql", "sqlserver", "vitess")
_IDS = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        # PostgreSQL and Informix: behind the number the position in the log, which is another in each event
        r"(?P<id>\d+):\d+",
        # MySQL with GTIDs (and tags), MariaDB, both without
        r"(?P<id>[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:(\w+:)?\d+)",
        r"(?P<id>\d+-\d+-\d+)",
        r"(?P<id>file=[^,]*,pos=\d+)",
        # SQL Server and Db2: the position of the commit
        r"(?P<id>[0-9a-f]+:[0-9a-f]+:[0-9a-f]+)",
        # Oracle by LogMiner, and by XStream or OpenLogReplicator
        r"(?P<id>[0-9a-f]{16})",
        r"(?P<id>(0x)?[0-9a-f]+\.[0-9a-f]+\.[0-9a-f]+)",
        # MongoDB: session and number, or one of them; Vitess: its positions
        r"(?P<id>(\{.*\}:)?\d+|\{.*\}|\[.*\])",
    )
)


def prefix_of(log: str) -> str:
    """The first part of the names of a database's topics.

    >>> prefix_of("shop.transaction")
    'shop.'
    """
    return f"{log.rpartition('.')[0]}."


def log_of(topic: str, logs: Iterable[str]) -> str | None:
    """The topic of transactions to which a topic belongs; None: it is of no such database.

    >>> log_of("shop.public.orders", ["shop.transaction", "hr.transaction"])
    'shop.transaction'
    """
    return max((log for log in logs if topic.startswith(prefix_of(log))), key=len, default=None)


@lru_cache(10_000)
def topic_of(log: str, table: str) -> str:
    """The topic of a table, by Debezium's rule for signs that a topic's name cannot have.

    >>> topic_of("shop.transaction", "public.my table"), topic_of("shop.transaction", "public.a$b")
    ('shop.public.my_table', 'shop.public.a_b')
    """
    # as Java counts signs: one beyond the first 65,536 is two
    units = f"{prefix_of(log)}{table}".encode("utf-16-le", "surrogatepass")
    text = "".join(chr(units[n] + 256 * units[n + 1]) for n in range(0, len(units), 2))
    return re.sub(r"[^A-Za-z0-9._-]", "_", text)[:249]


def identity_of(name: Any, where: str) -> str:
    """The part of a transaction's id that is the same in all its events.

    >>> identity_of("571:53195829", "shop.transaction"), identity_of("0-7-11", "shop.transaction")
    ('571', '0-7-11')
    """
    for pattern in _IDS:
        if isinstance(name, str) and (match := pattern.fullmatch(name.lower() if "{" not in name else name)):
            return match["id"]
    raise SourceError(
        f"transactions= does not know how {where} names its transactions: id {str(name)!r:.120}.",
        hint=f"Known are the ids of {', '.join(_CONNECTORS)}. For another connector leave transactions= out.",
    )


class _Event(NamedTuple):
    """The transaction of an event."""

    identity: str  # the transaction's
    position: tuple[int, ...]  # in the database's log, growing within a transaction; empty where it is not known
    order: int  # which of the table's events in the transaction it is, from 1

    @property
    def place(self) -> tuple[tuple[int, ...], int]:
        """Where it stands among the events of its transaction in one partition."""
        return self.position, self.order


@dataclass(frozen=True)
class _Ended:
    """A transaction that has ended."""

    id: str  # the part that all its events have
    events: Mapping[str, int]  # how many each table has; none if it began before what is read
    offset: int  # behind its end, in the topic of transactions
    restarted: bool  # whether Debezium was started again within it: `events` then counts those behind that


@dataclass
class _Database:
    """The transactions of one database that are in no batch yet, and which were before.

    Attributes
    ----------
    connector : Debezium's name of it; None: no event has said it yet.
    first : number of the first transaction in `ended`.
    ended : those that are in no batch yet.
    numbers : of all that have ended, by id, in the order of their ends; of those in a batch the last `_LOOK_BACK`.
    seen : by number and topic, the places of the events, with their partitions.
    crossed : numbers behind which no batch may end: a partition has an event of this transaction, or of one before it,
        behind an event of a later one.
    begun : ids of those that have begun and have not ended; whether a second time.
    unread : of those in which Debezium was started again, by number: partitions not read to their end since.
    looked_back : whether the transactions before what is read are known.
    """

    log: str  # the topic of its transactions
    connector: str | None = None
    first: int = 0
    ended: deque[_Ended] = field(default_factory=deque)
    numbers: dict[str, int] = field(default_factory=dict)
    seen: dict[int, defaultdict[str, set[tuple[tuple[int, ...], int, int]]]] = field(default_factory=dict)
    crossed: set[int] = field(default_factory=set)
    begun: dict[str, bool] = field(default_factory=dict)
    unread: dict[int, set[Partition]] = field(default_factory=dict)
    looked_back: bool = True
    _past: int = -(2**60)
    _last_complete: int = -1

    def note(self, value: bytes | None, offset: int, start: int, places: Iterable[Partition]) -> None:
        """Take a record of the topic of transactions.

        Parameters
        ----------
        start : of the records before it only which transactions have begun and ended is of interest.
        places : the partitions of the database's tables.
        """
        if value is None:
            return
        record = _payload(value)
        if record.get("status") not in ("BEGIN", "END"):
            raise SourceError(
                f"transactions={self.log!r} names a topic that has other records than Debezium's of transactions.",
                given=f"offset {offset} of {self.log}: {value!r:.120}",
                hint="Name <topic.prefix>.transaction; its records must be JSON, as JsonConverter writes them.",
            )
        identity = identity_of(record.get("id"), self.log)
        if identity in self.numbers:
            return  # Debezium has been started again, and repeats what it wrote
        if record["status"] == "BEGIN":
            self.begun[identity] = identity in self.begun
            return
        restarted = self.begun.pop(identity, None)
        if offset < start:
            self._past += 1
            self.numbers[identity] = self._past
            return
        # of one that began before what is read, some events may have been read before, too
        counted = () if restarted is None else record.get("data_collections") or ()
        number = self.numbers[identity] = self.first + len(self.ended)
        events = {entry["data_collection"]: int(entry["event_count"]) for entry in counted}
        self.ended.append(_Ended(identity, events, offset + 1, bool(restarted)))
        if restarted:
            self.unread[number] = set(places)

    def is_fresh(self, event: _Event, number: int, place: Partition, furthest: _Event | None) -> bool:
        """Whether an event is no repetition of one that its partition had before.

        Parameters
        ----------
        furthest : the last one that was none.
        """
        if number >= self.first:
            if not event.position and self.ended[number - self.first].restarted:
                return True
            return (*event.place, place[1]) not in self.seen.get(number, defaultdict(set))[place[0]]
        return self.is_behind(event, furthest)

    def is_behind(self, event: _Event, furthest: _Event | None) -> bool:
        """Whether an event is one of a later transaction than another one, or a later one of the same."""
        if furthest is None or (last := self.numbers.get(furthest.identity)) is None:
            return True
        return (self.numbers[event.identity], *event.place) > (last, *furthest.place)

    def count(self, event: _Event, place: Partition, number: int, highest: int) -> int:
        """Count an event of a transaction: the largest number of its partition.

        Parameters
        ----------
        highest : the largest number of the events before it in its partition.
        """
        if number >= self.first:
            self.seen.setdefault(number, defaultdict(set))[place[0]].add((*event.place, place[1]))
            self.crossed.update(range(number, highest))
        return max(number, highest)

    def complete(self, topics: Collection[str]) -> int:
        """Number of the last transaction up to which all events of these topics are there."""
        for number in range(max(self._last_complete + 1, self.first), self.first + len(self.ended)):
            if self.missing(number, topics) or self.unread.get(number):
                break
            self._last_complete = number
        return self.before(self._last_complete)

    def missing(self, number: int, topics: Collection[str]) -> dict[str, str]:
        """Of a transaction that has ended, by topic how many events are there, of how many; none if all are."""
        transaction, counts = self.ended[number - self.first], dict[str, str]()
        for topic, count in self._events(transaction, topics).items():
            places = self.seen.get(number, defaultdict(set))[topic]
            if not (_has_the_last(places, count) if transaction.restarted else len(places) >= count):
                counts[topic] = f"{len(places):,} of {count:,}"
        return counts

    def _events(self, transaction: _Ended, topics: Collection[str]) -> Counter[str]:
        """How many events of a transaction each of the topics has."""
        counts = Counter[str]()
        for table, count in transaction.events.items():
            names = [table]
            # of these, a topic may have no name of the database
            if self.connector in (None, "oracle", "db2", "informix", "sqlserver") and table.count(".") > 1:
                names.append(table.partition(".")[2])
            for topic in [topic_of(self.log, name) for name in names if topic_of(self.log, name) in topics][:1]:
                counts[topic] += count
        return counts

    def before(self, number: int) -> int:
        """The last number up to this one behind which a batch may end."""
        while number in self.crossed:
            number -= 1
        return number

    def behind(self, number: int) -> int:
        """The first number from this one on behind which a batch may end."""
        while number in self.crossed:
            number += 1
        return number

    def drop(self, last: int) -> int | None:
        """Forget the transactions up to a number: the offset behind the last one; None: there are none."""
        offset = None
        while self.ended and self.first <= last:
            transaction = self.ended.popleft()
            self.seen.pop(self.first, None)
            self.unread.pop(self.first, None)
            self.crossed.discard(self.first)
            self.first, offset = self.first + 1, transaction.offset
        while len(self.numbers) > len(self.ended) + _LOOK_BACK:
            self.numbers.pop(next(iter(self.numbers)))
        return offset


class TransactionOrder(BatchOrder):
    """The order of events by the ends of their transactions.

    Parameters
    ----------
    begins : offset of the first record of each partition.
    logs : the topics of transactions.
    firsts : where the first batch of the checkpoint began; empty if that is not known.
    """

    def __init__(
        self, begins: Mapping[Partition, int], logs: Sequence[str], firsts: Mapping[Partition, int] | None = None
    ) -> None:
        self.begins = self._begins = begins
        self._firsts = firsts or {}
        self._databases = {log: _Database(log) for log in logs}
        self._ends, self._times = dict(begins), 1
        self._tables = {place: PartitionTimes(0, start) for place, start in begins.items() if place[0] not in logs}
        self._unknown: dict[Partition, deque[tuple[int, _Event | None]]] = {place: deque() for place in self._tables}
        self._numbers = dict.fromkeys(self._tables, -1)
        self._furthest = dict[Partition, _Event]()
        self._checked = set[tuple[str, ...]]()
        groups = defaultdict[str | None, list[Partition]](list)
        for place in self._tables:
            groups[log_of(place[0], logs)].append(place)
        self._groups = dict(groups)
        for place in begins:
            if place[0] in self._databases:
                self._databases[place[0]].looked_back = self.since(place) == begins[place]

    def since(self, place: Partition) -> int:
        """A start goes on in the middle of transactions, and looks back for what was before."""
        start = self.begins[place]
        if place in self._groups.get(None, ()):
            return start
        first = self._firsts.get(place, start) if self._firsts else 0
        return max(min(start, first), start - (_LOOK_BACK if place[0] in self._databases else _LOOK_BACK_EVENTS))

    def known(self, place: Partition) -> int:
        return len(self._tables[place]) + len(self._unknown[place]) if place in self._tables else 0

    def wanted(self, usual: int) -> int:
        """More where that many are not a whole transaction."""
        return usual * self._times

    def waits(self) -> bool:
        """The rest belongs to transactions that have not ended."""
        return False

    def add(self, place: Partition, records: Sequence[Any], end: int) -> None:
        if (database := self._databases.get(place[0])) is not None:
            for record in records:
                database.note(record.value(), record.offset(), self._begins[place], self._groups.get(place[0], ()))
            database.looked_back |= end >= self._begins[place]
            return
        log = log_of(place[0], self._databases)
        for record in records:
            event = None if log is None else self._event(record, place[0], self._databases[log])
            if record.offset() >= self._begins[place]:
                self._unknown[place].append((record.offset(), event))
            elif event is not None:
                self._furthest[place] = event
        self._ends[place] = max(end, self._ends[place])

    def _event(self, record: Any, topic: str, database: _Database) -> _Event | None:
        """The transaction of an event; None: it names none."""
        read = _payload(record.value())
        source = read.get("source")
        if isinstance(source, dict) and source.get("connector"):
            database.connector = str(source["connector"])
            parts = [source.get("db") or source.get("keyspace"), source.get("schema")]
            names = tuple(str(part) for part in (*parts, source.get("table") or source.get("collection")) if part)
            if (topic, *names) not in self._checked:
                _check_table(database, topic, names)
                self._checked.add((topic, *names))
        transaction = read.get("transaction")
        if not isinstance(transaction, dict):
            return None
        # PostgreSQL's id ends with the position, MySQL and MariaDB have it in the source
        name, positions = str(transaction.get("id")), list[Any]()
        if database.connector == "postgresql" and name.count(":") == 1:
            positions = [name.partition(":")[2]]
        elif database.connector in ("mysql", "mariadb") and isinstance(source, dict):
            positions = [source.get("pos"), source.get("row")]
        position = tuple(int(number) for number in positions if str(number).isdigit())
        order = transaction.get("data_collection_order")
        return _Event(identity_of(name, topic), position, order if isinstance(order, int) else -1 - record.offset())

    def take(self, awaited: Collection[Partition], limit: int) -> dict[Partition, int] | None:
        ends = dict[Partition, int]()
        for unread in [partitions for db in self._databases.values() for partitions in db.unread.values()]:
            unread.intersection_update(awaited)
        # rows of a snapshot name no transaction: those of a partition that has not answered yet are not left behind
        silent = {place for place in awaited if place in self._tables and not self.known(place)}
        for log, places in self._groups.items():
            database = None if log is None else self._databases[log]
            if database is not None and silent.intersection(places):
                continue
            for place in places:
                self._number(place, database)
            most = END if database is None else Cut(database.complete({topic for topic, _ in places}))
            tables = [self._tables[place] for place in places]
            cut = next_cut(tables, most, max(1, limit // len(self._groups)))
            if cut is None:
                continue
            if database is not None:
                cut = _align(database, cut)
            ends |= {place: self._tables[place].take(cut) for place in places}
            if database is not None and (offset := database.drop(cut.ms)) is not None:
                ends |= {place: offset for place in self.begins if place[0] == log}
        self._times = 1 if ends else 2 * self._times
        if not ends:
            return None
        self.begins = {**self.begins, **ends}
        return dict(self.begins)

    def _number(self, place: Partition, database: _Database | None) -> None:
        """Number the records of a partition, up to the first one of a transaction without an end."""
        unknown, table, number = self._unknown[place], self._tables[place], self._numbers[place]
        offsets, numbers = list[int](), list[int]()
        while unknown:
            offset, event = unknown[0]
            # snapshots and the tombstones behind deletions name none: they belong to what is before them
            if database is not None and event is not None:
                if (event_number := database.numbers.get(event.identity)) is None or not database.looked_back:
                    break
                if database.is_fresh(event, event_number, place, self._furthest.get(place)):
                    number = database.count(event, place, event_number, number)
                    if database.is_behind(event, self._furthest.get(place)):
                        self._furthest[place] = event
                elif not self._catches_up(place, database):
                    break
            offsets.append(offset)
            numbers.append(number)
            unknown.popleft()
        end = self._ends[place] if not unknown else unknown[0][0]
        table.add(np.array(offsets, np.int64), np.array(numbers, np.int64), end)
        self._numbers[place] = number

    def _catches_up(self, place: Partition, database: _Database) -> bool:
        """Whether events that are repeated lead to the last one that is none.

        Until then the rows that they are read as are older than those that have been read.
        """
        last = self._furthest.get(place)
        for _, event in self._unknown[place]:
            number = None if event is None else database.numbers.get(event.identity)
            if event is not None and (number is None or event == last or database.is_fresh(event, number, place, last)):
                return True
        return False

    def waiting(self) -> dict[str, str]:
        reasons = dict[str, str]()
        for log, database in self._databases.items():
            places = self._groups.get(log, [])
            topics = {topic for topic, _ in places}
            for number, transaction in enumerate(database.ended, database.first):
                if missing := database.missing(number, topics):
                    details = ", ".join(f"{topic} has {counts}" for topic, counts in missing.items())
                    reasons[transaction.id] = (
                        f"transaction {transaction.id} of {log} has ended, and events of it are missing: {details}"
                    )
                    break
            for place in places:
                offset, event = next(iter(self._unknown[place]), (0, None))
                at = f"offset {offset} of partition {place[1]} of {place[0]}"
                if event is None:
                    continue
                if event.identity not in database.numbers:
                    text = f"transaction {event.identity} has an event (at {at}), and no end in {log}"
                else:
                    text = f"events from {at} on are repeated (Debezium was started again), and no new one has come"
                reasons.setdefault(event.identity, text)
        return reasons

    def left(self) -> dict[str, int]:
        counts = Counter[str]()
        for log, places in self._groups.items():
            numbers = {} if log is None else self._databases[log].numbers
            for place in places:
                unknown = [event for _, event in self._unknown[place] if event is not None]
                # what is repeated has been read
                counts[place[0]] += len(self._tables[place]) + sum(event.identity not in numbers for event in unknown)
        return {topic: count for topic, count in counts.items() if count}


def _align(database: _Database, cut: Cut) -> Cut:
    """A cut between transactions: at most this one, further on if it would leave nothing."""
    last = database.before(cut.ms)
    return Cut(last if last >= database.first else database.behind(cut.ms))


def _has_the_last(places: Collection[tuple[tuple[int, ...], int, int]], count: int) -> bool:
    """Whether the last events of a table, which Debezium has counted from 1 again, are there.

    >>> _has_the_last([((7,), 1, 0), ((8,), 2, 0), ((9,), 1, 0)], 1), _has_the_last([((7,), 1, 0), ((8,), 2, 0)], 1)
    (True, False)
    """
    if not all(position for position, _, _ in places):
        return {order for _, order, _ in places} >= set(range(1, count + 1))
    by_order, positions = defaultdict[int, list[tuple[int, ...]]](list), list[tuple[int, ...]]()
    for position, order, _ in places:
        by_order[order].append(position)
    for order in range(count, 0, -1):
        candidates = [position for position in by_order[order] if not positions or position <= positions[-1]]
        if not candidates:
            return False
        positions.append(max(candidates))
    # none of the others is behind the first of them
    return {position for position, _, _ in places if position >= positions[-1]} == set(positions)


def _check_table(database: _Database, topic: str, names: Sequence[str]) -> None:
    """Refuse the events of a connector that is not known, and those of a topic that does not have its table's name."""
    if database.connector not in _CONNECTORS:
        raise SourceError(
            f"transactions= does not know the transactions of the connector {database.connector!r}.",
            given=f"an event in {topic}",
            hint=f"Known are {', '.join(_CONNECTORS)}. For another connector leave transactions= out.",
        )
    expected = [topic_of(database.log, ".".join(names[first:])) for first in range(len(names) - 1)]
    if expected and topic not in expected:
        raise SourceError(
            f"transactions= cannot count the events of {topic}: it has those of the table {'.'.join(names)}.",
            given=f"an event in {topic}, which Debezium itself would write to {expected[-1]}",
            hint="Let the topic have its own name (no RegexRouter, ByLogicalTableRouter or topic.naming.strategy), or "
            "leave transactions= out.",
        )


def _payload(value: bytes | None) -> dict[str, Any]:
    """An event, of an envelope with its schema or without; none where there is none."""
    try:
        read = json.loads(value or b"null")
    except ValueError:
        return {}  # undecodable: the input's policy decides about it
    payload = read.get("payload", read) if isinstance(read, dict) else None
    return payload if isinstance(payload, dict) else {}


# Where a running query's Kafka source ends its next batch, said by us in place of what the topics have.
#
# Spark's public way for that is a source in Python, which costs 1.3 times the CPU (bench/studies/kafka_source.py). Its
# own source holds the ends of a query that reads what is available now, and plans no batch beyond them: these are set,
# as often as a batch may go on. Before they are known, the source waits for more records than there are (`GATE`,
# options of Spark's own).

_ALL = str((1 << 63) - 1)
GATE: Mapping[str, str] = {
    "minOffsetsPerTrigger": _ALL,
    "maxOffsetsPerTrigger": _ALL,  # not less than the other
    "maxTriggerDelay": "100000000d",
}
"""Options with which the source gives no records until its ends are set."""
_SOURCE, _LIMIT = "KafkaMicroBatchStream", "CompositeReadLimit"


KNOWN_SPARKS = ("4.1", "4.2", "4.3")


class QuerySources:
    """The sources of a running query, inside Spark: how much its batches take of them, and where they end.

    All that is private to Spark's sources is here. Versions of Spark are known one by one, since in another one a field
    may mean something else.

    Parameters
    ----------
    spark : its session.
    execution : Spark's own object of the query.
    """

    def __init__(self, spark: SparkSession, execution: Any) -> None:
        self._jvm: Any = spark._jvm
        self._execution = execution
        self._source: Any = None
        self.check(spark.version)

    @staticmethod
    def check(version: str) -> None:
        if not version.startswith(tuple(f"{number}." for number in KNOWN_SPARKS)):
            raise _unknown(f"Spark {version}")

    @classmethod
    def of(cls, spark: SparkSession, query: StreamingQuery) -> QuerySources:
        """Those of a query that has a source with the options of `GATE`."""
        running: Any = query
        return cls(spark, running._jsq.streamingQuery())

    def find(self) -> bool:
        """Whether the query has made its source by now."""
        try:
            for source, limit in self._limits():
                names = (source.getClass().getSimpleName(), limit.getClass().getSimpleName())
                if names == (_SOURCE, _LIMIT):
                    self._source = source
            return self._source is not None
        except Exception as error:
            raise _unknown(f"{type(error).__name__}: {error!s:.200}") from error

    def planned(self) -> dict[Partition, int] | None:
        """Where the last planned batch ends; None: none was planned yet."""
        return self._offsets(self._execution.availableOffsets())

    def committed(self) -> dict[Partition, int] | None:
        """Where the last committed batch ends; None: there is none."""
        return self._offsets(self._execution.committedOffsets())

    def first(self) -> dict[Partition, int]:
        """Where the first batch of the checkpoint ended, which had no records; none if Spark has removed its plan."""
        plan = self._execution.offsetLog().get(0)
        if plan.isEmpty():
            return {}
        return self._offsets(plan.get().toStreamProgress(self._execution.sources())) or {}

    def set(self, ends: Mapping[Partition, int]) -> None:
        """Let the batches that are to be planned end here."""
        by_topic: dict[str, dict[str, int]] = {}
        for (topic, number), end in sorted(ends.items()):
            by_topic.setdefault(topic, {})[str(number)] = end
        try:
            offsets = self._jvm.org.apache.spark.sql.kafka010.JsonUtils.partitionOffsets(json.dumps(by_topic))
            self._field("allDataForTriggerAvailableNow").set(self._source, offsets)
            self._field("isTriggerAvailableNow").set(self._source, True)
            for source, previous in self._limits():
                if source.equals(self._source) and previous.getClass().getSimpleName() == _LIMIT:
                    self._set_limit(source, self._read_limit.allAvailable())
        except Exception as error:
            raise _unknown(f"{type(error).__name__}: {error!s:.200}") from error

    def limit_records(self, previous: int, records: int) -> bool:
        """Whether a source that gives a batch `previous` records at most has that many from now on."""
        limits = [
            (source, limit) for source, limit in self._limits() if limit.getClass().getSimpleName() == "ReadMaxRows"
        ]
        sources = [source for source, limit in limits if limit.maxRows() == previous]
        for source in sources:
            self._set_limit(source, self._read_limit.maxRows(records))
        return bool(sources)

    @property
    def _read_limit(self) -> Any:
        return self._jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit

    def _set_limit(self, source: Any, limit: Any) -> None:
        getattr(self._execution, "uniqueSources_$eq")(self._execution.uniqueSources().updated(source, limit))

    def _limits(self) -> list[tuple[Any, Any]]:
        pairs, iterator = [], self._execution.uniqueSources().iterator()
        while iterator.hasNext():
            pair = iterator.next()
            pairs.append((pair._1(), pair._2()))
        return pairs

    def _field(self, name: str) -> Any:
        field = self._source.getClass().getDeclaredField(name)
        field.setAccessible(True)
        return field

    def _offsets(self, progress: Any) -> dict[Partition, int] | None:
        offset = progress.get(self._source)
        if offset.isEmpty():
            return None
        read = json.loads(offset.get().json())
        return {(topic, int(number)): end for topic, ends in read.items() for number, end in ends.items()}


def _unknown(reason: str) -> ConfigError:
    return ConfigError(
        "max_task_idle and transactions have no effect on this Spark: it is not known how its Kafka source ends a "
        "batch.",
        given=reason,
        hint=f"Take one of PySpark {', '.join(KNOWN_SPARKS)}, or leave max_task_idle and transactions out of "
        "wm.Kafka(...).",
    )


LOG = logging.getLogger("watersmeet.query")
_SYNCHRONIZED_INPUTS_LOOK_SECONDS = 0.05
_SHARES = 4
"""Of each partition so many times its share of a batch is looked at: partitions are not equally full."""


@dataclass(frozen=True)
class SynchronizedInputs:
    """The topics of a start that are kept together."""

    topics: Mapping[str, int]  # with their places among records of one time; none if nothing is
    kafka: Kafka | None  # the connection

    @classmethod
    def of(
        cls, sources: Sequence[SourceNode], kafka: Kafka | None, *, available_now: bool = False
    ) -> SynchronizedInputs:
        """Those for which the connection's `max_task_idle` or `transactions` ask."""
        option = "" if kafka is None else "transactions" if kafka.transactions else "max_task_idle"
        if kafka is None or (not kafka.transactions and kafka.max_task_idle_ms is None):
            return cls({}, kafka)
        if not kafka_client.can_ask(kafka):
            raise ConfigError(
                f"{option}= needs Kafka's client for Python, which cannot read these topics.",
                hint=f"{installing('kafka')} on the driver. A connection with settings for Java alone (consumer=) "
                "needs those of librdkafka beside them.",
            )
        QuerySources.check(pyspark.__version__)
        streams = [s for s in sources if s.origin.frame is not None and s.origin.frame.isStreaming]
        if available_now and streams:
            raise ConfigError(
                f"available_now=True with {option}= ends when the topics have been read, and {streams[0].name!r} is a "
                "streaming DataFrame.",
                hint="Leave one of them out, or write the DataFrame into a topic.",
            )
        if kafka.transactions:
            return cls(_topics_of_databases(sources, kafka.transactions), kafka)
        return cls(_topics(sources), kafka)

    def __bool__(self) -> bool:
        return bool(self.topics)

    def gated(self, kafka: Kafka | None) -> Kafka | None:
        """The connection of a source that gives no records until it is said where they end."""
        if kafka is None or not self:
            return kafka
        connection, read = shallow_copy(kafka), {"subscribe": ",".join(sorted({*self.topics, *kafka.transactions}))}
        object.__setattr__(connection, "source", {**kafka.source, **GATE, **(read if kafka.transactions else {})})
        return connection

    def trigger(self, options: dict[str, Any]) -> dict[str, Any]:
        """The trigger of a query: one that takes what is available now is ended by `BatchEndPlanner`."""
        return {"processingTime": "0 seconds"} if self and "availableNow" in options else options

    def begin(
        self, spark: SparkSession, query: StreamingQuery, trigger: dict[str, Any], limit: Callable[[], int | None]
    ) -> BatchEndPlanner | None:
        """Say to a query where its batches end; None: nothing is kept together, or the batch is one that was planned.

        Parameters
        ----------
        trigger : as it was given.
        limit : gives how many records the next batch may have; None: as many as any.
        """
        kafka = self.kafka
        if kafka is None or not self or "once" in trigger:
            return None
        logs, ends = kafka.transactions, QuerySources.of(spark, query)
        most, bounded = kafka.max_records_per_batch, "availableNow" in trigger

        def read(begins: Mapping[Partition, int]) -> ReadAhead:
            begins = {**begins, **new_partitions(kafka, begins)}
            order: BatchOrder = TransactionOrder(begins, logs, ends.first()) if logs else TimeOrder(begins, self.topics)
            return ReadAhead(kafka, order, bounded=bounded)

        arguments = (query, ends, read, (kafka.max_task_idle_ms or 0) / 1_000)
        watch = Watch(kafka.max_transaction_wait_ms / 1_000)
        return BatchEndPlanner(*arguments, lambda: limit() or most, bounded=bounded, watch=watch)


def _topics(sources: Sequence[SourceNode]) -> dict[str, int]:
    topics: dict[str, int] = {}
    for number, source in enumerate(sources):
        origin = source.origin
        if origin.topic is None or source.shape.kind == "global" or source.dead_letters_of is not None:
            continue
        if origin.pattern is not None:
            raise _refused(source, "its topics are known by a pattern only", "Name its topics one by one")
        if source.timestamp is not None:
            raise _refused(source, "its timestamp= is a function of its records", "Write the time as the record's own")
        if origin.value.gives_time:
            reason = "its event time is in its values"
            raise _refused(source, reason, 'Read it with wm.debezium(..., time="record")')
        topics.setdefault(origin.name, number)
    return topics


def _topics_of_databases(sources: Sequence[SourceNode], logs: Sequence[str]) -> dict[str, int]:
    """All topics, if those of the databases have events of which it is known how to read their transactions."""
    read = [source for source in sources if source.origin.topic is not None and source.dead_letters_of is None]
    read = [source for source in read if source.shape.kind != "global"]
    topics = {source.origin.name: number for number, source in enumerate(read) if source.origin.pattern is None}
    for source in read:
        if source.origin.pattern is not None:
            raise _refused(
                source, "its topics are known by a pattern only", "Name its topics one by one", "transactions"
            )
        if log_of(source.origin.name, logs) is not None and not source.origin.value.names_transactions:
            instead = 'Read it with wm.debezium("...") as JSON'
            raise _refused(source, f"its format is {source.origin.value}", instead, "transactions")
    for log in logs:
        if not any(log_of(topic, logs) == log for topic in topics):
            raise ConfigError(
                f"No input is a table of the database with the transactions {log!r}.",
                hint=f"Its topics begin with {prefix_of(log)!r}; the topology reads {', '.join(sorted(topics)):.200}.",
            )
    return topics


_NEEDS = {
    "max_task_idle": "max_task_idle goes by the timestamps that Kafka has of records",
    "transactions": "transactions= goes by the transactions that Debezium's events name",
}


def _refused(source: SourceNode, reason: str, instead: str, option: str = "max_task_idle") -> ConfigError:
    return ConfigError(
        f"{_NEEDS[option]}, and the input {source.name!r} has none such: {reason}.",
        given=f"wm.Kafka({option}=...)",
        hint=f"{instead}, or leave {option} out.",
    )


class Watch:
    """Says what a query waits for, each thing once.

    Parameters
    ----------
    seconds : what is waited for so long is said.
    clock : gives seconds.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._since = dict[str, float]()

    def look(self, order: BatchOrder) -> None:
        """Look at what no batch can be made of now."""
        current, waiting = self._clock(), order.waiting()
        # what was said stays, so that it is not said again
        self._since = {name: self._since.get(name, current) for name in waiting}
        for name, text in waiting.items():
            if current - self._since[name] >= self._seconds:
                self._since[name] = float("inf")
                LOG.warning("The query has waited for %.0f seconds: %s. %s", self._seconds, text, _WAITS)

    def end(self, order: BatchOrder) -> None:
        """Look at what a query that takes what is there leaves."""
        if left := order.left():
            counts = ", ".join(f"{count:,} of {topic}" for topic, count in left.items())
            reasons = "; ".join(order.waiting().values())
            LOG.warning("available_now=True leaves records for the next start: %s. %s. %s", counts, reasons, _WAITS)


_WAITS = (
    "Hint: batches end between transactions (wm.Kafka(transactions=...)), and the query goes on when Debezium writes "
    "the rest. If that has been lost, start again without transactions=."
)


class QueryThread:
    """A thread beside a running query, until that ends.

    Attributes
    ----------
    failure : why it has stopped before the query, which it then has ended.
    """

    def __init__(self, query: StreamingQuery, work: str) -> None:
        self._query = query
        self.failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"{work} of {query.runId}", daemon=True)
        self._thread.start()

    def follow(self) -> None:
        """Do its work while the query is active."""
        raise NotImplementedError

    def wait_for_all(self) -> None:
        """Wait until the query can have all that is there now."""
        raise NotImplementedError

    def pause_for(self, seconds: float) -> bool:
        """Wait, but no longer than the query is active: whether it is."""
        pause, end = threading.Event(), time.monotonic() + seconds
        while self._query.isActive:
            if (seconds := end - time.monotonic()) <= 0:
                return True
            pause.wait(min(seconds, _SYNCHRONIZED_INPUTS_LOOK_SECONDS))
        return False

    def join(self) -> None:
        """Wait until the thread has ended; the query has, or is about to."""
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            self.follow()
        except Exception as error:
            with suppress(Exception):  # whatever a session says that is gone
                if self._query.isActive:
                    LOG.error("The query is stopped: %s", error)
                    self.failure = error
                    self._query.stop()


class BatchEndPlanner(QueryThread):
    """Says to the source of a running query where its batches end; a thread, until the query ends.

    Parameters
    ----------
    query : the query, of a source of `gated`.
    ends : says it to Spark.
    read : reads ahead from offsets on.
    idle_seconds : how long a partition without records is waited for.
    limit : gives how many records the next batch may have.
    bounded : whether to take what is there now, and then to end the query.
    watch : warns of what the query waits for.
    """

    def __init__(
        self,
        query: StreamingQuery,
        ends: QuerySources,
        read: Callable[[Mapping[Partition, int]], ReadAhead],
        idle_seconds: float,
        limit: Callable[[], int],
        *,
        bounded: bool,
        watch: Watch,
    ) -> None:
        self._ends, self._read, self._limit = ends, read, limit
        self._idle_seconds, self._bounded, self._watch = idle_seconds, bounded, watch
        self._ahead: ReadAhead | None = None
        self._planned: Mapping[Partition, int] = {}
        self._rounds = 0
        self._lag: dict[str, dict[int, int]] = {}
        super().__init__(query, "ends")

    def wait_for_all(self) -> None:
        """Wait until batches with all records that are there now have been planned, or the query ends."""
        start = self._rounds
        while self._thread.is_alive() and self._rounds < start + 2:
            self._thread.join(_SYNCHRONIZED_INPUTS_LOOK_SECONDS)

    @property
    def lag(self) -> dict[str, dict[int, int]]:
        """Offsets behind the end of the last batch that was planned, by topic and partition."""
        ahead, lags = self._ahead, dict[str, dict[int, int]]()
        if ahead is not None:
            with suppress(RuntimeError):  # it has just been closed: the last numbers stay
                for (topic, number), end in self._planned.items():
                    lags.setdefault(topic, {})[number] = ahead.behind((topic, number), end)
                self._lag = lags
        return self._lag

    def follow(self) -> None:
        begins = self._begins()
        if begins is None:
            return
        self._planned, self._ahead = begins, self._read(begins)
        pause = threading.Event()
        try:
            while self._query.isActive:
                # while a batch runs, for the next one
                self._ahead.read(self._record_count())
                if self._ends.planned() == self._planned and not self._go_on(self._ahead):
                    if not self._bounded:
                        self._watch.look(self._ahead.order)
                    if self._is_done(self._ahead):
                        self._rounds += 1
                        if self._bounded and self._is_committed():
                            self._watch.end(self._ahead.order)
                            self._query.stop()
                pause.wait(_SYNCHRONIZED_INPUTS_LOOK_SECONDS)
        finally:
            ahead, self._ahead = self._ahead, None
            ahead.close()

    def _begins(self) -> Mapping[Partition, int] | None:
        """Where the first batch begins that is to be planned; None: the query has ended before."""
        pause = threading.Event()
        while self._query.isActive:
            if self._ends.find() and (ends := self._ends.planned()) is not None:
                return ends
            pause.wait(_SYNCHRONIZED_INPUTS_LOOK_SECONDS)
        return None

    def _record_count(self) -> int:
        partitions = max(1, len(self._planned))
        return max(LEAST, min(self._limit(), _SHARES * self._limit() // partitions))

    def _go_on(self, ahead: ReadAhead) -> bool:
        """Whether the next batch may be planned."""
        idle = {place: ahead.resting(place) for place in ahead.order.begins}
        awaited = [
            place
            for place, seconds in idle.items()
            if seconds is None or (seconds < self._idle_seconds and not self._bounded)
        ]
        ends = ahead.order.take(awaited, self._limit())
        if ends is None:
            return False
        self._planned = ends
        self._ends.set(ends)
        return True

    def _is_committed(self) -> bool:
        """Whether the last batch is, and Spark has its progress."""
        return self._ends.committed() == self._planned and not self._query.status["isDataAvailable"]

    def _is_done(self, ahead: ReadAhead) -> bool:
        """Whether nothing is left that was there."""
        return not ahead.order.waits() and all(ahead.resting(place) is not None for place in ahead.order.begins)


# How many records of topics the next batch gets: as many as the last ones say that a limit of bytes allows.
#
# Spark's Kafka source limits a batch by records. But the cost of a batch follows from the bytes of its records and of
# all that is made of them: a changed row may have a hundred thousand results. Both are counted when the batch ends. The
# limit of the next one is set in the running query; Spark has no public way for that. Where its classes look otherwise
# than in Spark 4.3 the limit of records stays as it was given (law 8). A batch that was planned is run again as it was
# planned. The limit is written with the numbers of each batch, so a start goes on with it.

LEAST = 1_000
"""Records of a batch that is limited by its bytes: fewer would be lost in what any batch costs."""
GROWTH = 8
"""How many times as many records a batch gets behind one that was small: its bytes say little about each record."""


def next_batch_records(consumed: int, sent: int, limit: int, most: int, largest: int) -> int:
    """Records of the next batch.

    Parameters
    ----------
    consumed, sent : records of the last batch, and the bytes that were made of them.
    limit : records that it might have had.
    most, largest : records and bytes of a batch.

    >>> next_batch_records(1_000_000, 300 << 20, 1_000_000, 1_000_000, 1 << 30)
    1000000
    >>> next_batch_records(1_000_000, 8 << 30, 1_000_000, 1_000_000, 1 << 30)
    125000
    >>> next_batch_records(20, 1 << 20, 125_000, 1_000_000, 1 << 30)
    1000000
    """
    if sent * GROWTH <= largest:
        return min(most, limit * GROWTH)
    target = max(LEAST, consumed * largest // sent)
    # records of inputs without this limit are counted, too: behind a batch that was too large it never grows
    return min(most, target if sent <= largest else min(target, limit))


def with_last_limit(kafka: Kafka | None, checkpoint: Checkpoint) -> Kafka | None:
    """The settings with the limit of records that the last batch of a checkpoint has left."""
    metrics = None if kafka is None else lifetime.read(checkpoint)
    if kafka is None or metrics is None or metrics.records_limit is None:
        return kafka
    settings = shallow_copy(kafka)
    least = min(LEAST, kafka.max_records_per_batch)
    limit = min(max(metrics.records_limit, least), kafka.max_records_per_batch)
    object.__setattr__(settings, "max_records_per_batch", limit)
    return settings


def planning(spark: SparkSession, inputs: SynchronizedInputs, checkpoint: Checkpoint) -> Callable[[Counts], int | None]:
    """Plans the batches of a query: called with the counts of each one, on its thread, when all sinks have it.

    Parameters
    ----------
    inputs : the connection, and whether ends of batches are set in Spark's source, which then needs no limit.
    """
    kafka = inputs.kafka
    first = with_last_limit(kafka, checkpoint)
    if kafka is None or first is None:
        return lambda counts: None
    return _PlannedBatches(spark, kafka, first.max_records_per_batch, bool(inputs))


_QUERY_ID = "sql.streaming.queryId"


class _PlannedBatches:
    """Limits the batches of a query, one after the other."""

    def __init__(self, spark: SparkSession, kafka: Kafka, limit: int, gated: bool) -> None:
        self._spark, self._kafka, self._limit, self._gated = spark, kafka, limit, gated

    def __call__(self, counts: Counts) -> int:
        records = sum(counts.of_nodes(CONSUMED).values())
        if not records:
            return self._limit
        most = (self._kafka.max_records_per_batch, self._kafka.max_bytes_per_batch)
        limit = next_batch_records(records, counts.sums[Measure(SENT)], self._limit, *most)
        if limit != self._limit and (self._gated or _limit_source(self._spark, self._limit, limit)):
            self._limit = limit
        return self._limit


def streaming_execution(spark: SparkSession) -> Any:
    """Spark's own object of the query that runs this thread's batch; raises where there is none of this kind."""
    query: Any = spark.streams.get(str(spark.sparkContext.getLocalProperty(_QUERY_ID)))
    return query._jsq.streamingQuery()


def _limit_source(spark: SparkSession, previous: int, records: int) -> bool:
    """Whether the query of this thread reads at most so many records a batch now, where it read `previous` at most."""
    try:
        return QuerySources(spark, streaming_execution(spark)).limit_records(previous, records)
    except Exception:
        # whatever another version or another kind of Spark does here: the limit of records is there
        return False
