"""stream_aggregate: count, reduce and aggregate of a grouped stream (docs/semantics, section 12)."""

from __future__ import annotations

from watersmeet._plan.nodes import StreamAggregate as Node
from watersmeet._plan.operators.aggregates.aggregate import AggregateSpec, VersionedAggregate, records
from watersmeet._plan.operators.spec import Reads, Site


class StreamAggregate(AggregateSpec[Node]):
    """See `Spec`."""

    stem = "stream_aggregate"
    by_key = True
    keeps_partition = True

    def reads(self, site: Site[Node]) -> Reads:
        """Records with key and value."""
        return Reads(site.node.shape.key, records(site))


class VersionedStreamAggregate(VersionedAggregate[Node], StreamAggregate):
    """The same with a result that remembers its past."""
