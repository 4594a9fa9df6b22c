"""Count words with a sketch that takes the same memory for any number of words, and tell the estimate with each word.

Confluent's ProbabilisticCountingScalaIntegrationTest (a state store with a count-min sketch).
"""

import zlib
from typing import Any

import watersmeet as wm

ROWS, COLUMNS = 4, 64


class Sketch:
    """A table of counters, in which each word has one in each row."""

    def init(self, context: Any) -> None:
        self.counters = context.get_store("sketch")

    def process(self, record: Any, context: Any) -> None:
        counters = self.counters.get() or [0] * (ROWS * COLUMNS)
        places = [row * COLUMNS + zlib.crc32(f"{row}/{record.value}".encode()) % COLUMNS for row in range(ROWS)]
        for place in places:
            counters[place] += 1
        self.counters.put(counters)
        context.forward(key=record.value, value=min(counters[place] for place in places))


def topology() -> wm.Topology:
    """Words under one key for each first letter: a sketch of each."""
    builder = wm.StreamsBuilder("counts-by-a-sketch")
    words = builder.stream("words", key="string", value="string").select_key(lambda word: word.substr(1, 1))
    stores = [wm.ValueStore("sketch", "array<int>")]
    words.process(Sketch, key="string", value="int", stores=stores).to("estimates")
    return builder.build()


INPUTS = [("words", None, word, ts) for ts, word in enumerate(("apple", "ant", "bee", "apple", "ant", "apple"))]
EXPECTED = {
    "estimates": [("apple", 1, 0), ("ant", 1, 1), ("bee", 1, 2), ("apple", 2, 3), ("ant", 2, 4), ("apple", 3, 5)]
}
