"""Joins with WTables: the nodes that the handles attach, and what is refused (docs/semantics/wtable.md).

Handle layer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from watersmeet._plan.nodes import How, Node, Shape, StreamWTable, TableWTable, WTableJoin, WTableTable, WTableWTable
from watersmeet.errors import TopologyError
from watersmeet.functions import Function, adapt
from watersmeet.handles.handle import Handle, same_type, type_text
from watersmeet.handles.wtable import Shift, WTable
from watersmeet.windows import DAY_MS, Duration, Previous, TimeWindows, UnlimitedWindows, Windows, duration_ms
from watersmeet.windows.durations import not_negative

N = TypeVar("N", bound=WTableJoin)


def window_join_node(
    left: WTable, right: Any, joiner: Function, how: How, shift: Shift | None, keep: Duration | None, name: str | None
) -> Node:
    """The join of a table by key and window with a table, or with another one by key and window, attached.

    Raises
    ------
    TopologyError : the windows are not of one definition, or it is not known how long they are wanted.
    """
    from watersmeet.handles.ktable import KTable  # which joins with windows too

    if how == "outer" and shift is not None:
        raise TopologyError(
            "An outer join takes no shift: a right row that meets none has no window of the left table to stand under.",
            given=f"shift={shift!r}",
            hint="Use left_join(wtable, joiner, shift=...), or leave shift= out.",
        )
    if isinstance(right, WTable):
        return _join_windows(left, right, joiner, how, shift, keep, name)
    if not isinstance(right, KTable) or how == "outer" or shift is not None:
        raise TopologyError(
            "A table by key and window joins with a table, inner or left, or with another one by key and window.",
            given=f"{how} join with {right!r}" + ("" if shift is None else ", with shift="),
            hint="wtable.left_join(table, joiner) or wtable.join(wtable, joiner, shift=...); of a stream make a "
            "table first: stream.to_table().",
        )
    return _joined(WTableTable, (left, right), joiner, how, (left._wait_ms + _kept(keep), None), name)


def _join_windows(
    left: WTable,
    right: WTable,
    joiner: Function,
    how: How,
    shift: Shift | None,
    keep: Duration | None,
    name: str | None,
) -> Node:
    if shift is None or isinstance(shift, Previous):
        _require_same_windows(left, right)
    if shift is None:
        # equal windows live equally long
        live = max(left._wait_ms, right._wait_ms) + _kept(keep)
        return _joined(WTableWTable, (left, right), joiner, how, (live, live), name)
    if isinstance(shift, Previous):
        distance, size = _distance(left, shift)
        kept, window_of = _kept(keep, distance + size), None
    else:
        distance, kept, window_of = 0, _said(keep, "a function as shift"), _shifting(left, shift)
        _check_window(left, window_of, "shift")
    lives = (left._wait_ms + kept, right._wait_ms + kept)
    return _joined(WTableWTable, (left, right), joiner, how, lives, name, window_of=window_of, distance=distance)


def _shifting(left: WTable, shift: Function) -> Function:
    """The shift as a function of key and value."""
    given, parts = adapt(shift, ("key", "window"), "shift"), left._construction.functions.windowed_parts
    return lambda key, _: given(*parts(key))


def points(right: Any, window_of: Function | None, keep: Duration | None) -> bool:
    """Whether a join of a stream or a table is meant as one with windows that its rows name (`pointing_node`)."""
    return isinstance(right, WTable) or window_of is not None or keep is not None


def pointing_node(
    left: Handle,
    right: Any,
    joiner: Function,
    how: How,
    window_of: Function | None,
    keep: Duration | None,
    name: str | None,
    store: str | None = None,
) -> Node:
    """The join of a stream, or of a table, with the windows that its rows name, attached.

    Raises
    ------
    TopologyError : the right side has no windows, no function names them, or it is not known how long they are wanted.
    """
    if not isinstance(right, WTable):
        raise TopologyError(
            "Only a table by key and window has windows that can be named.",
            given=f"window_of= or keep=, and {right!r}",
            hint="Leave window_of= and keep= out, or join with what grouped.windowed_by(...).count() returns.",
        )
    if window_of is None or how == "outer":
        raise TopologyError(
            "The join with a table by key and window needs a function that names the window, and is inner or left.",
            given=f"{how} join, window_of={window_of!r}",
            hint="left_join(wtable, joiner, window_of=lambda value: F.struct(start.alias('start'), end.alias('end')), "
            'keep="2 days").',
        )
    window_of = adapt(window_of, ("key", "value"), "window_of")
    _check_window(left, window_of, "window_of")
    lives = (None, right._wait_ms + _said(keep, "window_of"))
    make = StreamWTable if left._node.shape.kind == "stream" else TableWTable
    return _joined(make, (left, right), joiner, how, lives, name, window_of=window_of, store=store)


def _joined(
    make: type[N],
    sides: tuple[Handle, Handle],
    joiner: Function,
    how: How,
    lives: tuple[int | None, int | None],
    name: str | None,
    *,
    window_of: Function | None = None,
    distance: int = 0,
    store: str | None = None,
) -> Node:
    left, right = sides
    _require_same_key(left, right)
    construction = left._construction
    joiner, value = left._joiner(joiner, right)
    node = make(
        construction.name(name, make.stem, left.name, right.name),
        (left.name, right.name),
        Shape(left._node.shape.kind, left.key_type, value),
        how=how,
        joiner=joiner,
        by=_key_of(left),
        lives=lives,
        window_of=window_of,
        distance=distance,
        store=store,
    )
    return left._attach(node)


def _key_of(side: Handle) -> Any:
    """Type of the keys without their windows."""
    functions = side._construction.functions
    return functions.key_of_windowed(side.key_type) if isinstance(side, WTable) else side.key_type


def _require_same_key(left: Handle, right: Handle) -> None:
    """Raise where the keys, without their windows, are of two types, or the handles of two builders."""
    left._require_same_builder(right, "join")
    one, other = map(_key_of, (left, right))
    if not same_type(one, other):
        raise TopologyError(
            "The two sides of the join have different key types.",
            given=f"{left.name!r} has {type_text(one)}, {right.name!r} has {type_text(other)}",
            hint="Cast the key before the join, of windows before the aggregate: stream.select_key(...).",
        )


def _require_same_windows(left: WTable, right: WTable) -> None:
    one, other = (_definition(side._windows) for side in (left, right))
    if one != other:
        raise TopologyError(
            "Tables of different windows join only with a shift, which says which windows meet.",
            given=f"{left._windows!r} and {right._windows!r}",
            hint="Aggregate both by the same windows; or shift=lambda window: F.struct(...), keep=...",
        )


def _definition(windows: Windows) -> Windows:
    """Windows without their grace, which says how long they change, not which there are."""
    return windows if isinstance(windows, UnlimitedWindows) else replace(windows, grace_ms=0)


def _distance(table: WTable, shift: Previous) -> tuple[int, int]:
    """(how far the previous window lies back, size of a window), in ms."""
    windows = table._windows
    if not isinstance(windows, TimeWindows):
        raise TopologyError(
            "Only tumbling and hopping windows have previous ones.",
            given=repr(windows),
            hint="Give a function: shift=lambda window: F.struct(...), keep=...; it must give a window that there is.",
        )
    return shift.count * windows.advance_ms, windows.size_ms


def _kept(keep: Duration | None, least: int = 0) -> int:
    """What `keep` says, in ms; else a day, or the least that is needed."""
    return max(DAY_MS, least) if keep is None else not_negative(duration_ms(keep, "keep"), "keep", "keep='2 days'")


def _said(keep: Duration | None, why: str) -> int:
    if keep is None:
        raise TopologyError(
            f"With {why} it is not known how long windows are wanted.",
            given="keep=None",
            hint='Say how long after its end and grace a window still joins: keep="14 days".',
        )
    return _kept(keep)


def _check_window(left: Handle, window_of: Function, role: str) -> None:
    functions = left._construction.functions
    kind, wanted = functions.value_type(window_of, left._types(), role), functions.window_type()
    if not same_type(kind, wanted):
        raise TopologyError(
            f"The {role} gives no window.",
            given=type_text(kind),
            hint=f"Give {type_text(wanted)}, in ms: F.struct(start.cast('long').alias('start'), "
            "end.cast('long').alias('end')).",
        )
