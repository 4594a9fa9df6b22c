"""Joins of tables by foreign key, `one_to_many` and `many_to_many`: left rows subscribe to right keys.

The kernels of both halves: which left rows get a right row's change, in which order, how often. A **version** is a left
row under a foreign key, from the message that put it to the next message of the same row under the same key. A right
row's change tells the versions that stand at its position and have not seen it: so each version meets each right value
at most once, and nothing is stale (law 1). In a group of one key the right rows of a version lie side by side, so a
batch is matched by counting, and the results of a right row with a million subscribers are made in pieces (law 9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine import row_sizes
from watersmeet._engine.keys import combine_hashes, encode_keys, equal_keys, group_keys, hash_keys
from watersmeet._engine.matching import Ordered, Sides
from watersmeet._engine.operator import (
    Events,
    OperatorContext,
    SideValues,
    keep_rows,
    operator_table,
    store_last,
)
from watersmeet._engine.row_sizes import Picked, cut, in_pieces, row_bytes
from watersmeet._engine.rows import Bools, Int64s, array, gather, ints, joined, order_of, valid
from watersmeet._engine.state.runs import State, Table
from watersmeet._plan.declaration import JoinParams

# foreign_key_send: the first half of a foreign-key join, by left key: who refers to what, and since when.
#
# Keeps each left row's foreign key. A change becomes at most two messages keyed by a foreign key: "remove" to
# the one that the row referred to, "put, with the left value" to the one it refers to now (foreign_key.md,
# as of 4.0.1). A message says whether it is to be answered even where there is no right row, and whether the
# subscription stands already; so the other half need not look. No hash of the value: all operators of a batch
# see the same positions, so no answer is ever stale. Its messages go to `foreign_key_receive` or `one_to_many`.

PUT, TELL, KNOWN = 1, 2, 4
"""Bits of a message's verb: put (else remove); answer without a right row too; the subscription stands."""


@dataclass(frozen=True)
class _KeyChanges:
    """Per row: pointers to the new and the old foreign key (-1 none), what is there, and how they compare.

    Rows that are not `counted` change nothing: with the record cache all but a key's last row of the batch.
    """

    keys: pa.Array
    new: Int64s
    old: Int64s
    present: Bools
    was_present: Bools
    same: Bools
    counted: Bools


def run_foreign_key_send(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table]:
    yield from _send(context, inputs, state, _messages)


def _send(
    context: OperatorContext,
    inputs: Mapping[int, pa.Table],
    state: State,
    messages: Callable[[OperatorContext, Events, _KeyChanges], Iterator[pa.Table]],
) -> Iterator[pa.Table]:
    """Keep the foreign key of each row, and send the messages that its change becomes."""
    events = Events(context, inputs, sides=1)
    if not len(events):
        return
    relevant = ~events.silent | _lost(events)
    if not relevant.all():
        yield from _send(context, keep_rows(inputs, events, relevant), state, messages)
        return
    (name, kind), *_ = context.extras
    table = operator_table(context, state)
    schema = table.schema
    groups = events.groups
    lookup = table.point(events.hash[groups.first], events.key.take(pa.array(groups.first)))
    batch = events.tables[0].column(name).cast(kind) if name in events.tables[0].column_names else pa.array([], kind)
    keys = joined([batch, lookup.rows.column(name)], kind)
    prior = np.where(lookup.index >= 0, lookup.index + len(events), -1)
    changes = _changes(events, keys, prior)
    # An inner join of today need not remember a row without a foreign key: it is as if the row were not there.
    remembers = context.params(JoinParams).how == "left" or _ignores_null(context)
    live = changes.present if remembers else changes.new >= 0
    last = groups.last
    written = last[live[last] | (lookup.index >= 0)]
    rows = {"hash": events.hash[written], "key": events.key.take(pa.array(written))}
    table.put(pa.table(rows | {name: gather(keys, changes.new[written])}).cast(schema), ~live[written])
    yield from messages(context, events, changes)


def _lost(events: Events) -> Bools:
    """Rows with a deletion that nobody sent: lookups see none when their input record is finished (KAFKA-6443).

    Kafka Streams looks the left row up before it answers, so nobody hears of such a row again.
    """
    order = events.groups.order
    keys = np.stack([events.groups.group_of_row, events.number_of_record])[:, order]
    last = np.append((keys[:, 1:] != keys[:, :-1]).any(axis=0), True)
    lost: Bools = events.silent & ~events.present
    lost[order[~last]] = False
    return lost


def _changes(events: Events, keys: pa.Array, prior: Int64s) -> _KeyChanges:
    state_pointers = prior[events.groups.group_of_row]
    everything = np.ones(len(events), dtype=np.bool_)
    if events.context.operator.cached:
        previous, counted = np.full(len(events), -1, dtype=np.int64), ~everything
        counted[events.groups.last] = True
    else:
        previous, counted = Ordered(events.groups).last_before(everything, inclusive=False), everything
    was_present = np.where(previous >= 0, events.present[previous], state_pointers >= 0)
    old = np.where(previous >= 0, np.where(events.present[previous], events.own[previous], -1), state_pointers)
    has_key = np.append(valid(keys), False)
    new = np.where(events.present & has_key[events.own], events.own, -1)
    old = np.where(has_key[old], old, -1)
    same = (new >= 0) & (old >= 0)
    comparable = np.flatnonzero(same)
    same[comparable] = equal_keys(keys.take(pa.array(new[comparable])), keys.take(pa.array(old[comparable])))
    return _KeyChanges(keys, new, old, events.present, was_present, same, counted)


def _ignores_null(context: OperatorContext) -> bool:
    """Whether an update from or to a null foreign key counts as invalid, as KIP-213 has it and releases up to 3.6."""
    return context.params(JoinParams).generation == "spurious"


def _messages(context: OperatorContext, events: Events, changes: _KeyChanges) -> Iterator[pa.Table]:
    refers, referred = changes.new >= 0, changes.old >= 0
    moved = referred & ~changes.same
    is_left = context.params(JoinParams).how == "left"
    if _ignores_null(context):
        # What stood before an invalid update goes on standing, but nobody answers to a value that is replaced.
        valid_update = (refers | ~changes.present) & (referred | ~changes.was_present)
        moved &= valid_update | (changes.present & ~refers)
        puts, tells = refers & valid_update, changes.was_present | is_left
        last_word = ~changes.present & ~events.silent
    elif is_left:
        puts = (changes.present | changes.was_present) & ~events.silent
        tells = np.ones(len(events), dtype=np.bool_)
        last_word = np.zeros(len(events), dtype=np.bool_)
    else:
        puts = refers
        tells = moved
        last_word = ~refers & ~events.silent
    removes = np.flatnonzero(moved & changes.counted)
    put = np.flatnonzero(puts & changes.counted)
    verbs = np.concatenate([TELL * last_word[removes], PUT + TELL * tells[put] + KNOWN * changes.same[put]])
    yield from _addressed(events, changes, removes, put, verbs)


def _addressed(events: Events, changes: _KeyChanges, removes: Int64s, put: Int64s, verbs: Int64s) -> Iterator[pa.Table]:
    """Messages of these rows, first the verbs of those that remove, then of those that put."""
    rows = np.concatenate([removes, put])
    if not len(rows):
        return
    targets = np.concatenate([changes.old[removes], changes.new[put]])
    values = np.concatenate([np.full(len(removes), -1), np.where(changes.present[put], events.own[put], -1)])
    order = np.argsort(rows, kind="stable")
    rows, targets = rows[order], targets[order]
    out = events.meta(rows, events.ts[rows])
    out["left_key"] = out["key"]
    out["key"] = gather(changes.keys, targets)
    # What refers to nothing needs no right row: it goes where its own key says, not all to one shard.
    out["hash"] = pa.array(np.where(targets >= 0, hash_keys(out["key"]), hash_keys(out["left_key"])))
    out["value"] = Picked(events.tables[0].column("value"), values[order])
    out["verb"] = pa.array(verbs[order].astype(np.int8))
    yield from in_pieces(out)


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

    def __init__(self, events: Events, values: SideValues | None, side: int = RIGHT) -> None:
        order = events.groups.order
        operator = events.context.operator
        is_right = (_last_changes(events, values) if operator.cached and values else events.side == side)[order]
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
        return self._counted(events, rows, 1)

    def _counted(self, events: Events, rows: Int64s, records: int) -> Int64s:
        number, count = events.number_of_record, len(events)
        edges = np.searchsorted(number, number[rows] + records)
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
        pointers = values.prior[group]
        pointers[in_batch] = np.where(events.present[event], events.own[event], -1)
        return pointers


def _last_changes(events: Events, values: SideValues) -> Bools:
    """Which events are the last right row of their key, and not null after null, as seen from batch to batch."""
    last = Ordered(events.groups).last_of_each(events.side == RIGHT)
    changed = (last >= 0) & (events.present[last] | (values.prior >= 0))
    mask = np.zeros(len(events), dtype=np.bool_)
    mask[last[changed]] = True
    return mask


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
    visible = np.empty(len(events), dtype=np.int64)
    lookups = ~is_update[order]
    visible[rows[order][lookups]] = counts[lookups]
    return visible


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
    standing : bits of a message's verb of which one says that the row may have a result that stands.
    side : the side of the messages.
    counted : whether the rows of all groups are looked up, also where no right row comes.
    """

    def __init__(
        self,
        events: Events,
        rights: Rights,
        table: Table,
        answered: Bools,
        standing: int,
        side: int = LEFT,
        *,
        counted: bool = False,
    ) -> None:
        self._answered = answered
        self._standing = standing
        self._events = events
        self._table = table
        self._side = side
        has_key = events.key.is_valid().to_numpy(False)
        self._messages = np.flatnonzero((events.side == side) & has_key)
        groups = np.flatnonzero(((np.diff(rights.first) > 0) | counted) & has_key[events.groups.first])
        firsts = events.groups.first[groups]
        self._lookup = table.rows(events.hash[firsts], events.key.take(pa.array(firsts)))
        batch = events.tables[side]
        indices = events.own[self._messages]
        self._verbs = ints(batch, "verb")[indices] if len(indices) else indices
        state_rows = self._lookup.take(["left_key", "ts"])
        sent = batch.select(["left_key", "ts"]).take(pa.array(indices)) if len(indices) else state_rows.slice(0, 0)
        versions = pa.concat_tables([state_rows, sent.cast(state_rows.schema)])
        self._left_key, self.ts = array(versions, "left_key"), ints(versions, "ts")
        self._state_count = len(state_rows)
        self._groups = np.concatenate([groups[self._lookup.query], events.groups.group_of_row[self._messages]])
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
        low[self._state_count :] = rights.seen[self._messages]
        ends = following >= 0
        enders = self._messages[following[ends] - self._state_count]
        high[ends] = rights.before[enders]
        if self._events.context.operator.cached:
            # the row has its result of the batch from the message, unless that gives none
            high[ends] = np.where(self._answered[enders], low[ends], high[ends])
            high = np.where(self._never_stood(rights, low), low, high)
        if self._events.context.operator.shared_root:
            # Where one record changes both sides, the row's own result tells it all: the old one is stale.
            own_result = np.minimum(high[ends], rights.before_record(self._events, enders))
            unanswered = self._unanswered(rights, following[ends], low, high[ends])
            high[ends] = np.where(self._answered[enders], own_result, unanswered)
        high[self._state_count :][(self._verbs & PUT) == 0] = 0
        return low, np.maximum(high, low)

    def _unanswered(self, rights: Rights, following: Int64s, low: Int64s, high: Int64s) -> Int64s:
        """The ends of versions with followers that give no result, since they see that the right row has gone.

        The follower hears of the rest of that record, so of the deletion the version does: its row must go. Not where
        a later message of the record gives a result, which says more.
        """
        reach = np.minimum(
            rights.of_record_too(self._events, self._messages[following - self._state_count]), low[following]
        )
        extended = np.flatnonzero(reach > high)
        if len(extended):
            extended = extended[~self._answered_later()[following[extended]]]
            high = high.copy()
            high[extended] = reach[extended]
        return high

    def _answered_later(self) -> Bools:
        """Whether a later message of the version's entry and record gives a result."""
        order, count = self._entries.order, len(self._groups)
        record, answered = np.full(count, -1, dtype=np.int64), np.zeros(count, dtype=np.int64)
        record[self._state_count :] = self._events.number_of_record[self._messages]
        answered[self._state_count :] = self._answered[self._messages]
        entry = self._entries.group_of_row[order]
        fresh = np.append(True, (np.diff(entry) != 0) | (np.diff(record[order]) != 0))
        done = np.cumsum(answered[order])
        last = np.append(np.flatnonzero(fresh)[1:], count) - 1
        later = np.empty(count, dtype=np.bool_)
        later[order] = done[last[np.cumsum(fresh) - 1]] > done
        return later

    def _never_stood(self, rights: Rights, low: Int64s) -> Bools:
        """Versions of the batch that find their right row deleted before they had a result, here or elsewhere."""
        fresh = np.append(np.zeros(self._state_count, dtype=np.bool_), (self._verbs & self._standing) == 0)
        present = np.append(self._events.present[rights.rows], True)
        never: Bools = fresh & ~present[low]
        return never

    # -- who is told -----------------------------------------------------------------------------------------

    def results_of_rights(self, rights: Rights, selected: Bools) -> Iterator[SubscriberResults]:
        """The results of the right rows that `selected` marks, in pieces, each in order of (position, left key)."""
        versions = np.flatnonzero(self._high > self._low)
        if not len(versions) or not selected.any():
            return
        low, high = self._low[versions], self._high[versions]
        rank = _ranks(self._left_key.take(pa.array(versions)))
        sizes = self.counts(len(selected)) * selected
        for first, end in _pieces(sizes):
            matches = np.flatnonzero((low < end) & (high > first))
            start = np.maximum(low[matches], first)
            counts = np.minimum(high[matches], end) - start
            version = np.repeat(matches, counts)
            right = np.arange(len(version)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(start, counts)
            mask = selected[right]
            version, right = version[mask], right[mask]
            for results in _cut(rights.rows[right], versions[version], rank[version]):
                yield from self._bounded(results)

    def counts(self, rights: int) -> Int64s:
        """How many versions stand at each of so many right rows."""
        change = np.bincount(self._low, minlength=rights + 1) - np.bincount(self._high, minlength=rights + 1)
        return np.cumsum(change)[:rights]

    def turns(self) -> Int64s:
        """Per event, 1 where a message makes its row the first one that stands in its group, -1 where it was the last.

        All rows of the group must have been looked up (`counted`).
        """
        entries, count = self._entries, self._state_count
        puts = np.append(np.ones(count, dtype=np.int64), (self._verbs & PUT) > 0)
        prior = np.zeros(len(puts), dtype=np.int64)
        prior[entries.order[1:]] = puts[entries.order[:-1]]
        prior[entries.first] = 0
        steps = (puts - prior)[count:]
        order = np.argsort(self._groups[count:], kind="stable")
        group = self._groups[count:][order]
        sums = np.cumsum(steps[order])
        starts = np.searchsorted(group, group)
        stored = np.bincount(self._groups[:count], minlength=self._events.groups.count)
        counts = sums - np.append(0, sums)[starts] + stored[group]
        step, out = steps[order], np.zeros(len(self._events), dtype=np.int64)
        out[self._messages[order]] = ((step > 0) & (counts == 1)).astype(np.int64) - ((step < 0) & (counts == 0))
        return out

    def _bounded(self, results: SubscriberResults) -> Iterator[SubscriberResults]:
        """The same in pieces, with left values that fit into memory."""
        spans = list(cut(self._value_bytes[results.subscribers], row_sizes.RESULT_BYTES))
        if len(spans) <= 1:
            yield results
            return
        for start, end in spans:
            yield SubscriberResults(results.events[start:end], results.subscribers[start:end], results.index[start:end])

    @cached_property
    def _value_bytes(self) -> Int64s:
        batch = row_bytes(self._events.tables[self._side].column("value"))
        return np.concatenate([self._lookup.sizes("value"), batch[self._events.own[self._messages]]])

    # -- what is gathered ------------------------------------------------------------------------------------

    @property
    def key_type(self) -> pa.DataType:
        """The type of the rows' own keys."""
        return self._table.schema.field("left_key").type

    def left_keys(self, versions: Int64s) -> pa.Array:
        return self._left_key.take(pa.array(versions))

    def values(self, versions: Int64s) -> pa.Array:
        """Left values of versions: read from state no sooner than here."""
        in_state = versions < self._state_count
        state_values = self._lookup.take(["value"], versions[in_state]).column("value")
        batch = self._events.tables[self._side].column("value")
        indices = self._events.own[self._messages[versions[~in_state] - self._state_count]]
        parts = pa.chunked_array(
            [*state_values.chunks, gather(batch, indices).cast(state_values.type)], state_values.type
        )
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
        opening = order[np.minimum(entries.starts[:-1] + (entries.first < self._state_count), len(order) - 1)]
        has_message = last >= self._state_count
        last, opening = last[has_message] - self._state_count, opening[has_message] - self._state_count
        put = (self._verbs[last] & PUT) > 0
        existed = ((self._verbs[opening] & KNOWN) > 0) | ((self._verbs[opening] & PUT) == 0)
        written = put | existed
        last, put = last[written], put[written]
        if not len(last):
            return
        batch = self._events.tables[self._side]
        indices = self._events.own[self._messages[last]]
        self._table.put({name: Picked(batch.column(name), indices) for name in self._table.schema.names}, ~put)


def _ranks(keys: pa.Array) -> Int64s:
    """The place of each key in byte order."""
    order = pc.array_sort_indices(encode_keys(keys)).to_numpy()
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def _pieces(sizes: Int64s) -> Iterator[tuple[int, int]]:
    """Stretches of right rows with about `PIECE` results each; one row is never divided."""
    ends = np.cumsum(sizes)
    start, done = 0, 0
    while start < len(sizes) and done < ends[-1]:
        end = max(start + 1, int(np.searchsorted(ends, done + PIECE, side="right")))
        yield start, end
        start, done = end, int(ends[end - 1])


def _cut(events: Int64s, versions: Int64s, rank: Int64s) -> Iterator[SubscriberResults]:
    order = order_of([events, rank])
    events, versions = events[order], versions[order]
    fresh = np.diff(events, prepend=-1) != 0
    starts = np.flatnonzero(fresh)
    index = np.arange(len(events)) - np.repeat(starts, np.diff(np.append(starts, len(events))))
    for at in range(0, len(events), PIECE):
        yield SubscriberResults(events[at : at + PIECE], versions[at : at + PIECE], index[at : at + PIECE])


# foreign_key_receive: the second half of a foreign-key join, by foreign key (KIP-213; docs/semantics/foreign_key.md).
#
# Keeps the left rows under (foreign key, left key) and the right rows. A message of `foreign_key_send` is
# answered with the right row as it stands at its position; a change of a right row goes to all left rows that refer to
# it, in byte order of their keys. Results are keyed by the left key, but sharded by the foreign key: what reads them
# sorts by position first.


def run_foreign_key_receive(
    context: OperatorContext, inputs: Mapping[int, pa.Table], state: State
) -> Iterator[pa.Table]:
    """See `operators.run_operator`."""
    events = Events(context, inputs, sides=2)
    if not len(events):
        return
    rows, table = tables(context, state)
    values = SideValues(events, RIGHT, table)
    void = _suppressed(context, events, values)
    if void.any():
        # They change nothing: as if they had not come.
        yield from run_foreign_key_receive(context, keep_rows(inputs, events, ~void), state)
        return
    rights = Rights(events, values)
    left, right, emitted = _answered(events, rights, values)
    answered = events.side == LEFT
    answered[left] = emitted | (_verbs(events, left) & PUT == 0)
    subscriptions = Subscriptions(events, rights, rows, answered, standing=KNOWN + TELL)
    subscriptions.store()
    last = Ordered(events.groups).last_of_each(events.side == RIGHT)
    store_last(events, RIGHT, last, values.prior, table)
    yield from _answers(events, values, left[emitted], right[emitted])
    yield from _results_of_rights(events, rights, values, subscriptions)


def _suppressed(context: OperatorContext, events: Events, values: SideValues) -> Bools:
    """Right rows that are null after null, where a filter above knows old values."""
    void = np.zeros(len(events), dtype=np.bool_)
    if context.params(JoinParams).suppress[RIGHT]:
        old = Sides(events, [values, values]).own_before()
        void = (events.side == RIGHT) & ~events.present & (old < 0)
    return void


def _verbs(events: Events, rows: Int64s) -> Int64s:
    return ints(events.tables[LEFT], "verb")[events.own[rows]] if len(rows) else rows


def _answered(events: Events, rights: Rights, values: SideValues) -> tuple[Int64s, Int64s, Bools]:
    """(messages, pointer to the right value that each sees, whether it gives a result)."""
    rows = np.flatnonzero(events.side == LEFT)
    right = rights.value_at(events, rows, values)
    verbs = _verbs(events, rows)
    puts = (verbs & PUT) > 0
    emitted = ((verbs & TELL) > 0) | (puts & (right >= 0))
    if events.context.operator.cached:
        # the right row behind it tells the last of it
        emitted &= ~(puts & rights.come_later(events, rows))
    return rows, right, emitted


def _answers(events: Events, values: SideValues, rows: Int64s, right: Int64s) -> Iterator[pa.Table]:
    """Results of left changes: one each, at most."""
    if not len(rows):
        return
    left = events.tables[LEFT]
    is_joined = events.present[rows]
    if events.context.params(JoinParams).how == "inner":
        is_joined = is_joined & (right >= 0)
    indices = events.own[rows]
    ts = np.maximum(events.ts[rows], values.ts(right))
    keys = gather(left.column("left_key"), indices)
    out = result(events, rows, ts, keys, np.zeros(len(rows), dtype=np.int64))
    out["left"] = Picked(left.column("value"), np.where(is_joined, indices, -1))
    out["right"] = values.picked(np.where(is_joined, right, -1))
    yield from events.context.in_pieces(out | {"joined": pa.array(is_joined)})


def _results_of_rights(
    events: Events, rights: Rights, values: SideValues, subscriptions: Subscriptions
) -> Iterator[pa.Table]:
    """Results of right changes: one for each left row that refers to it, in pieces."""
    for piece in subscriptions.results_of_rights(rights, ~events.silent[rights.rows]):
        rows, versions = piece.events, piece.subscribers
        present = events.present[rows]
        is_joined = np.full(len(rows), True) if events.context.params(JoinParams).how == "left" else present
        ts = np.maximum(events.ts[rows], subscriptions.ts[versions])
        out = result(events, rows, ts, subscriptions.left_keys(versions), piece.index)
        out["left"] = Picked(subscriptions.values(versions), np.where(is_joined, np.arange(len(rows)), -1))
        out["right"] = values.picked(np.where(present, events.own[rows], -1))
        yield from events.context.in_pieces(out | {"joined": pa.array(is_joined)})


def result(events: Events, rows: Int64s, ts: Int64s, keys: pa.Array, index: Int64s) -> dict[str, pa.Array | Picked]:
    """Metadata columns of results of the given events, each event's numbered by `index` in the slot opened here."""
    operator = events.context.operator
    out: dict[str, pa.Array | Picked] = events.meta(rows, ts)
    del out["hash"]
    out["key"] = keys
    out[f"p{operator.slot}"] = pa.array(index * operator.fan)
    return out


# one_to_many: join of "one" with the rows of "many" that refer to it (docs/semantics/one_to_many.md).
#
# The second half of a foreign-key join without the way back: results are keyed by both keys, the prefix being
# the key of "one". The result of a pair stands exactly while both rows do, and only what stood is deleted. Where
# a row of "many" turns to another prefix, the tombstone at the old one comes before the result at the new one.

MANY, ONE = 0, 1


def run_one_to_many(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table]:
    """See `operators.run_operator`."""
    events = Events(context, inputs, sides=2)
    if not len(events):
        return
    rows, table = tables(context, state)
    values = SideValues(events, ONE, table)
    rights = Rights(events, values)
    many, pointers, answered = _met(events, rights, values)
    subscriptions = Subscriptions(events, rights, rows, answered, standing=KNOWN)
    subscriptions.store()
    last = Ordered(events.groups).last_of_each(events.side == ONE)
    store_last(events, ONE, last, values.prior, table)
    yield from _of_many(events, values, many, pointers)
    yield from _of_one(events, rights, values, subscriptions)


def _met(events: Events, rights: Rights, values: SideValues) -> tuple[Int64s, Int64s, Bools]:
    """(changes of "many" that meet a row of "one", pointer to it, and of each row whether it is answered here)."""
    many = np.flatnonzero(events.side == MANY)
    pointers = rights.value_at(events, many, values)
    answered = np.zeros(len(events), dtype=np.bool_)
    answered[many] = pointers >= 0
    if events.context.operator.cached:
        puts = _puts(events, many)
        # what leaves a row of "one" in a batch leaves what stood before it, whatever became of that since; and of what
        # comes to one, the row behind it tells the last
        pointers = np.where(puts, pointers, values.prior[events.groups.group_of_row[many]])
        pointers[puts & rights.come_later(events, many)] = -1
        answered[many] |= ~puts
    met = pointers >= 0
    return many[met], pointers[met], answered


def _puts(events: Events, rows: Int64s) -> Bools:
    verbs = ints(events.tables[MANY], "verb") if len(rows) else rows
    puts: Bools = (verbs[events.own[rows]] & PUT) > 0
    return puts


def _of_many(events: Events, values: SideValues, rows: Int64s, pointers: Int64s) -> Iterator[pa.Table]:
    """Results of changes of "many": a tombstone where it leaves a row of "one", a join where it finds one."""
    if not len(rows):
        return
    many = events.tables[MANY]
    indices = events.own[rows]
    is_joined = _puts(events, rows)
    keys = _combined(events.key.take(pa.array(rows)), gather(many.column("left_key"), indices))
    out = result(events, rows, np.maximum(events.ts[rows], values.ts(pointers)), keys, is_joined.astype(np.int64))
    out["left"] = values.picked(np.where(is_joined, pointers, -1))
    out["right"] = Picked(many.column("value"), np.where(is_joined, indices, -1))
    yield from events.context.in_pieces(out | {"joined": pa.array(is_joined)})


def _of_one(events: Events, rights: Rights, values: SideValues, subscriptions: Subscriptions) -> Iterator[pa.Table]:
    """Results of changes of "one": a join or a tombstone for each row that refers to it, if anything stood."""
    selected = np.ones(len(rights.rows), dtype=np.bool_)
    if not events.context.operator.cached:
        # with the cache there are only such as change something
        selected = (events.present | (Sides(events, [values, values]).own_before() >= 0))[rights.rows]
    for piece in subscriptions.results_of_rights(rights, selected):
        rows, versions = piece.events, piece.subscribers
        is_joined = events.present[rows]
        keys = _combined(events.key.take(pa.array(rows)), subscriptions.left_keys(versions))
        out = result(events, rows, np.maximum(events.ts[rows], subscriptions.ts[versions]), keys, piece.index)
        out["left"] = values.picked(np.where(is_joined, events.own[rows], -1))
        out["right"] = Picked(subscriptions.values(versions), np.where(is_joined, np.arange(len(rows)), -1))
        yield from events.context.in_pieces(out | {"joined": pa.array(is_joined)})


def _combined(prefix: pa.Array, suffix: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([prefix, suffix], ["prefix", "suffix"])


# many_to_many_send, many_to_many: the join of two tables by equal values (docs/semantics/many_to_many.md).
#
# Either side has a first operator, which says which of its rows stands under which value: it removes a row from the
# value that it had, and puts it under the one that it has. The last operator has the rows of both sides by value and
# own key. The result of a pair stands exactly while both rows do under one value; that of a row alone, in a left or
# outer join, while it stands and no row of the other side does under its value. A row without a value is alone.

PUTS = 1 << 40
"""Where the results of the message that puts a row begin, behind those of the one that removes it elsewhere."""


def run_many_to_many_send(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table]:
    yield from _send(context, inputs, state, _pair_messages)


def _pair_messages(context: OperatorContext, events: Events, changes: _KeyChanges) -> Iterator[pa.Table]:
    if context.params(JoinParams).how == "left":
        present, was_present = changes.present, changes.was_present
        same = changes.same | (present & was_present & (changes.new < 0) & (changes.old < 0))
    else:
        present, was_present, same = changes.new >= 0, changes.old >= 0, changes.same
    removes, put = np.flatnonzero(was_present & ~same), np.flatnonzero(present)
    verbs = np.concatenate([np.zeros(len(removes), dtype=np.int64), PUT + KNOWN * same[put]])
    yield from _addressed(events, changes, removes, put, verbs)


def run_many_to_many(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table]:
    """See `operators.run_operator`."""
    events = Events(context, inputs, sides=2)
    if not len(events):
        return
    optional = context.params(JoinParams).optional
    messages = tuple(Rights(events, None, side) for side in (LEFT, RIGHT))
    answered = np.ones(len(events), dtype=np.bool_)
    rows = tuple(
        Subscriptions(events, messages[1 - side], table, answered, 0, side, counted=optional[1 - side])
        for side, table in enumerate(tables(context, state))
    )
    for subscriptions in rows:
        subscriptions.store()
    for side in (LEFT, RIGHT):
        changes = _PairChanges(events, side, rows)
        if optional[side]:
            yield from changes.unmatched(messages[side].rows)
        turns = rows[side].turns() if optional[1 - side] else np.zeros(len(events), dtype=np.int64)
        yield from changes.pairs(messages[side], turns)


@dataclass(frozen=True)
class _PairChanges:
    """The messages of a side, and the results that they change: of pairs, and of rows that stand alone."""

    events: Events
    side: int
    rows: tuple[Subscriptions, ...]

    def unmatched(self, rows: Int64s) -> Iterator[pa.Table]:
        """Results of those of the side's messages that meet no row of the other side."""
        events = self.events
        rows = rows[self.rows[1 - self.side].counts(len(rows)) == 0]
        if len(rows):
            order = np.where(events.present[rows], PUTS, 0)
            yield from self._results(
                rows, events.ts[rows], order, events.present[rows], {self.side: self._side_rows(rows)}
            )

    def pairs(self, messages: Rights, turns: Int64s) -> Iterator[pa.Table]:
        """A result with each row of the other side; where the side's first row comes or its last one goes, two."""
        events, subscriptions = self.events, self.rows[1 - self.side]
        for piece in subscriptions.results_of_rights(messages, np.ones(len(messages.rows), dtype=np.bool_)):
            rows, versions = piece.events, piece.subscribers
            ts, present = np.maximum(events.ts[rows], subscriptions.ts[versions]), events.present[rows]
            sides = {
                self.side: self._side_rows(rows),
                1 - self.side: (subscriptions.left_keys(versions), subscriptions.values(versions)),
            }
            # a row alone ends before its first pair begins, and begins when its last one has ended
            order = 2 * piece.index + np.where(present, PUTS + 1, 0)
            yield from self._results(rows, ts, order, present, sides)
            turned = np.flatnonzero(turns[rows])
            if len(turned):
                begins = turns[rows[turned]] < 0
                keys, values = (column.take(pa.array(turned)) for column in sides[1 - self.side])
                at = order[turned] + np.where(begins, 1, -1)
                yield from self._results(rows[turned], ts[turned], at, begins, {1 - self.side: (keys, values)})

    def _side_rows(self, rows: Int64s) -> tuple[pa.Array, pa.Array | pa.ChunkedArray]:
        table, indices = self.events.tables[self.side], self.events.own[rows]
        return gather(table.column("left_key"), indices), gather(table.column("value"), indices)

    def _results(
        self, rows: Int64s, ts: Int64s, order: Int64s, is_joined: Bools, sides: Mapping[int, tuple[pa.Array, Any]]
    ) -> Iterator[pa.Table]:
        """Results under the keys of both sides, with their values; a side that is left out is null."""
        context = self.events.context
        keys = [sides[n][0] if n in sides else pa.nulls(len(rows), self.rows[n].key_type) for n in (LEFT, RIGHT)]
        out = result(self.events, rows, ts, _combined(*keys), order)
        for number, name in enumerate(("left", "right")):
            values = sides[number][1] if number in sides else pa.nulls(len(rows), context.values[number])
            out[name] = Picked(values, np.where(is_joined, np.arange(len(rows)), -1))
        yield from context.in_pieces(out | {"joined": pa.array(is_joined)})
