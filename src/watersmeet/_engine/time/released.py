"""Where results stand that time lets go: their positions, and the order of those that one record lets go.

Law 3: such a result stands directly before the record (or the moment of the wall clock) that moves the time of its
domain past the end of its wait, whatever batch that record comes in. Among those that one record lets go the order is:
the time of the sources that operators see at them, their turn (of a windowed join timestamp, right before left), key
bytes, the operator (the one that was declared first), arrival. Time is the first number of their paths, turn and key
go with the row (`held_key`): so the order does not depend on a later key of the row or on the number of shards.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.keys.keys import encode_keys
from watersmeet._engine.operator import OperatorContext
from watersmeet._engine.rows.columns import HELD_KEY, LET_GO, array, ints, joined, position_columns
from watersmeet._engine.rows.position import ranks
from watersmeet._engine.rows.types import HEADERS
from watersmeet._engine.time.turns import with_turns

_OPERATORS = 1 << 10
_OF_OPERATOR = 1 << 48
"""Room for what one operator numbers: of operators that let go at one place the first one comes first."""
_BELOW = _OPERATORS * _OF_OPERATOR
"""More than any such number: what operators above let go of at the same place comes first."""


def in_order(
    context: OperatorContext,
    rows: pa.Table,
    movers: Sequence[Int64s],
    stands: Int64s,
    now: Int64s,
    turn: Int64s,
) -> tuple[Int64s, dict[str, pa.Array]]:
    """The order of rows that time lets go of, and in that order the columns that all results have.

    Parameters
    ----------
    rows : columns ts, hash, arrival, domain, key.
    movers : positions of the records that move time, in order: columns order_ts, srcpart, offset.
    stands : which of these each stands before.
    now : the time of the sources that operators are to see at it.
    turn : which comes first of those of one moment.
    """
    encoded = encode_keys(rows.column("key"))
    rank, part = ranks(encoded), _partition(context, rows)
    order = np.lexsort((ints(rows, "arrival"), part, rank, turn, now, stands))
    rows, encoded = rows.take(pa.array(order)), encoded.take(pa.array(order))
    stands, now, turn, rank, part = (column[order] for column in (stands, now, turn, rank, part))
    own = [*(column[stands] for column in movers), now - LET_GO]
    place = own + _path(context, part, _numbers([stands, now, turn, rank, part]))
    out = dict(zip(position_columns(context.slots), map(pa.array, place), strict=True))
    out |= {name: array(rows, name) for name in ("ts", "hash")}
    out["key"] = joined([rows.column("key")], context.key)
    if context.headers:
        out["headers"] = pa.nulls(len(rows), HEADERS)
    return order, out | {HELD_KEY: with_turns(turn, encoded)}


def _path(context: OperatorContext, part: Int64s, number: Int64s) -> list[Int64s]:
    """The path of results that are in order, but for its first number."""
    operator = context.operator
    first = operator.id % _OPERATORS * _OF_OPERATOR
    columns = []
    if operator.slot > 1:
        columns += [first + part]
        columns += [np.full(len(part), _BELOW + operator.id, dtype=np.int64)] * (operator.slot - 2)
    columns += [first + number * operator.fan]
    return columns + [np.zeros(len(part), dtype=np.int64)] * (context.slots - operator.slot - 1)


def _partition(context: OperatorContext, rows: pa.Table) -> Int64s:
    """The second path slot, if it does not hold the results' number: the partition they belong to.

    Operators below ask for it where partitions have times of their own (`partitions`).
    """
    operator = context.operator
    return ints(rows, "domain") if operator.slot > 1 else np.zeros(len(rows), dtype=np.int64)


def _numbers(same: list[Int64s]) -> Int64s:
    """Numbers that tell apart what has all else in common: counted through."""
    rows = np.arange(len(same[0]), dtype=np.int64)
    fresh = np.zeros(len(rows), dtype=np.bool_)
    for column in same:
        fresh |= np.append(True, column[1:] != column[:-1])[: len(rows)]
    return rows - np.maximum.accumulate(np.where(fresh, rows, 0))
