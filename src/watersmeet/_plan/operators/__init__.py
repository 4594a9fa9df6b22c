"""The operators: which ones a node becomes, and the spec of each (`spec`), which answers all that is asked of it."""

from __future__ import annotations

from typing import Any

from watersmeet._plan import nodes
from watersmeet._plan.nodes import Node
from watersmeet._plan.operators.aggregates.session_window_aggregate import SessionWindowAggregateSpec
from watersmeet._plan.operators.aggregates.sliding_window_aggregate import SlidingWindowAggregateSpec
from watersmeet._plan.operators.aggregates.stream_aggregate import StreamAggregateSpec, VersionedStreamAggregateSpec
from watersmeet._plan.operators.aggregates.suppress import SuppressSpec
from watersmeet._plan.operators.aggregates.table_aggregate import TableAggregateSpec, VersionedTableAggregateSpec
from watersmeet._plan.operators.aggregates.time_window_aggregate import TimeWindowAggregateSpec
from watersmeet._plan.operators.foreign_key import ForeignKeyReceiveSpec, ForeignKeySendSpec, OneToManySpec
from watersmeet._plan.operators.global_lookup import GlobalLookupSpec, GlobalTableLookupSpec
from watersmeet._plan.operators.lasting.distinct import DistinctSpec
from watersmeet._plan.operators.lasting.expiry import ExpirySpec
from watersmeet._plan.operators.map_async import MapAsyncSpec
from watersmeet._plan.operators.process import ProcessSpec
from watersmeet._plan.operators.spec import Spec
from watersmeet._plan.operators.stream_stream import StreamMatchSpec, StreamStreamSpec
from watersmeet._plan.operators.stream_table import StreamTableSpec
from watersmeet._plan.operators.stream_versioned_table import StreamTableGraceSpec, StreamVersionedTableSpec
from watersmeet._plan.operators.table import TableSpec
from watersmeet._plan.operators.table_joins.multi_join import MultiJoinSpec
from watersmeet._plan.operators.table_joins.table_table import TableTableSpec
from watersmeet._plan.operators.versioned_table import VersionedTableSpec
from watersmeet._plan.operators.wtables import StreamWTableSpec, TableWTableSpec, WTableTableSpec, WTableWTableSpec

TABLE = TableSpec()
"""What keeps a table, behind whatever makes it."""
VERSIONED_TABLE = VersionedTableSpec()
"""The same with its past."""
OPERATORS: dict[type[Node], tuple[Spec[Any], ...]] = {
    nodes.TableTableNode: (TableTableSpec(),),
    nodes.MultiJoinNode: (MultiJoinSpec(),),
    nodes.StreamTableNode: (StreamTableSpec(),),
    nodes.StreamVersionedTableNode: (StreamVersionedTableSpec(),),
    nodes.StreamTableGraceNode: (StreamTableGraceSpec(),),
    nodes.StreamStreamNode: (StreamStreamSpec(),),
    nodes.StreamMatchNode: (StreamMatchSpec(),),
    nodes.ForeignKeyNode: (ForeignKeySendSpec(), ForeignKeyReceiveSpec()),
    nodes.OneToManyNode: (ForeignKeySendSpec(), OneToManySpec()),
    nodes.GlobalLookupNode: (GlobalLookupSpec(),),
    nodes.GlobalTableLookupNode: (GlobalTableLookupSpec(),),
    nodes.StreamAggregateNode: (StreamAggregateSpec(),),
    nodes.TableAggregateNode: (TableAggregateSpec(),),
    nodes.TimeWindowAggregateNode: (TimeWindowAggregateSpec(),),
    nodes.SessionWindowAggregateNode: (SessionWindowAggregateSpec(),),
    nodes.SlidingWindowAggregateNode: (SlidingWindowAggregateSpec(),),
    nodes.SuppressNode: (SuppressSpec(),),
    nodes.ProcessNode: (ProcessSpec(),),
    nodes.MapAsyncNode: (MapAsyncSpec(),),
    nodes.SharedProcessNode: (ProcessSpec(),),
    nodes.DistinctNode: (DistinctSpec(),),
    nodes.ExpiryNode: (ExpirySpec(),),
    nodes.StreamWTableNode: (StreamWTableSpec(),),
    nodes.TableWTableNode: (TableWTableSpec(),),
    nodes.WTableTableNode: (WTableTableSpec(),),
    nodes.WTableWTableNode: (WTableWTableSpec(),),
}
"""The operators of each node that is one or several, first to last; other nodes are steps of a stage."""


WITH_HISTORY: dict[type[Node], tuple[Spec[Any], ...]] = {
    nodes.StreamAggregateNode: (VersionedStreamAggregateSpec(),),
    nodes.TableAggregateNode: (VersionedTableAggregateSpec(),),
}
"""The same of nodes whose table remembers its past, where that makes a difference to them."""


def operators_of(node: Node) -> tuple[Spec[Any], ...]:
    """The operators that the node always becomes, first to last; none for a step."""
    usual = OPERATORS.get(type(node), ())
    return usual if node.history_ms is None else WITH_HISTORY.get(type(node), usual)


def keeper_of(node: Node) -> Spec[Node]:
    """The operator that keeps the table of a node, if none of its own operators does."""
    return TABLE if node.history_ms is None else VERSIONED_TABLE


def fans_out(node: Node) -> bool:
    """Whether one record becomes many at the node, so that it opens a path slot."""
    return node.fans_out or any(spec.fans_out for spec in operators_of(node))
