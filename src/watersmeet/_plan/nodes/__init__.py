"""The nodes of a topology: frozen declarations, checked when they are made; an ill-formed one cannot exist.

They stand in order of construction, which is the order in which Kafka Streams forwards to children, so it decides
the order of results (law 2). A user's function is kept as it was given and never compared or printed; types are
whatever the function backend speaks (Spark's DataTypes, Arrow's), compared with ``==`` and printed with ``str``.

A node answers for what it means to keys, tables and old values; which operators it becomes, and what those read, keep
and promise, is said by their specs (`_plan/operators`).
"""

from __future__ import annotations

from watersmeet._plan.nodes.aggregates import (
    Aggregated,
    Arguments,
    Regroup,
    SessionWindowAggregate,
    SlidingWindowAggregate,
    StreamAggregate,
    Suppress,
    TableAggregate,
    TimeWindowAggregate,
    WindowAggregate,
)
from watersmeet._plan.nodes.base import Function, How, Kind, Node, OldValues, Shape, UserFunction
from watersmeet._plan.nodes.distinct import Distinct
from watersmeet._plan.nodes.expiry import Expiry
from watersmeet._plan.nodes.joins import (
    ForeignKey,
    GlobalLookup,
    GlobalTableLookup,
    GlobalView,
    OneToMany,
    Reference,
    StreamStream,
    StreamTable,
    StreamTableGrace,
    StreamVersionedTable,
    TableTable,
    view_of,
)
from watersmeet._plan.nodes.processors import Process
from watersmeet._plan.nodes.steps import (
    Branch,
    Filter,
    FlatMap,
    Map,
    MapHeaders,
    MapValues,
    Merge,
    Peek,
    Repartition,
    SelectKey,
    Sink,
    Source,
    ToStream,
    ToTable,
    sinks_among,
    sources_among,
)
from watersmeet._plan.nodes.wtables import StreamWTable, TableWTable, WTableJoin, WTableTable, WTableWTable

__all__ = [
    "Aggregated",
    "Arguments",
    "Branch",
    "Distinct",
    "Expiry",
    "Filter",
    "FlatMap",
    "ForeignKey",
    "Function",
    "GlobalLookup",
    "GlobalTableLookup",
    "GlobalView",
    "How",
    "Kind",
    "Map",
    "MapHeaders",
    "MapValues",
    "Merge",
    "Node",
    "OldValues",
    "OneToMany",
    "Peek",
    "Process",
    "Reference",
    "Regroup",
    "Repartition",
    "SelectKey",
    "SessionWindowAggregate",
    "Shape",
    "Sink",
    "SlidingWindowAggregate",
    "Source",
    "StreamAggregate",
    "StreamStream",
    "StreamTable",
    "StreamTableGrace",
    "StreamVersionedTable",
    "StreamWTable",
    "Suppress",
    "TableAggregate",
    "TableTable",
    "TableWTable",
    "TimeWindowAggregate",
    "ToStream",
    "ToTable",
    "UserFunction",
    "WTableJoin",
    "WTableTable",
    "WTableWTable",
    "WindowAggregate",
    "sinks_among",
    "sources_among",
    "view_of",
]
