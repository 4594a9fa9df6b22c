"""Drop events with a number that has come in the last hour, in a processor of one's own.

The Transformer of EventDeduplicationLambdaIntegrationTest, for those who need more than `distinct`.
"""

from typing import Any

import watersmeet as wm

HOUR = 3_600_000


class FirstOfEachNumber:
    """Passes an event on, and marks how often its number has come before, if the last time is over an hour ago."""

    def init(self, context: Any) -> None:
        self.seen = context.get_store("seen")

    def process(self, record: Any, context: Any) -> None:
        if self.seen.get(record.value["number"]) is None:
            context.forward(value=record.value["text"])
        self.seen.put(record.value["number"], record.timestamp)  # an event that comes again is kept for longer


def topology() -> wm.Topology:
    """A map of numbers for each key; its entries expire."""
    builder = wm.StreamsBuilder("distinct-with-a-processor")
    events = builder.stream("events", key="string", value=wm.json("number long, text string"))
    seen = wm.MapStore("seen", "long", "long", ttl="1 hour")
    events.process_values(FirstOfEachNumber, value="string", stores=[seen]).to("distinct-events")
    return builder.build()


INPUTS = [
    ("events", "a", {"number": 1, "text": "one"}, 0),
    ("events", "a", {"number": 1, "text": "one again"}, HOUR // 2),
    ("events", "b", {"number": 1, "text": "one of b"}, HOUR // 2),
    ("events", "a", {"number": 1, "text": "and again"}, HOUR + 1),
    ("events", "a", {"number": 1, "text": "much later"}, 3 * HOUR),
]
EXPECTED = {"distinct-events": [("a", "one", 0), ("b", "one of b", HOUR // 2), ("a", "much later", 3 * HOUR)]}
STORES = {"seen": [("a", {1: 3 * HOUR})]}
