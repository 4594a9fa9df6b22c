"""Time by the records of a batch (law 2)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from millpond._engine.arrays import Bools, Int64s

SNAPSHOT = -1
"""order_ts of a snapshot's rows: no record's time is below 0."""


@dataclass
class Clock:
    """Running maximum of event time per source partition of the batch: order_ts (law 2)."""

    latest: dict[int, int] = field(default_factory=dict)

    def stamp(self, srcpart: Int64s, ts: Int64s, counted: Bools) -> Int64s:
        """order_ts of rows in order of offset; only the rows that `counted` marks move the time."""
        result = np.array(ts)
        # most frames have rows of one partition alone
        alone = len(srcpart) > 0 and srcpart.min() == srcpart.max()
        for part in srcpart[:1] if alone else np.unique(srcpart):
            rows = slice(None) if alone else np.flatnonzero(srcpart == part)
            floor = self.latest.get(int(part), np.iinfo(np.int64).min)
            moving = np.where(counted[rows], ts[rows], np.iinfo(np.int64).min)
            result[rows] = np.maximum(np.maximum.accumulate(moving), floor)
            self.latest[int(part)] = int(result[rows][-1])
        return result
