"""What `suppress` adds: a node that knows the windows of its table, if there are any.

Handle layer.
"""

from __future__ import annotations

from watersmeet._plan.nodes import Node, SuppressNode
from watersmeet.errors import TopologyError
from watersmeet.handles.side import Side
from watersmeet.windows import Suppressed


def suppress_node(table: Side, suppressed: Suppressed, name: str | None) -> Node:
    """The node, attached.

    Raises
    ------
    TopologyError : what is given is no `Suppressed`, or the table has no windows that close.
    """
    if not isinstance(suppressed, Suppressed):
        raise TopologyError(
            f"suppress takes a Suppressed, and not {suppressed!r:.80}.",
            hint="Take suppress(wm.Suppressed.until_time_limit('10 seconds', wm.BufferConfig.unbounded())).",
        )
    node = SuppressNode(
        table.construction.name(name, SuppressNode.stem, table.name),
        (table.name,),
        table.node.shape,
        limit_ms=suppressed.limit_ms,
        windows=table.windows,
        buffer=suppressed.buffer,
    )
    return table.construction.add(node)
