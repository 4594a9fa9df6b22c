"""foreign_key_receive: the second half of a foreign-key join, by foreign key (KIP-213; docs/semantics, section 11).

Keeps the left rows under (foreign key, left key) and the right rows. A message of `foreign_key_send` is
answered with the right row as it stands at its position; a change of a right row goes to all left rows that refer to
it, in byte order of their keys. Results are keyed by the left key, but sharded by the foreign key: what reads them
sorts by position first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.matching.lookup import Sides
from watersmeet._engine.matching.match import Ordered
from watersmeet._engine.operator import Events, OperatorContext, SideValues, keep_rows, store_last
from watersmeet._engine.operators.foreign_key_send import KNOWN, PUT, TELL
from watersmeet._engine.operators.subscriptions import LEFT, RIGHT, Rights, Subscriptions, tables
from watersmeet._engine.rows.columns import gather, ints
from watersmeet._engine.rows.sizes import Picked
from watersmeet._engine.state.runs import State
from watersmeet._plan.operators.spec import JoinParams


def run(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table]:
    """See `level.run_operator`."""
    events = Events(context, inputs, sides=2)
    if not len(events):
        return
    rows, table = tables(context, state)
    values = SideValues(events, RIGHT, table)
    void = _suppressed(context, events, values)
    if void.any():
        # They change nothing: as if they had not come.
        yield from run(context, keep_rows(inputs, events, ~void), state)
        return
    rights = Rights(events, values)
    left, right, emitted = _answered(events, rights, values)
    answered = events.side == LEFT
    answered[left] = emitted | (_verbs(events, left) & PUT == 0)
    subscriptions = Subscriptions(events, rights, rows, answered, known=KNOWN + TELL)
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
    called = events.present[rows]
    if events.context.params(JoinParams).how == "inner":
        called = called & (right >= 0)
    own = events.own[rows]
    ts = np.maximum(events.ts[rows], values.ts(right))
    keys = gather(left.column("left_key"), own)
    out = result(events, rows, ts, keys, np.zeros(len(rows), dtype=np.int64))
    out["left"] = Picked(left.column("value"), np.where(called, own, -1))
    out["right"] = values.picked(np.where(called, right, -1))
    yield from events.context.in_pieces(out | {"joined": pa.array(called)})


def _results_of_rights(
    events: Events, rights: Rights, values: SideValues, subscriptions: Subscriptions
) -> Iterator[pa.Table]:
    """Results of right changes: one for each left row that refers to it, in pieces."""
    for piece in subscriptions.results_of_rights(rights, ~events.silent[rights.rows]):
        rows, versions = piece.events, piece.subscribers
        present = events.present[rows]
        called = np.full(len(rows), True) if events.context.params(JoinParams).how == "left" else present
        ts = np.maximum(events.ts[rows], subscriptions.ts[versions])
        out = result(events, rows, ts, subscriptions.left_keys(versions), piece.index)
        out["left"] = Picked(subscriptions.values(versions), np.where(called, np.arange(len(rows)), -1))
        out["right"] = values.picked(np.where(present, events.own[rows], -1))
        yield from events.context.in_pieces(out | {"joined": pa.array(called)})


def result(events: Events, rows: Int64s, ts: Int64s, keys: pa.Array, index: Int64s) -> dict[str, pa.Array | Picked]:
    """Metadata columns of results of the given events, each event's numbered by `index` in the slot opened here."""
    operator = events.context.operator
    out: dict[str, pa.Array | Picked] = events.meta(rows, ts)
    del out["hash"]
    out["key"] = keys
    out[f"p{operator.slot}"] = pa.array(index * operator.fan)
    return out
