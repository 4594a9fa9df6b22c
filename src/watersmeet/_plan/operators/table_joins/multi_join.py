"""multi_join: join of several tables by their common key (docs/semantics, section 27)."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet._plan.nodes import MultiJoinNode as Node
from watersmeet._plan.operators.joins import joined_values, rows_of_sides, side_names
from watersmeet._plan.operators.spec import Params, Reads, ResultColumns, Spec, SpecSide, SpecSite, TableSchema


@dataclass(frozen=True)
class MultiJoinParams(Params):
    """Of each table, whether there is a result only where it has a row; if of none, any row makes one."""

    needed: tuple[bool, ...]


class MultiJoinSpec(Spec[Node]):
    """See `Spec`."""

    stem = "multi_join"
    keeps_partition = True
    by_key = True
    cacheable = True
    recomputable = True

    def reads(self, site: SpecSite[Node]) -> Reads:
        sides = (
            SpecSide(site.input(side).shape.value, looked_up=False, silent="dropped", drops_late=True)
            for side in site.node.looks_up
        )
        return Reads(site.node.shape.key, tuple(sides))

    def params(self, site: SpecSite[Node]) -> MultiJoinParams:
        return MultiJoinParams(site.node.needed)

    def keeps(self, site: SpecSite[Node], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        """The rows of each table."""
        sides = site.node.looks_up
        names = side_names(site, sides, [f"table{side}" for side in sides])
        return rows_of_sides(site, zip(sides, names, strict=True))

    def own_rows(self, site: SpecSite[Node]) -> tuple[int, ...]:
        return site.node.looks_up

    def results(self, site: SpecSite[Node], *, old: bool) -> ResultColumns:
        values = ((f"side{side}", site.input(side).shape.value) for side in site.node.looks_up)
        return joined_values(site.node.joiner, tuple(values), old=old)
