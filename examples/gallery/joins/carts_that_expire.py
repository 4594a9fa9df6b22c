"""Tell of each payment whether a cart was open, where a cart expires after half an hour without a change.

A stream joined with a table that has a time to live, as in Confluent's tutorial on expiring KTables.
"""

import watersmeet as wm

MINUTE = 60_000


def topology() -> wm.Topology:
    """`ttl` deletes rows, and the join does not find them any more."""
    builder = wm.StreamsBuilder("carts-that-expire")
    carts = builder.table("carts", key="string", value="string", ttl="30 minutes", store="carts")
    payments = builder.stream("payments", key="string", value="double")
    payments.left_join(carts, lambda amount, cart: cart.isNotNull()).to("payments-with-cart")
    return builder.build()


INPUTS = [
    ("carts", "ann", "tent", 0),
    ("payments", "ann", 10.0, 29 * MINUTE),
    ("payments", "ann", 10.0, 30 * MINUTE),
]
EXPECTED = {"payments-with-cart": [("ann", True, 29 * MINUTE), ("ann", False, 30 * MINUTE)]}
STORES: dict[str, list[object]] = {"carts": []}
