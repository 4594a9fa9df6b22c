"""Where results stand that time brings about: their positions, and the order of those that stand at one moment.

Law 3: such a result stands after all records of the last time at which it could still have been different,
and so before the first record of a later time. Among those of one moment the order is Kafka's: its turn (of a windowed
join timestamp, right before left), key bytes, the operator (that which was written down first), arrival. The first
eight bytes of the key are part of the position, the whole key goes with the row (`held_key`): so the order stays,
whatever key the row gets later and however many shards there are.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millpond._engine.arrays import Int64s
from millpond._engine.keys import keyform as form
from millpond._engine.keys.keys import encode_keys
from millpond._engine.operators.operator import OperatorContext
from millpond._engine.rows.columns import HELD_KEY, LET_GO, array, ints, joined, position_columns
from millpond._engine.rows.position import ranks
from millpond._engine.rows.types import HEADERS

_OPERATORS = 1 << 10
_OF_OPERATOR = 1 << 48
"""Room for what one operator numbers: of operators that let go at one place the first one comes first."""
_BELOW = _OPERATORS * _OF_OPERATOR
"""More than any such number: what operators above let go of at the same place comes first."""


def in_order(
    context: OperatorContext, rows: pa.Table, stands: Int64s, now: Int64s, turn: Int64s
) -> tuple[Int64s, dict[str, pa.Array]]:
    """The order of rows that time lets go of, and in that order the columns that all results have.

    Parameters
    ----------
    rows : columns ts, hash, arrival, domain, key.
    stands : order_ts of the records that each stands behind.
    now : the time of the sources that operators are to see at it.
    turn : which comes first of those of one moment.
    """
    encoded = encode_keys(rows.column("key"))
    prefix, rank, part = first_bytes(encoded), ranks(encoded), _partition(context, rows)
    order = np.lexsort((ints(rows, "arrival"), part, rank, prefix, turn, now, stands))
    rows = rows.take(pa.array(order))
    own = [stands, LET_GO + now, turn, prefix, part]
    place = _positions(context, [column[order] for column in own], rank[order])
    out = dict(zip(position_columns(context.slots), map(pa.array, place), strict=True))
    out |= {name: array(rows, name) for name in ("ts", "hash")}
    out["key"] = joined([rows.column("key")], context.key)
    if context.headers:
        out["headers"] = pa.nulls(len(rows), HEADERS)
    return order, out | {HELD_KEY: encoded.take(pa.array(order)).cast(pa.binary())}


def first_bytes(encoded: pa.Array) -> Int64s:
    """The first eight bytes of each key's encoding as an integer of the same order."""
    starts, lengths, content = form.spans(encoded)
    padded = np.zeros(len(content) + 8, dtype=np.uint8)
    padded[: len(content)] = content
    words = np.ndarray((len(content) + 1,), ">u8", buffer=padded, strides=(1,))[starts].astype(np.uint64)
    unused = (8 - np.minimum(lengths, 8)).astype(np.uint64) * np.uint64(8)
    # A shift by 64 is no shift.
    words = np.where(unused == 64, np.uint64(0), words >> (unused & np.uint64(63)) << (unused & np.uint64(63)))
    return np.asarray((words ^ np.uint64(1 << 63)).view(np.int64))


def _positions(context: OperatorContext, own: list[Int64s], rank: Int64s) -> list[Int64s]:
    """Position columns of results that are in order, `own` being what each brings itself."""
    operator = context.operator
    first = operator.id % _OPERATORS * _OF_OPERATOR
    number = first + _numbers([*own, rank]) * operator.fan
    *columns, part = own
    if operator.slot > 1:
        columns += [first + part]
        columns += [np.full(len(rank), _BELOW + operator.id, dtype=np.int64)] * (operator.slot - 2)
    columns += [number]
    return columns + [np.zeros(len(rank), dtype=np.int64)] * (context.slots - operator.slot - 1)


def _partition(context: OperatorContext, rows: pa.Table) -> Int64s:
    """What stands in the second path slot where the results' number does not: the partition they belong to.

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
