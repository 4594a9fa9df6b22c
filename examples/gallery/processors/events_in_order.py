"""Send events in the order of their timestamps: hold each back for ten seconds, and sort.

Confluent's tutorial "How to reorder events in Kafka Streams" (a store, sorted by time, and a punctuation).
"""

from typing import Any

import watersmeet as wm

SECOND = 1_000
WAIT = 10 * SECOND


class Sorted:
    """Keeps events in a map by time and number, and sends those that have waited long enough."""

    def init(self, context: Any) -> None:
        self.waiting = context.get_store("waiting")
        self.count = context.get_store("count")

    def process(self, record: Any, context: Any) -> None:
        number = self.count.get() or 0
        self.count.put(number + 1)
        self.waiting.put(f"{record.timestamp:015} {number:09}", record.value)
        context.set_timer(record.timestamp + WAIT)

    def on_timer(self, key: Any, timestamp: int, context: Any) -> None:
        for place, value in self.waiting.range(to_key=f"{timestamp - WAIT + 1:015}"):
            self.waiting.delete(place)
            context.forward(value=value, timestamp=int(place[:15]))


def topology() -> wm.Topology:
    """One timer for each event, by stream time."""
    builder = wm.StreamsBuilder("events-in-order")
    events = builder.stream("events", key="string", value="string")
    stores = [wm.MapStore("waiting", "string", "string"), wm.ValueStore("count", "long")]
    events.process_values(Sorted, value="string", stores=stores).to("ordered-events")
    return builder.build()


INPUTS = [
    ("events", "k", "five", 5 * SECOND),
    ("events", "k", "two", 2 * SECOND),
    ("events", "k", "also five", 5 * SECOND),
    ("events", "k", "fourteen", 14 * SECOND),
    ("events", "k", "sixteen", 16 * SECOND),
]
EXPECTED = {
    "ordered-events": [("k", "two", 2 * SECOND), ("k", "five", 5 * SECOND), ("k", "also five", 5 * SECOND)],
}
