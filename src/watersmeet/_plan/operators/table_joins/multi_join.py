"""multi_join: join of several tables by their common key (docs/semantics, section 27)."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet._plan.nodes import MultiJoinNode as Node
from watersmeet._plan.operators.spec import (
    FLAG,
    STAMP,
    Made,
    Named,
    Params,
    Reads,
    ResultColumns,
    Spec,
    SpecSide,
    SpecSite,
    TableSchema,
)


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
        node = site.node
        names = {side: store for store, (join, side) in site.rules.aliases.items() if join == node.name}
        return tuple(
            TableSchema(
                names.get(side, f"{node.name}.table{side}"),
                (("key", node.shape.key), ("value", site.input(side).shape.value), STAMP),
                copies=copied,
            )
            for side, copied in enumerate(node.inputs)
        )

    def own_rows(self, site: SpecSite[Node]) -> tuple[int, ...]:
        return site.node.looks_up

    def results(self, site: SpecSite[Node], *, old: bool) -> ResultColumns:
        """The values of all tables, and whether there is a result; with `old` the same of the result before."""
        columns: Named = ()
        made: tuple[Made, ...] = ()
        for prefix, name in (("", "value"), ("old_", "old")) if old else (("", "value"),):
            values = tuple(
                (f"{prefix}side{side}", site.input(side).shape.value) for side in range(len(site.node.inputs))
            )
            columns += (*values, (f"{prefix}joined", FLAG))
            operands = ("key", *(column for column, _ in values))
            made += (Made(name, site.node.joiner, operands, flag=f"{prefix}joined"),)
        return ResultColumns(columns, made)
