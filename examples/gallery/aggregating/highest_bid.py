"""Keep the highest bid of each auction, and who made it.

Kafka's `reduce`, as in the developer guide's section on aggregating.
"""

from pyspark.sql import functions as F

import watersmeet as wm


def topology() -> wm.Topology:
    """`reduce` keeps a value of the stream's own type; of equal bids the earlier one stays."""
    builder = wm.StreamsBuilder("highest-bid")
    bids = builder.stream("bids", key="long", value=wm.json("bidder string, amount long"))
    bids.group_by_key().reduce(
        lambda best, bid: F.when(bid["amount"] > best["amount"], bid).otherwise(best), store="best-bids"
    ).to("best-bids")
    return builder.build()


INPUTS = [
    ("bids", 1, {"bidder": "ann", "amount": 10}, 0),
    ("bids", 1, {"bidder": "bob", "amount": 12}, 1),
    ("bids", 1, {"bidder": "cid", "amount": 12}, 2),
]
EXPECTED = {
    "best-bids": [
        (1, {"bidder": "ann", "amount": 10}, 0),
        (1, {"bidder": "bob", "amount": 12}, 1),
        (1, {"bidder": "bob", "amount": 12}, 2),
    ]
}
STORES = {"best-bids": [(1, {"bidder": "bob", "amount": 12})]}
