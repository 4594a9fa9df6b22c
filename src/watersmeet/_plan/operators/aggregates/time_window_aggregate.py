"""time_window_aggregate: by tumbling, hopping and unlimited windows (docs/semantics, sections 13 to 15)."""

from __future__ import annotations

from watersmeet._plan.nodes import TimeWindowAggregate as Node
from watersmeet._plan.operators.aggregates.window import WindowSpec
from watersmeet._plan.operators.spec import Site
from watersmeet.windows import TimeWindows


class TimeWindowAggregate(WindowSpec[Node]):
    """See `Spec`."""

    stem = "time_window_aggregate"

    def wait(self, site: Site[Node]) -> int:
        """From a window's start on until it is closed."""
        windows = site.node.windows
        return windows.size_ms + windows.grace_ms if isinstance(windows, TimeWindows) else 0
