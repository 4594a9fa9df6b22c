"""Compare the views of each page with those of the same weekday a week before.

The design of windowed tables in Kafka's KIP-372 discussion; here a join of a windowed table with itself.
"""

from pyspark.sql import functions as F

import watersmeet as wm

DAY = 86_400_000


def topology() -> wm.Topology:
    """Each day of a page beside its day a week earlier."""
    builder = wm.StreamsBuilder("views-against-last-week")
    views = builder.stream("views", key="string", value="string")
    days = views.group_by_key().windowed_by(wm.TimeWindows.of_size_and_grace("1 day", "1 hour")).count()
    compared = days.join(
        days,
        lambda now, before: F.struct(now.alias("now"), before.alias("before")),
        shift=wm.previous(7),
    )
    compared.to_stream(key="start").to("compared", value=wm.json())
    return builder.build()


INPUTS = [
    ("views", "/home", "ann", 0),
    ("views", "/home", "bob", 1),
    ("views", "/home", "ann", 6 * DAY),
    ("views", "/home", "ann", 7 * DAY),
    ("views", "/home", "cid", 7 * DAY + 1),
    ("views", "/home", "dan", 7 * DAY + 2),
]
EXPECTED = {
    "compared": [
        ({"key": "/home", "start": 7 * DAY}, {"now": 1, "before": 2}, 7 * DAY),
        ({"key": "/home", "start": 7 * DAY}, {"now": 2, "before": 2}, 7 * DAY + 1),
        ({"key": "/home", "start": 7 * DAY}, {"now": 3, "before": 2}, 7 * DAY + 2),
    ]
}
