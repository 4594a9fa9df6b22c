"""Read a header, pass on the records that have it, and add a header of one's own.

Kafka's developer guide on record headers in processors; here functions see them.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

import watersmeet as wm


def header(record: Column, name: str) -> Column:
    """The text of the first header of this name; null if there is none."""
    found = F.filter(record["headers"], lambda each: each["key"] == name)
    return F.get(F.transform(found, lambda each: each["value"].cast("string")), F.lit(0))


def topology() -> wm.Topology:
    """`headers=True` keeps the headers of a topic."""
    builder = wm.StreamsBuilder("headers-of-records")
    events = builder.stream("events", key="string", value="string", headers=True)
    traced = events.filter(lambda value, record: header(record, "trace").isNotNull())
    marked = traced.map_headers(
        lambda value, record: F.concat(
            record["headers"],
            F.array(F.struct(F.lit("seen").alias("key"), F.lit("yes").cast("binary").alias("value"))),
        )
    )
    marked.map_values(lambda value, record: F.concat_ws(" ", header(record, "trace"), value)).to("traced")
    return builder.build()


INPUTS = [
    ("events", "a", "one", 0, [("trace", b"t1")]),
    ("events", "b", "two", 1, [("other", b"x")]),
    ("events", "c", "three", 2, []),
]
EXPECTED = {"traced": [("a", "t1 one", 0, [("trace", b"t1"), ("seen", b"yes")])]}
