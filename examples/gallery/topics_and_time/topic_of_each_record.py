"""Choose the output topic of each record by its content.

Confluent's tutorial "How to dynamically choose the output topic at runtime".
"""

from pyspark.sql import functions as F

import watersmeet as wm


def topology() -> wm.Topology:
    """All topics that may be chosen are named, so that a wrong name is an error and no lost record."""
    builder = wm.StreamsBuilder("topic-of-each-record")
    orders = builder.stream("orders", key="long", value=wm.json("sku string, quantity long"))
    orders.to(
        lambda order: F.when(order["sku"].startswith("QUA"), F.lit("special-orders")).otherwise(F.lit("orders-read")),
        topics=["special-orders", "orders-read"],
    )
    return builder.build()


INPUTS = [
    ("orders", 5, {"sku": "QUA00000123", "quantity": 10}, 0),
    ("orders", 6, {"sku": "COF0003456", "quantity": 1}, 1),
    ("orders", 7, {"sku": None, "quantity": 2}, 2),
]
EXPECTED = {
    "special-orders": [(5, {"sku": "QUA00000123", "quantity": 10}, 0)],
    "orders-read": [(6, {"sku": "COF0003456", "quantity": 1}, 1), (7, {"sku": None, "quantity": 2}, 2)],
}
