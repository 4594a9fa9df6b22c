"""What the join of a stream with a table becomes: a lookup now, as of the record's time, or a grace later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from watersmeet._plan.nodes import How, Node, Shape, StreamTable, StreamTableGrace, StreamVersionedTable
from watersmeet.errors import TopologyError
from watersmeet.functions import Function
from watersmeet.windows import Duration, duration_ms

if TYPE_CHECKING:
    from watersmeet.handles.handle import Handle
    from watersmeet.handles.ktable import KTable


def table_join_node(
    stream: Handle, table: KTable, joiner: Function, how: How, grace: Duration | None, name: str | None
) -> Node:
    """The node of a stream's join with a table, attached.

    Parameters
    ----------
    grace : how long records of the stream are held back (KIP-923); None or nothing: not at all.

    Raises
    ------
    TopologyError : the keys have different types, or the table does not remember as much as the grace asks for.
    """
    stream._require_same_key(table, "join")
    construction = stream._construction
    history = construction.history_of(table._node)
    grace_ms = 0 if grace is None else _checked(grace, table, history)
    joiner, value = stream._joiner(joiner, table)
    shape, inputs = Shape("stream", stream.key_type, value), (stream._node.name, table._node.name)
    name = construction.name(name, StreamTable.stem, stream.name, table.name)
    generation = construction.generation
    if history is None:
        node = StreamTable(name, inputs, shape, how=how, joiner=joiner, generation=generation)
    elif not grace_ms:
        node = StreamVersionedTable(
            name, inputs, shape, how=how, joiner=joiner, generation=generation, table_history_ms=history
        )
    else:
        node = StreamTableGrace(
            name,
            inputs,
            shape,
            how=how,
            joiner=joiner,
            generation=generation,
            table_history_ms=history,
            grace_ms=grace_ms,
        )
    return construction.add(node)


def refuse_grace(grace: Duration | None, other: Any) -> None:
    """Raise where a grace is given to a join with something that has no past of its own."""
    if grace is not None:
        raise TopologyError(
            "Only a join with a table that remembers its past takes a grace.",
            given=f"grace={grace!r} and {other!r}",
            hint="Leave it out: a windowed join has its grace in its JoinWindows, a global table no past.",
        )


def refuse_given(other: Any, **given: Any) -> None:
    """Raise where arguments are given that the join of a stream with this right side has no use for."""
    said = {name: value for name, value in given.items() if value is not None}
    if said:
        raise TopologyError(
            "The join of a stream with this right side does not take these arguments.",
            given=f"{', '.join(f'{name}={value!r}' for name, value in said.items())} and {other!r}",
            hint="Leave them out: windows= and generation= are of joins with streams, key= of ones with global tables.",
        )


def _checked(grace: Duration, table: KTable, history: int | None) -> int:
    grace_ms = duration_ms(grace, "grace")
    if grace_ms < 0:
        raise TopologyError(
            "The grace of a join cannot be negative.", given=f"grace={grace!r}", hint='grace="1 minute"'
        )
    if history is None:
        raise TopologyError(
            "A table must be versioned to be joined with a grace: it is looked up as of a time that has passed.",
            given=f"grace={grace!r}, and {table.name!r} has no history",
            hint='Give the table one: builder.table(..., history="1 day"), stream.to_table(history="1 day"). A filter '
            "or mapper with store= ends it.",
        )
    if history < grace_ms:
        raise TopologyError(
            "The table's history must be at least as long as the grace of the join.",
            given=f"grace={grace!r}, and {table.name!r} has a history of {history} ms",
            hint="Give the table a longer history, or the join a shorter grace.",
        )
    return grace_ms
