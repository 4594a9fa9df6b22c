"""Enrich orders with their customer and their product, from two global tables, by keys that the order names.

Confluent's GlobalKTablesExample; the tutorial "How to join a stream and a global table".
"""

from pyspark.sql import functions as F

import watersmeet as wm


def topology() -> wm.Topology:
    """Every task has all customers and products, so the orders need no shuffle."""
    builder = wm.StreamsBuilder("orders-customers-products")
    orders = builder.stream("orders", key="long", value=wm.json("customer long, product long, quantity int"))
    customers = builder.global_table("customers", key="long", value=wm.json("name string"), store="customers")
    products = builder.global_table("products", key="long", value=wm.json("title string, price double"))
    with_customer = orders.join(
        customers,
        lambda order, customer: order.withField("customer", customer["name"]),
        key=lambda order: order["customer"],
    )
    enriched = with_customer.join(
        products,
        lambda order, product: F.struct(
            order["customer"],
            product["title"].alias("product"),
            (product["price"] * order["quantity"]).alias("total"),
        ),
        key=lambda order: order["product"],
    )
    enriched.to("enriched-orders", value=wm.json())
    return builder.build()


INPUTS = [
    ("customers", 1, {"name": "ann"}, 0),
    ("products", 10, {"title": "tent", "price": 99.5}, 0),
    ("orders", 100, {"customer": 1, "product": 10, "quantity": 2}, 1),
    ("orders", 101, {"customer": 2, "product": 10, "quantity": 1}, 2),
    ("products", 10, {"title": "tent", "price": 89.5}, 3),
    ("orders", 102, {"customer": 1, "product": 10, "quantity": 1}, 4),
]
EXPECTED = {
    "enriched-orders": [
        (100, {"customer": "ann", "product": "tent", "total": 199.0}, 1),
        (102, {"customer": "ann", "product": "tent", "total": 89.5}, 4),
    ]
}
STORES = {"customers": [(1, {"name": "ann"})]}
