"""Take lines of text apart into words: one record becomes several.

Kafka's tutorial "Write a streams app" (LineSplit).
"""

from pyspark.sql import functions as F

import watersmeet as wm


def topology() -> wm.Topology:
    """The key of a line is the key of all its words."""
    builder = wm.StreamsBuilder("lines-and-words")
    lines = builder.stream("lines", key="string", value="string")
    lines.flat_map_values(lambda line: F.split(line, r"\W+")).filter(lambda word: word != "").to("words")
    return builder.build()


INPUTS = [("lines", None, "all streams lead to Kafka", 0), ("lines", "k", "Hello, Kafka!", 1), ("lines", "k", "", 2)]
EXPECTED = {
    "words": [
        (None, "all", 0),
        (None, "streams", 0),
        (None, "lead", 0),
        (None, "to", 0),
        (None, "Kafka", 0),
        ("k", "Hello", 1),
        ("k", "Kafka", 1),
    ]
}
