"""Turn and serialized key of a row that time lets go, as bytes of their order: what `held_key` holds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.keys import keyform as form

TURN_BYTES = 8
_SIGN = np.uint64(1 << 63)


def with_turns(turn: Int64s, encoded: pa.Array) -> pa.Array:
    """Each key behind its turn, as bytes of the same order."""
    starts, lengths, content = form.spans(encoded)
    ends = np.cumsum(lengths + TURN_BYTES)
    begins = ends - lengths - TURN_BYTES
    data = np.empty(int(ends[-1]) if len(ends) else 0, dtype=np.uint8)
    words = (turn.view(np.uint64) ^ _SIGN).astype(">u8").view(np.uint8).reshape(-1, TURN_BYTES)
    data[begins[:, None] + np.arange(TURN_BYTES)] = words
    within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    data[np.repeat(begins + TURN_BYTES, lengths) + within] = content[np.repeat(starts, lengths) + within]
    offsets = np.append(0, ends).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(turn), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def turns(held: pa.Array) -> Int64s:
    """The turns of rows that were let go; 0 of those that were not."""
    starts, lengths, content = form.spans(held.fill_null(bytes(TURN_BYTES)))
    padded = np.zeros(len(content) + TURN_BYTES, dtype=np.uint8)
    padded[: len(content)] = content
    words = np.ndarray((len(content) + 1,), ">u8", buffer=padded, strides=(1,))[starts].astype(np.uint64)
    return np.where(lengths > 0, (words ^ _SIGN).view(np.int64), 0)
