"""Heartbeats: the times of the sources, told to every shard of an operator, records or none.

Rows (srcpart, order_ts): the latest of what was packed, or every one. Law 3. Called by the source packs, read
by `times`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millpond._engine.columns import Bools, Int64s, bools, ints
from millpond._engine.exchange import Parcel
from millpond._engine.idle import clock_row
from millpond._plan.physical import Operator, Physical

_UNKNOWN = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Beat:
    """The times that an operator is told.

    Parameters
    ----------
    port, target : where they go.
    every : whether it is told every time, or the latest.
    roots : boolean columns of the frame that mark the rows of the operator's sources; empty: all rows.
    """

    port: int
    target: int
    every: bool
    roots: tuple[str, ...] = ()


def beat_of(physical: Physical, operator: Operator, roots: tuple[str, ...] = ()) -> Beat:
    """The beat of an operator that is told times."""
    return Beat(physical.time_port(operator), operator.id, operator.timing == "every", roots)


def told_clock(target: int, port: int, wall: int, shards: int) -> Iterator[Parcel]:
    """What every shard of an operator is told of the wall clock."""
    return _to_all(target, port, clock_row(wall), shards, 0)


def times(frame: pa.Table, beats: tuple[Beat, ...], shards: int) -> Iterator[Parcel]:
    """What a source stage's frame, with its positions, tells every shard of the time."""
    if not beats or not len(frame):
        return
    order_ts, srcpart, case = ints(frame, "order_ts"), ints(frame, "srcpart"), _cases(frame)
    # One turn per operator and case, not per row.
    for beat in beats:
        marked = _marked(frame, beat) & (order_ts > _UNKNOWN)
        # One turn per case.
        for number in np.unique(case[marked]):
            rows = np.flatnonzero(marked & (case == number))
            told = _told(order_ts[rows], srcpart[rows], every=beat.every)
            yield from _to_all(beat.target, beat.port, told, shards, int(number))


def _told(order_ts: Int64s, srcpart: Int64s, *, every: bool) -> pa.Table:
    order = np.lexsort((order_ts, srcpart))
    order_ts, srcpart = order_ts[order], srcpart[order]
    last = np.append(srcpart[1:] != srcpart[:-1], True)
    if every:
        last[:-1] |= order_ts[1:] != order_ts[:-1]
    return pa.table({"srcpart": pa.array(srcpart[last]), "order_ts": pa.array(order_ts[last])})


def _to_all(target: int, port: int, rows: pa.Table, shards: int, case: int) -> Iterator[Parcel]:
    return (Parcel(target, case * shards + shard, port, rows) for shard in range(shards))


def _marked(frame: pa.Table, beat: Beat) -> Bools:
    marked = np.full(len(frame), not beat.roots, dtype=np.bool_)
    # One turn per source.
    for name in beat.roots:
        marked |= bools(frame, name)
    return marked


def _cases(frame: pa.Table) -> Int64s:
    return ints(frame, "case") if "case" in frame.column_names else np.zeros(len(frame), dtype=np.int64)
