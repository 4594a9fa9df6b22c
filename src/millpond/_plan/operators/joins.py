"""What the specs of joins share: pairs of a left and a right value, and the joiner that makes one value of them."""

from __future__ import annotations

from typing import Any

from millpond._plan.nodes import Function, Node
from millpond._plan.operators.spec import FLAG, Made, Named, Results, Site

OPERANDS = ("key", "left", "right")
"""What a joiner gets, by name of the result column."""


def pairs(joiner: Function, left: Any, right: Any, *, old: bool) -> Results:
    """Results of a join: both values, and whether there is a joined one; with `old` the same of the result before."""
    columns: Named = ()
    made: tuple[Made, ...] = ()
    for prefix, name in (("", "value"), ("old_", "old")) if old else (("", "value"),):
        columns += ((f"{prefix}left", left), (f"{prefix}right", right), (f"{prefix}joined", FLAG))
        operands = ("key", f"{prefix}left", f"{prefix}right")
        made += (Made(name, joiner, operands, flag=f"{prefix}joined"),)
    return Results(columns, made)


def side_names(site: Site[Any], sides: tuple[int, ...]) -> tuple[str, ...]:
    """Names of the stores of sides: what the user asked for, or the side's own."""
    node: Node = site.node
    names = {side: store for store, (join, side) in site.rules.aliases.items() if join == node.name}
    return tuple(names.get(side, f"{node.name}.{('left', 'right')[side]}") for side in sides)
