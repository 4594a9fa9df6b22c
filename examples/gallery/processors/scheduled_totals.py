"""Tell the total of each user every ten seconds by the wall clock, and print when stream time has passed a minute.

Confluent's tutorial "How to schedule operations in Kafka Streams" (punctuate by wall clock and by stream time).
"""

from typing import Any

import watersmeet as wm

SECOND = 1_000


class Totals:
    """Adds logins up; one timer by the wall clock, one by stream time."""

    def init(self, context: Any) -> None:
        self.total = context.get_store("total")

    def process(self, record: Any, context: Any) -> None:
        before = self.total.get()
        if before is None:
            context.set_timer(context.wall_clock + 10 * SECOND, clock="wall")
            context.set_timer(record.timestamp + 60 * SECOND)
        self.total.put((before or 0) + record.value)

    def on_wall_timer(self, key: Any, timestamp: int, context: Any) -> None:
        context.forward(value=f"{self.total.get()} at {timestamp // SECOND} s")
        context.set_timer(timestamp + 10 * SECOND, clock="wall")

    def on_timer(self, key: Any, timestamp: int, context: Any) -> None:
        context.forward(value=f"{self.total.get()} after a minute")


def topology() -> wm.Topology:
    """Each user has timers of its own."""
    builder = wm.StreamsBuilder("scheduled-totals")
    logins = builder.stream("logins", key="string", value="long")
    logins.process_values(Totals, value="string", stores=[wm.ValueStore("total", "long")]).to("login-totals")
    return builder.build()


INPUTS = [
    ("logins", "ann", 2, 0),
    ("logins", "ann", 3, 1 * SECOND),
    "10 seconds",
    ("logins", "ann", 5, 2 * SECOND),
    "10 seconds",
    ("logins", "bob", 1, 61 * SECOND),
]
EXPECTED = {
    "login-totals": [
        ("ann", "5 at 10 s", 10 * SECOND),
        ("ann", "10 at 20 s", 20 * SECOND),
        ("ann", "10 after a minute", 60 * SECOND),
    ]
}
STORES = {"total": [("ann", 10), ("bob", 1)]}
