"""table_aggregate: count, reduce and aggregate of a grouped table (docs/semantics, section 12)."""

from __future__ import annotations

from watersmeet._plan.nodes import TableAggregateNode as Node
from watersmeet._plan.operators.aggregates.aggregate import AggregateSpec, VersionedAggregateSpec
from watersmeet._plan.operators.spec import Reads, SpecSide, SpecSite


class TableAggregateSpec(AggregateSpec[Node]):
    """See `Spec`."""

    stem = "table_aggregate"
    by_key = True
    recomputable = True

    def side_of(self, node: Node, input: int) -> int:
        """Both halves come in alike."""
        return 0

    def reads(self, site: SpecSite[Node]) -> Reads:
        """Messages to groups: what to add, and what to subtract before."""
        side = SpecSide(site.input(0).shape.value, looked_up=False, old="always", drops_late=True, nulls_reach=True)
        return Reads(site.node.shape.key, (side,))


class VersionedTableAggregateSpec(VersionedAggregateSpec[Node], TableAggregateSpec):
    """The same with a result that remembers its past."""

    recomputable = False
