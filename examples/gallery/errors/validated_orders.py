"""Refuse orders that break a rule, each with the rule's text in the header of its dead letter.

The OrderDetailsService of Confluent's microservices example.
"""

from pyspark.sql import functions as F

import watersmeet as wm


def topology() -> wm.Topology:
    """`raise_error` refuses a record; `on_error` says where it goes."""
    builder = wm.StreamsBuilder("validated-orders")
    orders = builder.stream(
        "orders",
        key="string",
        value=wm.json("quantity int, price double, product string"),
        on_error=wm.DeadLetter("orders-refused"),
    )
    orders.map_values(
        lambda order: (
            F.when(order["quantity"] <= 0, F.raise_error("a quantity of nothing"))
            .when(order["price"] < 0, F.raise_error("a negative price"))
            .when(order["product"].isNull(), F.raise_error("no product"))
            .otherwise(order)
        )
    ).to("orders-validated")
    return builder.build()


INPUTS = [
    ("orders", "o1", {"quantity": 2, "price": 5.0, "product": "tent"}, 0),
    ("orders", "o2", {"quantity": 0, "price": 5.0, "product": "tent"}, 1),
    ("orders", "o3", {"quantity": 1, "price": -5.0, "product": "tent"}, 2),
    ("orders", "o4", {"quantity": 1, "price": 5.0, "product": None}, 3),
]
EXPECTED = {"orders-validated": [("o1", {"quantity": 2, "price": 5.0, "product": "tent"}, 0)]}
DROPPED = {("orders", "dead_letter"): 3}
