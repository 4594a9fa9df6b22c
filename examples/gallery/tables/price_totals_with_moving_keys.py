"""Add up the prices of the articles on each shelf, where an article may move and change its price at once.

Kafka's developer guide on aggregating a KTable (adder and subtractor).
"""

import watersmeet as wm


def topology() -> wm.Topology:
    """The old price leaves the old shelf, the new one enters the new shelf."""
    builder = wm.StreamsBuilder("price-totals")
    articles = builder.table("articles", key="string", value=wm.json("shelf string, price long"))
    by_shelf = articles.group_by(lambda article, row: (row["shelf"], row["price"]))
    by_shelf.aggregate(lambda: 0, lambda price, total: total + price, lambda price, total: total - price).to("totals")
    return builder.build()


INPUTS = [
    ("articles", "tea", {"shelf": "A", "price": 3}, 0),
    ("articles", "jam", {"shelf": "A", "price": 5}, 1),
    ("articles", "tea", {"shelf": "B", "price": 4}, 2),
    ("articles", "jam", {"shelf": "A", "price": 6}, 3),
    ("articles", "tea", None, 4),
]
EXPECTED = {"totals": [("A", 3, 0), ("A", 8, 1), ("A", 5, 2), ("B", 4, 2), ("A", 6, 3), ("B", 0, 4)]}
