"""global_table_lookup: join of a table with a global table, driven by the former alone (semantics.md, section 9).

As `global_lookup`, but a row without result deletes the one that stands, and only what stands is deleted. So
each shard keeps, beside its copy of the global table, which of its keys have a result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from millpond._engine import global_lookup
from millpond._engine.columns import Bools, gather, joined
from millpond._engine.global_lookup import LEFT, look_up, results
from millpond._engine.keys import group_keys, hash_keys
from millpond._engine.match import Ordered
from millpond._engine.operator import Events, Setting
from millpond._engine.runs import State, StateTable


def run(setting: Setting, inputs: Mapping[int, pa.Table], state: State) -> Iterator[pa.Table]:
    """See `level.run_operator`."""
    events = Events(setting, inputs, sides=2)
    if not len(events):
        return
    values, found = look_up(setting, events, state)
    rows = np.flatnonzero(events.side == LEFT)
    if not len(rows):
        return
    called = events.present[rows] & ((found[rows] >= 0) | (setting.operator.how == "left"))
    stood = _stood(setting, events, state, called)
    told = called | stood
    rows, called = rows[told], called[told]
    if not len(rows):
        return
    out = results(events, rows, values, np.where(called, found[rows], -1))
    out["left"] = gather(out["left"], np.where(called, np.arange(len(rows)), -1))
    yield pa.table(out | {"joined": pa.array(called)})


def tables(setting: Setting, state: State) -> tuple[StateTable, StateTable]:
    """The shard's copy of the global table, and the keys whose result stands."""
    (_, kind), *_ = setting.extras
    standing = pa.schema([("hash", pa.int64()), ("key", kind)])
    return (*global_lookup.tables(setting, state), state.table(setting.operator.stores[1], standing))


def _stood(setting: Setting, events: Events, state: State, called: Bools) -> Bools:
    """Whether a result stands before each row of the left side; what stands after the batch is stored."""
    (_, kind), *_ = setting.extras
    _, table = tables(setting, state)
    left = events.tables[LEFT].column("left_key").cast(kind)
    own = events.own[events.side == LEFT]
    keys = gather(joined([left], kind), own)
    hashes = hash_keys(keys)
    groups = group_keys(hashes, keys)
    before = Ordered(groups).last_before(np.ones(len(keys), dtype=np.bool_), inclusive=False)
    first = groups.first
    stored = table.lookup(hashes[first], keys.take(pa.array(first))).found
    last = groups.last
    written = last[called[last] | stored]
    rows = pa.table({"hash": hashes[written], "key": keys.take(pa.array(written))})
    table.put(rows.cast(table.schema), ~called[written])
    return np.where(before >= 0, called[before], stored[groups.group_of_row])
