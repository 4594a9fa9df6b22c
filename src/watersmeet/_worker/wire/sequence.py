"""The column `sequence` of outputs that are no topics: of two changes of a key, the later has the higher number.

Law 2: rows of a key leave in order of position, all by one task in a batch, and batches follow each other; so the
number is that of the batch, then that of the row in its task. A batch that is run again gives the same numbers.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet._worker import task

SEQUENCE = "sequence"
ROW_BITS = 32
_BATCH = "streaming.sql.batchId"
"""Spark's name for the number of the batch, in what it tells its tasks."""


class Numbers:
    """The numbers of one task's rows.

    Parameters
    ----------
    batch : number of the batch; None: the number that the task gets, if any.
    """

    def __init__(self, batch: int | None = None) -> None:
        if batch is None:
            batch = int(task.job_property(_BATCH) or 0)
        self._next = batch << ROW_BITS

    def of(self, rows: int) -> pa.Array:
        """Those of the next rows."""
        start, self._next = self._next, self._next + rows
        return pa.array(np.arange(start, self._next, dtype=np.int64))
