"""Count the users of each region, who may move, and tell only of regions with at least two.

Confluent's UserRegionLambdaExample.
"""

import watersmeet as wm


def topology() -> wm.Topology:
    """A user who moves leaves one count and enters another; a region that falls below two is deleted."""
    builder = wm.StreamsBuilder("users-by-region")
    users = builder.table("user-regions", key="string", value="string")
    regions = users.group_by(lambda user, region: (region, user)).count(store="users-by-region")
    regions.filter(lambda n: n >= 2, store="large-regions").to("large-regions")
    return builder.build()


INPUTS = [
    ("user-regions", "alice", "asia", 0),
    ("user-regions", "bob", "europe", 1),
    ("user-regions", "carol", "europe", 2),
    ("user-regions", "alice", "europe", 3),
    ("user-regions", "bob", None, 4),
    ("user-regions", "carol", "asia", 5),
]
EXPECTED = {"large-regions": [("europe", 2, 2), ("europe", 3, 3), ("europe", 2, 4), ("europe", None, 5)]}
STORES = {"users-by-region": [("asia", 1), ("europe", 1)], "large-regions": []}
