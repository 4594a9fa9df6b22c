"""Changes that suppress holds back: which rows of a batch fall into which entries (docs/semantics, section 22).

A key has one entry at a time. The first change that it holds back says when it is due; later ones take that one's
place (`held_entries`). A change that comes when its wait is over goes at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.keys.keybytes import windowed_bytes
from watersmeet._engine.operator import Events
from watersmeet._engine.operators.suppress.held_entries import Entries, Judges
from watersmeet._engine.rows.columns import ints, joined
from watersmeet._engine.rows.sizes import Picked, in_pieces
from watersmeet._engine.state.table import Table
from watersmeet._engine.time.held_rows import HeldRows
from watersmeet._engine.time.times import Times, moments
from watersmeet._plan.operators.aggregates.suppress import SuppressParams

NEVER = -(2**62)


@dataclass(frozen=True)
class HeldChanges:
    """The changes of a batch, and what state holds back of their keys."""

    params: SuppressParams
    events: Events
    times: Times
    table: Table

    def hold(self, held: HeldRows) -> Going:
        """Hold back what waits; what does not."""
        events, times = self.events, self.times
        numbers, group = np.unique(self._numbers(events.groups.group_of_row, times.of_row), return_inverse=True)
        order = np.argsort(group, kind="stable")
        stored = self.stored(numbers)
        judges = Judges.of(events, times, group, stored.domain)
        entries = Entries.of(group, judges, self.begun, order)
        first, known = entries.cut(stored.due, judges.of_known)
        end = np.append(first[1:], len(order))[: len(first)]
        of_group = entries.group[first]
        due = np.where(known, stored.due[of_group], entries.due[first])
        begin, last = order[first], order[end - 1]
        waits = known | (2 * due >= self.moment[begin])
        before = np.where(known, len(self.batch) + stored.place[of_group], events.own[begin])
        domain = np.where(known, stored.domain[of_group], times.of_row[begin])
        self.put(held, domain[waits], last[waits], stored.old, before[waits], due[waits])
        return Going(np.sort(last[~waits]))

    def _numbers(self, group: Int64s, domain: Int64s) -> Int64s:
        """The unit of entries: a key, or with limits for each time domain a key in each domain (row 33)."""
        return group * len(self.times.domains) + domain if self.params.buffer.is_limited else group

    def results(self, going: Going) -> Iterator[pa.Table]:
        """Columns of the batch's rows, in their order."""
        events, rows = self.events, going.row
        if not len(rows):
            return
        out: dict[str, pa.Array | Picked] = events.meta(rows, events.ts[rows])
        if going.columns is None:
            out |= {name: Picked(self.batch.column(name), events.own[rows]) for name in ("value", "old")}
        yield from in_pieces(out | dict(going.columns or {}))

    def put(
        self, held: HeldRows, domain: Int64s, last: Int64s, old: pa.ChunkedArray, before: Int64s, due: Int64s
    ) -> None:
        """Entries, of time domains by their places: what came last in each, and the value before what came first."""
        events, domain = self.events, self.times.number(domain)
        keys, context = self.keys(last), events.context
        told = {"headers": Picked(self.batch.column("headers"), events.own[last])} if context.headers else {}
        held.hold(
            {
                "hash": pa.array(events.hash[last]),
                "key": keys,
                "windowed": events.key.take(pa.array(last)),
                "ts": pa.array(events.ts[last]),
                "arrival": pa.array(domain),
                "value": Picked(self.batch.column("value"), events.own[last]),
                "old": Picked(joined([self.batch.column("old"), old], context.values[0]), before),
                **told,
            },
            due,
            domain,
        )

    def stored(self, numbers: Int64s) -> HeldEntries:
        """The number of each of these in state (`_numbers`)."""
        events, times, groups = self.events, self.times, self.events.groups
        due, place, of = (np.full(len(numbers), none, dtype=np.int64) for none in (NEVER, -1, -1))
        first = groups.first
        low = np.full(len(first), times.start.min(initial=-NEVER))
        found = self.table.range(events.hash[first], self.keys(first), low, np.full(len(first), -NEVER))
        rows = found.take(["due", "domain", "old"])
        domain = times.index(ints(rows, "domain"))
        number = self._numbers(found.query, domain)
        waits = np.flatnonzero((ints(rows, "due") >= times.start[domain]) & np.isin(number, numbers))
        at = np.searchsorted(numbers, number[waits])
        due[at], place[at], of[at] = ints(rows, "due")[waits], waits, domain[waits]
        return HeldEntries(due, place, of, rows.column("old"))

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
    """

    row: Int64s
    columns: Mapping[str, pa.Array | Picked] | None = None


@dataclass(frozen=True)
class HeldEntries:
    """Entries in state, one or none of each key, or of a key in each domain.

    Parameters
    ----------
    due : when each is due; `NEVER` where there is none.
    place : of each, its row in `old`.
    domain : the time domain that each belongs to, by its place; -1 where there is none.
    old : values before the changes.
    """

    due: Int64s
    place: Int64s
    domain: Int64s
    old: pa.ChunkedArray
