"""stream_table: join of a stream with a table, driven by the stream (docs/semantics, section 8)."""

from __future__ import annotations

from millpond._plan.nodes import StreamTable as Node
from millpond._plan.operators.joins import pairs, side_names
from millpond._plan.operators.spec import JoinParams, Kept, Reads, Results, Side, Site, Spec


class StreamTable(Spec[Node]):
    """See `Spec`."""

    stem = "stream_table"
    keeps_partition = True

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

    def meets(self, site: Site[Node]) -> bool:
        """See `Spec`."""
        return site.plan.meet_in_step(*site.node.inputs)

    def params(self, site: Site[Node]) -> JoinParams:
        """See `Spec`."""
        node = site.node
        return JoinParams(node.how, node.generation.value, tuple(name in site.rules.fused for name in node.inputs))

    def keeps(self, site: Site[Node], taken: frozenset[str]) -> tuple[Kept, ...]:
        """See `Spec`."""
        (name,) = side_names(site, (1,))
        return (Kept(name, (("key", site.node.shape.key), ("value", site.input(1).shape.value))),)

    def results(self, site: Site[Node], *, old: bool) -> Results:
        """See `Spec`."""
        return pairs(site.node.joiner, site.input(0).shape.value, site.input(1).shape.value, old=old)
