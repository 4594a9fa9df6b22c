"""Read several topics as one stream, and say of each record where it comes from.

Kafka's `builder.stream(Arrays.asList(...))`, with the topic of the record's metadata.
"""

from pyspark.sql import functions as F

import watersmeet as wm


def topology() -> wm.Topology:
    """The topics have the same formats."""
    builder = wm.StreamsBuilder("several-topics")
    logs = builder.stream(["logs-eu", "logs-us"], key="string", value="string")
    tagged = logs.map_values(lambda line, record: F.concat(F.split(record["topic"], "-")[1], F.lit(": "), line))
    tagged.to("logs")
    tagged.group_by(lambda line: F.substring(line, 1, 2)).count(store="lines").to("lines-by-region")
    return builder.build()


INPUTS = [("logs-eu", "a", "up", 0), ("logs-us", "b", "up", 1), ("logs-eu", "a", "down", 2)]
EXPECTED = {
    "logs": [("a", "eu: up", 0), ("b", "us: up", 1), ("a", "eu: down", 2)],
    "lines-by-region": [("eu", 1, 0), ("us", 1, 1), ("eu", 2, 2)],
}
STORES = {"lines": [("eu", 2), ("us", 1)]}
