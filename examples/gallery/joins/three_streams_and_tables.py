"""Join orders with payments within an hour, then with the customer, then tell the customer's mail address.

Confluent's tutorial "How to join multiple streams and tables" (multi-joins); the EmailService of its microservices.
"""

from pyspark.sql import functions as F

import watersmeet as wm

MINUTE = 60_000


def topology() -> wm.Topology:
    """A stream with a stream by order, then with a table by customer."""
    builder = wm.StreamsBuilder("three-streams-and-tables")
    orders = builder.stream("orders", key="string", value=wm.json("customer long, item string"))
    payments = builder.stream("payments", key="string", value=wm.json("amount double"))
    customers = builder.table("customers", key="long", value=wm.json("name string, email string"))
    paid = orders.join(
        payments,
        lambda order, payment: F.struct(order["customer"], order["item"], payment["amount"]),
        wm.JoinWindows.of_time_difference_with_no_grace("1 hour"),
    )
    by_customer = paid.map(lambda number, row: (row["customer"], row.withField("order", number)))
    mails = by_customer.join(
        customers,
        lambda row, customer: F.struct(
            customer["email"].alias("to"),
            F.format_string("%s, thank you for order %s", customer["name"], row["order"]).alias("text"),
        ),
    )
    mails.to("mails", value=wm.json())
    return builder.build()


INPUTS = [
    ("customers", 1, {"name": "Ann", "email": "ann@example.org"}, 0),
    ("orders", "o1", {"customer": 1, "item": "tent"}, 1 * MINUTE),
    ("orders", "o2", {"customer": 2, "item": "lamp"}, 2 * MINUTE),
    ("payments", "o1", {"amount": 99.5}, 3 * MINUTE),
    ("payments", "o2", {"amount": 9.5}, 70 * MINUTE),
]
EXPECTED = {"mails": [(1, {"to": "ann@example.org", "text": "Ann, thank you for order o1"}, 3 * MINUTE)]}
