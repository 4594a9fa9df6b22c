"""Make a table of a stream of readings, ask it, and send its changes on.

Confluent's tutorial "How to convert a stream to a table".
"""

from pyspark.sql import functions as F

import watersmeet as wm


def topology() -> wm.Topology:
    """The table has the last reading of each key; a null value deletes the key.

    `map` and `filter` of a stream see null values; `map_values` leaves them null.
    """
    builder = wm.StreamsBuilder("stream-to-table")
    readings = builder.stream("readings", key="string", value="string")
    latest = readings.to_table(store="latest")
    latest.to("changes")
    latest.to_stream().filter(lambda value: value.isNull()).map(lambda key, value: (F.lit("deleted"), key)).to(
        "deletions"
    )
    return builder.build()


INPUTS = [
    ("readings", "a", "1", 0),
    ("readings", "b", "2", 1),
    ("readings", "a", "3", 2),
    ("readings", "b", None, 3),
]
EXPECTED = {
    "changes": [("a", "1", 0), ("b", "2", 1), ("a", "3", 2), ("b", None, 3)],
    "deletions": [("deleted", "b", 3)],
}
STORES = {"latest": [("a", "3")]}
