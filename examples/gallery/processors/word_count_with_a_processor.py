"""Count words in a processor with a store, and tell all counts that have changed once a second.

Kafka's WordCountProcessorDemo and WordCountTransformerDemo.
"""

from typing import Any

from pyspark.sql import functions as F

import watersmeet as wm

SECOND = 1_000


class Count:
    """A count for each word; a timer at the next full second."""

    def init(self, context: Any) -> None:
        self.count = context.get_store("word-counts")

    def process(self, record: Any, context: Any) -> None:
        self.count.put((self.count.get() or 0) + 1)
        context.set_timer((record.timestamp // SECOND + 1) * SECOND)

    def on_timer(self, key: Any, timestamp: int, context: Any) -> None:
        context.forward(value=self.count.get())


def topology() -> wm.Topology:
    """The word is the key, since state belongs to a key."""
    builder = wm.StreamsBuilder("word-count-with-a-processor")
    lines = builder.stream("lines", key="string", value="string")
    words = lines.flat_map_values(lambda line: F.split(F.lower(line), " ")).select_key(lambda word: word)
    words.process_values(Count, value="long", stores=[wm.ValueStore("word-counts", "long")]).to("word-counts")
    return builder.build()


INPUTS = [
    ("lines", None, "to be or not to be", 0),
    ("lines", None, "to", 500),
    ("lines", None, "be", 1_000),
    ("lines", None, "", 2_000),
]
EXPECTED = {
    "word-counts": [
        ("be", 2, 1_000),
        ("not", 1, 1_000),
        ("or", 1, 1_000),
        ("to", 3, 1_000),
        ("be", 3, 2_000),
    ]
}
