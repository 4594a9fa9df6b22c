"""Views of global tables: joins of global tables that keep nothing and are resolved at each lookup.

A view is keyed by its left table; each of its rows refers to a row of the right one; its right side may
be a view again. The joins that look a view up keep copies of all tables behind it and go from one to the next,
in one level: the key of the next table is a column of the row before, made by the user's function when that row
came (law 4), not a column of anything joined.
"""

from __future__ import annotations

from collections.abc import Iterator

from watersmeet._plan.logical import Plan
from watersmeet._plan.nodes import GlobalViewNode, Node, view_of


def views_of(plan: Plan, name: str) -> tuple[GlobalViewNode, ...]:
    """The views behind a name, outermost first; none for a table."""
    view = view_of(plan.by_name[name])
    return () if view is None else (view, *views_of(plan, view.inputs[1]))


def tables_of(plan: Plan, name: str) -> tuple[Node, ...]:
    """The global tables behind a name, in the order in which a lookup goes through them."""
    views = views_of(plan, name)
    names = [view.inputs[0] for view in views] + [views[-1].inputs[1] if views else name]
    return tuple(plan.by_name[table] for table in names)


def lookups_of(plan: Plan, view: Node, side: int) -> Iterator[tuple[Node, int]]:
    """The joins that look up what comes into a view on a side, and the side by which it comes into them."""
    for child, child_side in plan.children[view.name]:
        if child.is_view:
            yield from ((join, place + side) for join, place in lookups_of(plan, child, child_side))
        else:
            yield child, child_side + side
