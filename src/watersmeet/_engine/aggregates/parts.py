"""The kernel of an aggregate: the state of a key, as functions of Arrow arrays, a row each.

Null arguments are left out. If an aggregate cannot subtract from its result, a grouped table keeps all its values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.scans import Groups
from watersmeet._engine.rows.columns import gather, joined
from watersmeet.errors import WatersmeetError


@dataclass(frozen=True)
class KernelTypes:
    """The questions that a kernel answers.

    Parameters
    ----------
    state, result : types of what is kept and of what is shown, as the aggregate's declaration says them.
    takes_back : whether values are subtracted, too: of a grouped table.
    """

    state: pa.DataType
    result: pa.DataType
    takes_back: bool = False


class AggregateKernel:
    """One aggregate.

    Parameters
    ----------
    state : type of what is kept.

    Attributes
    ----------
    grows : whether it may become larger with each row.
    how_it_runs : in words, where `describe` says it.
    """

    grows = False
    how_it_runs: str | None = None

    def __init__(self, state: pa.DataType) -> None:
        self.state = state

    def given(self, values: pa.Array) -> pa.Array:
        """Arguments as they are added and subtracted: null where there is nothing to add."""
        return values

    def init(self, count: int) -> pa.Array:
        """The state of no records."""
        return pa.nulls(count, self.state)

    def add(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """The state with values added."""
        raise NotImplementedError

    def subtract(self, kept: pa.Array, values: pa.Array) -> pa.Array:
        """The state with values subtracted."""
        raise WatersmeetError("This aggregate cannot subtract.")

    def merge(self, kept: pa.Array, other: pa.Array) -> pa.Array:
        """The state of the records of both, the other's later."""
        raise NotImplementedError

    def finish(self, kept: pa.Array) -> pa.Array:
        """The result."""
        return kept

    def run(self, groups: Groups, kept: pa.Array, values: pa.Array, olds: pa.Array | None) -> pa.Array:
        """The state after each row, which subtracts an old value and then adds one.

        Parameters
        ----------
        kept : what each group begins with.
        """
        largest_first = np.argsort(-groups.sizes, kind="stable")
        sizes, starts = groups.sizes[largest_first], groups.starts[:-1][largest_first]
        now = kept.take(pa.array(largest_first))
        place = np.empty(groups.rows, dtype=np.int64)
        made, count = [], 0
        for number in range(int(sizes.max(initial=0))):
            now = now.slice(0, int(np.searchsorted(-sizes, -number, side="left")))
            rows = starts[: len(now)] + number
            if olds is not None:
                now = self.subtract(now, olds.take(pa.array(rows)))
            now = self.add(now, values.take(pa.array(rows)))
            place[rows] = count + np.arange(len(rows))
            made.append(now)
            count += len(rows)
        return gather(joined(made, self.state), place)


Kernel = Callable[[Any, KernelTypes], AggregateKernel]
"""Of an aggregate, as it is declared and without its arguments, what it does to rows."""
