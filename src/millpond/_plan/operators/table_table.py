"""table_table: primary-key join of two tables (docs/semantics, section 10)."""

from __future__ import annotations

from millpond._plan.nodes import TableTable as Node
from millpond._plan.operators.joins import pairs, side_names
from millpond._plan.operators.spec import JoinParams, Kept, Reads, Results, Side, Site, Spec


class TableTable(Spec[Node]):
    """See `Spec`."""

    stem = "table_table"
    keeps_partition = True
    cacheable = True
    computed = True

    def reads(self, site: Site[Node]) -> Reads:
        """See `Spec`."""
        sides = (Side(site.input(side).shape.value, old=True, stored_ts=True) for side in (0, 1))
        return Reads(site.node.shape.key, tuple(sides))

    def meets(self, site: Site[Node]) -> bool:
        """See `Spec`."""
        return site.plan.meet_in_step(*site.node.inputs)

    def params(self, site: Site[Node]) -> JoinParams:
        """See `Spec`."""
        node = site.node
        return JoinParams(node.how, node.generation.value, tuple(name in site.rules.fused for name in node.inputs))

    def keeps(self, site: Site[Node], taken: frozenset[str]) -> tuple[Kept, ...]:
        """See `Spec`."""
        key = site.node.shape.key
        names = side_names(site, (0, 1))
        return tuple(
            Kept(name, (("key", key), ("value", site.input(side).shape.value))) for side, name in enumerate(names)
        )

    def results(self, site: Site[Node], *, old: bool) -> Results:
        """See `Spec`."""
        return pairs(site.node.joiner, site.input(0).shape.value, site.input(1).shape.value, old=old)

    def seen_when_sent(self, site: Site[Node]) -> bool:
        """Two tables of one source that do not change at once: the join is seen going from one result to the next.

        One of them came by a foreign key, whose results come behind all else.
        """
        left, right = site.node.inputs
        return not self.meets(site) and bool(site.plan.ancestors[left] & site.plan.ancestors[right])
