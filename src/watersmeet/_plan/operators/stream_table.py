"""stream_table: join of a stream with a table, driven by the stream (docs/semantics, section 8)."""

from __future__ import annotations

from watersmeet._plan.nodes import StreamTable as Node
from watersmeet._plan.operators.joins import KeyJoin
from watersmeet._plan.operators.spec import Reads, Side, Site


class StreamTable(KeyJoin[Node]):
    """See `Spec`."""

    stem = "stream_table"
    kept_sides = (1,)

    def reads(self, site: Site[Node]) -> Reads:
        """See `Spec`."""
        node, (stream, table) = site.node, (site.input(side).shape.value for side in (0, 1))
        driving = Side(
            stream,
            drops_null_key=not node.takes_null_keys,
            drops_null_value=not node.generation.is_old,
            looked_up=False,
            silent="any",
        )
        return Reads(node.shape.key, (driving, Side(table, silent="any")))
