"""Send orders that come too late for their window to a topic, so that somebody can look at them.

Confluent's forum on late records ("what happens to records after the grace period").
"""

import watersmeet as wm

MINUTE = 60_000


def topology() -> wm.Topology:
    """`on_drop` is for what operators drop: late, expired, without a key."""
    builder = wm.StreamsBuilder("late-orders-in-a-topic", on_drop=wm.DeadLetter("orders-late"))
    orders = builder.stream("orders", key="string", value="long")
    windows = wm.TimeWindows.of_size_and_grace("10 minutes", "5 minutes")
    totals = orders.group_by_key().windowed_by(windows).agg(total=wm.sum(lambda amount: amount), name="totals")
    totals.to_stream(key="start").map_values(lambda row: row["total"]).to("totals")
    return builder.build()


INPUTS = [
    ("orders", "a", 1, 0),
    ("orders", "a", 2, 14 * MINUTE),
    ("orders", "a", 3, 9 * MINUTE),
    ("orders", "a", 4, 15 * MINUTE),
    ("orders", "a", 5, 8 * MINUTE),
]
EXPECTED = {
    "totals": [
        ({"key": "a", "start": 0}, 1, 0),
        ({"key": "a", "start": 10 * MINUTE}, 2, 14 * MINUTE),
        ({"key": "a", "start": 0}, 4, 9 * MINUTE),
        ({"key": "a", "start": 10 * MINUTE}, 6, 15 * MINUTE),
    ]
}
DROPPED = {("totals", "dead_letter"): 1}
