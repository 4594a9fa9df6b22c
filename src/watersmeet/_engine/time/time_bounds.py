"""Reach: how far the timestamps of an edge's rows go, told to every shard of a windowed join, or of a
versioned table.

A stored row disappears when its own side has moved on by the retention, whatever the key (docs/semantics,
section 6), so every shard must know exactly at which positions a side gets further. In an orderly stream that
is every millisecond that has a record: so positions travel as differences (`rows.narrow`), and are read only where a
late record asks. Law 3: the result does not depend on the shards.
Written by `exchange.pack`, read by `times`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.rows.columns import (
    HELD_KEY,
    array,
    held_keys,
    held_together,
    ints,
    partitions,
    position_columns,
    valid,
)
from watersmeet._engine.rows.narrow import packed, unpacked
from watersmeet._engine.rows.position import order_by


def bounds_by_case(
    rows: pa.Table, cases: Int64s | None, slots: int, *, nulls: bool = False
) -> Iterator[tuple[int, pa.Table]]:
    """(case, rows for every shard) of the time bounds of rows with key and value; `nulls`: with a key."""
    stored = valid(rows.column("key"))
    stored = stored if nulls else stored & valid(rows.column("value"))
    cases = np.zeros(len(rows), dtype=np.int64) if cases is None else cases
    for case in np.unique(cases[stored]):
        chosen = pa.array(np.flatnonzero(stored & (cases == case)))
        yield int(case), _bounds_table(rows.take(chosen), position_columns(slots))


def _bounds_table(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    columns, held = [ints(rows, name) for name in names], held_keys(rows)
    order = order_by(columns, held)
    part = partitions(columns)
    told = []
    for number in np.unique(part):
        mine = order[part[order] == number]
        reach = np.maximum.accumulate(ints(rows, "ts")[mine])
        fresh = np.append(True, reach[1:] > reach[:-1])
        steps = {name: column[mine][fresh] for name, column in zip(names, columns, strict=True)}
        keys = None if held is None else held.take(pa.array(mine[fresh]))
        told.append(_packed(int(number), steps, reach[fresh], keys))
    return pa.concat_tables(told)


def _packed(part: int, steps: dict[str, Int64s], reach: Int64s, held: pa.Array | None) -> pa.Table:
    """One row: the partition, its last reach, and the steps, with the keys that they were held back under."""
    columns: dict[str, pa.Array] = {"partition": pa.array([part]), "reach": pa.array(reach[-1:])}
    columns["count"] = pa.array([len(reach)])
    # As a rule the reach is the order_ts, and so their difference nothing.
    columns |= packed(steps | {"behind": steps["order_ts"] - reach})
    if held is not None:
        columns[HELD_KEY] = pa.ListArray.from_arrays(pa.array([0, len(held)], pa.int32()), held)
    return pa.table(columns)


class Steps:
    """The steps of one side of a batch, unpacked.

    Attributes
    ----------
    position : columns of their positions, most significant first.
    reach : how far the rows of the partition reach from there on.
    held : serialized keys that the steps' rows were held back under, null where one was not; None: none was.
    partition : number of the partition.
    """

    def __init__(self, told: pa.Table, slots: int) -> None:
        count = ints(told, "count")
        self.position = [unpacked(told, name, count) for name in position_columns(slots)]
        self.reach = self.position[0] - unpacked(told, "behind", count)
        self.partition = np.repeat(ints(told, "partition"), count)
        self.held = _held(told, count)


def _held(told: pa.Table, count: Int64s) -> pa.Array | None:
    if HELD_KEY not in told.column_names:
        return None
    return held_together([keys.values if keys.is_valid else None for keys in array(told, HELD_KEY)], count.tolist())


def furthest_before(steps: Int64s, reach: Int64s, events: Int64s, start: int) -> Int64s:
    """How far it went before each event: steps and events are given by their ranks in one order."""
    order = np.argsort(steps)
    furthest = np.maximum.accumulate(np.append(start, reach[order]))
    result: Int64s = furthest[np.searchsorted(steps[order], events)]
    return result
