"""Windows: which records belong together in time, and when results of windows are sent.

Vocabulary, frozen and checked when made.
"""

from watersmeet.windows.aggregate_windows import (
    EmitStrategy,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
    Windows,
)
from watersmeet.windows.calendar_windows import CalendarWindows
from watersmeet.windows.durations import DAY_MS, Duration, duration_ms
from watersmeet.windows.join_windows import JoinWindows
from watersmeet.windows.shifts import Previous, previous
from watersmeet.windows.suppressed import BufferConfig, Suppressed

__all__ = [
    "DAY_MS",
    "BufferConfig",
    "CalendarWindows",
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
