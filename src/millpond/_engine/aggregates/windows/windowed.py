"""What windowed aggregates share: rows by key and window, results under both, and the domains of windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from millpond._engine.aggregates.contributions import Contributions, Meta
from millpond._engine.arrays import Int64s
from millpond._engine.operators.operator import Dropped, Events
from millpond._engine.rows.columns import ints
from millpond._engine.rows.sizes import Picked
from millpond._engine.state.lookups import Lookup

Ends = Callable[[Int64s], Int64s]
"""The ends of windows that begin at these times."""


def in_windows(events: Events, row: Int64s, start: Int64s) -> Contributions:
    """Each of these rows, which ascend, changes the aggregate of its key and of the window that begins at `start`."""
    key = events.groups.group_of_row[row]
    group = numbered(start, key)
    some = np.empty(int(group.max(initial=-1)) + 1, dtype=np.int64)
    some[group] = np.arange(len(group))
    first = events.groups.first[key[some]]
    identity = {
        "hash": pa.array(events.hash[first]),
        "key": events.key.take(pa.array(first)),
        "start": pa.array(start[some]),
    }
    return Contributions(events, row, group, identity)


def meta_of(rows: Contributions, ends: Ends) -> Meta:
    """Metadata columns of results: those of the rows that caused them, under key and window, each in its place."""
    events = rows.events
    starts = rows.identity["start"].to_numpy()

    def meta(chosen: Int64s, ts: Int64s) -> dict[str, pa.Array | Picked]:
        row, start = rows.row[chosen], starts[rows.group[chosen]]
        place = chosen - np.searchsorted(rows.row, row)
        return under_windows(events, row, start, ends(start), place, ts)

    return meta


def under_windows(
    events: Events, row: Int64s, start: Int64s, end: Int64s, place: Int64s, ts: Int64s
) -> dict[str, pa.Array | Picked]:
    """Metadata columns of results that these events bring, under key and window, each in its place of its event."""
    operator = events.context.operator
    out: dict[str, pa.Array | Picked] = events.meta(row, ts)
    del out["hash"]
    out["key"] = windowed(events.key.take(pa.array(row)), start, end)
    out[f"p{operator.slot}"] = pa.array(place * operator.fan)
    return out


def windowed(keys: pa.Array, start: Int64s, end: Int64s) -> pa.Array:
    """Keys of windows."""
    return pa.StructArray.from_arrays([keys, pa.array(start), pa.array(end)], ["key", "start", "end"])


def domains(rows: Contributions, found: Lookup, of_row: Int64s) -> Int64s:
    """The time domain of each aggregate, by whose time it is let go: that of the record that began it.

    It stays, so that all versions of a row in state go together.
    """
    mine = np.empty(len(rows.keys), dtype=np.int64)
    mine[rows.group[::-1]] = of_row[rows.row[::-1]]
    known = found.found
    mine[known] = ints(found.rows, "domain")[found.index[known]]
    return mine


def late_rows(reason: str, events: Events, rows: Int64s) -> Iterator[Dropped]:
    """Rows that came when windows of theirs were closed."""
    for side, table in enumerate(events.tables):
        mine = rows[events.side[rows] == side]
        if len(mine):
            yield Dropped(reason, table, events.own[mine])


def numbered(*columns: Int64s) -> Int64s:
    """A number for each row, the same where all columns are; they ascend with the columns, the last one first."""
    order = np.lexsort(columns)
    fresh = np.zeros(len(order), dtype=np.int64)
    for column in columns:
        fresh[1:] |= np.diff(column[order]) != 0
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.cumsum(fresh)
    return number
