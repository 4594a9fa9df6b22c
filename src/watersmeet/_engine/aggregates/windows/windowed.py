"""The common part of windowed aggregates: rows by key and window, results under both, and domains of windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.contributions import Contributions, Meta
from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.operator import Dropped, Events
from watersmeet._engine.rows.columns import ints
from watersmeet._engine.rows.sizes import Picked
from watersmeet._engine.state.lookups import Lookup

_DENSE = 4
"""Of so many numbers for each row all are marked that are there, instead of sorted."""
_MOST_CODES = 2**62
Ends = Callable[[Int64s], Int64s]
"""The ends of windows that begin at these times."""


def in_windows(events: Events, row: Int64s, at: Int64s, column: str) -> Contributions:
    """Each of these rows, which ascend, changes the aggregate of its key and of a window.

    Parameters
    ----------
    at, column : what tells windows apart, and what it is called: "start" or "end".
    """
    key = events.groups.group_of_row[row]
    group = numbered(at, key)
    some = np.empty(int(group.max(initial=-1)) + 1, dtype=np.int64)
    some[group] = np.arange(len(group))
    first = events.groups.first[key[some]]
    identity = {
        "hash": pa.array(events.hash[first]),
        "key": events.key.take(pa.array(first)),
        column: pa.array(at[some]),
    }
    return Contributions(events, row, group, identity)


def meta_of(rows: Contributions, bounds: Callable[[Int64s], tuple[Int64s, Int64s]]) -> Meta:
    """Metadata columns of results: those of the rows that caused them, under key and window, each in its place.

    `bounds` gives starts and ends of windows by what tells them apart.
    """
    events, told = rows.events, rows.at

    def meta(chosen: Int64s, ts: Int64s) -> dict[str, pa.Array | Picked]:
        row, (start, end) = rows.row[chosen], bounds(told[rows.group[chosen]])
        place = chosen - np.searchsorted(rows.row, row)
        return under_windows(events, row, start, end, place, ts)

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


def domains(rows: Contributions, counts: Bools, found: Lookup, of_row: Int64s) -> Int64s:
    """The time domain that lets each aggregate go: that of the record that began it.

    It stays, so that all versions of a row in state go together.

    Parameters
    ----------
    counts : which contributions change their aggregates.
    """
    mine = np.zeros(len(rows.keys), dtype=np.int64)
    latest_first = np.flatnonzero(counts)[::-1]
    mine[rows.group[latest_first]] = of_row[rows.row[latest_first]]
    known = found.found
    mine[known] = ints(found.rows, "domain")[found.index[known]]
    return mine


def latest_headers(rows: Contributions, counts: Bools, found: Lookup) -> Picked:
    """The headers of the record that changed each aggregate last, which is in state where none of the batch has.

    Parameters
    ----------
    counts : which contributions change their aggregates.
    """
    last = np.full(len(rows.keys), -1, dtype=np.int64)
    np.maximum.at(last, rows.group[counts], rows.row[counts])
    known = np.flatnonzero(found.found)
    known = known[last[known] < 0]
    last[known] = len(rows.events) + found.index[known]
    return rows.events.headers(last, found.rows.column("headers"))


def late_rows(reason: str, events: Events, rows: Int64s) -> Iterator[Dropped]:
    """Rows that came when windows of theirs were closed, or that belong to none."""
    for side, table in enumerate(events.tables):
        mine = rows[events.side[rows] == side]
        if len(mine):
            yield Dropped(reason, table, events.own[mine])


def numbered(*columns: Int64s) -> Int64s:
    """A number for each row, the same where all columns are; they ascend with the columns, the last one first."""
    count = len(columns[0])
    code, codes = _packed(columns)
    if codes <= _DENSE * count:
        there = np.zeros(codes, dtype=np.bool_)
        there[code] = True
        dense: Int64s = (np.cumsum(there) - 1)[code]
        return dense
    order = np.argsort(code) if codes < _MOST_CODES else np.lexsort(columns)
    fresh = np.zeros(count, dtype=np.int64)
    for column in (code,) if codes < _MOST_CODES else columns:
        fresh[1:] |= np.diff(column[order]) != 0
    number = np.empty(count, dtype=np.int64)
    number[order] = np.cumsum(fresh)
    return number


def _packed(columns: Sequence[Int64s]) -> tuple[Int64s, int]:
    """One number for each row that orders rows as the columns do, and how many such numbers there may be.

    Times of windows are multiples of their advance, so that a few numbers are enough. Of `_MOST_CODES` and more the
    numbers say nothing.
    """
    code, codes = np.zeros(len(columns[0]), dtype=np.int64), min(1, len(columns[0]))
    for column in columns if codes else ():
        low, high = int(column.min()), int(column.max())
        if (high - low) * codes >= _MOST_CODES:
            return code, _MOST_CODES
        above = column - low
        step = max(1, int(np.gcd.reduce(above)))
        code += (above if step == 1 else above // step) * codes
        codes *= (high - low) // step + 1
    return code, codes
