"""Count the logins of each user over three applications, each with a topic and a form of its own.

Confluent's tutorial "How to combine stream aggregates together in a single larger object" (cogroup).
"""

from pyspark.sql import functions as F

import watersmeet as wm


def topology() -> wm.Topology:
    """One table with a map of counts, fed by three streams."""
    builder = wm.StreamsBuilder("logins-over-applications")
    one = builder.stream("logins-one", key="string", value=wm.json("device string"))
    two = builder.stream("logins-two", key="string", value="long")
    three = builder.stream("logins-three", key="string", value="string")

    counts = (
        one.group_by_key()
        .cogroup(lambda login, state: state.withField("one", state["one"] + 1))
        .cogroup(two.group_by_key(), lambda login, state: state.withField("two", state["two"] + 1))
        .cogroup(three.group_by_key(), lambda login, state: state.withField("three", state["three"] + 1))
    )
    zero = F.lit(0).cast("long")
    counts.aggregate(
        lambda: F.struct(zero.alias("one"), zero.alias("two"), zero.alias("three")), store="login-counts"
    ).to("login-counts", value=wm.json())
    return builder.build()


INPUTS = [
    ("logins-one", "ann", {"device": "phone"}, 0),
    ("logins-two", "ann", 3, 1),
    ("logins-one", "bob", {"device": "web"}, 2),
    ("logins-three", "ann", "tablet", 3),
    ("logins-one", "ann", {"device": "web"}, 4),
]
EXPECTED = {
    "login-counts": [
        ("ann", {"one": 1, "two": 0, "three": 0}, 0),
        ("ann", {"one": 1, "two": 1, "three": 0}, 1),
        ("bob", {"one": 1, "two": 0, "three": 0}, 2),
        ("ann", {"one": 1, "two": 1, "three": 1}, 3),
        ("ann", {"one": 2, "two": 1, "three": 1}, 4),
    ]
}
STORES = {
    "login-counts": [("ann", {"one": 2, "two": 1, "three": 1}), ("bob", {"one": 1, "two": 0, "three": 0})],
}
