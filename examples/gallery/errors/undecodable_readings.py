"""Send readings that are not JSON of the right form to a topic of their own, and go on.

Confluent's tutorials "How to handle deserialization errors" and "Dead letter queue"; HandlingCorruptedInputRecords.
"""

import watersmeet as wm


def topology() -> wm.Topology:
    """The dead letter has the bytes as they came, and headers with the reason."""
    builder = wm.StreamsBuilder("undecodable-readings", on_undecodable=wm.DeadLetter("readings-bad"))
    readings = builder.stream("readings", key="string", value=wm.json("sensor string, celsius int"))
    readings.filter(lambda reading: reading["celsius"] > 0).to("readings-above-zero")
    return builder.build()


INPUTS = [
    ("readings", "a", b'{"sensor": "a", "celsius": 20}', 0),
    ("readings", "b", b'{"sensor": "b", "celsius": "hot"}', 1),
    ("readings", "c", b"not json at all", 2),
    ("readings", "d", b'{"sensor": "d", "celsius": 5}', 3),
]
EXPECTED = {
    "readings-above-zero": [
        ("a", {"sensor": "a", "celsius": 20}, 0),
        ("d", {"sensor": "d", "celsius": 5}, 3),
    ]
}
DROPPED = {("readings", "dead_letter"): 2}
