"""What keys and values are compared as: a number of 64 bits for each, the same for bytes that say the same.

A batch at a time, since a contender of one workload writes twenty million records. The numbers are this process's own:
only those of one run can be compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Hashes: TypeAlias = npt.NDArray[np.uint64]
Reading: TypeAlias = Callable[[Sequence[bytes]], Hashes]
_FACTORS = tuple(map(np.uint64, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)))
_TIMES = {"dateTime", "expires"}
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


def of_json_with_times(texts: Sequence[bytes]) -> Hashes:
    """The same, where members named in NEXMark's way as times may have a blank or a T before the hour."""
    return as_bytes([repr(json.loads(text, object_hook=_with_times)).encode() for text in texts])


def _with_times(members: dict[str, object]) -> dict[str, object]:
    for name in _TIMES & members.keys():
        members[name] = datetime.fromisoformat(str(members[name]))
    return members
