"""Which joins there are: a table by the left side's kind and the right side's. Handle layer.

A method of a handle makes one `Join` of what it is given; `joined` finds its kind, checks it, attaches the node, and
gives the handle of it, which is of the kind of the left side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from watersmeet._plan.nodes import How
from watersmeet.errors import TopologyError
from watersmeet.handles import factory as made
from watersmeet.handles.handle import side_of
from watersmeet.handles.joins import global_tables, stream_stream, stream_table, tables, wtables
from watersmeet.handles.joins.join import Join, JoinKind
from watersmeet.handles.side import CALLED, HandleKind, Side
from watersmeet.io.origins import described, reading

ALL_FORMS: tuple[How, ...] = ("inner", "left", "outer")
SAY_KEY = "Give it: join(table, joiner, {}=lambda value: value['country'])."
NEEDS_WINDOW = {
    "window_of": (
        "a function that names the window",
        "left_join(wtable, joiner, window_of=lambda value: F.struct(start.alias('start'), end.alias('end')), "
        'keep="2 days").',
    ),
    "keep": ("the time for which windows are wanted", wtables.SAY_KEEP),
}


@dataclass(frozen=True)
class Joins:
    """The joins of one kind of handle.

    Parameters
    ----------
    says : as the beginning of a sentence.
    kinds : the kind of join with each kind of right side.
    hint : what to write where the right side is none of them; given what it is.
    right : what the method calls its right side.
    """

    says: str
    kinds: Mapping[HandleKind, JoinKind]
    hint: Callable[[Any], str]
    right: str = "other"


def _global(option: str) -> JoinKind:
    return JoinKind(
        global_tables.attach_lookup,
        instead=f"Use left_join(table, joiner, {option}=...).",
        needs={option: ("the key to look up", SAY_KEY.format(option))},
    )


POINTING = JoinKind(
    wtables.attach_pointing,
    instead='Use left_join(wtable, joiner, window_of=lambda value: ..., keep="2 days").',
    needs=NEEDS_WINDOW,
)
JOINS: dict[HandleKind, Joins] = {
    "stream": Joins(
        "A stream joins with a stream, a table, a global table or a table by key and window",
        {
            "stream": JoinKind(
                stream_stream.attach,
                ALL_FORMS,
                needs={"windows": ("windows, which are JoinWindows", stream_stream.SAY_WINDOWS)},
                takes=("generation", "match"),
            ),
            "table": JoinKind(
                stream_table.attach,
                instead="Take left_join(table, joiner), or make a table of the stream: "
                "stream.to_table().outer_join(table, joiner).",
                takes=("grace",),
            ),
            "global": _global("key"),
            "wtable": POINTING,
        },
        lambda given: f"Read it first: builder.table({reading(given)}), builder.global_table or builder.stream.",
    ),
    "table": Joins(
        "A table joins with a table, a global table or a table by key and window",
        {
            "table": JoinKind(tables.attach, ALL_FORMS, takes=("foreign_key",)),
            "global": _global("foreign_key"),
            "wtable": POINTING,
        },
        lambda _: "Convert it (stream.to_table()), or let the stream drive: stream.join(table, ...).",
    ),
    "wtable": Joins(
        "A table by key and window joins with a table or with another one by key and window",
        {
            "table": JoinKind(
                wtables.attach_to_rows,
                instead="Use wtable.left_join(table, joiner).",
                takes=("keep",),
            ),
            "wtable": JoinKind(wtables.attach_windows, ALL_FORMS, takes=("shift", "keep")),
        },
        lambda _: (
            "wtable.left_join(table, joiner) or wtable.join(wtable, joiner, shift=...); of a stream make a "
            "table first: stream.to_table()."
        ),
    ),
    "global": Joins(
        "A global table joins with global tables only",
        {
            "global": JoinKind(
                global_tables.attach_view,
                needs={"key": ("the key to look up", SAY_KEY.format("key"))},
            )
        },
        lambda _: (
            "A global table drives nothing: its updates give no results. Join from the other side: "
            "stream.join(table, joiner, key=...)."
        ),
    ),
}
ONE_TO_MANY = Joins(
    "A one-to-many join joins two tables",
    {
        "table": JoinKind(
            tables.attach_one_to_many,
            needs={"key": ("the key that its rows refer to", "key=lambda value: value['one'], a function of `many`.")},
            takes=("result_key",),
        )
    },
    lambda _: "Make a table of a stream first: one.one_to_many_join(stream.to_table(), ...).",
    "many",
)
OTHERWISE = {
    "key": ". A stream gets its key before: stream.select_key(...).join(table, ...)",
    "grace": ". A windowed join has its grace in its JoinWindows, and a global table has no past",
}
"""What to write in the place of an option, beside where it belongs."""


def joined(left: Side, right: Any, join: Join, joins: Joins | None = None) -> Any:
    """The handle of a join, of the same kind as the left side's.

    Parameters
    ----------
    right : what the user gave as the right side.
    joins : those that the method can make; None: those of the left side's kind.

    Raises
    ------
    TopologyError : unknown join; an option that it does not have, or that is left out; or the two sides do not fit.
    FunctionError : a function is none, or does not fit.
    """
    joins = joins or JOINS[left.kind]
    side = side_of(right)
    kind = None if side is None else joins.kinds.get(side.kind)
    if side is None or kind is None:
        given = described(right) if side is None else side.called
        raise TopologyError(f"{joins.says}, and {joins.right} is {given}.", hint=joins.hint(right))
    kind.check(left, side, join, lambda option: _belongs(option, joins))
    return made.handle_of(replace(left, node=kind.attach(left, side, join)))


def _belongs(option: str, joins: Joins) -> str:
    """Where an option belongs, as the end of a sentence."""
    owners = [CALLED[right] for right, kind in joins.kinds.items() if option in (*kind.needs, *kind.takes)]
    return f"it belongs to a join with a {' or a '.join(owners)}{OTHERWISE.get(option, '')}."
