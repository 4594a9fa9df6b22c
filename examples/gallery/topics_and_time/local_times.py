"""Write a time as text in the zone of the reader, and the hour of the day there.

Confluent's tutorial "How to convert a timestamp to a different time zone".
"""

from pyspark.sql import functions as F

import watersmeet as wm

NEW_YEAR = 1_767_225_600_000  # 2026-01-01T00:00:00Z


def topology() -> wm.Topology:
    """The record's own time, in Denver."""
    builder = wm.StreamsBuilder("local-times")
    events = builder.stream("events", key="string", value="string")
    local = events.map_values(
        lambda value, record: F.from_utc_timestamp(F.timestamp_millis(record["timestamp"]), "America/Denver")
    )
    local.map_values(
        lambda at: F.struct(F.date_format(at, "yyyy-MM-dd HH:mm").alias("at"), F.hour(at).alias("hour"))
    ).to("local-times", value=wm.json())
    return builder.build()


INPUTS = [("events", "a", "", NEW_YEAR), ("events", "b", "", NEW_YEAR + 200 * 86_400_000)]
EXPECTED = {
    "local-times": [
        ("a", {"at": "2025-12-31 17:00", "hour": 17}, NEW_YEAR),
        ("b", {"at": "2026-07-19 18:00", "hour": 18}, NEW_YEAR + 200 * 86_400_000),
    ]
}
