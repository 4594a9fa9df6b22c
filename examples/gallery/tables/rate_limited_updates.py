"""Pass on the changes of a table at most once a minute for each key, and of several only the last.

Kafka's KIP-328 (`Suppressed.untilTimeLimit`).
"""

import watersmeet as wm

SECOND = 1_000


def topology() -> wm.Topology:
    """A slow reader of the table gets fewer changes, and the newest."""
    builder = wm.StreamsBuilder("rate-limited-updates")
    positions = builder.table("positions", key="string", value="string")
    slow = positions.suppress(wm.Suppressed.until_time_limit("1 minute", wm.BufferConfig.unbounded()))
    slow.to("positions-each-minute")
    return builder.build()


INPUTS = [
    ("positions", "bus", "A", 0),
    ("positions", "bus", "B", 20 * SECOND),
    ("positions", "tram", "X", 30 * SECOND),
    ("positions", "bus", "C", 70 * SECOND),
    ("positions", "tram", "Y", 130 * SECOND),
]
EXPECTED = {
    "positions-each-minute": [
        ("bus", "B", 20 * SECOND),
        ("tram", "X", 30 * SECOND),
        ("bus", "C", 70 * SECOND),
    ]
}
