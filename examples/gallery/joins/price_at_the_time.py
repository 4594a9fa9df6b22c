"""Give each order the price that its product had at the time of the order, also if the order comes late.

Confluent's tutorial "How to use versioned KTables for temporal join accuracy".
"""

from pyspark.sql import functions as F

import watersmeet as wm


def topology() -> wm.Topology:
    """`history` keeps the versions of a row; the join asks for the one as of the record's time."""
    builder = wm.StreamsBuilder("price-at-the-time")
    prices = builder.table("prices", key="string", value="double", history="1 hour", store="prices")
    orders = builder.stream("orders", key="string", value="int")
    orders.join(prices, lambda n, price: F.round(n * price, 2)).to("order-totals")
    return builder.build()


INPUTS = [
    ("prices", "tea", 2.0, 0),
    ("orders", "tea", 3, 10),
    ("prices", "tea", 2.5, 100),
    ("orders", "tea", 3, 99),
    ("orders", "tea", 3, 100),
    ("prices", "tea", 2.2, 50),
    ("orders", "tea", 3, 60),
]
EXPECTED = {"order-totals": [("tea", 6.0, 10), ("tea", 6.0, 99), ("tea", 7.5, 100), ("tea", 6.6, 60)]}
