"""The window store of stream-stream joins: every record of one side, duplicates kept.

Owns which stored records are visible. Law: faithful, a record is visible while its timestamp is greater
than the largest one put into this store less the retention; repaired (row 14), also while an on-time
partner may come.
"""

from __future__ import annotations

from bisect import insort

from watersmeet.testing.proof.oracle.records import Key, Value


class JoinStore:
    """Values by key and timestamp, in order (timestamp, arrival)."""

    def __init__(self, retention_ms: int | None) -> None:
        """Without a retention everything stays visible (generations whose stores kept a day)."""
        self._retention_ms = retention_ms
        self._newest: dict[int, int] = {}
        self._arrivals = 0
        self._rows: dict[Key, list[tuple[int, int, Value]]] = {}

    def put(self, key: Key, value: Value, ts: int, domain: int = 0) -> None:
        """Add a record, of a time domain."""
        self._newest[domain] = max(self._newest.get(domain, -1), ts)
        self._arrivals += 1
        insort(self._rows.setdefault(key, []), (ts, self._arrivals, value), key=lambda row: row[:2])

    def fetch(
        self, key: Key, first: int, last: int, visible_from: int | None = None, domain: int = 0
    ) -> list[tuple[int, Value]]:
        """Visible records of a key with first <= ts <= last, ascending; `visible_from` shows those too."""
        return [
            (ts, value)
            for ts, _, value in self._rows.get(key, ())
            if max(0, first) <= ts <= max(0, last)
            and (self._visible(ts, domain) or (visible_from is not None and ts >= visible_from))
        ]

    def _visible(self, ts: int, domain: int) -> bool:
        return self._retention_ms is None or ts > self._newest.get(domain, -1) - self._retention_ms
