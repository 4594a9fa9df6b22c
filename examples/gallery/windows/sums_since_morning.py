"""Add up the revenue of the day so far, told anew with each sale: a window that grows until midnight.

Confluent's tutorial "How to create cumulating windows" (there in Flink SQL).
"""

from pyspark.sql import functions as F

import watersmeet as wm

HOUR = 3_600_000


def topology() -> wm.Topology:
    """Sales in, sums of the day by shop out, with the date."""
    builder = wm.StreamsBuilder("sums-since-morning")
    sales = builder.stream("sales", key="string", value="double")
    days = wm.CalendarWindows("1 day", zone="UTC")
    sums = sales.group_by_key().windowed_by(days).agg(total=wm.sum(lambda amount: amount), sales=wm.count())
    sums.to_stream(
        key=lambda key, window: F.concat_ws(" ", key, F.date_format(F.timestamp_millis(window["start"]), "yyyy-MM-dd"))
    ).to("sums", value=wm.json())
    return builder.build()


INPUTS = [
    ("sales", "north", 10.0, 8 * HOUR),
    ("sales", "north", 5.5, 12 * HOUR),
    ("sales", "south", 1.0, 23 * HOUR),
    ("sales", "north", 2.0, 25 * HOUR),
]
EXPECTED = {
    "sums": [
        ("north 1970-01-01", {"total": 10.0, "sales": 1}, 8 * HOUR),
        ("north 1970-01-01", {"total": 15.5, "sales": 2}, 12 * HOUR),
        ("south 1970-01-01", {"total": 1.0, "sales": 1}, 23 * HOUR),
        ("north 1970-01-02", {"total": 2.0, "sales": 1}, 25 * HOUR),
    ]
}
