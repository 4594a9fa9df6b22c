"""table_table: primary-key join of two tables (docs/semantics, section 10)."""

from __future__ import annotations

from watersmeet._plan.nodes import TableTableNode as Node
from watersmeet._plan.operators.joins import KeyJoinSpec
from watersmeet._plan.operators.spec import Reads, SpecSide, SpecSite


class TableTableSpec(KeyJoinSpec[Node]):
    """See `Spec`."""

    stem = "table_table"
    cacheable = True
    computed = True
    recomputable = True

    def reads(self, site: SpecSite[Node]) -> Reads:
        sides = (
            SpecSide(site.input(side).shape.value, old="inexact", stored_ts=True, drops_late=True) for side in (0, 1)
        )
        return Reads(site.node.shape.key, tuple(sides))

    def own_rows(self, site: SpecSite[Node]) -> tuple[int, ...]:
        return (0, 1)

    def lookups_see_results(self, site: SpecSite[Node]) -> bool:
        """Two tables of one source that do not change at once: the join is seen going from one result to the next.

        One of them came by a foreign key: such results come after all others.
        """
        left, right = site.node.inputs
        return not self.meets(site) and bool(site.plan.ancestors[left] & site.plan.ancestors[right])
