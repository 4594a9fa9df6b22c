"""Sound an alarm if a sensor has sent nothing for a minute, and say when it is back.

Confluent's tutorial "How to detect the absence of events" (a process function with timers).
"""

from typing import Any

import watersmeet as wm

MINUTE = 60_000


class Watch:
    """A timer of each sensor, set anew by each of its records."""

    def init(self, context: Any) -> None:
        self.due = context.get_store("due")
        self.silent = context.get_store("silent")

    def process(self, record: Any, context: Any) -> None:
        if self.due.get() is not None:
            context.delete_timer(self.due.get())
        self.due.put(record.timestamp + MINUTE)
        context.set_timer(record.timestamp + MINUTE)
        if self.silent.get():
            self.silent.delete()
            context.forward(value="back")

    def on_timer(self, key: Any, timestamp: int, context: Any) -> None:
        self.silent.put(True)
        self.due.delete()
        context.forward(value="silent")


def topology() -> wm.Topology:
    """Heartbeats in, alarms out; the store has the sensors that are silent."""
    builder = wm.StreamsBuilder("silent-sensors")
    beats = builder.stream("heartbeats", key="string", value="string")
    stores = [wm.ValueStore("due", "long"), wm.ValueStore("silent", "boolean")]
    beats.process_values(Watch, value="string", stores=stores).to("alarms")
    return builder.build()


INPUTS = [
    ("heartbeats", "s1", "", 0),
    ("heartbeats", "s2", "", 1),
    ("heartbeats", "s1", "", MINUTE // 2),
    ("heartbeats", "s1", "", MINUTE + 1),
    ("heartbeats", "s2", "", 2 * MINUTE),
]
EXPECTED = {"alarms": [("s2", "silent", MINUTE + 1), ("s2", "back", 2 * MINUTE)]}
STORES: dict[str, list[object]] = {"silent": []}
