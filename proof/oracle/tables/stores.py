"""Key-value stores of tables: plain and versioned.

Owns what a table remembers. Law: a plain store keeps the last arrival whatever its timestamp; a versioned
store keeps every version inside its history and says of each put whether it is the latest.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from proof.oracle.records import Key, Stored, Value


class PlainStore:
    """Last arrival wins; a tombstone leaves nothing behind, not even its timestamp."""

    versioned = False

    def __init__(self) -> None:
        """Start empty."""
        self._rows: dict[Key, Stored] = {}

    def get(self, key: Key) -> Stored | None:
        """The current value."""
        return self._rows.get(key)

    def rows(self) -> Iterator[tuple[Key, Value, int]]:
        """All rows, the latest keys last."""
        return ((key, *stored) for key, stored in self._rows.items())

    def put(self, key: Key, value: Value, ts: int) -> bool:
        """Store or delete; always the latest."""
        if value is None:
            self._rows.pop(key, None)
        else:
            self._rows[key] = Stored(value, ts)
        return True


@dataclass(slots=True)
class _History:
    """Versions of one key: `latest` is a value nobody has replaced; `bound` is when the others ended."""

    latest: Stored | None = None
    earlier: list[tuple[int, Value]] = field(default_factory=list)
    bound: int = -1


class VersionedStore:
    """KIP-889: all versions inside the history; puts older than the history are rejected."""

    versioned = True

    def __init__(
        self, history_ms: int, *, remember_tombstones: bool = False, domain: Callable[[], int] = lambda: 0
    ) -> None:
        """`remember_tombstones` repairs row 18: a tombstone at the latest value's time is kept like any.

        `domain` tells the time domain of what is put and looked up.
        """
        self._history_ms = history_ms
        self._remember = remember_tombstones
        self._times: dict[int, int] = {}
        self._domain = domain
        self._rows: dict[Key, _History] = {}

    def get(self, key: Key) -> Stored | None:
        """The latest version, if it is not a tombstone."""
        row = self._rows.get(key)
        return None if row is None else row.latest

    def get_as_of(self, key: Key, ts: int) -> Stored | None:
        """The version that was valid at this time; out of reach of the history only the latest can answer."""
        row = self._rows.get(key)
        if row is None:
            return None
        if row.latest is not None and row.latest.ts <= ts:
            return row.latest
        if ts < self._time - self._history_ms:
            return None
        at = bisect_right(row.earlier, ts, key=lambda version: version[0]) - 1
        if at < 0 or row.earlier[at][1] is None:
            return None
        return Stored(row.earlier[at][1], row.earlier[at][0])

    def rows(self) -> Iterator[tuple[Key, Value, int]]:
        """All versions; a value of None is where a row ended."""
        for key, row in self._rows.items():
            yield from ((key, value, ts) for ts, value in row.earlier)
            if row.latest is not None:
                yield key, *row.latest

    @property
    def _time(self) -> int:
        return self._times.get(self._domain(), -1)

    def is_expired(self, ts: int) -> bool:
        """Whether a version of this time is too old to be put."""
        return ts < self._time - self._history_ms

    def put(self, key: Key, value: Value, ts: int) -> bool | None:
        """Insert a version: True when it is the latest, False when out of order, None when too old."""
        if self.is_expired(ts):
            return None
        self._times[self._domain()] = max(self._time, ts)
        row = self._rows.setdefault(key, _History())
        if row.latest is not None and ts < row.latest.ts:
            if ts >= row.bound:
                row.bound = row.latest.ts
            _replace(row.earlier, ts, value)
            return False
        if row.latest is None and ts < row.bound:
            _replace(row.earlier, ts, value)
            return False
        self._put_latest(row, value, ts)
        return True

    def _put_latest(self, row: _History, value: Value, ts: int) -> None:
        replaced = row.latest
        if replaced is not None and ts > replaced.ts:
            _replace(row.earlier, replaced.ts, replaced.value)
            row.bound = ts
        row.latest = None if value is None else Stored(value, ts)
        # The engine keeps a tombstone only as the end of an earlier version, or as the first one.
        if value is None and (replaced is None or row.bound == ts or self._remember):
            row.bound = ts
            _replace(row.earlier, ts, None)


def _replace(versions: list[tuple[int, Value]], ts: int, value: Value) -> None:
    versions[:] = [version for version in versions if version[0] != ts]
    insort(versions, (ts, value), key=lambda version: version[0])


Store = PlainStore | VersionedStore
