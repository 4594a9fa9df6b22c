"""What keys and values are compared as: a number of 64 bits for each, the same for bytes that say the same.

A batch at a time, since a contender of one workload writes twenty million records. The numbers are this process's own:
only those of one run can be compared.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Hashes: TypeAlias = npt.NDArray[np.uint64]
Reading: TypeAlias = Callable[[Sequence[bytes]], Hashes]
_NUMBERS = re.compile(rb"-?\d+")
_FACTORS = tuple(map(np.uint64, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)))
_SHIFTS = tuple(map(np.uint64, (30, 27, 31)))


def mixed(*columns: Hashes | np.uint64) -> Hashes:
    """One number for the numbers of each row, by the steps of splitmix64."""
    found: Hashes = np.zeros(1, dtype=np.uint64)
    for column in columns:
        found = (found ^ column) + _FACTORS[0]
        for factor, shift in zip(_FACTORS[1:], _SHIFTS, strict=False):
            found = (found ^ (found >> shift)) * factor
        found = found ^ (found >> _SHIFTS[2])
    return found


def as_bytes(texts: Sequence[bytes]) -> Hashes:
    """Nothing but the same bytes are the same."""
    return np.fromiter(map(hash, texts), dtype=np.int64, count=len(texts)).view(np.uint64)


def of_json(texts: Sequence[bytes]) -> Hashes:
    """Two texts of one value are the same."""
    return as_bytes([repr(json.loads(text)).encode() for text in texts])


def of_double(texts: Sequence[bytes]) -> Hashes:
    """Doubles of at least 1, as Java's serializer writes them (their first byte is no digit's) or as JSON."""
    found = [float(text) if text[:1].isdigit() else struct.unpack(">d", text)[0] for text in texts]
    return np.array(found, dtype=np.float64).view(np.uint64)


def of_window(texts: Sequence[bytes]) -> Hashes:
    """Key and start of windows: of TimeWindowedSerializer, or of the JSON of key, start and end; keys are longs."""
    numbers = _longs(texts, 2)
    return mixed(numbers[:, 0], numbers[:, 1])


def of_session(texts: Sequence[bytes]) -> Hashes:
    """Key, start and end of sessions: of SessionWindowedSerializer, or of the JSON; keys are longs."""
    numbers = _longs(texts, 3)
    if _is_json(texts, 3):
        return mixed(numbers[:, 0], numbers[:, 1], numbers[:, 2])
    return mixed(numbers[:, 0], numbers[:, 2], numbers[:, 1])


def _is_json(texts: Sequence[bytes], width: int) -> bool:
    """Whether they are JSON; texts of a key, a start and an end are longer than three longs."""
    lengths = set(map(len, texts))
    if lengths <= {8 * width}:
        return False
    if 8 * width in lengths:
        raise ValueError(f"Keys of windows in two formats: of {sorted(lengths)} bytes.")
    return True


def _longs(texts: Sequence[bytes], width: int) -> Hashes:
    """The numbers of each text, in its order."""
    if _is_json(texts, width):
        found = np.array(_NUMBERS.findall(b" ".join(texts)), dtype=np.bytes_).astype(np.int64)
        return found.reshape(len(texts), 3).view(np.uint64)
    return np.frombuffer(b"".join(texts), dtype=">i8").astype(np.int64).reshape(len(texts), width).view(np.uint64)
