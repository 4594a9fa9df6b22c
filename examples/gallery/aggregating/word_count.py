"""Count words: the first program of every stream processor.

Kafka's WordCountDemo, Confluent's WordCountLambdaExample.
"""

from pyspark.sql import functions as F

import watersmeet as wm


def topology() -> wm.Topology:
    """Lines in, the changes of the counts out; the store has the counts."""
    builder = wm.StreamsBuilder("word-count")
    lines = builder.stream("lines", key="string", value="string")
    words = lines.flat_map_values(lambda line: F.split(F.lower(line), r"[^a-z]+")).filter(lambda word: word != "")
    words.group_by(lambda word: word).count(store="counts").to("counts")
    return builder.build()


INPUTS = [("lines", None, "Hello Kafka Streams", 0), ("lines", None, "all streams lead to Kafka", 1)]
EXPECTED = {
    "counts": [
        ("hello", 1, 0),
        ("kafka", 1, 0),
        ("streams", 1, 0),
        ("all", 1, 1),
        ("streams", 2, 1),
        ("lead", 1, 1),
        ("to", 1, 1),
        ("kafka", 2, 1),
    ]
}
STORES = {"counts": [("all", 1), ("hello", 1), ("kafka", 2), ("lead", 1), ("streams", 2), ("to", 1)]}
