"""The nodes of a topology: frozen declarations, checked when they are made; an ill-formed one cannot exist.

They stand in order of construction, which is the order in which Kafka Streams forwards to children, so it decides
the order of results (law 2). A user's function is kept as it was given and never compared or printed; types are
whatever the function backend speaks (Spark's DataTypes, Arrow's), compared with ``==`` and printed with ``str``.

A node answers for what it means to keys, tables and old values; which operators it becomes, and what those read, keep
and promise, is said by their specs (`_plan/operators`).
"""

from __future__ import annotations

from watersmeet._plan.nodes.aggregates import (
    AggregatedNode,
    ArgumentsNode,
    RegroupNode,
    SessionWindowAggregateNode,
    SlidingWindowAggregateNode,
    StreamAggregateNode,
    SuppressNode,
    TableAggregateNode,
    TimeWindowAggregateNode,
    WindowAggregateNode,
)
from watersmeet._plan.nodes.base import Function, How, Kind, Node, OldValues, Shape, UserFunction
from watersmeet._plan.nodes.distinct import DistinctNode
from watersmeet._plan.nodes.expiry import ExpiryNode
from watersmeet._plan.nodes.joins import (
    ForeignKeyNode,
    GlobalLookupNode,
    GlobalTableLookupNode,
    GlobalViewNode,
    Match,
    MultiJoinNode,
    OneToManyNode,
    ReferenceNode,
    StreamMatchNode,
    StreamStreamNode,
    StreamTableGraceNode,
    StreamTableNode,
    StreamVersionedTableNode,
    TableTableNode,
    view_of,
)
from watersmeet._plan.nodes.map_async import MapAsyncNode
from watersmeet._plan.nodes.processors import ProcessNode, ProcessorsNode, SharedProcessNode
from watersmeet._plan.nodes.steps import (
    BranchNode,
    FilterNode,
    FlatMapNode,
    MapEachNode,
    MapHeadersNode,
    MapNode,
    MapValuesNode,
    MergeNode,
    PeekNode,
    RepartitionNode,
    SelectKeyNode,
    SinkNode,
    SourceNode,
    ToStreamNode,
    ToTableNode,
    patterns_of,
    sinks_among,
    sources_among,
)
from watersmeet._plan.nodes.wtables import (
    StreamWTableNode,
    TableWTableNode,
    WTableJoinNode,
    WTableTableNode,
    WTableWTableNode,
)

__all__ = [
    "AggregatedNode",
    "ArgumentsNode",
    "BranchNode",
    "DistinctNode",
    "ExpiryNode",
    "FilterNode",
    "FlatMapNode",
    "ForeignKeyNode",
    "Function",
    "GlobalLookupNode",
    "GlobalTableLookupNode",
    "GlobalViewNode",
    "How",
    "Kind",
    "MapAsyncNode",
    "MapEachNode",
    "MapHeadersNode",
    "MapNode",
    "MapValuesNode",
    "Match",
    "MergeNode",
    "MultiJoinNode",
    "Node",
    "OldValues",
    "OneToManyNode",
    "PeekNode",
    "ProcessNode",
    "ProcessorsNode",
    "ReferenceNode",
    "RegroupNode",
    "RepartitionNode",
    "SelectKeyNode",
    "SessionWindowAggregateNode",
    "Shape",
    "SharedProcessNode",
    "SinkNode",
    "SlidingWindowAggregateNode",
    "SourceNode",
    "StreamAggregateNode",
    "StreamMatchNode",
    "StreamStreamNode",
    "StreamTableGraceNode",
    "StreamTableNode",
    "StreamVersionedTableNode",
    "StreamWTableNode",
    "SuppressNode",
    "TableAggregateNode",
    "TableTableNode",
    "TableWTableNode",
    "TimeWindowAggregateNode",
    "ToStreamNode",
    "ToTableNode",
    "UserFunction",
    "WTableJoinNode",
    "WTableTableNode",
    "WTableWTableNode",
    "WindowAggregateNode",
    "patterns_of",
    "sinks_among",
    "sources_among",
    "view_of",
]
