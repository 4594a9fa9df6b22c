"""Facts of a record besides key and value, for functions of a stage: its time, and whether it is as it was read."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import Column
from pyspark.sql import functions as F

from watersmeet._plan.physical import Flow, Physical
from watersmeet._worker.packing.extracted import time_column
from watersmeet.windows.durations import LONGEST_MS


def time_of(columns: Collection[str], number: int) -> Column:
    """The time in ms of a source's records: what its extractor gives, where Spark has called that, else their own.

    Parameters
    ----------
    columns : of the frame.
    number : the source's.
    """
    own, told = F.col("ts"), time_column(number)
    if told not in columns:
        return own
    return F.when(F.col(told).between(0, LONGEST_MS), F.col(told)).otherwise(own)


def is_as_read(physical: Physical, flow: Flow) -> bool:
    """Whether a flow's records are those of its source, by steps of streams alone.

    Whether a table on the way is kept by an operator must not decide it.
    """
    while flow.parent is not None:
        flow = physical.flows[flow.parent]
        if physical.node(flow).shape.kind != "stream":
            return False
    return flow.operator is None
