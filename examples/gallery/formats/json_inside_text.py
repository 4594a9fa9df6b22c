"""Take fields out of JSON that is a text in a field, where each record has a schema of its own.

Confluent's tutorial "How to handle heterogeneous JSON".
"""

from pyspark.sql import functions as F

import watersmeet as wm


def topology() -> wm.Topology:
    """`get_json_object` reads one path, `from_json` a whole schema."""
    builder = wm.StreamsBuilder("json-inside-text")
    events = builder.stream("events", key="string", value=wm.json("kind string, payload string"))
    events.filter(lambda event: event["kind"] == "click").map_values(
        lambda event: F.get_json_object(event["payload"], "$.page.url")
    ).to("clicked-pages")
    events.filter(lambda event: event["kind"] == "order").map_values(
        lambda event: F.from_json(event["payload"], "id long, items array<string>")
    ).to("orders", value=wm.json())
    return builder.build()


INPUTS = [
    ("events", "a", {"kind": "click", "payload": '{"page": {"url": "/home", "ms": 5}}'}, 0),
    ("events", "b", {"kind": "order", "payload": '{"id": 7, "items": ["tent", "lamp"], "note": null}'}, 1),
    ("events", "c", {"kind": "click", "payload": "{}"}, 2),
]
EXPECTED = {
    "clicked-pages": [("a", "/home", 0), ("c", None, 2)],
    "orders": [("b", {"id": 7, "items": ["tent", "lamp"]}, 1)],
}
