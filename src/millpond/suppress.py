"""What `KTable.suppress` adds: a node that knows the windows of its table, if there are any.

Handle layer.
"""

from __future__ import annotations

from millpond._plan.construction import Construction
from millpond._plan.nodes import Node, Suppress, WindowAggregate
from millpond.errors import TopologyError
from millpond.handle import Handle
from millpond.windows import Suppressed, Windows


def suppress_node(table: Handle, suppressed: Suppressed, name: str | None) -> Node:
    """The node, attached.

    Raises
    ------
    TopologyError : what is given is no `Suppressed`, or the table has no windows that close.
    """
    if not isinstance(suppressed, Suppressed):
        raise TopologyError(
            "suppress takes what says until when.",
            given=repr(suppressed),
            hint="suppress(Suppressed.until_time_limit('10 seconds', BufferConfig.unbounded())).",
        )
    construction = table._construction
    node = Suppress(
        construction.name(name, Suppress.stem, table.name),
        (table.name,),
        table._node.shape,
        limit_ms=suppressed.limit_ms,
        windows=windows_of(construction, table._node),
        buffer=suppressed.buffer,
    )
    return table._attach(node)


def windows_of(construction: Construction, node: Node) -> Windows | None:
    """The windows that a table's keys are of, behind steps that leave keys as they are."""
    while not isinstance(node, WindowAggregate):
        if node.begins_table or len(node.inputs) != 1 or node.keyed_by != node.inputs:
            return None
        node = construction.input_of(node)
    return node.windows
