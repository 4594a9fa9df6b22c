"""stream_aggregate: count, reduce and aggregate of a grouped stream (docs/semantics, section 12)."""

from __future__ import annotations

from millpond._plan.nodes import StreamAggregate as Node
from millpond._plan.operators.aggregates.aggregate import AggregateSpec
from millpond._plan.operators.spec import Reads, Side, Site


class StreamAggregate(AggregateSpec[Node]):
    """See `Spec`."""

    stem = "stream_aggregate"
    keeps_partition = True

    def reads(self, site: Site[Node]) -> Reads:
        """Records with key and value."""
        side = Side(site.input(0).shape.value, drops_null_value=True, looked_up=False)
        return Reads(site.node.shape.key, (side,))
