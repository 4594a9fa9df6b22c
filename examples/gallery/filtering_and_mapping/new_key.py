"""Give records without a key the area code of their telephone number as key.

Confluent's tutorial "How to rekey a stream with a value".
"""

from pyspark.sql import functions as F

import watersmeet as wm


def topology() -> wm.Topology:
    """The next operator, or the topic, has all records of an area in one partition."""
    builder = wm.StreamsBuilder("new-key")
    calls = builder.stream("calls", key="string", value=wm.json("phone string, seconds int"))
    calls.select_key(lambda key, call: F.substring_index(call["phone"], "-", 1)).to("calls-by-area")
    return builder.build()


INPUTS = [
    ("calls", None, {"phone": "030-1234", "seconds": 12}, 0),
    ("calls", None, {"phone": "089-4711", "seconds": 60}, 1),
    ("calls", None, {"phone": "030-9999", "seconds": 5}, 2),
]
EXPECTED = {
    "calls-by-area": [
        ("030", {"phone": "030-1234", "seconds": 12}, 0),
        ("089", {"phone": "089-4711", "seconds": 60}, 1),
        ("030", {"phone": "030-9999", "seconds": 5}, 2),
    ]
}
