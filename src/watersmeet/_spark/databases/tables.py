"""The outputs of a topology that are kept as tables, in databases and in catalogs: what they have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pyspark.sql import DataFrame

from watersmeet._worker.batch_plan import UNKNOWN, BatchPlan


class TableWriter(Protocol):
    """Writes the batches of one such output."""

    def begin(self, planned: int | None) -> None:
        """Check the table, make it if it may be made, and take it over.

        Parameters
        ----------
        planned : number of the last batch that the checkpoint has a plan of; -1: none; None: not known.

        Raises
        ------
        ConfigError : it cannot be reached, or is not there, or does not fit, or has rows of somebody else's.
        CorruptData : it has batches that the checkpoint has not.
        """

    def write(
        self, rows: DataFrame, batch: int, plan: BatchPlan = UNKNOWN, guard: Callable[[], None] = lambda: None
    ) -> None:
        """Write a batch: a frame with the columns key, value and sequence.

        Parameters
        ----------
        plan : of the batch.
        guard : raises where the checkpoint is another query's; asked when the table is locked, before the commit.

        Raises
        ------
        ConfigError : the table has the batch with another plan, or a later one.
        SinkError : the database refuses it, or another query has taken the table over.
        """
