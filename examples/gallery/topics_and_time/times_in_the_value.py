"""Take the time of a record from its value, where it is a text, and set aside the records that have none.

Confluent's tutorial "How to use a custom timestamp extractor" (time concepts).
"""

from pyspark.sql import functions as F

import watersmeet as wm

HOUR = 3_600_000
NEW_YEAR = 1_767_225_600_000  # 2026-01-01T00:00:00Z


def topology() -> wm.Topology:
    """Windows, joins and the order of inputs use this time; Kafka's own is used nowhere."""
    builder = wm.StreamsBuilder("times-in-the-value")
    readings = builder.stream(
        "readings",
        key="string",
        value=wm.json("celsius int, date string, hour int"),
        timestamp=lambda reading: F.timestamp_seconds(
            F.unix_timestamp(F.to_date(reading["date"]).cast("timestamp")) + reading["hour"] * 3600
        ),
        on_invalid_timestamp=wm.DeadLetter("readings-without-time"),
    )
    hours = readings.group_by_key().windowed_by(wm.TimeWindows.of_size_and_grace("1 hour", "1 day"))
    hours.agg(highest=wm.max(lambda reading: reading["celsius"])).to_stream(key="start").map_values(
        lambda row: row["highest"]
    ).to("highest-by-hour")
    return builder.build()


INPUTS = [
    ("readings", "s", {"celsius": 20, "date": "2026-01-01", "hour": 1}, 5),
    ("readings", "s", {"celsius": 22, "date": "2026-01-01", "hour": 1}, 3),
    ("readings", "s", {"celsius": 99, "date": None, "hour": 1}, 7),
    ("readings", "s", {"celsius": 19, "date": "2026-01-01", "hour": 0}, 9),
]
EXPECTED = {
    "highest-by-hour": [
        ({"key": "s", "start": NEW_YEAR + HOUR}, 20, NEW_YEAR + HOUR),
        ({"key": "s", "start": NEW_YEAR + HOUR}, 22, NEW_YEAR + HOUR),
        ({"key": "s", "start": NEW_YEAR}, 19, NEW_YEAR),
    ]
}
DROPPED = {("readings", "dead_letter"): 1}
