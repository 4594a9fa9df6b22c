"""Sound an alarm if the average temperature of a sensor over five minutes, computed anew each minute, is too high.

Confluent's tutorial "How to create hopping windows"; Kafka's TemperatureDemo.
"""

import watersmeet as wm

MINUTE = 60_000
HOT = 30.0


def topology() -> wm.Topology:
    """Each reading belongs to five windows; each window is told once, when it is over."""
    builder = wm.StreamsBuilder("hopping-temperatures")
    readings = builder.stream("readings", key="string", value="double")
    windows = wm.TimeWindows.of_size_with_no_grace("5 minutes").advance_by("1 minute")
    averages = (
        readings.group_by_key()
        .windowed_by(windows)
        .emit_strategy(wm.EmitStrategy.on_window_close())
        .agg(average=wm.avg(lambda degrees: degrees))
    )
    averages.filter(lambda row: row["average"] > HOT).to_stream(key="start").map_values(lambda row: row["average"]).to(
        "alarms"
    )
    return builder.build()


INPUTS = [
    ("readings", "kiln", 20.0, 4 * MINUTE),
    ("readings", "kiln", 40.0, 5 * MINUTE),
    ("readings", "kiln", 45.0, 6 * MINUTE),
    ("readings", "shed", 12.0, 11 * MINUTE),
]
EXPECTED = {
    "alarms": [
        ({"key": "kiln", "start": 2 * MINUTE}, 35.0, 6 * MINUTE),
        ({"key": "kiln", "start": 3 * MINUTE}, 35.0, 6 * MINUTE),
        ({"key": "kiln", "start": 4 * MINUTE}, 35.0, 6 * MINUTE),
        ({"key": "kiln", "start": 5 * MINUTE}, 42.5, 6 * MINUTE),
        ({"key": "kiln", "start": 6 * MINUTE}, 45.0, 6 * MINUTE),
    ]
}
