"""The hottest key of an operator's rows in a batch: one task handles all rows of a key, so such a key limits a batch.

Found by the hashes that the rows have: two passes over one column, no loop over rows. The same rows give the same
answer in any order, as a task that runs again has to count the same once more (`measures`). Number of rows and text of
the key become one number, which goes out in pieces of seven bytes: a count on the wire is a number of 64 bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.keys.keys import hash_keys
from watersmeet._engine.operator import silent_rows
from watersmeet._engine.rows.columns import ints
from watersmeet._engine.rows.python_values import python_values

HOT_ROWS = 10_000
"""A key with fewer rows in a batch is not reported: they take less than a second."""
HOT_SHARE = 0.1
"""A key with a smaller share of an operator's rows is not reported."""
_TEXT_BYTES = 56
_PIECE_BITS = 56
_PIECE = (1 << _PIECE_BITS) - 1
_BUCKETS = 1 << 12


def hottest(inputs: Mapping[int, pa.Table]) -> int | None:
    """Rows and text of the key with the most rows, as one number; None: none has many.

    Parameters
    ----------
    inputs : rows by side, with their hashes.
    """
    if sum(map(len, inputs.values())) < HOT_ROWS:
        return None
    hashes = {side: ints(rows, "hash") for side, rows in inputs.items()}
    loud = [_loud(rows, hashes[side]) for side, rows in inputs.items()]
    found = _hot_hash(np.concatenate(loud) if len(loud) > 1 else loud[0])
    if found is None:
        return None
    wanted, count = found
    texts = (_text(rows, hashes[side], wanted) for side, rows in sorted(inputs.items()))
    return packed_key(count, next(filter(None, texts), ""))


def _loud(rows: pa.Table, hashes: Int64s) -> Int64s:
    silent = silent_rows(rows)
    return hashes[~silent] if silent.any() else hashes


def _hot_hash(hashes: Int64s) -> tuple[int, int] | None:
    """The most frequent hash and the number of its rows, if these are many."""
    # shards are ranges of the upper bits; the lower ones divide a shard's rows
    buckets = hashes & (_BUCKETS - 1)
    counts = np.bincount(buckets, minlength=_BUCKETS)
    fullest, least = int(counts.argmax()), max(HOT_ROWS, HOT_SHARE * len(hashes))
    if counts[fullest] < least:
        return None
    found, numbers = np.unique(hashes[buckets == fullest], return_counts=True)
    at = int(numbers.argmax())
    return (int(found[at]), int(numbers[at])) if numbers[at] >= least else None


def _text(rows: pa.Table, hashes: Int64s, wanted: int) -> str:
    """The key of the hash as text; "" if these rows have none, or are placed by something else than their key."""
    at = int(np.argmax(hashes == wanted)) if len(hashes) else 0
    if not len(hashes) or hashes[at] != wanted:
        return ""
    key = rows.column("key").slice(at, 1)
    return str(python_values(key)[0]) if int(hash_keys(key)[0]) == wanted else ""


def packed_key(rows: int, text: str) -> int:
    """Rows and text of a key as one number."""
    content = text.encode("utf-8", "replace")
    if len(content) > _TEXT_BYTES:
        content = (content[: _TEXT_BYTES - 3].decode("utf-8", "ignore") + "…").encode()
    return rows | int.from_bytes(content, "little") << _PIECE_BITS


def unpacked_key(number: int) -> tuple[int, str]:
    """The rows and the text of `packed_key`.

    >>> unpacked_key(packed_key(12_000, "customer 7"))
    (12000, 'customer 7')
    """
    text = number >> _PIECE_BITS
    return number & _PIECE, text.to_bytes(-(-text.bit_length() // 8), "little").decode("utf-8", "replace")


def key_pieces(number: int) -> Iterator[int]:
    """The number as counts, each of which has its place in its highest byte."""
    place = 0
    while number or not place:
        yield place << _PIECE_BITS | number & _PIECE
        number, place = number >> _PIECE_BITS, place + 1


def of_piece(count: int) -> int:
    """The part of the number that a piece has; the sum of all is the number.

    >>> sum(map(of_piece, key_pieces(1 << 200))) == 1 << 200
    True
    """
    return (count & _PIECE) << _PIECE_BITS * (count >> _PIECE_BITS)
