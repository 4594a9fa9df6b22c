"""The column `sequence` of outputs that are no topics: of two changes of a key, the later has the higher number.

Law 2: rows of a key leave in order of position, all by one task in a batch, and batches follow each other; so the
number is that of the batch, then that of the row in its task. A batch that is run again gives the same numbers.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column
from pyspark.sql import functions as F

SEQUENCE = "sequence"
_ROW_BITS = 32
_BATCH = "streaming.sql.batchId"
"""Spark's name for the number of the batch, in what it tells its tasks."""


class Numbers:
    """The numbers of one task's rows.

    Parameters
    ----------
    batch : number of the batch; None: what the task is told, if it is.
    """

    def __init__(self, batch: int | None = None) -> None:
        context = TaskContext.get()
        if batch is None and context:
            batch = int(context.getLocalProperty(_BATCH) or 0)
        self._next = (batch or 0) << _ROW_BITS

    def of(self, rows: int) -> pa.Array:
        """Those of the next rows."""
        start, self._next = self._next, self._next + rows
        return pa.array(np.arange(start, self._next, dtype=np.int64))


def of_batch(batch: int) -> Column:
    """The column in a batch whose number the driver knows: where threads are shared, its tasks are not told it."""
    row = F.col(SEQUENCE).bitwiseAND(F.lit((1 << _ROW_BITS) - 1))
    return (row + F.lit(batch << _ROW_BITS)).alias(SEQUENCE)
