"""Make a record of each item of an order, with the item's number as key.

Confluent's tutorials "How to flatten deeply nested data" and "How to expand an array".
"""

from pyspark.sql import functions as F

import watersmeet as wm

ORDER = "customer struct<name: string, city: string>, items array<struct<sku: string, amount: double>>"


def topology() -> wm.Topology:
    """The items of one order follow one another."""
    builder = wm.StreamsBuilder("items-of-orders")
    orders = builder.stream("orders", key="long", value=wm.json(ORDER))
    orders.flat_map(
        lambda number, order: F.transform(
            order["items"],
            lambda item, at: F.struct(
                item["sku"].alias("key"),
                F.struct(
                    number.alias("order"),
                    (at + 1).alias("line"),
                    order["customer"]["city"].alias("city"),
                    item["amount"].alias("amount"),
                ).alias("value"),
            ),
        )
    ).to("items")
    return builder.build()


INPUTS = [
    (
        "orders",
        7,
        {
            "customer": {"name": "ann", "city": "Bonn"},
            "items": [{"sku": "a", "amount": 1.5}, {"sku": "b", "amount": 2}],
        },
        0,
    ),
    ("orders", 8, {"customer": {"name": "bob", "city": None}, "items": []}, 1),
    ("orders", 9, {"customer": None, "items": [{"sku": "a", "amount": 9}]}, 2),
]
EXPECTED = {
    "items": [
        ("a", {"order": 7, "line": 1, "city": "Bonn", "amount": 1.5}, 0),
        ("b", {"order": 7, "line": 2, "city": "Bonn", "amount": 2.0}, 0),
        ("a", {"order": 9, "line": 1, "city": None, "amount": 9.0}, 2),
    ]
}
