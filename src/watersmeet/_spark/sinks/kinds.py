"""Which kind of output is written by what: one table from the output's class."""

from __future__ import annotations

from collections.abc import Mapping

from watersmeet._spark.sinks.functions import Functions
from watersmeet._spark.sinks.kind import Kind
from watersmeet._spark.sinks.own import Owns
from watersmeet._spark.sinks.tables import Tables, kept, merged
from watersmeet._spark.sinks.topics import Topics
from watersmeet._spark.sinks.writers import Writers
from watersmeet.io.databases import CatalogTable, DatabaseTable
from watersmeet.io.dataframes import ForeachBatch, Writer
from watersmeet.io.outputs import OwnOutput, SinkTarget
from watersmeet.io.topics import TopicSink

KINDS: Mapping[type[SinkTarget], Kind] = {
    TopicSink: Topics(),
    Writer: Writers(),
    ForeachBatch: Functions(),
    DatabaseTable: Tables(kept),
    CatalogTable: Tables(merged),
    OwnOutput: Owns(),
}
"""By the class of an output."""


def kind_of(target: SinkTarget) -> Kind:
    """What writes an output."""
    return next(KINDS[each] for each in type(target).__mro__ if each in KINDS)
