"""Reach: how far the timestamps of an edge's rows go, told to every shard of a windowed join.

A stored row disappears when its own side has moved on by the retention, whatever the key (semantics.md,
section 6), so every shard must know at which positions a side gets further; in steps of a given size, so that
there are few. Law 3: the result does not depend on the shards. Called by `exchange.pack`, read by `times`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from millpond._engine.columns import Int64s, ints, position_columns, valid
from millpond._engine.position import order_by


def reach_steps(
    rows: pa.Table, cases: Int64s | None, step: int, slots: int
) -> Iterator[tuple[int, pa.Table]]:
    """(case, positions and `reach`) of where rows with a key and a value get a step of `step` ms further."""
    stored = valid(rows.column("key")) & valid(rows.column("value"))
    cases = np.zeros(len(rows), dtype=np.int64) if cases is None else cases
    # One turn per case, not per row.
    for case in np.unique(cases[stored]):
        chosen = pa.array(np.flatnonzero(stored & (cases == case)))
        yield int(case), _steps(rows.take(chosen), step, slots)


def _steps(rows: pa.Table, step: int, slots: int) -> pa.Table:
    names = position_columns(slots)
    order = order_by([ints(rows, name) for name in names])
    srcpart, ts = ints(rows, "srcpart")[order], ints(rows, "ts")[order]
    furthest = np.empty(len(ts), dtype=np.int64)
    fresh = np.zeros(len(ts), dtype=np.bool_)
    # One turn per source partition: a task reads one, as a rule.
    for part in np.unique(srcpart):
        own = np.flatnonzero(srcpart == part)
        level = np.maximum.accumulate(ts[own]) // step * step
        furthest[own] = level
        fresh[own] = np.append(True, level[1:] > level[:-1])
    chosen = rows.select(list(names)).take(pa.array(order[fresh]))
    return chosen.append_column("reach", pa.array(furthest[fresh]))
