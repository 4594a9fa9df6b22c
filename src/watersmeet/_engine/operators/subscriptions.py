"""Subscriptions of left rows to right keys: which left rows get a right row's change, in which order, how often.

The kernel of `foreign_key_receive` and `one_to_many`. A **version** is a left row under a foreign key, from
the message that put it to the next message of the same row under the same key. A right row's change tells
the versions that stand at its position and have not seen it: so each version meets each right value at most
once, and nothing is stale (law 1). In a group of one key the right rows of a version lie side by side, so a batch is
matched by counting, and the results of a right row with a million subscribers are made in pieces (law 9).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.arrays import Bools, Int64s, order_of
from watersmeet._engine.keys.keys import combine_hashes, encode_keys, equal_values, group_keys, hash_keys
from watersmeet._engine.matching.match import Ordered
from watersmeet._engine.operator import (
    Events,
    OperatorContext,
    SideValues,
    operator_table,
)
from watersmeet._engine.operators.foreign_key_send import KNOWN, PUT
from watersmeet._engine.rows import sizes
from watersmeet._engine.rows.columns import array, gather, ints
from watersmeet._engine.rows.sizes import Picked, cut, row_bytes
from watersmeet._engine.state.runs import State
from watersmeet._engine.state.table import Table

LEFT, RIGHT = 0, 1
PIECE = 65_536
"""Results made at a time."""


def tables(context: OperatorContext, state: State) -> tuple[Table, Table]:
    """Left rows by foreign key and left key, and the right rows."""
    return operator_table(context, state, 0), operator_table(context, state, 1)


class Rights:
    """The right rows of the batch, in order of (key group, position), and where each row of it stands among them.

    With the record cache it is one of each key at most: the last one, if it changes what was before the batch.

    Attributes
    ----------
    rows : event number of each.
    first : number of the first one of each group; the last entry is how many there are.
    before : per event, the number of right rows in earlier groups, or before it in its own.
    seen : the same, but counting what a lookup at the event sees.
    """

    def __init__(self, events: Events, values: SideValues) -> None:
        order = events.groups.order
        operator = events.context.operator
        is_right = (_last_changes(events, values) if operator.cached else events.side == RIGHT)[order]
        counts = np.cumsum(is_right)
        self.rows = order[is_right]
        self.first = np.append(0, counts)[events.groups.starts]
        self.before = np.empty(len(events), dtype=np.int64)
        self.before[order] = counts - is_right
        self.seen = _visible_rights(events) if operator.shared_root else self.before

    def before_record(self, events: Events, rows: Int64s) -> Int64s:
        """Right rows in earlier groups, or in the group of the given events before their input record."""
        return self._counted(events, rows, 0)

    def of_record_too(self, events: Events, rows: Int64s) -> Int64s:
        """The same with all right rows of that record."""
        return self._counted(events, rows, 1)

    def _counted(self, events: Events, rows: Int64s, records: int) -> Int64s:
        root = np.stack(events.position[:3])
        fresh = np.append(True, (root[:, 1:] != root[:, :-1]).any(axis=0))
        count = len(events)
        edges = np.append(np.flatnonzero(fresh), count)[np.cumsum(fresh)[rows] - 1 + records]
        group = events.groups.group_of_row
        places: Int64s = np.searchsorted(group[self.rows] * (count + 1) + self.rows, group[rows] * (count + 1) + edges)
        return places

    def come_later(self, events: Events, rows: Int64s) -> Bools:
        """Whether a right row of the same key stands behind each of the given events."""
        later: Bools = self.seen[rows] < self.first[events.groups.group_of_row[rows] + 1]
        return later

    def value_at(self, events: Events, rows: Int64s, values: SideValues) -> Int64s:
        """Pointer to the right value that each of the given events sees, -1 for none."""
        group = events.groups.group_of_row[rows]
        at = self.seen[rows]
        in_batch = at > self.first[group]
        event = self.rows[at[in_batch] - 1]
        found = values.prior[group]
        found[in_batch] = np.where(events.present[event], events.own[event], -1)
        return found


def _last_changes(events: Events, values: SideValues) -> Bools:
    """Which events are the last right row of their key, and not null after null, as seen from batch to batch."""
    last = Ordered(events.groups).last_of_each(events.side == RIGHT)
    changed = (last >= 0) & (events.present[last] | (values.prior >= 0))
    kept = np.zeros(len(events), dtype=np.bool_)
    kept[last[changed]] = True
    return kept


def _visible_rights(events: Events) -> Int64s:
    """Right rows that are visible at each event: every row stands as a lookup, right rows as updates too."""
    rights = np.flatnonzero(events.side == RIGHT)
    rows = np.concatenate([rights, np.arange(len(events))])
    is_update = np.arange(len(rows)) < len(rights)
    positions = zip(*map(events.ranked, (events.visible(), events.position)), strict=True)
    columns = [np.concatenate([v[rights], p]) for v, p in positions]
    # At one place updates stand before lookups.
    order = order_of([events.groups.group_of_row[rows], *columns, (~is_update).astype(np.int64)])
    counts = np.cumsum(is_update[order])
    seen = np.empty(len(events), dtype=np.int64)
    lookups = ~is_update[order]
    seen[rows[order][lookups]] = counts[lookups]
    return seen


@dataclass(frozen=True)
class SubscriberResults:
    """A piece of the results of right rows: the event, the subscriber and the number of each result."""

    events: Int64s
    subscribers: Int64s
    index: Int64s


class Subscriptions:
    """Versions of the batch and of the state, told apart by number: the state's first, then the batch's messages.

    Parameters
    ----------
    events : messages (side 0) and right rows (side 1), grouped by foreign key.
    rights : the right rows.
    table : the stored subscriptions.
    answered : per event, whether it is a message that gives a result, here or at another foreign key.
    known : bits of a message's verb of which one says that the row may have a result that stands.
    """

    def __init__(self, events: Events, rights: Rights, table: Table, answered: Bools, known: int) -> None:
        self._answered = answered
        self._known = known
        self._events = events
        self._table = table
        self._messages = np.flatnonzero((events.side == LEFT) & events.key.is_valid().to_numpy(False))
        asked = np.flatnonzero(np.diff(rights.first))
        firsts = events.groups.first[asked]
        self._found = table.rows(events.hash[firsts], events.key.take(pa.array(firsts)))
        batch = events.tables[LEFT]
        own = events.own[self._messages]
        self._verbs = ints(batch, "verb")[own] if len(own) else own
        stored = self._found.take(["left_key", "ts"])
        sent = batch.select(["left_key", "ts"]).take(pa.array(own)) if len(own) else stored.slice(0, 0)
        both = pa.concat_tables([stored, sent.cast(stored.schema)])
        self._left_key, self.ts = array(both, "left_key"), ints(both, "ts")
        self._stored = len(stored)
        self._groups = np.concatenate([asked[self._found.query], events.groups.group_of_row[self._messages]])
        self._entries = group_keys(*self._identity())
        self._low, self._high = self._spans(rights)

    def _identity(self) -> tuple[Int64s, pa.Array]:
        group_hash = self._events.hash[self._events.groups.first][self._groups]
        hashes = combine_hashes(group_hash, hash_keys(self._left_key))
        pair = pa.StructArray.from_arrays([pa.array(self._groups), self._left_key], ["group", "left_key"])
        return hashes, pair

    def _spans(self, rights: Rights) -> tuple[Int64s, Int64s]:
        """First and behind-the-last right row of each version; none for a removal."""
        group, count = self._groups, len(self._groups)
        order, following = self._entries.order, np.full(count, -1, dtype=np.int64)
        follows = np.ones(count, dtype=np.bool_)
        follows[self._entries.starts[1:] - 1] = False
        places = np.flatnonzero(follows)
        following[order[places]] = order[places + 1]
        low, high = rights.first[group], rights.first[group + 1]
        low[self._stored :] = rights.seen[self._messages]
        ends = following >= 0
        enders = self._messages[following[ends] - self._stored]
        high[ends] = rights.before[enders]
        if self._events.context.operator.cached:
            # the row has its result of the batch from the message, unless that gives none
            high[ends] = np.where(self._answered[enders], low[ends], high[ends])
            high = np.where(self._never_stood(rights, low), low, high)
        if self._events.context.operator.shared_root:
            # Where one record changes both sides, the row's own result tells it all: the old one is stale.
            outlived = np.minimum(high[ends], rights.before_record(self._events, enders))
            unanswered = self._unanswered(rights, np.flatnonzero(ends), following[ends], low, high[ends])
            high[ends] = np.where(self._answered[enders], outlived, unanswered)
        high[self._stored :][(self._verbs & PUT) == 0] = 0
        return low, np.maximum(high, low)

    def _unanswered(self, rights: Rights, versions: Int64s, following: Int64s, low: Int64s, high: Int64s) -> Int64s:
        """The ends of versions with followers that give no result: an unchanged row gets all changes of that record.

        Kafka Streams tells stale answers by the left value's hash, so an answer to an equal value is not stale.
        """
        behind = rights.of_record_too(self._events, self._messages[following - self._stored])
        behind = np.minimum(behind, low[following])  # of the rest the follower hears
        more = np.flatnonzero(behind > high)
        if not len(more):
            return high
        same = equal_values(self.values(versions[more]), self.values(following[more]))
        high = high.copy()
        high[more[same]] = behind[more[same]]
        return high

    def _never_stood(self, rights: Rights, low: Int64s) -> Bools:
        """Versions of the batch that find their right row deleted before they had a result, here or elsewhere."""
        fresh = np.append(np.zeros(self._stored, dtype=np.bool_), (self._verbs & self._known) == 0)
        present = np.append(self._events.present[rights.rows], True)
        never: Bools = fresh & ~present[low]
        return never

    # -- who is told -----------------------------------------------------------------------------------------

    def results_of_rights(self, rights: Rights, wanted: Bools) -> Iterator[SubscriberResults]:
        """The results of the right rows that `wanted` marks, in pieces, each in order of (position, left key)."""
        versions = np.flatnonzero(self._high > self._low)
        if not len(versions) or not wanted.any():
            return
        low, high = self._low[versions], self._high[versions]
        rank = _ranks(self._left_key.take(pa.array(versions)))
        change = np.bincount(low, minlength=len(wanted) + 1) - np.bincount(high, minlength=len(wanted) + 1)
        sizes = np.cumsum(change)[:-1] * wanted
        for begin, end in _pieces(sizes):
            mine = np.flatnonzero((low < end) & (high > begin))
            start = np.maximum(low[mine], begin)
            counts = np.minimum(high[mine], end) - start
            version = np.repeat(mine, counts)
            right = np.arange(len(version)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(start, counts)
            kept = wanted[right]
            version, right = version[kept], right[kept]
            for told in _cut(rights.rows[right], versions[version], rank[version]):
                yield from self._bounded(told)

    def _bounded(self, told: SubscriberResults) -> Iterator[SubscriberResults]:
        """The same in pieces, with left values that fit into memory."""
        spans = list(cut(self._value_bytes[told.subscribers], sizes.RESULT_BYTES))
        if len(spans) <= 1:
            yield told
            return
        for begin, end in spans:
            yield SubscriberResults(told.events[begin:end], told.subscribers[begin:end], told.index[begin:end])

    @cached_property
    def _value_bytes(self) -> Int64s:
        """Bytes of the left value of each version."""
        batch = row_bytes(self._events.tables[LEFT].column("value"))
        return np.concatenate([self._found.sizes("value"), batch[self._events.own[self._messages]]])

    # -- what is gathered ------------------------------------------------------------------------------------

    def left_keys(self, versions: Int64s) -> pa.Array:
        """Left keys of versions."""
        return self._left_key.take(pa.array(versions))

    def values(self, versions: Int64s) -> pa.Array:
        """Left values of versions: read from state no sooner than here."""
        in_state = versions < self._stored
        stored = self._found.take(["value"], versions[in_state]).column("value")
        batch = self._events.tables[LEFT].column("value")
        own = self._events.own[self._messages[versions[~in_state] - self._stored]]
        parts = pa.chunked_array([*stored.chunks, gather(batch, own).cast(stored.type)], stored.type)
        back = np.empty(len(versions), dtype=np.int64)
        back[np.concatenate([np.flatnonzero(in_state), np.flatnonzero(~in_state)])] = np.arange(len(versions))
        return gather(parts, back)

    # -- state -----------------------------------------------------------------------------------------------

    def store(self) -> None:
        """Write the last message of each entry; a removal of what was never stored is not written."""
        entries = self._entries
        last = entries.last
        order = entries.order
        # The first message of an entry, behind its stored row if that was looked up.
        opening = order[np.minimum(entries.starts[:-1] + (entries.first < self._stored), len(order) - 1)]
        told = last >= self._stored
        last, opening = last[told] - self._stored, opening[told] - self._stored
        put = (self._verbs[last] & PUT) > 0
        existed = ((self._verbs[opening] & KNOWN) > 0) | ((self._verbs[opening] & PUT) == 0)
        written = put | existed
        last, put = last[written], put[written]
        if not len(last):
            return
        batch = self._events.tables[LEFT]
        own = self._events.own[self._messages[last]]
        self._table.put({name: Picked(batch.column(name), own) for name in self._table.schema.names}, ~put)


def _ranks(keys: pa.Array) -> Int64s:
    """The place of each key in byte order."""
    order = pc.array_sort_indices(encode_keys(keys)).to_numpy()
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def _pieces(sizes: Int64s) -> Iterator[tuple[int, int]]:
    """Stretches of right rows with about `PIECE` results each; one row is never divided."""
    ends = np.cumsum(sizes)
    begin, done = 0, 0
    while begin < len(sizes) and done < ends[-1]:
        end = max(begin + 1, int(np.searchsorted(ends, done + PIECE, side="right")))
        yield begin, end
        begin, done = end, int(ends[end - 1])


def _cut(events: Int64s, versions: Int64s, rank: Int64s) -> Iterator[SubscriberResults]:
    order = order_of([events, rank])
    events, versions = events[order], versions[order]
    fresh = np.diff(events, prepend=-1) != 0
    starts = np.flatnonzero(fresh)
    index = np.arange(len(events)) - np.repeat(starts, np.diff(np.append(starts, len(events))))
    for at in range(0, len(events), PIECE):
        yield SubscriberResults(events[at : at + PIECE], versions[at : at + PIECE], index[at : at + PIECE])
