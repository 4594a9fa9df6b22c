"""sliding_window_aggregate: by sliding windows (docs/semantics, sections 13 to 15; KIP-450)."""

from __future__ import annotations

from watersmeet._plan.nodes import SlidingWindowAggregateNode as Node
from watersmeet._plan.operators.aggregates.window import WindowSpec
from watersmeet._plan.operators.spec import SpecSite
from watersmeet.windows import SlidingWindows


class SlidingWindowAggregateSpec(WindowSpec[Node]):
    """See `Spec`."""

    stem = "sliding_window_aggregate"

    def wait(self, site: SpecSite[Node]) -> int:
        """From a window's start on until it is closed; one moment more, since its end belongs to it."""
        windows = site.node.windows
        assert isinstance(windows, SlidingWindows)
        return windows.difference_ms + windows.grace_ms + 1
