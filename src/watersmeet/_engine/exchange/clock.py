"""Time by the records of a batch (law 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.rows.columns import ints
from watersmeet._engine.rows.topic_slots import record_place
from watersmeet.errors import SourceError
from watersmeet.windows.durations import LONGEST_MS

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


def refuse_far(frame: pa.Table, roots: Mapping[int, str]) -> None:
    """Refuse records of the sources so late that the end of a window may be more than 64 bits hold.

    Parameters
    ----------
    frame : columns root, partition or srcpart, offset, ts and reason; those that do not pass are not looked at.
    roots : name of each root number.

    Raises
    ------
    SourceError : names the first such record.
    """
    far = np.flatnonzero((ints(frame, "ts") > LONGEST_MS) & (ints(frame, "reason") == 0))
    if len(far):
        row = int(far[0])
        root, ts = (frame.column(name)[row].as_py() for name in ("root", "ts"))
        raise SourceError(
            f"The timestamp of a record of {roots.get(root, root)} is too large.",
            given=f"{record_place(frame, row)}: {ts} ms, {LONGEST_MS} allowed",
            hint="Timestamps are milliseconds since 1970: microseconds are divided by 1,000, nanoseconds by 1,000,000.",
        )
