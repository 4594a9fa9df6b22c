"""Delete rows of a table that have had no update for ten seconds, and tell all who read the table.

Confluent's tutorial "How to expire KTable entries" (TTL emitter with a processor and tombstones).
"""

import watersmeet as wm

SECOND = 1_000


def topology() -> wm.Topology:
    """No processor is needed: the table itself sends the tombstones."""
    builder = wm.StreamsBuilder("rows-that-expire")
    users = builder.table("users", key="string", value="string", ttl="10 seconds", store="users")
    cities = users.group_by(lambda user, city: (city, user)).count(store="users-by-city")
    users.to("user-changes")
    cities.to("users-by-city")
    return builder.build()


INPUTS = [
    ("users", "ann", "Oslo", 0),
    ("users", "bob", "Oslo", 5 * SECOND),
    ("users", "ann", "Oslo", 8 * SECOND),
    ("users", "cid", "Rome", 16 * SECOND),
]
EXPECTED = {
    "user-changes": [
        ("ann", "Oslo", 0),
        ("bob", "Oslo", 5 * SECOND),
        ("ann", "Oslo", 8 * SECOND),
        ("bob", None, 15 * SECOND),
        ("cid", "Rome", 16 * SECOND),
    ],
    "users-by-city": [
        ("Oslo", 1, 0),
        ("Oslo", 2, 5 * SECOND),
        ("Oslo", 2, 8 * SECOND),
        ("Oslo", 1, 15 * SECOND),
        ("Rome", 1, 16 * SECOND),
    ],
}
STORES = {"users": [("ann", "Oslo"), ("cid", "Rome")], "users-by-city": [("Oslo", 1), ("Rome", 1)]}
