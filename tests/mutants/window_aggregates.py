"""The mutants of windowed aggregates; see `test_mutants`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from millpond._engine.aggregates.windows import sliding
from millpond._engine.operators.aggregates import (
    session_window_aggregate,
    sliding_window_aggregate,
    time_window_aggregate,
)
from millpond._engine.state.table import Table
from millpond.windows import TimeWindows

Patch = pytest.MonkeyPatch


def _waits(patch: Patch, more: int) -> None:
    class Waits(time_window_aggregate._Time):
        @property
        def wait(self) -> int:
            return super().wait + more

    patch.setitem(time_window_aggregate._WINDOWS, TimeWindows, Waits)


def takes_late_records(patch: Patch) -> None:
    """A window takes records in the moment in which it closes."""
    _waits(patch, 1)


def closes_a_moment_early(patch: Patch) -> None:
    """A window takes no records in its last moment, and gives its result there."""
    _waits(patch, -1)


def latest_window_only(patch: Patch) -> None:
    """Of the hopping windows that hold a record only the latest one gets it."""

    class Latest(time_window_aggregate._Time):
        def of(self, ts: Any) -> Any:
            row, start = super().of(ts)
            last = np.append(row[1:] != row[:-1], True)[: len(row)]
            return row[last], start[last]

    patch.setitem(time_window_aggregate._WINDOWS, TimeWindows, Latest)


def gap_is_not_included(patch: Patch) -> None:
    """Sessions that lie exactly the gap apart stay two."""
    merged = session_window_aggregate.merged
    patch.setattr(session_window_aggregate, "merged", lambda records, stored, gap: merged(records, stored, gap - 1))


def no_right_window(patch: Patch) -> None:
    """A sliding record that comes behind later ones does not make the window that begins behind it."""
    patch.setattr(sliding._Making, "_begin_right", lambda self, source, seen: None)


def end_is_not_included(patch: Patch) -> None:
    """A sliding window does not hold its last moment."""
    slid = sliding_window_aggregate.slid

    def shorter(key: Any, ts: Any, close: Any, stored: Any, length: int, vanishing: Any) -> Any:
        return slid(key, ts, close, stored, length - 1, vanishing)

    patch.setattr(sliding_window_aggregate, "slid", shorter)


def forgets_open_windows(patch: Patch) -> None:
    """State lets windows go while they are open."""
    expire = Table.expire

    def sooner(table: Any, floors: Any) -> None:
        expire(table, {domain: floor + 5 for domain, floor in floors.items()})

    patch.setattr(Table, "expire", sooner)
