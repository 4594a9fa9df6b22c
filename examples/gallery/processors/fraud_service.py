"""Fail orders of a customer who has ordered for more than 2000 within a session of an hour, and pass the others.

The FraudService of Confluent's microservices example.
"""

from pyspark.sql import functions as F

import watersmeet as wm

MINUTE = 60_000
LIMIT = 2000


def topology() -> wm.Topology:
    """Totals by customer and session; the order that has changed a total is told with it."""
    builder = wm.StreamsBuilder("fraud-service")
    orders = builder.stream("orders", key="string", value=wm.json("customer long, state string, total long"))
    created = orders.filter(lambda order: order["state"] == "CREATED")
    sessions = wm.SessionWindows.of_inactivity_gap_with_no_grace("1 hour")
    totals = (
        created.map(lambda number, order: (order["customer"], order.withField("order", number)))
        .group_by_key()
        .windowed_by(sessions)
        .agg(total=wm.sum(lambda order: order["total"]), order=wm.last(lambda order: order["order"]))
    )
    changes = totals.to_stream(key="key").filter(lambda row: row.isNotNull())
    judged = changes.map(lambda customer, row: (row["order"], row["total"])).split(
        {"fail": lambda total: total >= LIMIT}, default="pass"
    )
    judged["fail"].map_values(lambda total: F.lit("FAIL")).merge(
        judged["pass"].map_values(lambda total: F.lit("PASS"))
    ).to("order-validations")
    return builder.build()


INPUTS = [
    ("orders", "o1", {"customer": 1, "state": "CREATED", "total": 900}, 0),
    ("orders", "o2", {"customer": 1, "state": "CREATED", "total": 900}, 30 * MINUTE),
    ("orders", "o2", {"customer": 1, "state": "VALIDATED", "total": 900}, 31 * MINUTE),
    ("orders", "o3", {"customer": 1, "state": "CREATED", "total": 900}, 60 * MINUTE),
    ("orders", "o4", {"customer": 1, "state": "CREATED", "total": 900}, 300 * MINUTE),
]
EXPECTED = {
    "order-validations": [
        ("o1", "PASS", 0),
        ("o2", "PASS", 30 * MINUTE),
        ("o3", "FAIL", 60 * MINUTE),
        ("o4", "PASS", 300 * MINUTE),
    ]
}
