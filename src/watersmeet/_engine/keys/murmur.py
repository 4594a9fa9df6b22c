"""murmur2 as Kafka's clients hash the bytes of keys: it decides the partition (docs/semantics, section 2)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.keys.keyform import flat, spans

UInt32s = npt.NDArray[np.uint32]
_SEED, _FACTOR = np.uint32(0x9747B28C), np.uint32(0x5BD1E995)


def murmur2(contents: pa.Array | pa.ChunkedArray) -> Int64s:
    """The 32-bit hash of each byte string, from 0 on; that of a null means nothing."""
    starts, lengths, data = spans(flat(contents))
    # a word may begin anywhere, and reach behind the last byte
    padded = np.append(data, np.zeros(4, np.uint8))
    words: UInt32s = np.ndarray((len(data) + 1,), "<u4", buffer=padded, strides=(1,))
    hashes = _SEED ^ lengths.astype(np.uint32)
    shortest = int(lengths.min()) if len(lengths) else 0
    for at in range(0, int(lengths.max(initial=0)) // 4 * 4, 4):
        rows = slice(None) if at + 4 <= shortest else np.flatnonzero(lengths >= at + 4)
        word = words[starts[rows] + at] * _FACTOR
        hashes[rows] = (hashes[rows] * _FACTOR) ^ (word ^ word >> np.uint32(24)) * _FACTOR
    left = lengths % 4
    rows = np.flatnonzero(left)
    mask = (np.uint32(1) << (8 * left[rows]).astype(np.uint32)) - np.uint32(1)
    tail = words[starts[rows] + lengths[rows] - left[rows]] & mask
    hashes[rows] = (hashes[rows] ^ tail) * _FACTOR
    mixed = (hashes ^ hashes >> np.uint32(13)) * _FACTOR
    return (mixed ^ mixed >> np.uint32(15)).astype(np.int64)
