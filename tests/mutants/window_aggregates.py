"""The mutants of windowed aggregates; see `test_mutants`."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from watersmeet._engine.operators import session_aggregate, sliding_aggregate, windowed_aggregate
from watersmeet._engine.state.runs import Table
from watersmeet._engine.windowing import Closing
from watersmeet.windows import TimeWindows

Patch = pytest.MonkeyPatch


def _waits(patch: Patch, more: int) -> None:
    class Waits(windowed_aggregate._FixedLengthKind):
        @property
        def wait(self) -> int:
            return super().wait + more

    patch.setitem(windowed_aggregate._WINDOWS, TimeWindows, Waits)


def takes_late_records(patch: Patch) -> None:
    """A window takes records in the moment in which it closes."""
    _waits(patch, 1)


def closes_a_moment_early(patch: Patch) -> None:
    """A window takes no records in its last moment, and gives its result there."""
    _waits(patch, -1)


def latest_window_only(patch: Patch) -> None:
    """Of the hopping windows that hold a record only the latest one gets it."""

    class Latest(windowed_aggregate._FixedLengthKind):
        def of(self, ts: Any) -> Any:
            row, start = super().of(ts)
            last = np.append(row[1:] != row[:-1], True)[: len(row)]
            return row[last], start[last]

    patch.setitem(windowed_aggregate._WINDOWS, TimeWindows, Latest)


def gap_is_not_included(patch: Patch) -> None:
    """Sessions that lie exactly the gap apart stay two."""
    merged = session_aggregate.merged
    patch.setattr(session_aggregate, "merged", lambda records, stored, gap: merged(records, stored, gap - 1))


def no_right_window(patch: Patch) -> None:
    """A sliding record that comes behind later ones does not make the window that begins behind it."""
    patch.setattr(sliding_aggregate._SlidingOneByOne, "_begin_right", lambda self, source, seen: None)


def ending_window_begins_empty(patch: Patch) -> None:
    """The window that ends with a record in order does not hold what was before it."""
    changes = sliding_aggregate.changes_in_order

    def alone(*arguments: Any) -> Any:
        found = changes(*arguments)
        return replace(found, parent=np.where(found.level > 0, -1, found.parent))

    patch.setattr(sliding_aggregate, "changes_in_order", alone)


def end_is_not_included(patch: Patch) -> None:
    """A sliding window does not hold its last moment."""
    slid = sliding_aggregate.slid

    def shorter(key: Any, ts: Any, close: Any, stored: Any, length: int, vanishing: Any) -> Any:
        return slid(key, ts, close, stored, length - 1, vanishing)

    patch.setattr(sliding_aggregate, "slid", shorter)


def forgets_open_windows(patch: Patch) -> None:
    """State lets windows go while they are open."""
    expire = Table.expire

    def sooner(table: Any, floors: Any) -> None:
        expire(table, {domain: floor + 5 for domain, floor in floors.items()})

    patch.setattr(Table, "expire", sooner)


def merges_one_only(patch: Patch) -> None:
    """A record that connects two sessions merges the first one only; the other stays."""
    merged = session_aggregate.merged

    def first(*arguments: Any) -> Any:
        found = merged(*arguments)
        firsts = found.rank == 0
        return replace(found, by=found.by[firsts], session=found.session[firsts])

    patch.setattr(session_aggregate, "merged", first)


def merged_sessions_stay_outside(patch: Patch) -> None:
    """Sessions that have been merged into others leave no tombstones."""
    changes = session_aggregate._changes

    def living(*arguments: Any) -> Any:
        found = changes(*arguments)
        lives = found.new >= 0
        return replace(found, **{field.name: getattr(found, field.name)[lives] for field in fields(found)})

    patch.setattr(session_aggregate, "_changes", living)


def gap_does_not_keep_open(patch: Patch) -> None:
    """A session closes when its grace has passed, though what it waits for is gap and grace."""
    merged = session_aggregate.merged

    def sooner(records: Any, stored: Any, gap: int) -> Any:
        return merged(replace(records, close=records.close + gap), stored, gap)

    patch.setattr(session_aggregate, "merged", sooner)


def closes_what_it_touches(patch: Patch) -> None:
    """Only windows that the batch has changed give their final results."""
    patch.setattr(Table, "due", lambda table, *times: iter(()))


def final_twice(patch: Patch) -> None:
    """A window that changes in the batch in which it closes gives what it was before, too."""
    patch.setattr(Closing, "_stale", lambda self, batch, rows: np.zeros(len(rows), dtype=np.bool_))


OF_WINDOWS = [
    (takes_late_records, "hopping"),
    (latest_window_only, "hopping"),
    (forgets_open_windows, "hopping"),
    (closes_a_moment_early, "tumbling on close"),
    (no_right_window, "sliding"),
    (ending_window_begins_empty, "sliding"),
    (end_is_not_included, "sliding"),
    (gap_is_not_included, "session"),
    (merges_one_only, "session"),
    (merged_sessions_stay_outside, "session"),
    (gap_does_not_keep_open, "session"),
    (closes_what_it_touches, "tumbling on close"),
    (final_twice, "tumbling on close"),
]
