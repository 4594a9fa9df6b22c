"""Mask the numbers of credit cards, and send purchases on to three departments, each in its own form.

The ZMart application of "Kafka Streams in Action"; Confluent's tutorial "How to mask data".
"""

from pyspark.sql import functions as F

import watersmeet as wm

PURCHASE = "customer string, card string, department string, price double, quantity int"


def topology() -> wm.Topology:
    """Points for all customers, sales without their customer, and the coffee shop's own purchases."""
    builder = wm.StreamsBuilder("masked-purchases")
    sold = builder.stream("transactions", key="string", value=wm.json(PURCHASE))
    purchases = sold.map_values(
        lambda sale: sale.withField("card", F.regexp_replace(sale["card"], r"\d(?=\d{4})", "x")), name="mask"
    )
    purchases.map_values(
        lambda sale: F.struct(sale["customer"], F.floor(sale["price"] * sale["quantity"]).alias("points"))
    ).to("rewards")
    purchases.filter(lambda sale: sale["price"] > 5.0).map_values(lambda sale: sale.dropFields("customer", "card")).to(
        "sales"
    )
    purchases.filter(lambda sale: sale["department"] == "coffee").to("coffee")
    return builder.build()


INPUTS = [
    (
        "transactions",
        "t1",
        {"customer": "ann", "card": "1234567812345678", "department": "coffee", "price": 3.5, "quantity": 2},
        0,
    ),
    (
        "transactions",
        "t2",
        {"customer": "bob", "card": "99990001", "department": "radios", "price": 20.0, "quantity": 1},
        1,
    ),
]
EXPECTED = {
    "rewards": [("t1", {"customer": "ann", "points": 7}, 0), ("t2", {"customer": "bob", "points": 20}, 1)],
    "sales": [("t2", {"department": "radios", "price": 20.0, "quantity": 1}, 1)],
    "coffee": [
        (
            "t1",
            {"customer": "ann", "card": "xxxxxxxxxxxx5678", "department": "coffee", "price": 3.5, "quantity": 2},
            0,
        )
    ],
}
