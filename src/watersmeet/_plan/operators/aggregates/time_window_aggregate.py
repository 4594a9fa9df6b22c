"""time_window_aggregate: by tumbling, hopping, unlimited and calendar windows (docs/semantics, sections 13 to 15)."""

from __future__ import annotations

from dataclasses import replace

from watersmeet._plan.nodes import TimeWindowAggregateNode as Node
from watersmeet._plan.operators.aggregates.window import WindowSpec
from watersmeet._plan.operators.spec import NUMBER, Retention, SpecSite, TableSchema
from watersmeet.windows import CalendarWindows, TimeWindows


class TimeWindowAggregateSpec(WindowSpec[Node]):
    """See `Spec`."""

    stem = "time_window_aggregate"
    drop_reasons = (*WindowSpec.drop_reasons, "no_window")

    def keeps(self, site: SpecSite[Node], taken: frozenset[str]) -> tuple[TableSchema, ...]:
        """Windows of the calendar differ in length: they are told apart, and let go, by their ends."""
        (usual,) = super().keeps(site, taken)
        if not isinstance(site.node.windows, CalendarWindows):
            return (usual,)
        key, start, *others = usual.columns
        columns, retention = (key, ("end", NUMBER), start, *others), Retention("end", "domain")
        by_end = replace(usual, columns=columns, identity=("key", "end"), order=("end",), retention=retention)
        return (by_end,)

    def wait(self, site: SpecSite[Node]) -> int:
        """From a window's start on until it is closed; of the calendar's the longest."""
        windows = site.node.windows
        if isinstance(windows, CalendarWindows):
            return windows.longest_ms + windows.grace_ms
        return windows.size_ms + windows.grace_ms if isinstance(windows, TimeWindows) else 0
