"""Kinds of joins with tables by key and window: of streams, of tables, and of such tables with one another.

Owns their two constructions. Where two tables have different windows, which join only by a shift, a function that
leaves windows as they are is taken. Law: as in `kinds`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from proof.histories.kinds import functions as text
from proof.histories.kinds.choices import Choices
from proof.histories.kinds.kind import BuildSite, OperatorKind, OracleSite, Params, method_of
from proof.oracle.records import Key, Value
from proof.oracle.windows.window_calendar import CalendarWindows as OracleCalendarWindows
from proof.oracle.windows.window_time import UnlimitedWindows as OracleUnlimitedWindows
from proof.oracle.windows.wtable import Window, WindowedSide, previous
from proof.oracle.windows.wtable_joins import (
    StreamWTableJoin,
    TableWTableJoin,
    WTableTableJoin,
    WTableWTableJoin,
)
from watersmeet.api.tables import WTable
from watersmeet.windows import WEEKDAYS, CalendarWindows, Previous, TimeWindows, UnlimitedWindows

WINDOW = "struct<start:bigint,end:bigint>"
STEP = 10


def _same(window: Window) -> Window:
    return window


def _step_earlier(window: Window) -> Window | None:
    """The window that lies a step earlier; none before the first."""
    return None if window.start < STEP else Window(window.start - STEP, window.end - STEP)


def _first(window: Window) -> Window:
    """The first one of its length, for all windows."""
    return Window(0, window.end - window.start)


SHIFTS = {"same": _same, "step": _step_earlier, "first": _first}


def _named(value: Value) -> Window | None:
    """The window of a step that a digit of the value names; none where it has none."""
    digits = [int(letter) for letter in value or "" if letter.isdigit()]
    return Window(STEP * (digits[0] - 1), STEP * digits[0]) if digits else None


def _as_dict(window: Window | None) -> dict[str, int] | None:
    return None if window is None else window._asdict()


def _named_column(site: BuildSite) -> Any:
    return site.library.lift(lambda value: _as_dict(_named(value)), WINDOW)


def _named_of(_: Key, value: Value) -> Window | None:
    return _named(value)


def _params(*types: str) -> Any:
    def draw(choices: Choices, _: str) -> Params:
        return {"how": choices.pick(types), "keep": choices.pick((0, 10, 40, 1000))}

    return draw


def _shift_params(choices: Choices, generation: str) -> Params:
    params: dict[str, Any] = dict(_params("inner", "left", "outer")(choices, generation))
    shift = choices.pick((None, None, 1, 2, *SHIFTS))
    if shift is not None and params["how"] == "outer":
        params["how"] = "left"
    return {**params, "shift": shift}


# -- of the library ------------------------------------------------------------------------------------------------


def _joined(site: BuildSite, inputs: list[Any], params: Params, **options: Any) -> list[Any]:
    join = getattr(inputs[0], method_of(params["how"]))
    return [join(inputs[1], site.library.lift(text.plus, "string"), name=site.name, keep=_ms(params), **options)]


def _ms(params: Params) -> str:
    return f"{params['keep']} ms"


def _pointing(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    return _joined(site, inputs, params, window_of=_named_column(site))


def _windows(site: BuildSite, inputs: list[Any], params: Params) -> list[Any]:
    left, right = inputs
    how, shift = _meeting(params, _of_handle(left), _of_handle(right))
    if how == "outer" or shift is None:
        return _joined(site, inputs, {**params, "how": how})
    if isinstance(shift, int):
        return _joined(site, inputs, {**params, "how": how}, shift=Previous(shift))
    lifted = site.library.lift(partial(_shifted, SHIFTS[shift]), WINDOW)
    return _joined(site, inputs, {**params, "how": how}, shift=lifted)


def _shifted(function: Callable[[Window], Window | None], window: Any) -> dict[str, int] | None:
    """The shift of a struct as Arrow has it, or as Spark's UDFs do."""
    fields = window if isinstance(window, dict) else window.asDict()
    # Spark calls a UDF also for rows of others, whose window has no times
    return None if fields["start"] is None else _as_dict(function(Window(**fields)))


def _of_handle(table: WTable) -> Any:
    windows = table._windows
    if isinstance(windows, TimeWindows):
        return "time", windows.size_ms, windows.advance_ms
    if isinstance(windows, UnlimitedWindows):
        return "UnlimitedWindows", windows.start_ms
    if isinstance(windows, CalendarWindows):
        weekday = WEEKDAYS.index(windows.week_starts)
        return "CalendarWindows", windows.period, windows.zone, windows.offset_ms, weekday
    return type(windows).__name__, getattr(windows, "gap_ms", getattr(windows, "difference_ms", 0))


def _meeting(params: Params, left: Any, right: Any) -> tuple[str, Any]:
    """(type, shift) of a join of these windows: what can be built of what was drawn."""
    how, shift = params["how"], params["shift"]
    apart = left != right or (isinstance(shift, int) and left[0] != "time")
    if apart and (shift is None or isinstance(shift, int)):
        return "left" if how == "outer" else how, "same"
    return how, shift


# -- of the oracle -------------------------------------------------------------------------------------------------


def _aggregate(table: Any) -> tuple[Any, int]:
    """(the aggregate whose windows a table has, how long a limit of time above holds them back)."""
    held = 0
    while not hasattr(table, "serialized"):
        held += table._wait_ms if not getattr(table, "_window_close", True) else 0
        table = table._parent
    return table, held


def _of_node(table: Any) -> Any:
    aggregate, _ = _aggregate(table)
    spec = getattr(aggregate, "_spec", None)
    if isinstance(spec, OracleUnlimitedWindows):
        return "UnlimitedWindows", spec.start_ms
    if isinstance(spec, OracleCalendarWindows):
        return "CalendarWindows", spec.period, spec.zone, spec.offset_ms, spec.weekday
    if spec is not None:
        return "time", spec.size_ms, spec.advance_ms
    gap = getattr(aggregate, "_gap", None)
    return ("SessionWindows", gap) if gap is not None else ("SlidingWindows", aggregate._difference)


def _wait(table: Any) -> int:
    aggregate, held = _aggregate(table)
    return int(aggregate.wait_ms()) + held


def _side(table: Any, params: Params, wait: int | None = None) -> WindowedSide:
    return WindowedSide(table, _wait(table) if wait is None else wait, params["keep"])


def _stream_nodes(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    right = _side(inputs[1], params)
    return [StreamWTableJoin(site.topology, inputs[0], right, params["how"], _named_of, text.plus)]


def _table_nodes(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    right = _side(inputs[1], params)
    return [TableWTableJoin(site.topology, inputs[0], right, params["how"], _named_of, text.plus)]


def _row_nodes(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    return [WTableTableJoin(site.topology, _side(inputs[0], params), inputs[1], params["how"], text.plus)]


def _window_nodes(site: OracleSite, inputs: list[Any], params: Params) -> list[Any]:
    left, right = inputs
    how, shift = _meeting(params, _of_node(left), _of_node(right))
    # equal windows live equally long
    wait = max(_wait(left), _wait(right)) if shift is None else None
    sides = _side(left, params, wait), _side(right, params, wait)
    function = previous(shift, _of_node(left)[2]) if isinstance(shift, int) else SHIFTS.get(shift)
    return [WTableWTableJoin(site.topology, *sides, how, text.plus, shift=function)]


STREAM, TABLE, WINDOWED = ("stream",), ("table",), ("windowed",)
CURRENT = ("current",)
_HOW = _params("inner", "left")
KINDS: dict[str, OperatorKind] = {
    "stream_wtable": OperatorKind(
        STREAM + WINDOWED,
        STREAM,
        _pointing,
        _stream_nodes,
        _HOW,
        weight=4,
        relaxes=lambda params, _: bool(params["how"] == "left"),
        timed=True,
        generations=CURRENT,
    ),
    "table_wtable": OperatorKind(
        TABLE + WINDOWED, TABLE, _pointing, _table_nodes, _HOW, 4, timed=True, generations=CURRENT
    ),
    "wtable_table": OperatorKind(
        WINDOWED + TABLE, WINDOWED, _joined, _row_nodes, _HOW, 4, timed=True, generations=CURRENT
    ),
    "wtable_wtable": OperatorKind(
        WINDOWED * 2, WINDOWED, _windows, _window_nodes, _shift_params, weight=6, timed=True, generations=CURRENT
    ),
}
