"""Compute the average temperature of each sensor over the half second before each reading.

Confluent's tutorial "How to create sliding windows".
"""

from pyspark.sql import functions as F

import watersmeet as wm


def topology() -> wm.Topology:
    """The windows begin and end where readings are, so each set of readings has one window."""
    builder = wm.StreamsBuilder("sliding-temperatures")
    readings = builder.stream("temperatures", key="string", value="double")
    windows = wm.SlidingWindows.of_time_difference_and_grace("500 ms", "100 ms")
    averages = readings.group_by_key().windowed_by(windows).agg(average=wm.avg(lambda t: t), n=wm.count())
    averages.to_stream(key=lambda key, window: F.struct(key.alias("key"), window["end"].alias("end"))).to(
        "averages", value=wm.json()
    )
    return builder.build()


INPUTS = [
    ("temperatures", "d1", 80.0, 1_000),
    ("temperatures", "d1", 90.0, 1_200),
    ("temperatures", "d1", 70.0, 1_600),
]
EXPECTED = {
    "averages": [
        ({"key": "d1", "end": 1_000}, {"average": 80.0, "n": 1}, 1_000),
        ({"key": "d1", "end": 1_501}, {"average": 90.0, "n": 1}, 1_200),
        ({"key": "d1", "end": 1_200}, {"average": 85.0, "n": 2}, 1_200),
        ({"key": "d1", "end": 1_701}, {"average": 70.0, "n": 1}, 1_600),
        ({"key": "d1", "end": 1_600}, {"average": 80.0, "n": 2}, 1_600),
    ]
}
