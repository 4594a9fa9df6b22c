"""Which of a group's values up to each row is found."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.scans import Groups
from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.rows.columns import gather, valid


def headed(groups: Groups, column: Int64s, count: int) -> Int64s:
    """A column of what groups begin with and rows, behind one another, with the former at the heads."""
    return np.asarray(groups.headed(column[:count], column[count:]), dtype=np.int64)


def pointed(groups: Groups, both: pa.Array, found: Callable[[Bools], Int64s]) -> pa.Array:
    """Of what groups begin with and rows, behind one another, what is found among the headed ones that are not null."""
    numbers = headed(groups, np.arange(len(both)), len(groups.sizes))
    place = found(valid(both)[numbers])
    return gather(both, np.where(place >= 0, numbers[place], -1))
