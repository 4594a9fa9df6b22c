"""one_to_many: join of "one" with the rows of "many" that refer to it (docs/semantics, section 21).

The second half of a foreign-key join without the way back: results are keyed by both keys, the prefix being
the key of "one". The result of a pair stands exactly while both rows do, and only what stood is deleted. Where
a row of "many" turns to another prefix, the tombstone at the old one comes before the result at the new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.matching.lookup import Sides
from watersmeet._engine.matching.match import Ordered
from watersmeet._engine.operator import Events, OperatorContext, SideValues, store_last
from watersmeet._engine.operators.foreign_key_receive import result
from watersmeet._engine.operators.foreign_key_send import KNOWN, PUT
from watersmeet._engine.operators.subscriptions import Rights, Subscriptions, tables
from watersmeet._engine.rows.columns import gather, ints
from watersmeet._engine.rows.sizes import Picked
from watersmeet._engine.state.runs import State

MANY, ONE = 0, 1


def run(context: OperatorContext, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table]:
    """See `level.run_operator`."""
    events = Events(context, inputs, sides=2)
    if not len(events):
        return
    rows, table = tables(context, state)
    values = SideValues(events, ONE, table)
    rights = Rights(events, values)
    many, one, answered = _met(events, rights, values)
    subscriptions = Subscriptions(events, rights, rows, answered, known=KNOWN)
    subscriptions.store()
    last = Ordered(events.groups).last_of_each(events.side == ONE)
    store_last(events, ONE, last, values.prior, table)
    yield from _of_many(events, values, many, one)
    yield from _of_one(events, rights, values, subscriptions)


def _met(events: Events, rights: Rights, values: SideValues) -> tuple[Int64s, Int64s, Bools]:
    """(changes of "many" that meet a row of "one", pointer to it, and of each row whether it is answered here)."""
    many = np.flatnonzero(events.side == MANY)
    one = rights.value_at(events, many, values)
    answered = np.zeros(len(events), dtype=np.bool_)
    answered[many] = one >= 0
    if events.context.operator.cached:
        puts = _puts(events, many)
        # what leaves a row of "one" in a batch leaves what stood before it, whatever became of that since; and of what
        # comes to one, the row behind it tells the last
        one = np.where(puts, one, values.prior[events.groups.group_of_row[many]])
        one[puts & rights.come_later(events, many)] = -1
        answered[many] |= ~puts
    met = one >= 0
    return many[met], one[met], answered


def _puts(events: Events, rows: Int64s) -> Bools:
    verbs = ints(events.tables[MANY], "verb") if len(rows) else rows
    puts: Bools = (verbs[events.own[rows]] & PUT) > 0
    return puts


def _of_many(events: Events, values: SideValues, rows: Int64s, one: Int64s) -> Iterator[pa.Table]:
    """Results of changes of "many": a tombstone where it leaves a row of "one", a join where it finds one."""
    if not len(rows):
        return
    many = events.tables[MANY]
    own = events.own[rows]
    called = _puts(events, rows)
    keys = _combined(events.key.take(pa.array(rows)), gather(many.column("left_key"), own))
    out = result(events, rows, np.maximum(events.ts[rows], values.ts(one)), keys, called.astype(np.int64))
    out["left"] = values.picked(np.where(called, one, -1))
    out["right"] = Picked(many.column("value"), np.where(called, own, -1))
    yield from events.context.in_pieces(out | {"joined": pa.array(called)})


def _of_one(events: Events, rights: Rights, values: SideValues, subscriptions: Subscriptions) -> Iterator[pa.Table]:
    """Results of changes of "one": a join or a tombstone for each row that refers to it, if anything stood."""
    wanted = np.ones(len(rights.rows), dtype=np.bool_)
    if not events.context.operator.cached:
        # with the cache there are only such as change something
        wanted = (events.present | (Sides(events, [values, values]).own_before() >= 0))[rights.rows]
    for piece in subscriptions.results_of_rights(rights, wanted):
        rows, versions = piece.events, piece.subscribers
        called = events.present[rows]
        keys = _combined(events.key.take(pa.array(rows)), subscriptions.left_keys(versions))
        out = result(events, rows, np.maximum(events.ts[rows], subscriptions.ts[versions]), keys, piece.index)
        out["left"] = values.picked(np.where(called, events.own[rows], -1))
        out["right"] = Picked(subscriptions.values(versions), np.where(called, np.arange(len(rows)), -1))
        yield from events.context.in_pieces(out | {"joined": pa.array(called)})


def _combined(prefix: pa.Array, suffix: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([prefix, suffix], ["prefix", "suffix"])
