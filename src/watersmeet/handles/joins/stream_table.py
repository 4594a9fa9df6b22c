"""The node of a join of a stream with a table: a lookup now, as of the record's time, or a grace later."""

from __future__ import annotations

from typing import Any

from watersmeet._plan.nodes import Node, Shape, StreamTableGraceNode, StreamTableNode, StreamVersionedTableNode
from watersmeet.errors import TopologyError
from watersmeet.handles.joins.join import Join, joiner_of, name_of
from watersmeet.handles.side import Side, require_same_key
from watersmeet.windows import Duration, duration_ms


def attach(stream: Side, table: Side, join: Join) -> Node:
    """The node, attached.

    Raises
    ------
    TopologyError : the keys have different types, or the table does not remember as much as the grace asks for.
    """
    require_same_key(stream, table, "join")
    construction = stream.construction
    history = construction.history_of(table.node)
    grace_ms = 0 if join.grace is None else _checked(join.grace, table, history)
    joiner, value = joiner_of(stream, table, join)
    make: type[StreamTableNode] = StreamTableNode
    options: dict[str, Any] = {"how": join.how, "joiner": joiner, "generation": construction.generation}
    if history is not None:
        make, options["table_history_ms"] = StreamVersionedTableNode, history
    if grace_ms:
        make, options["grace_ms"] = StreamTableGraceNode, grace_ms
    name = name_of(stream, table, join, StreamTableNode.stem)
    return construction.add(make(name, (stream.name, table.name), Shape("stream", stream.key_type, value), **options))


def _checked(grace: Duration, table: Side, history: int | None) -> int:
    grace_ms = duration_ms(grace, "grace")
    if grace_ms < 0:
        raise TopologyError(
            f"The grace of a join must not be negative: grace={grace!r}.", hint='For example grace="1 minute".'
        )
    if history is None:
        raise TopologyError(
            f"A table must be versioned to be joined with a grace: grace={grace!r}, and {table.name!r} has no history.",
            hint='Give the table one: builder.table(..., history="1 day"), stream.to_table(history="1 day"). A filter '
            "or mapper with store= ends it.",
        )
    if history < grace_ms:
        raise TopologyError(
            f"The table's history must be at least as long as the grace of the join: grace={grace!r}, and "
            f"{table.name!r} has a history of {history} ms.",
            hint="Give the table a longer history, or the join a shorter grace.",
        )
    return grace_ms
