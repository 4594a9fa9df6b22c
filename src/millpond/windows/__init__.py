"""Windows: which records belong together in time, and when results of windows are sent.

Vocabulary, frozen and checked when made.
"""

from millpond.windows.aggregate_windows import (
    EmitStrategy,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
    Windows,
)
from millpond.windows.durations import DAY_MS, Duration, duration_ms
from millpond.windows.join_windows import JoinWindows
from millpond.windows.shifts import Previous, previous
from millpond.windows.suppressed import BufferConfig, Suppressed

__all__ = [
    "DAY_MS",
    "BufferConfig",
    "Duration",
    "EmitStrategy",
    "JoinWindows",
    "Previous",
    "SessionWindows",
    "SlidingWindows",
    "Suppressed",
    "TimeWindows",
    "UnlimitedWindows",
    "Windows",
    "duration_ms",
    "previous",
]
