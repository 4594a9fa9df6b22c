"""The window store of stream-stream joins: every record of one side, duplicates kept.

Owns which stored records are visible. Law: faithful, a record is visible while its timestamp is greater
than the largest one put into this store less the retention; repaired (row 14), also while an on-time
partner may come. The largest one counts of the record's own time domain (row 20).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator

from proof.oracle.records import Key, Value


class JoinStore:
    """Values by key and timestamp, in order (timestamp, arrival)."""

    def __init__(self, retention_ms: int | None) -> None:
        """Without a retention everything stays visible (generations whose stores kept a day)."""
        self._retention_ms = retention_ms
        self._newest: dict[int, int] = {}
        self._arrivals = 0
        self._rows: dict[Key, list[tuple[int, int, Value, int]]] = {}

    def put(self, key: Key, value: Value, ts: int, domain: int = 0) -> None:
        """Add a record, of a time domain."""
        self._newest[domain] = max(self._newest.get(domain, -1), ts)
        self._arrivals += 1
        insort(self._rows.setdefault(key, []), (ts, self._arrivals, value, domain), key=lambda row: row[:2])

    def fetch(
        self, key: Key, first: int, last: int, visible_from: Callable[[int], int] | None = None
    ) -> list[tuple[int, Value, int]]:
        """Visible records of a key with first <= ts <= last, ascending, each with its domain.

        `visible_from` gives the timestamp from which those of a domain are shown too.
        """
        return [
            (ts, value, domain)
            for ts, _, value, domain in self._rows.get(key, ())
            if max(0, first) <= ts <= max(0, last)
            and (self._visible(ts, domain) or (visible_from is not None and ts >= visible_from(domain)))
        ]

    def rows(self, visible_from: Callable[[int], int] | None = None) -> Iterator[tuple[Key, Value, int]]:
        """All visible records, as `fetch` sees them."""
        for key in self._rows:
            yield from ((key, value, ts) for ts, value, _ in self.fetch(key, 0, 2**63, visible_from))

    def newest(self, domain: int) -> int:
        """The largest timestamp put into it, of a time domain; -1 for none."""
        return self._newest.get(domain, -1)

    def _visible(self, ts: int, domain: int) -> bool:
        return self._retention_ms is None or ts > self.newest(domain) - self._retention_ms
