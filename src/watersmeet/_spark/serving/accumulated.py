"""The accumulator by which tasks hand back changes of served tables: Spark's own, failed tasks have no part in it."""

from __future__ import annotations

from pyspark.accumulators import AccumulatorParam

from watersmeet._worker.handed_back import ServedChange


class ServedChanges(AccumulatorParam[list[ServedChange]]):
    """Changes, as an accumulator adds them up."""

    def zero(self, value: list[ServedChange]) -> list[ServedChange]:
        """See `AccumulatorParam`."""
        return []

    def addInPlace(self, value1: list[ServedChange], value2: list[ServedChange]) -> list[ServedChange]:
        """See `AccumulatorParam`."""
        value1.extend(value2)
        return value1
