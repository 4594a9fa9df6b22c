"""Drop clicks that come again within two minutes from the same address.

Confluent's tutorial "How to find distinct values in a stream of events"; EventDeduplicationLambdaIntegrationTest.
"""

import watersmeet as wm

MINUTE = 60_000


def topology() -> wm.Topology:
    """`distinct` is made for it: no processor, no store."""
    builder = wm.StreamsBuilder("distinct-events")
    clicks = builder.stream("clicks", key="string", value=wm.json("ip string, url string"))
    clicks.distinct(lambda click: click["ip"], within="2 minutes", name="by-address").to("distinct-clicks")
    return builder.build()


INPUTS = [
    ("clicks", "k1", {"ip": "10.0.0.1", "url": "/a"}, 0),
    ("clicks", "k2", {"ip": "10.0.0.2", "url": "/a"}, 1),
    ("clicks", "k3", {"ip": "10.0.0.1", "url": "/b"}, 1 * MINUTE),
    ("clicks", "k4", {"ip": "10.0.0.1", "url": "/c"}, 2 * MINUTE),
]
EXPECTED = {
    "distinct-clicks": [
        ("k1", {"ip": "10.0.0.1", "url": "/a"}, 0),
        ("k2", {"ip": "10.0.0.2", "url": "/a"}, 1),
        ("k4", {"ip": "10.0.0.1", "url": "/c"}, 2 * MINUTE),
    ]
}
DROPPED = {("by-address", "duplicate"): 1}
