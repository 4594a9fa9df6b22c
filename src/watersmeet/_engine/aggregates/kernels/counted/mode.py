"""mode: the value that is there most often, of several the smallest."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.kernels.counted.counts import Counts, in_order
from watersmeet._engine.aggregates.parts import Kept, Part
from watersmeet._engine.rows.columns import gather
from watersmeet.aggregates.declared import AnyAggregate


def mode(how: AnyAggregate, kept: Kept) -> Part:
    """See `Kernel`."""
    return Mode(kept.state)


class Mode(Counts):
    """The value with the largest number."""

    def finish(self, kept: pa.Array) -> pa.Array:
        """See `Part`."""
        rows, value, rank, count = in_order(kept)
        order = np.lexsort((rank, -count, rows))
        found, first = np.unique(rows[order], return_index=True)
        pointers = np.full(len(kept), -1, dtype=np.int64)
        pointers[found] = order[first]
        return gather(value, pointers)
