"""The outputs of a topology that are kept as tables, in databases and in catalogs: what they have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession

from watersmeet._spark.databases.catalog import MergedTable
from watersmeet._spark.databases.kept import KeptTable
from watersmeet._worker.batch_plan import UNKNOWN, BatchPlan
from watersmeet.io.databases import CatalogTable, DatabaseTable, TableTarget
from watersmeet.io.origins import SinkTarget


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


def table_writers(
    spark: SparkSession, sinks: Iterable[tuple[Any, SinkTarget]], identity: str, planned: int | None
) -> dict[TableTarget, TableWriter]:
    """Those of the outputs, Sink nodes and their targets, that are tables; each has been begun.

    Parameters
    ----------
    identity, planned : see `take_over`.
    """
    found: dict[TableTarget, TableWriter] = {}
    for node, target in sinks:
        if isinstance(target, DatabaseTable):
            found[target] = KeptTable(target, node.shape.key, node.shape.value, identity)
        elif isinstance(target, CatalogTable):
            found[target] = MergedTable(spark, target, node.shape.key, node.shape.value, identity)
    for table in found.values():
        table.begin(planned)
    return found
