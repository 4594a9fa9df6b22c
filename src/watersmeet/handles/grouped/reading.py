"""The tables that a processor reads: of which handles they are, and what it calls them.

Handle layer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from watersmeet._plan.nodes import view_of
from watersmeet._plan.nodes.processors import TableRead
from watersmeet.errors import TopologyError
from watersmeet.handles.handle import side_of
from watersmeet.handles.side import Side, require_same_builder, require_same_key

if TYPE_CHECKING:
    from watersmeet.handles.global_ktable import GlobalKTable
    from watersmeet.handles.ktable import KTable

TablesRead: TypeAlias = "Mapping[str, KTable | GlobalKTable] | Sequence[KTable | GlobalKTable]"
"""Tables by the names that a processor calls them; or those that are called as their stores are."""
_HINT = "tables={'customers': customers}, and in init context.table('customers')."


def read_by(stream: Side, given: Any) -> tuple[tuple[str, ...], tuple[TableRead, ...]]:
    """(names of the tables' nodes, what is read of them) of a processor of this stream.

    Raises
    ------
    TopologyError : one is no table or a view, has no name, or has keys of another type than the stream; or two have one
        name.
    """
    sides = _by_name(given)
    # tables of the present key stand first, and the order in which they are given makes no difference
    ordered = sorted(sides, key=lambda name: (sides[name].kind == "global", name))
    reads = tuple(_read(stream, name, sides[name], 1 + place) for place, name in enumerate(ordered))
    return tuple(sides[name].name for name in ordered), reads


def _by_name(given: Any) -> dict[str, Side]:
    if isinstance(given, Mapping):
        pairs = [(name, _side(table)) for name, table in given.items()]
    elif isinstance(given, list | tuple):
        pairs = [(_store(side), side) for side in map(_side, given)]
    else:
        raise TopologyError(f"The tables that a processor reads come by name: tables={given!r:.80}.", hint=_HINT)
    found: dict[str, Side] = {}
    for name, side in pairs:
        if not isinstance(name, str) or not name:
            said = f"The name of a table that is read must be a text: tables={{{name!r:.80}: ...}}."
            raise TopologyError(said, hint=_HINT)
        if name in found:
            raise TopologyError(f"A processor reads two tables of one name: tables=[..., {name!r}, ...].", hint=_HINT)
        found[name] = side
    return found


def _store(side: Side) -> str:
    if side.node.store is None:
        said = f"A table that is read has no store, and so no name: tables=[..., {side.name!r}]."
        raise TopologyError(said, hint=_HINT)
    return side.node.store


def _side(given: Any) -> Side:
    side = side_of(given)
    if side is None or side.kind not in ("table", "global"):
        called = repr(given)[:80] if side is None else side.called
        raise TopologyError(
            f"A processor reads tables and global tables, not {called}: tables=...",
            hint="Make a table of a stream first: stream.to_table().",
        )
    if side.kind == "global" and view_of(side.node) is not None:
        raise TopologyError(
            f"A processor reads global tables, not a join of some: tables={{...: {side.name!r}}}.",
            hint="Read both tables: context.global_table('one').get(...), then the other by what that gives.",
        )
    return side


def _read(stream: Side, name: str, side: Side, place: int) -> TableRead:
    if side.kind == "global":
        require_same_builder(stream, side, "processor's table")
        return TableRead(name, place, side.key_type, everywhere=True)
    require_same_key(stream, side, "processor's table")
    return TableRead(name, place, side.key_type, history_ms=side.construction.history_of(side.node))
