"""stream_aggregate: count, reduce and aggregate of a grouped stream (docs/semantics, section 12)."""

from __future__ import annotations

from watersmeet._plan.nodes import StreamAggregateNode as Node
from watersmeet._plan.operators.aggregates.aggregate import AggregateSpec, VersionedAggregateSpec, records
from watersmeet._plan.operators.spec import Reads, SpecSite


class StreamAggregateSpec(AggregateSpec[Node]):
    """See `Spec`."""

    stem = "stream_aggregate"
    by_key = True
    keeps_partition = True

    def reads(self, site: SpecSite[Node]) -> Reads:
        """Records with key and value."""
        return Reads(site.node.shape.key, records(site))


class VersionedStreamAggregateSpec(VersionedAggregateSpec[Node], StreamAggregateSpec):
    """The same with a result that remembers its past."""
