"""Turn and serialized key of a row that time lets go, as bytes of their order: what `held_key` holds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.keys import keyform as form

TURN_BYTES = 8
_SIGN = np.uint64(1 << 63)


def with_turns(turn: Int64s, encoded: pa.Array) -> pa.Array:
    """Each key behind its turn, as bytes of the same order."""
    words = (turn.view(np.uint64) ^ _SIGN).astype(">u8")
    offsets = np.arange(0, TURN_BYTES * (len(turn) + 1), TURN_BYTES, dtype=np.int32)
    first = pa.Array.from_buffers(pa.binary(), len(turn), [None, pa.py_buffer(offsets), pa.py_buffer(words)])
    # By Arrow, which copies the bytes: a number for each of them would take many times their room.
    keys, nothing = encoded.cast(pa.binary()), pa.scalar(b"", pa.binary())
    return pc.binary_join_element_wise(first, keys, nothing, null_handling="replace", null_replacement="")


def turns(held: pa.Array) -> Int64s:
    """The turns of rows that were let go; 0 of those that were not."""
    starts, lengths, content = form.spans(held.fill_null(bytes(TURN_BYTES)))
    padded = np.zeros(len(content) + TURN_BYTES, dtype=np.uint8)
    padded[: len(content)] = content
    words = np.ndarray((len(content) + 1,), ">u8", buffer=padded, strides=(1,))[starts].astype(np.uint64)
    return np.where(lengths > 0, (words ^ _SIGN).view(np.int64), 0)
