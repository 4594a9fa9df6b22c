"""Tables of databases and catalogs as outputs: each is a pass of its own, which the driver commits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from watersmeet._spark.databases.catalog import MergedTable
from watersmeet._spark.databases.table_sink import DatabaseTableWriter
from watersmeet._spark.databases.tables import TableWriter
from watersmeet._spark.sinks.kind import Chosen, Given, OnePass, OutputBatch, OutputKind, Pass

Making = Callable[[Given, Chosen], TableWriter]


@dataclass(frozen=True)
class Tables(OutputKind):
    """Tables of one sort.

    Parameters
    ----------
    make : makes what writes one of them.
    """

    make: Making

    def passes(self, given: Given, chosen: Sequence[Chosen]) -> Sequence[Pass]:
        planned = None if given.written is None else given.written.planned
        return [TablePass(each, self.make(given, each), planned) for each in chosen]


@dataclass(frozen=True)
class TablePass(OnePass):
    """Writes one table.

    Parameters
    ----------
    table : what writes it.
    planned : as of `TableWriter.begin`.
    """

    turn = 2

    table: TableWriter
    planned: int | None

    def begin(self) -> None:
        self.table.begin(self.planned)

    def write(self, frame: DataFrame, batch: OutputBatch) -> None:
        rows = self.chosen.selection.visible(frame, batch.number)
        self.table.write(rows, batch.number, batch.plan, batch.guard)


def table_writer(given: Given, chosen: Chosen) -> TableWriter:
    """The writer of a table of a database."""
    return DatabaseTableWriter(chosen.target, chosen.node.shape.key, chosen.node.shape.value, given.identity)


def merged(given: Given, chosen: Chosen) -> TableWriter:
    """The writer of a table of a catalog."""
    return MergedTable(given.spark, chosen.target, chosen.node.shape.key, chosen.node.shape.value, given.identity)
