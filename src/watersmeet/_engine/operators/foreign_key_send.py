"""foreign_key_send: the first half of a foreign-key join, by left key: who refers to what, and since when.

Keeps each left row's foreign key. A change becomes at most two messages keyed by a foreign key: "remove" to
the one that the row referred to, "put, with the left value" to the one it refers to now (docs/semantics, section
11, as of 4.0.1). A message says whether it is to be answered even where there is no right row, and whether the
subscription stands already; so the other half need not look. No hash of the value: all operators of a batch
see the same positions, so no answer is ever stale. Its messages go to `foreign_key_receive` or `one_to_many`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.keys.keys import equal_keys, hash_keys
from watersmeet._engine.matching.match import Ordered
from watersmeet._engine.operator import Events, OperatorContext, keep_rows, operator_table
from watersmeet._engine.rows.columns import gather, joined, valid
from watersmeet._engine.rows.sizes import Picked, in_pieces
from watersmeet._engine.state.runs import State
from watersmeet._plan.operators.spec import JoinParams

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


def run(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table]:
    """See `level.run_operator`."""
    events = Events(context, inputs, sides=1)
    if not len(events):
        return
    kept_rows = ~events.silent | _lost(events)
    if not kept_rows.all():
        yield from run(context, keep_rows(inputs, events, kept_rows), state)
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
    # An inner join need not remember a row without a foreign key: it is as if the row were not there.
    kept = changes.present if context.params(JoinParams).how == "left" else changes.new >= 0
    last = groups.last
    stored = last[kept[last] | (lookup.index >= 0)]
    rows = {"hash": events.hash[stored], "key": events.key.take(pa.array(stored))}
    table.put(pa.table(rows | {name: gather(keys, changes.new[stored])}).cast(schema), ~kept[stored])
    yield from _messages(context, events, changes)


def _lost(events: Events) -> Bools:
    """Rows with a deletion that nobody sent: lookups see none when their input record is finished (KAFKA-6443).

    Kafka Streams looks the left row up before it answers, so nobody hears of such a row again.
    """
    order = events.groups.order
    keys = np.stack([events.groups.group_of_row, *events.position[:3]])[:, order]
    last = np.append((keys[:, 1:] != keys[:, :-1]).any(axis=0), True)
    lost: Bools = events.silent & ~events.present
    lost[order[~last]] = False
    return lost


def _changes(events: Events, keys: pa.Array, prior: Int64s) -> _KeyChanges:
    stored = prior[events.groups.group_of_row]
    everything = np.ones(len(events), dtype=np.bool_)
    if events.context.operator.cached:
        before, counted = np.full(len(events), -1, dtype=np.int64), ~everything
        counted[events.groups.last] = True
    else:
        before, counted = Ordered(events.groups).last_before(everything, inclusive=False), everything
    was_present = np.where(before >= 0, events.present[before], stored >= 0)
    old = np.where(before >= 0, np.where(events.present[before], events.own[before], -1), stored)
    has_key = np.append(valid(keys), False)
    new = np.where(events.present & has_key[events.own], events.own, -1)
    old = np.where(has_key[old], old, -1)
    same = (new >= 0) & (old >= 0)
    both = np.flatnonzero(same)
    same[both] = equal_keys(keys.take(pa.array(new[both])), keys.take(pa.array(old[both])))
    return _KeyChanges(keys, new, old, events.present, was_present, same, counted)


def _messages(context: OperatorContext, events: Events, changes: _KeyChanges) -> Iterator[pa.Table]:
    refers, referred = changes.new >= 0, changes.old >= 0
    moved = referred & ~changes.same
    if context.params(JoinParams).how == "left":
        puts = (changes.present | changes.was_present) & ~events.silent
        told = np.ones(len(events), dtype=np.bool_)
        last_word = np.zeros(len(events), dtype=np.bool_)
    else:
        puts = refers
        told = moved
        last_word = ~refers & ~events.silent
    removes = np.flatnonzero(moved & changes.counted)
    put = np.flatnonzero(puts & changes.counted)
    rows = np.concatenate([removes, put])
    if not len(rows):
        return
    verbs = np.concatenate([TELL * last_word[removes], PUT + TELL * told[put] + KNOWN * changes.same[put]])
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
