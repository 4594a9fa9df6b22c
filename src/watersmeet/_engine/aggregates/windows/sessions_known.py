"""The sessions in state, and the records of a batch, before they are processed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from watersmeet._engine.arrays import Bools, Int64s, stable_order


@dataclass(frozen=True)
class StoredSessions:
    """Sessions in state, in order of (key, end), each with the time domain that it belongs to."""

    key: Int64s
    start: Int64s
    end: Int64s
    domain: Int64s

    def __len__(self) -> int:
        return len(self.key)


@dataclass(frozen=True)
class SessionRecords:
    """Records in order of position.

    Parameters
    ----------
    key : key group of each.
    ts : its timestamp.
    close : the least end of a session that is still open then.
    vanishes : whether its session is none, since its aggregate is null.
    ends : whether it leaves all sessions as they are, since a function raises for it.
    domain : its time domain.
    """

    key: Int64s
    ts: Int64s
    close: Int64s
    vanishes: Bools
    ends: Bools
    domain: Int64s

    def __len__(self) -> int:
        return len(self.key)

    @cached_property
    def by_key(self) -> Int64s:
        """The records key after key."""
        return stable_order(self.key)
