"""Name all operators and stores, so that a changed program finds their state again.

Confluent's tutorial "How to name changelog and repartition topics".
"""

from pyspark.sql import functions as F

import watersmeet as wm

MINUTE = 60_000


def topology() -> wm.Topology:
    """A filter put before the count, or the order of the lines, changes no name of what has state."""
    builder = wm.StreamsBuilder("names-that-stay")
    clicks = builder.stream("clicks", key="long", value="string", name="clicks-of-users")
    users = builder.table("users", key="long", value="string", store="users")
    counts = clicks.group_by_key().count(name="count-clicks", store="clicks-by-user")
    counts.join(users, lambda n, name: F.format_string("%s: %s", name, n), name="with-name", store="names").to(
        "names-of-clickers"
    )
    return builder.build()


INPUTS = [
    ("users", 1, "ann", 0),
    ("clicks-of-users", 1, "/home", 1),
    ("clicks-of-users", 2, "/home", 2),
    ("clicks-of-users", 1, "/shop", 3),
]
EXPECTED = {"names-of-clickers": [(1, "ann: 1", 1), (1, "ann: 2", 3)]}
STORES = {"clicks-by-user": [(1, 2), (2, 1)], "users": [(1, "ann")], "names": [(1, "ann: 2")]}
