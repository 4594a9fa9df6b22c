"""Watermarks: the times of the sources, told to every shard of an operator, records or none.

The latest of what was packed, or every record that moves time (`told`). Law 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.exchange.routing import RoutedBatch
from watersmeet._engine.exchange.shards import ShardCounts
from watersmeet._engine.rows.columns import bools, ints
from watersmeet._engine.time.idle import clock_row
from watersmeet._engine.time.partition_times import last_times, time_moves
from watersmeet._plan.physical import Operator, Physical

_UNKNOWN = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Watermark:
    """The times that an operator gets.

    Parameters
    ----------
    port, target : where they go.
    every : whether it gets every record that moves time, or the latest time.
    roots : boolean columns of the frame that mark the rows of the operator's sources; empty: all rows.
    """

    port: int
    target: int
    every: bool
    roots: tuple[str, ...] = ()


def watermark_of(physical: Physical, operator: Operator, roots: tuple[str, ...] = ()) -> Watermark:
    """The beat of an operator that gets times."""
    return Watermark(
        physical.time_port(operator), operator.id, operator.time is not None and operator.time.every, roots
    )


def clock_batches(
    target: int, port: int, wall: int, shards: ShardCounts, *, piped: bool = False
) -> Iterator[RoutedBatch]:
    """The wall clock for every shard of an operator; `piped`: in a test driver."""
    return _to_all(target, port, clock_row(wall, piped=piped), shards, 0)


def times(frame: pa.Table, watermarks: tuple[Watermark, ...], shards: ShardCounts) -> Iterator[RoutedBatch]:
    """The rows by which a source stage's frame, with its positions, brings time to every shard."""
    if not watermarks or not len(frame):
        return
    case, piped = _cases(frame), "time" in frame.column_names
    for watermark in watermarks:
        marked = _marked(frame, watermark) & (ints(frame, "time" if piped else "order_ts") > _UNKNOWN)
        for number in np.unique(case[marked]):
            rows = frame.filter(pa.array(marked & (case == number)))
            told = time_moves(rows) if piped or watermark.every else last_times(rows)
            yield from _to_all(watermark.target, watermark.port, told, shards, int(number))


def _to_all(target: int, port: int, rows: pa.Table, shards: ShardCounts, case: int) -> Iterator[RoutedBatch]:
    return (RoutedBatch(target, shard, port, rows) for shard in shards.of_case(target, case))


def _marked(frame: pa.Table, watermark: Watermark) -> Bools:
    marked = np.full(len(frame), not watermark.roots, dtype=np.bool_)
    for name in watermark.roots:
        marked |= bools(frame, name)
    return marked


def _cases(frame: pa.Table) -> Int64s:
    return ints(frame, "case") if "case" in frame.column_names else np.zeros(len(frame), dtype=np.int64)
