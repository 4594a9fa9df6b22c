"""The operators: which ones a node becomes, and the spec of each (`spec`), which answers all that is asked of it."""

from __future__ import annotations

from typing import Any

from watersmeet._plan import nodes
from watersmeet._plan.nodes import Node
from watersmeet._plan.operators.aggregates.session_window_aggregate import SessionWindowAggregate
from watersmeet._plan.operators.aggregates.sliding_window_aggregate import SlidingWindowAggregate
from watersmeet._plan.operators.aggregates.stream_aggregate import StreamAggregate, VersionedStreamAggregate
from watersmeet._plan.operators.aggregates.suppress import Suppress
from watersmeet._plan.operators.aggregates.table_aggregate import TableAggregate, VersionedTableAggregate
from watersmeet._plan.operators.aggregates.time_window_aggregate import TimeWindowAggregate
from watersmeet._plan.operators.foreign_key import ForeignKeyReceive, ForeignKeySend, OneToMany
from watersmeet._plan.operators.global_lookup import GlobalLookup, GlobalTableLookup
from watersmeet._plan.operators.lasting.distinct import Distinct
from watersmeet._plan.operators.lasting.expiry import Expiry
from watersmeet._plan.operators.process import Process
from watersmeet._plan.operators.spec import Spec
from watersmeet._plan.operators.stream_stream import StreamStream
from watersmeet._plan.operators.stream_table import StreamTable
from watersmeet._plan.operators.stream_versioned_table import StreamTableGrace, StreamVersionedTable
from watersmeet._plan.operators.table import Table
from watersmeet._plan.operators.table_table import TableTable
from watersmeet._plan.operators.versioned_table import VersionedTable
from watersmeet._plan.operators.wtables import StreamWTable, TableWTable, WTableTable, WTableWTable

TABLE = Table()
"""What keeps a table, behind whatever makes it."""
VERSIONED_TABLE = VersionedTable()
"""The same with its past."""
OPERATORS: dict[type[Node], tuple[Spec[Any], ...]] = {
    nodes.TableTable: (TableTable(),),
    nodes.StreamTable: (StreamTable(),),
    nodes.StreamVersionedTable: (StreamVersionedTable(),),
    nodes.StreamTableGrace: (StreamTableGrace(),),
    nodes.StreamStream: (StreamStream(),),
    nodes.ForeignKey: (ForeignKeySend(), ForeignKeyReceive()),
    nodes.OneToMany: (ForeignKeySend(), OneToMany()),
    nodes.GlobalLookup: (GlobalLookup(),),
    nodes.GlobalTableLookup: (GlobalTableLookup(),),
    nodes.StreamAggregate: (StreamAggregate(),),
    nodes.TableAggregate: (TableAggregate(),),
    nodes.TimeWindowAggregate: (TimeWindowAggregate(),),
    nodes.SessionWindowAggregate: (SessionWindowAggregate(),),
    nodes.SlidingWindowAggregate: (SlidingWindowAggregate(),),
    nodes.Suppress: (Suppress(),),
    nodes.Process: (Process(),),
    nodes.Distinct: (Distinct(),),
    nodes.Expiry: (Expiry(),),
    nodes.StreamWTable: (StreamWTable(),),
    nodes.TableWTable: (TableWTable(),),
    nodes.WTableTable: (WTableTable(),),
    nodes.WTableWTable: (WTableWTable(),),
}
"""The operators of each node that is one or several, first to last; other nodes are steps of a stage."""


WITH_HISTORY: dict[type[Node], tuple[Spec[Any], ...]] = {
    nodes.StreamAggregate: (VersionedStreamAggregate(),),
    nodes.TableAggregate: (VersionedTableAggregate(),),
}
"""The same of nodes whose table remembers its past, where that makes a difference to them."""


def operators_of(node: Node) -> tuple[Spec[Any], ...]:
    """The operators that the node always becomes, first to last; none for a step."""
    usual = OPERATORS.get(type(node), ())
    return usual if node.history_ms is None else WITH_HISTORY.get(type(node), usual)


def keeper_of(node: Node) -> Spec[Node]:
    """What keeps the table that a node is, where none of its own operators does."""
    return TABLE if node.history_ms is None else VERSIONED_TABLE


def fans_out(node: Node) -> bool:
    """Whether one record becomes many at the node, so that it opens a path slot."""
    return node.fans_out or any(spec.fans_out for spec in operators_of(node))
