"""Add up the sales of each shop by day, where a day is one of Berlin and begins at six in the evening.

Confluent's example of a custom window (DailyTimeWindows).
"""

import watersmeet as wm

HOUR = 3_600_000
# 28 March 2026, 17:00 UTC: 18:00 in Berlin. The clocks change in the night, so this day has 23 hours.
START = 1_774_717_200_000


def topology() -> wm.Topology:
    """The end of the window is told with its start, since days differ in length."""
    builder = wm.StreamsBuilder("sales-by-day")
    sales = builder.stream("sales", key="string", value="long")
    days = wm.CalendarWindows("1 day", zone="Europe/Berlin", offset="18 hours", grace="1 hour")
    totals = sales.group_by_key().windowed_by(days).agg(total=wm.sum(lambda amount: amount))
    totals.to_stream().map_values(lambda key, row: row.withField("hours", (key["end"] - key["start"]) / HOUR)).map(
        lambda key, row: (key["key"], row)
    ).to("sales-by-day", value=wm.json())
    return builder.build()


INPUTS = [
    ("sales", "mitte", 10, START - 1),
    ("sales", "mitte", 20, START),
    ("sales", "mitte", 30, START + 23 * HOUR - 1),
    ("sales", "mitte", 40, START + 23 * HOUR),
]
EXPECTED = {
    "sales-by-day": [
        ("mitte", {"total": 10, "hours": 24.0}, START - 1),
        ("mitte", {"total": 20, "hours": 23.0}, START),
        ("mitte", {"total": 50, "hours": 23.0}, START + 23 * HOUR - 1),
        ("mitte", {"total": 40, "hours": 24.0}, START + 23 * HOUR),
    ]
}
