"""Buffers with limits: which entries a full one sends early (KIP-328; docs/semantics, section 22).

Numbers alone, of one time domain of a shard. An entry that is sent early begins anew with its key's next row. So rows
are processed one by one, at some microseconds each; entries that are not sent cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from watersmeet._engine.arrays import Int64s

NONE = -1


@dataclass(frozen=True)
class Limits:
    """The limits of a buffer.

    Parameters
    ----------
    records, size : entries, and their bytes.
    refuses : whether it is an error if there are more; else the oldest go.
    """

    records: float
    size: float
    refuses: bool


@dataclass(frozen=True)
class Filling:
    """Entries that wait, or rows in order of position, each of which may begin an entry.

    Parameters
    ----------
    key : its serialized key's place among all of both.
    due : the last moment of its wait.
    size : its bytes.
    """

    key: Int64s
    due: Int64s
    size: Int64s


@dataclass(frozen=True)
class BufferEntries:
    """All entries, the ones that waited first, in their order.

    Parameters
    ----------
    begin, last : the first and last row of each; `NONE`: what began it, or all that it has, is in state.
    key, due : as in `Filling`.
    gone, place : the row that sent it early, and the how manieth of that row it was; `NONE`: none did.
    at_once : rows that never waited.
    held : number and bytes of what the buffer holds behind the last row.
    refused : whether that is too much.
    """

    begin: Int64s
    last: Int64s
    key: Int64s
    due: Int64s
    gone: Int64s
    place: Int64s
    at_once: Int64s
    held: tuple[int, int]
    refused: bool


def fill(limits: Limits, waiting: Filling, others: int, rows: Filling, moment: Int64s) -> BufferEntries:
    """The result of rows in a buffer.

    Parameters
    ----------
    waiting : entries that rows may change or send.
    others : number of those that none will reach.
    moment : twice the time that each row comes at, and one more where it stands behind what goes then.
    """
    buffer = _Buffer(limits, waiting, others)
    columns = (rows.key, rows.due, rows.size, moment)
    # What a row sends early decides what the next one of its key begins.
    for row, (key, due, size, now) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        buffer.pass_to(now)
        buffer.take(row, key, due, size, waits=2 * due >= now)
        if buffer.overflows and limits.refuses:
            break
        buffer.shrink(row)
    return buffer.entries()


class _Buffer:
    """The waiting entries, the oldest first: (due, serialized key)."""

    def __init__(self, limits: Limits, waiting: Filling, others: int) -> None:
        self._limits = limits
        self._key, self._due, self._size = (each.tolist() for each in (waiting.key, waiting.due, waiting.size))
        self._queue = list(zip(self._due, self._key, range(len(self._key)), strict=True))
        heapify(self._queue)
        self._count = others + len(self._key)
        self._bytes = sum(self._size)
        self._of_key = {key: number for number, key in enumerate(self._key)}
        count = len(self._key)
        self._begin, self._last, self._gone, self._place = ([NONE] * count for _ in range(4))
        self._at_once: list[int] = []

    @property
    def overflows(self) -> bool:
        """Whether it holds too much."""
        return self._count > self._limits.records or self._bytes > self._limits.size

    def pass_to(self, moment: int) -> None:
        """Let go what waits until before a moment."""
        while self._queue and 2 * self._queue[0][0] < moment:
            self._pop()

    def take(self, row: int, key: int, due: int, size: int, *, waits: bool) -> None:
        """Hold a row back, if it waits or others of its key do."""
        number = self._of_key.get(key, NONE)
        if number == NONE and not waits:
            self._at_once.append(row)
            return
        if number == NONE:
            number = self._of_key[key] = len(self._key)
            heappush(self._queue, (due, key, number))
            self._count += 1
            news = ((self._key, key), (self._due, due), (self._size, 0), (self._begin, row))
            for column, value in (*news, (self._last, row), (self._gone, NONE), (self._place, NONE)):
                column.append(value)
        self._bytes += size - self._size[number]
        self._size[number], self._last[number] = size, row

    def shrink(self, row: int) -> None:
        """Send the oldest early until it holds no more than it may."""
        place = 0
        while self._queue and self.overflows:
            number = self._pop()
            self._gone[number], self._place[number] = row, place
            place += 1

    def _pop(self) -> int:
        number = heappop(self._queue)[2]
        self._count -= 1
        self._bytes -= self._size[number]
        del self._of_key[self._key[number]]
        return number

    def entries(self) -> BufferEntries:
        """The state of all entries."""
        columns = (self._begin, self._last, self._key, self._due, self._gone, self._place, self._at_once)
        begin, last, key, due, gone, place, at_once = (np.array(column, dtype=np.int64) for column in columns)
        held = (self._count, self._bytes)
        return BufferEntries(begin, last, key, due, gone, place, at_once, held, self.overflows)
