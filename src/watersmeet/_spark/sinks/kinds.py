"""Which kind of output is written by what: one table from the output's class."""

from __future__ import annotations

from collections.abc import Mapping

from watersmeet._spark.sinks.functions import FunctionOutputs
from watersmeet._spark.sinks.kind import OutputKind
from watersmeet._spark.sinks.own import Owns
from watersmeet._spark.sinks.tables import Tables, merged, table_writer
from watersmeet._spark.sinks.topics import TopicOutputs
from watersmeet._spark.sinks.writers import Writers
from watersmeet.io.databases import CatalogTable, DatabaseTable
from watersmeet.io.dataframes import ForeachBatch, Writer
from watersmeet.io.outputs import OwnOutput, SinkTarget
from watersmeet.io.topics import TopicSink

KINDS: Mapping[type[SinkTarget], OutputKind] = {
    TopicSink: TopicOutputs(),
    Writer: Writers(),
    ForeachBatch: FunctionOutputs(),
    DatabaseTable: Tables(table_writer),
    CatalogTable: Tables(merged),
    OwnOutput: Owns(),
}
"""By the class of an output."""


def kind_of(target: SinkTarget) -> OutputKind:
    """The kind of an output."""
    return next(KINDS[each] for each in type(target).__mro__ if each in KINDS)
