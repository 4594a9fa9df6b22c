"""Views of global tables: joins of global tables that keep nothing and are resolved at each lookup.

A view is keyed by its left table, whose rows say which row of the right one belongs to them; its right side may
be a view again. The joins that look a view up keep copies of all tables behind it and go from one to the next,
in one level: the key of the next table is a column of the row before, made by the user's function when that row
came (law 4), not a column of anything joined. Called by `rewrite`, `sides` and the runners.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from millpond._plan.logical import Plan
from millpond._plan.nodes import Function, GlobalLookup, How, Node
from millpond.errors import TopologyError


@dataclass(frozen=True)
class GlobalView(Node):
    """Join of two global tables by a mapped key, as a view (KIP-99; docs/semantics, section 9).

    Parameters
    ----------
    mapper : function of the left table's key and value that gives the key of the right one.
    joiner : function of key, left and right.
    """

    how: How = field(kw_only=True)
    mapper: Function = field(kw_only=True, compare=False, repr=False)
    joiner: Function = field(kw_only=True, compare=False, repr=False)

    stem = "global_view"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.how == "outer":
            raise TopologyError("A join of global tables has no outer form.", hint="Use join or left_join.")

    def details(self) -> tuple[tuple[str, str], ...]:
        """See `Node.details`."""
        return (("type", self.how),)


def views_of(plan: Plan, name: str) -> tuple[GlobalView, ...]:
    """The views behind a name, outermost first; none for a table."""
    node = plan.by_name[name]
    return (node, *views_of(plan, node.inputs[1])) if isinstance(node, GlobalView) else ()


def tables_of(plan: Plan, name: str) -> tuple[Node, ...]:
    """The global tables behind a name, in the order in which a lookup goes through them."""
    views = views_of(plan, name)
    names = [view.inputs[0] for view in views] + [views[-1].inputs[1] if views else name]
    return tuple(plan.by_name[table] for table in names)


def lookups_of(plan: Plan, view: GlobalView, side: int) -> Iterator[tuple[GlobalLookup, int]]:
    """The joins that look up what comes into a view on a side, and the side by which it comes into them."""
    for child, child_side in plan.children[view.name]:
        if isinstance(child, GlobalView):
            yield from ((join, place + side) for join, place in lookups_of(plan, child, child_side))
        elif isinstance(child, GlobalLookup):
            yield child, child_side + side
