"""Base of the specs of joins: pairs of a left and a right value, and the joiner that makes one value of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, TypeVar

from watersmeet._plan.nodes import Function, Node, StreamTableNode, TableTableNode
from watersmeet._plan.operators.spec import (
    FLAG,
    STAMP,
    JoinParams,
    Made,
    Named,
    ResultColumns,
    Spec,
    SpecSite,
    TableSchema,
)

N = TypeVar("N", TableTableNode, StreamTableNode)


def pairs(joiner: Function, left: Any, right: Any, *, old: bool) -> ResultColumns:
    """Results of a join of two; see `joined_values`."""
    return joined_values(joiner, (("left", left), ("right", right)), old=old)


def joined_values(joiner: Function, values: Named, *, old: bool) -> ResultColumns:
    """Results of a join: all values, and whether there is a joined one; with `old` the same of the result before."""
    columns: Named = ()
    made: tuple[Made, ...] = ()
    for prefix, name in (("", "value"), ("old_", "old")) if old else (("", "value"),):
        operands = tuple((f"{prefix}{column}", kind) for column, kind in values)
        columns += (*operands, (f"{prefix}joined", FLAG))
        made += (Made(name, joiner, ("key", *(column for column, _ in operands)), flag=f"{prefix}joined"),)
    return ResultColumns(columns, made)


def side_names(site: SpecSite[Any], sides: Sequence[int], called: Sequence[str] = ("left", "right")) -> tuple[str, ...]:
    """Names of the stores of sides: what the user asked for, or the side's own; `called` is each side's, by number."""
    node: Node = site.node
    names = {side: store for store, (join, side) in site.rules.aliases.items() if join == node.name}
    return tuple(names.get(side, f"{node.name}.{called[side]}") for side in sides)


def rows_of_sides(site: SpecSite[Any], named: Iterable[tuple[int, str]]) -> tuple[TableSchema, ...]:
    """A table for each of these sides and names, with the side's rows under the key of the join."""
    node: Node = site.node
    return tuple(
        TableSchema(
            name,
            (("key", node.shape.key), ("value", site.input(side).shape.value), STAMP),
            copies=node.inputs[side],
        )
        for side, name in named
    )


class KeyJoinSpec(Spec[N]):
    """Base of the specs of joins of two inputs by their common key; see `Spec`."""

    keeps_partition = True
    by_key = True
    kept_sides: ClassVar[tuple[int, ...]] = (0, 1)
    """Sides whose values are kept under the key."""

    def meets(self, site: SpecSite[N]) -> bool:
        return site.plan.meet_in_step(*site.node.inputs)

    def params(self, site: SpecSite[N]) -> JoinParams:
        node = site.node
        return JoinParams(node.how, node.generation.value, tuple(name in site.rules.fused for name in node.inputs))

    def keeps(self, site: SpecSite[N], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        return rows_of_sides(site, zip(self.kept_sides, side_names(site, self.kept_sides), strict=True))

    def results(self, site: SpecSite[N], *, old: bool) -> ResultColumns:
        return pairs(site.node.joiner, site.input(0).shape.value, site.input(1).shape.value, old=old)
