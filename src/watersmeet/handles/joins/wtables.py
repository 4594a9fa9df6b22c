"""Joins with tables by key and window: the nodes, and what is refused (docs/semantics/wtable.md). Handle layer."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from watersmeet._engine.aggregates.windows.calendar import Calendar
from watersmeet._plan.nodes import (
    Node,
    Shape,
    StreamWTableNode,
    TableWTableNode,
    WTableJoinNode,
    WTableTableNode,
    WTableWTableNode,
)
from watersmeet.errors import TopologyError
from watersmeet.functions import Function, adapt
from watersmeet.handles.joins.join import Join, joiner_of, name_of, option_text
from watersmeet.handles.side import Side, require_same_key, same_type, type_text
from watersmeet.windows import DAY_MS, CalendarWindows, Duration, Previous, TimeWindows, Windows, duration_ms
from watersmeet.windows.durations import not_negative

SAY_KEEP = 'Say how long after its end and grace a window still joins: keep="14 days".'


@dataclass(frozen=True)
class Meeting:
    """Which windows meet, and how long they are wanted.

    Parameters
    ----------
    lives : of both sides, how long behind its end a window still meets, in ms; None: a side without windows.
    window_of : gives the window of a right row that a left row meets; None: the left row's own.
    distance : how much earlier that one begins, in ms.
    """

    lives: tuple[int | None, int | None]
    window_of: Function | None = None
    distance: int = 0


def attach_to_rows(left: Side, right: Side, join: Join) -> Node:
    """The node of a join of all windows of a key with the row that a table has of it, attached.

    Raises
    ------
    TopologyError : the keys have different types.
    """
    return _attached(WTableTableNode, left, right, join, Meeting((left.wait_ms + _keep_ms(join.keep), None)))


def attach_windows(left: Side, right: Side, join: Join) -> Node:
    """The node of a join of windows with windows, attached.

    Raises
    ------
    TopologyError : the windows are not of one definition, or it is not known how long they are wanted.
    """
    shift = join.shift
    if shift is not None and join.how == "outer":
        raise TopologyError(
            f"An outer join takes no shift, and shift={option_text(shift)} is given: an unmatched right row has no "
            "window of the left table to stand under.",
            hint="Use left_join(wtable, joiner, shift=...), or leave shift= out.",
        )
    if shift is None:
        _require_same_windows(left, right)
        # equal windows live equally long
        live = max(left.wait_ms, right.wait_ms) + _keep_ms(join.keep)
        return _attached(WTableWTableNode, left, right, join, Meeting((live, live)))
    if isinstance(shift, Previous):
        _require_same_windows(left, right)
        if isinstance(left.windows, CalendarWindows):
            distance, window_of = 0, _by_calendar(left, left.windows, shift.count)
            kept = _keep_ms(join.keep, (shift.count + 1) * left.windows.longest_ms)
        else:
            distance, size = _distance(left, shift)
            kept, window_of = _keep_ms(join.keep, distance + size), None
    else:
        distance, kept, window_of = 0, _said(join.keep), _shifting(left, shift)
        _check_window(left, window_of, "shift")
    return _attached(
        WTableWTableNode, left, right, join, Meeting((left.wait_ms + kept, right.wait_ms + kept), window_of, distance)
    )


def attach_pointing(left: Side, right: Side, join: Join) -> Node:
    """The node of a join of a stream, or of a table, with the windows that its rows name, attached.

    Raises
    ------
    TopologyError : the keys have different types.
    FunctionError : what names the windows is no such function.
    """
    given: Any = join.window_of
    window_of = adapt(given, ("key", "value"), "window_of", left.functions)
    _check_window(left, window_of, "window_of")
    make = StreamWTableNode if left.kind == "stream" else TableWTableNode
    return _attached(make, left, right, join, Meeting((None, right.wait_ms + _keep_ms(join.keep)), window_of))


def _attached(make: type[WTableJoinNode], left: Side, right: Side, join: Join, meeting: Meeting) -> Node:
    require_same_key(left, right, "join")
    joiner, value = joiner_of(left, right, join)
    node = make(
        name_of(left, right, join, make.stem),
        (left.name, right.name),
        Shape(left.node.shape.kind, left.key_type, value),
        how=join.how,
        joiner=joiner,
        by=left.plain_key_type,
        lives=meeting.lives,
        window_of=meeting.window_of,
        distance=meeting.distance,
        store=join.store,
    )
    return left.construction.add(node)


def _shifting(left: Side, shift: Function) -> Function:
    """The shift as a function of key and value."""
    given, parts = adapt(shift, ("key", "window"), "shift"), left.functions.windowed_parts
    return lambda key, _: given(*parts(key))


def _by_calendar(left: Side, windows: CalendarWindows, count: int) -> Function:
    """The window of the calendar so many periods earlier, as a function of key and value."""
    calendar, functions = Calendar(windows), left.functions

    def previous(_: Any, window: dict[str, int]) -> dict[str, int] | None:
        found = calendar.earlier(window["start"], count)
        return None if found is None else {"start": found[0], "end": found[1]}

    made = functions.plain(previous, functions.window_type(), "shift")
    return lambda key, _: made(*functions.windowed_parts(key))


def _require_same_windows(left: Side, right: Side) -> None:
    if _definition(left.windows) != _definition(right.windows):
        raise TopologyError(
            f"Tables of different windows join only with shift=, which pairs their windows: {left.name!r} has "
            f"{left.windows!r}, {right.name!r} has {right.windows!r}.",
            hint="Aggregate both by the same windows; or shift=lambda window: F.struct(...), keep=...",
        )


def _definition(windows: Windows | None) -> tuple[Any, ...]:
    """Windows without their grace, which says how long they change, not which there are."""
    lengths = () if windows is None else fields(windows)
    return (type(windows), *(getattr(windows, each.name) for each in lengths if each.name != "grace_ms"))


def _distance(table: Side, shift: Previous) -> tuple[int, int]:
    """(how far the previous window lies back, size of a window), in ms."""
    windows = table.windows
    if not isinstance(windows, TimeWindows):
        raise TopologyError(
            f"Only tumbling, hopping and calendar windows have previous ones: shift={shift!r}, and {table.name!r} has "
            f"{windows!r}.",
            hint="Give a function: shift=lambda window: F.struct(...), keep=...; it must return a window of the table.",
        )
    return shift.count * windows.advance_ms, windows.size_ms


def _keep_ms(keep: Duration | None, least: int = 0) -> int:
    """What `keep` says, in ms; else a day, or the least that is needed."""
    return max(DAY_MS, least) if keep is None else not_negative(duration_ms(keep, "keep"), "keep", "keep='2 days'")


def _said(keep: Duration | None) -> int:
    if keep is None:
        raise TopologyError(
            "A function as shift needs keep=, the time for which windows are joined: keep=None.", hint=SAY_KEEP
        )
    return _keep_ms(keep)


def _check_window(left: Side, window_of: Function, role: str) -> None:
    functions = left.functions
    kind, wanted = functions.value_type(window_of, left.types, role), functions.window_type()
    if not same_type(kind, wanted):
        raise TopologyError(
            f"The {role} must return a window, and {role}= returns {type_text(kind)}.",
            hint=f"Return {type_text(wanted)}, in ms: F.struct(start.cast('long').alias('start'), "
            "end.cast('long').alias('end')).",
        )
