"""Changes that suppress holds back: which rows of a batch fall into which entries (docs/semantics, section 22).

A key has one entry at a time. The first change that it holds back says when it is due; later ones take that one's
place. Rows of a batch fall into entries by key: an entry takes rows until time has passed its due, and the next row
begins another one. A change that comes when its wait is over goes at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.keys.keybytes import windowed_bytes
from watersmeet._engine.operator import Events
from watersmeet._engine.rows.columns import ints, joined
from watersmeet._engine.rows.sizes import Picked, in_pieces
from watersmeet._engine.state.table import Table
from watersmeet._engine.time.held_rows import HeldRows
from watersmeet._engine.time.times import Times, moments
from watersmeet._plan.operators.aggregates.suppress import SuppressParams

NEVER = -(2**62)


@dataclass(frozen=True)
class Changes:
    """The changes of a batch, and what state holds back of their keys."""

    params: SuppressParams
    events: Events
    times: Times
    table: Table

    def hold(self, held: HeldRows) -> Going:
        """Hold back what waits; what does not."""
        events, times = self.events, self.times
        pair = events.groups.group_of_row * len(times.domains) + times.of_row
        pairs, group = np.unique(pair, return_inverse=True)
        order = np.argsort(group, kind="stable")
        entries = _Entries(group[order], self.moment[order], self.begun[order])
        stored = self.stored(pairs)
        first, known = entries.cut(stored.due)
        end = np.append(first[1:], len(order))[: len(first)]
        of_group = entries.group[first]
        due = np.where(known, stored.due[of_group], entries.due[first])
        waits = known | (2 * due >= entries.moment[first])
        begin, last = order[first], order[end - 1]
        before = np.where(known, len(self.batch) + stored.place[of_group], events.own[begin])
        self.put(held, begin[waits], last[waits], stored.old, before[waits], due[waits])
        return Going(np.sort(last[~waits]))

    def results(self, going: Going) -> Iterator[pa.Table]:
        """What goes with rows of the batch, in their order."""
        events, rows = self.events, going.row
        if not len(rows):
            return
        out: dict[str, pa.Array | Picked] = events.meta(rows, events.ts[rows])
        if going.columns is None:
            out |= {name: Picked(self.batch.column(name), events.own[rows]) for name in ("value", "old")}
        if going.early is not None and "headers" in out:
            out["headers"] = pc.if_else(pa.array(going.early), None, out["headers"])
        yield from in_pieces(out | dict(going.columns or {}))

    def put(
        self, held: HeldRows, begin: Int64s, last: Int64s, old: pa.ChunkedArray, before: Int64s, due: Int64s
    ) -> None:
        """Entries: what came last in each, and the value before what came first."""
        events, domain = self.events, self.times.number(self.times.of_row[begin])
        keys = self.keys(last)
        held.hold(
            {
                "hash": pa.array(events.hash[last]),
                "key": keys,
                "windowed": events.key.take(pa.array(last)),
                "ts": pa.array(events.ts[last]),
                "arrival": pa.array(domain),
                "value": Picked(self.batch.column("value"), events.own[last]),
                "old": Picked(joined([self.batch.column("old"), old], events.context.values[0]), before),
            },
            due,
            domain,
        )

    def stored(self, pairs: Int64s) -> Stored:
        """What state holds back of each of these keys and domains."""
        events, times, groups = self.events, self.times, self.events.groups
        due, place = np.full(len(pairs), NEVER), np.full(len(pairs), -1, dtype=np.int64)
        first = groups.first
        low = times.start[times.of_row][groups.order]
        low = np.minimum.reduceat(low, groups.starts[:-1]) if len(first) else low
        found = self.table.range(events.hash[first], self.keys(first), low, np.full(len(first), -NEVER))
        rows = found.take(["due", "domain", "old"])
        domain = times.index(ints(rows, "domain"))
        waits = np.flatnonzero(ints(rows, "due") >= times.start[domain])
        pair = found.query[waits] * len(times.domains) + domain[waits]
        waits = waits[np.isin(pair, pairs)]
        at = np.searchsorted(pairs, found.query[waits] * len(times.domains) + domain[waits])
        due[at], place[at] = ints(rows, "due")[waits], waits
        return Stored(due, place, rows.column("old"))

    def keys(self, rows: Int64s) -> pa.Array:
        """Keys as they are held back under."""
        keys = self.events.key.take(pa.array(rows))
        if not self.params.suffix:
            return keys
        parts = {field: pc.struct_field(keys, field) for field in ("key", *self.params.suffix)}
        return windowed_bytes(parts["key"], [parts[field] for field in self.params.suffix])

    @property
    def begun(self) -> Int64s:
        """When the entry is due that each row would begin."""
        if not self.params.until_close:
            return self.events.ts + self.params.wait - 1
        ends: Int64s = pc.struct_field(self.events.key, "end").to_numpy(zero_copy_only=False)
        return ends + self.params.wait - 1

    @cached_property
    def moment(self) -> Int64s:
        """See `moments`."""
        return moments(self.events, self.times)

    @cached_property
    def batch(self) -> pa.Table:
        """The rows, with a column of old values."""
        batch, kind = self.events.tables[0], self.events.context.values[0]
        return batch if "old" in batch.column_names else batch.append_column("old", pa.nulls(len(batch), kind))


@dataclass(frozen=True)
class Going:
    """Changes that go with rows of the batch: those that do not wait, and what a full buffer sends early.

    Parameters
    ----------
    row : the row of each, ascending.
    columns : columns of their results that are not the rows' own; None: each is its row's change.
    early : which are others' changes; None: none is.
    """

    row: Int64s
    columns: Mapping[str, pa.Array | Picked] | None = None
    early: Bools | None = None


@dataclass(frozen=True)
class Stored:
    """Entries in state, one or none for each key and domain.

    Parameters
    ----------
    due : when each is due; `NEVER` where there is none.
    place : of each, its row in `old`.
    old : values before the changes.
    """

    due: Int64s
    place: Int64s
    old: pa.ChunkedArray


@dataclass(frozen=True)
class _Entries:
    """Rows that fall into entries, group after group; within a group time does not go back.

    Parameters
    ----------
    group : of each row, ascending from 0.
    moment : see `Changes`.
    due : when an entry is due that begins with the row.
    """

    group: Int64s
    moment: Int64s
    due: Int64s

    def cut(self, known: Int64s) -> tuple[Int64s, Bools]:
        """(first row of each entry, whether it goes on with a known one); of groups, when known entries are due."""
        count = len(self.group)
        begin = np.searchsorted(self.group, np.arange(len(known)))
        ends = np.append(begin[1:], count)[: len(known)]
        start = self._behind(np.arange(len(known)), known)
        following = np.maximum(self._behind(self.group, self.due), np.arange(count) + 1)
        following = np.where(following < ends[self.group], following, count)
        begins = _reached(start[start < ends], following)
        first = begins.copy()
        first[begin[start > begin]] = True
        first_rows = np.flatnonzero(first)
        return first_rows, ~begins[first_rows]

    def _behind(self, group: Int64s, due: Int64s) -> Int64s:
        """For groups and times, the first row of the group that comes later than the time, else the group's end."""
        asking = np.repeat([False, True], [len(self.group), len(group)])
        merged_order = np.lexsort((asking, np.concatenate([self.moment, 2 * due]), np.concatenate([self.group, group])))
        asks = asking[merged_order]
        result = np.empty(len(group), dtype=np.int64)
        result[merged_order[asks] - len(self.group)] = np.cumsum(~asks)[asks]
        return result


def _reached(starts: Int64s, following: Int64s) -> Bools:
    """Which rows are reached from these by following pointers; the number of rows points nowhere.

    Each turn doubles how far it has come.
    """
    count = len(following)
    jump = np.append(following, count)
    reached = np.zeros(count + 1, dtype=np.bool_)
    reached[starts] = True
    while True:
        further = jump[np.flatnonzero(reached)]
        if (further == count).all():
            return reached[:count]
        reached[further] = True
        jump = jump[jump]
