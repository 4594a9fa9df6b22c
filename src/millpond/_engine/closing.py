"""Results that time brings about: their positions, and the order of those that stand at one moment.

Law 3: such a result stands after all records of the last time at which it could still have been different,
and so before the first record of a later time. Among those of one moment the order is Kafka's: timestamp,
right before left, key bytes, arrival. The bytes of a key do not fit into a position: their first eight do,
and longer keys that have those in common come in order of hash. Called by `stream_stream`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millpond._engine import keyform as form
from millpond._engine.columns import LET_GO, Int64s, position_columns
from millpond._engine.keys import encode_keys
from millpond._engine.operator import Setting

_LENGTH_BITS, _HASH_BITS, _COUNT_BITS, _OPERATOR_BITS = 4, 14, 20, 10


def first_bytes(keys: pa.Array) -> Int64s:
    """The first eight bytes of each key's encoding as an integer of the same order."""
    starts, lengths, content = form.spans(encode_keys(keys))
    padded = np.zeros(len(content) + 8, dtype=np.uint8)
    padded[: len(content)] = content
    words = np.ndarray((len(content) + 1,), ">u8", buffer=padded, strides=(1,))[starts].astype(np.uint64)
    unused = (8 - np.minimum(lengths, 8)).astype(np.uint64) * np.uint64(8)
    # A shift by 64 is no shift.
    words = np.where(unused == 64, np.uint64(0), words >> (unused & np.uint64(63)) << (unused & np.uint64(63)))
    return np.asarray((words ^ np.uint64(1 << 63)).view(np.int64))


def closing_order(
    stands_at: Int64s, ts: Int64s, side: Int64s, keys: pa.Array, hashes: Int64s, arrival: Int64s
) -> Int64s:
    """The order of results: moment, timestamp, right before left, key bytes, arrival."""
    prefix, short = first_bytes(keys), _short(keys, hashes)
    rank = pc.rank(encode_keys(keys), sort_keys="ascending", tiebreaker="dense").to_numpy()
    return np.lexsort((arrival, rank, short, prefix, 1 - side, ts, stands_at))


def closing_positions(
    setting: Setting,
    stands_at: Int64s,
    now: Int64s,
    ts: Int64s,
    side: Int64s,
    keys: pa.Array,
    hashes: Int64s,
) -> dict[str, pa.Array]:
    """Position columns of results in `closing_order`.

    Parameters
    ----------
    stands_at : order_ts of the place they take.
    now : the time of the sources that operators below are to see at them.
    """
    operator = setting.operator
    prefix, short = first_bytes(keys), _short(keys, hashes)
    srcpart = LET_GO + 2 * ts + (1 - side)
    columns = [stands_at, srcpart, now, prefix]
    columns += [np.full(len(ts), operator.id, dtype=np.int64)] * (operator.slot - 1)
    columns += [_numbers(operator.id, [stands_at, ts, side, prefix, short], short) * operator.fan]
    columns += [np.zeros(len(ts), dtype=np.int64)] * (setting.slots - operator.slot - 1)
    names = position_columns(setting.slots)
    return {name: pa.array(column) for name, column in zip(names, columns, strict=True)}


def _numbers(operator: int, same: list[Int64s], short: Int64s) -> Int64s:
    """Numbers that tell apart what has all else in common: by operator, `_short`, then counted through."""
    rows = np.arange(len(short), dtype=np.int64)
    fresh = np.zeros(len(short), dtype=np.bool_)
    # One turn per column.
    for column in same:
        fresh |= np.append(True, column[1:] != column[:-1])[: len(short)]
    count = rows - np.maximum.accumulate(np.where(fresh, rows, 0))
    count = np.minimum(count, (1 << _COUNT_BITS) - 1)
    number = operator & ((1 << _OPERATOR_BITS) - 1)
    return (((number << _LENGTH_BITS + _HASH_BITS) + short) << _COUNT_BITS) + count


def _short(keys: pa.Array, hashes: Int64s) -> Int64s:
    """Length, so that a key comes before its continuation by zero bytes, and behind eight bytes the hash."""
    _, lengths, _ = form.spans(encode_keys(keys))
    bits = (hashes >> np.int64(64 - _HASH_BITS)) & np.int64((1 << _HASH_BITS) - 1)
    return np.where(lengths > 8, (9 << _HASH_BITS) + bits, lengths << _HASH_BITS)
