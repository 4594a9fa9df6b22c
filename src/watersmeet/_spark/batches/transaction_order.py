"""Batches of whole transactions of a database, by what Debezium says of them (`provide.transaction.metadata`).

An event names its transaction. Debezium's own topic says when a transaction has ended, and how many events each table
has of it. A batch ends behind a transaction of which all events are there, in the order in which they have ended.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from watersmeet._spark.batches.cuts import END, Cut, PartitionTimes, next_cut
from watersmeet._spark.batches.read_ahead import Place

_LOOK_BACK = 10_000
"""Records of a topic of transactions in which a start looks for the begins of those that have not ended."""


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


@dataclass(frozen=True)
class _Ended:
    """A transaction that has ended.

    Parameters
    ----------
    id : as Debezium has it.
    events : how many each topic has; none if it began before what is read.
    offset : behind its end, in the topic of transactions.
    """

    id: str
    events: Mapping[str, int]
    offset: int


@dataclass
class _Database:
    """The transactions of one database that are in no batch yet.

    Parameters
    ----------
    log : the topic of its transactions.

    Attributes
    ----------
    first : number of the first transaction in `ended`.
    ended : those that are in no batch yet.
    numbers : of these, by id.
    seen : by number, how many events each topic has had.
    crossed : numbers behind which no batch may end: a partition has an event of this transaction, or of one before it,
        behind an event of a later one.
    begun : ids of those that have begun and have not ended.
    """

    log: str
    first: int = 0
    ended: deque[_Ended] = field(default_factory=deque)
    numbers: dict[str, int] = field(default_factory=dict)
    seen: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    crossed: set[int] = field(default_factory=set)
    begun: set[str] = field(default_factory=set)

    def note(self, value: bytes | None, offset: int, begin: int) -> None:
        """Take a record of the topic of transactions.

        Parameters
        ----------
        begin : of the records before it only which transactions have begun is of interest: their ends are in a batch.
        """
        said = _payload(value)
        if said.get("status") == "BEGIN":
            self.begun.add(said["id"])
        elif said.get("status") == "END" and offset < begin:
            self.begun.discard(said["id"])
        elif said.get("status") == "END":
            counted = said.get("data_collections") or ()
            events = {f"{prefix_of(self.log)}{each['data_collection']}": int(each["event_count"]) for each in counted}
            # of one that began before what is read, some events may have been read before, too
            whole = said["id"] in self.begun
            self.begun.discard(said["id"])
            self.numbers[said["id"]] = self.first + len(self.ended)
            self.ended.append(_Ended(said["id"], events if whole else {}, offset + 1))

    def count(self, topic: str, number: int, before: int) -> int:
        """Count an event of a transaction: the largest number of its partition.

        Parameters
        ----------
        before : the largest number of the events before it in its partition.
        """
        self.seen[number][topic] += 1
        self.crossed.update(range(number, before))
        return max(number, before)

    def complete(self, topics: Collection[str]) -> int:
        """Number of the last transaction up to which all events of these topics are there."""
        last = self.first - 1
        for number, each in enumerate(self.ended, self.first):
            if any(self.seen[number][topic] < count for topic, count in each.events.items() if topic in topics):
                break
            last = number
        return self.before(last)

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
            gone = self.ended.popleft()
            self.numbers.pop(gone.id, None)
            self.seen.pop(self.first, None)
            self.crossed.discard(self.first)
            self.first, offset = self.first + 1, gone.offset
        return offset


class TransactionOrder:
    """The order of events by the ends of their transactions.

    Parameters
    ----------
    begins : offset of the first record of each partition.
    logs : the topics of transactions.
    firsts : where the first batch of the checkpoint began; empty if that is not known.
    """

    def __init__(
        self, begins: Mapping[Place, int], logs: Sequence[str], firsts: Mapping[Place, int] | None = None
    ) -> None:
        self.begins = self._begins = begins
        self._firsts = firsts or {}
        self._databases = {log: _Database(log) for log in logs}
        self._ends, self._times = dict(begins), 1
        self._tables = {place: PartitionTimes(0, begin) for place, begin in begins.items() if place[0] not in logs}
        self._unknown: dict[Place, deque[tuple[int, str | None]]] = {place: deque() for place in self._tables}
        self._numbers = dict.fromkeys(self._tables, -1)
        groups = defaultdict[str | None, list[Place]](list)
        for place in self._tables:
            groups[log_of(place[0], logs)].append(place)
        self._groups = dict(groups)

    def since(self, place: Place) -> int:
        """As each order: a start goes on in the middle of transactions, and looks back for their begins."""
        begin = self.begins[place]
        if place[0] not in self._databases:
            return begin
        first = self._firsts.get(place, begin) if self._firsts else 0
        return max(min(begin, first), begin - _LOOK_BACK)

    def known(self, place: Place) -> int:
        """As each order."""
        return len(self._tables[place]) + len(self._unknown[place]) if place in self._tables else 0

    def wanted(self, usual: int) -> int:
        """As each order: more where that many are not a whole transaction."""
        return usual * self._times

    def waits(self) -> bool:
        """As each order: what is left belongs to transactions that have not ended."""
        return False

    def add(self, place: Place, records: Sequence[Any], end: int) -> None:
        """As each order."""
        if (database := self._databases.get(place[0])) is not None:
            for each in records:
                database.note(each.value(), each.offset(), self._begins[place])
            return
        named = log_of(place[0], self._databases) is not None
        for each in records:
            self._unknown[place].append((each.offset(), transaction_of(each.value()) if named else None))
        self._ends[place] = end

    def take(self, awaited: Collection[Place], limit: int) -> dict[Place, int] | None:
        """As each order."""
        found = dict[Place, int]()
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
                cut = _whole(database, cut)
            found |= {place: self._tables[place].take(cut) for place in places}
            if database is not None and (offset := database.drop(cut.ms)) is not None:
                found |= {place: offset for place in self.begins if place[0] == log}
        self._times = 1 if found else 2 * self._times
        if not found:
            return None
        self.begins = {**self.begins, **found}
        return dict(self.begins)

    def _number(self, place: Place, database: _Database | None) -> None:
        """Number the records of a partition, up to the first one of a transaction without an end."""
        unknown, table, number = self._unknown[place], self._tables[place], self._numbers[place]
        offsets, numbers = list[int](), list[int]()
        while unknown:
            offset, identity = unknown[0]
            # snapshots and the tombstones behind deletions name none: they belong to what is before them
            if database is not None and identity is not None:
                if identity not in database.numbers:
                    break
                number = database.count(place[0], database.numbers[identity], number)
            offsets.append(offset)
            numbers.append(number)
            unknown.popleft()
        end = self._ends[place] if not unknown else unknown[0][0]
        table.add(np.array(offsets, np.int64), np.array(numbers, np.int64), end)
        self._numbers[place] = number


def _whole(database: _Database, cut: Cut) -> Cut:
    """A cut between transactions: at most this one, further on if it would leave nothing."""
    last = database.before(cut.ms)
    return Cut(last if last >= database.first else database.behind(cut.ms))


def transaction_of(value: bytes | None) -> str | None:
    """The id of an event's transaction; None: it names none.

    >>> transaction_of(b'{"payload": {"op": "c", "transaction": {"id": "571:53195829", "total_order": 1}}}')
    '571:53195829'
    >>> transaction_of(b'{"op": "r", "transaction": null}'), transaction_of(None), transaction_of(b"no event")
    (None, None, None)
    """
    named = _payload(value).get("transaction")
    return str(named["id"]) if isinstance(named, dict) and "id" in named else None


def _payload(value: bytes | None) -> dict[str, Any]:
    """An event, of an envelope with its schema or without; none where there is none."""
    try:
        read = json.loads(value or b"null")
    except ValueError:
        return {}  # undecodable: the input's policy decides about it
    found = read.get("payload", read) if isinstance(read, dict) else None
    return found if isinstance(found, dict) else {}
