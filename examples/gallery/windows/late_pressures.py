"""Alert on pressures too high, once for each window, with readings that come up to twenty seconds late.

Confluent's tutorial "How to emit a final result from a time window".
"""

import watersmeet as wm

SECOND = 1_000


def topology() -> wm.Topology:
    """The time is the sensor's own; `suppress` holds each window until it and its grace have passed."""
    builder = wm.StreamsBuilder("late-pressures")
    readings = builder.stream(
        "pressures", key="string", value=wm.json("pascal int, at long"), timestamp=lambda reading: reading["at"]
    )
    windows = wm.TimeWindows.of_size_and_grace("10 seconds", "20 seconds")
    high = readings.filter(lambda reading: reading["pascal"] > 30)
    counts = high.group_by_key().windowed_by(windows).count(name="high-pressures")
    final = counts.suppress(wm.Suppressed.until_window_closes(wm.BufferConfig.unbounded()))
    final.to_stream(key="start").to("alerts")
    return builder.build()


INPUTS = [
    ("pressures", "p1", {"pascal": 31, "at": 1 * SECOND}, 0),
    ("pressures", "p1", {"pascal": 28, "at": 2 * SECOND}, 0),
    ("pressures", "p1", {"pascal": 40, "at": 25 * SECOND}, 0),
    ("pressures", "p1", {"pascal": 35, "at": 3 * SECOND}, 0),
    ("pressures", "p1", {"pascal": 32, "at": 30 * SECOND}, 0),
    ("pressures", "p1", {"pascal": 33, "at": 4 * SECOND}, 0),
    ("pressures", "p1", {"pascal": 39, "at": 60 * SECOND}, 0),
]
EXPECTED = {
    "alerts": [
        ({"key": "p1", "start": 0}, 2, 3 * SECOND),
        ({"key": "p1", "start": 20 * SECOND}, 1, 25 * SECOND),
        ({"key": "p1", "start": 30 * SECOND}, 1, 30 * SECOND),
    ]
}
DROPPED = {("high-pressures", "expired_window"): 1}
