"""Approve an order when all three checks have passed, and reject it at the first that has failed.

The ValidationsAggregatorService of Confluent's microservices example.
"""

from pyspark.sql import functions as F

import watersmeet as wm

MINUTE = 60_000
CHECKS = 3


def topology() -> wm.Topology:
    """Results of the checks are counted in five minutes by order, and joined with the order."""
    builder = wm.StreamsBuilder("validations-together")
    validations = builder.stream("validations", key="string", value=wm.json("check string, result string"))
    orders = builder.stream("orders", key="string", value=wm.json("customer string"))
    within = wm.JoinWindows.of_time_difference_with_no_grace("5 minutes")
    windows = wm.SessionWindows.of_inactivity_gap_with_no_grace("5 minutes")

    passed = validations.filter(lambda check: check["result"] == "PASS").group_by_key().windowed_by(windows).count()
    all_passed = passed.to_stream(key="key").filter(lambda n: n == CHECKS)
    failed = validations.filter(lambda check: check["result"] == "FAIL").distinct(within="5 minutes", name="once")
    approved = orders.join(
        all_passed, lambda order, n: F.struct(order["customer"], F.lit("APPROVED").alias("state")), within
    )
    rejected = orders.join(
        failed, lambda order, check: F.struct(order["customer"], F.lit("REJECTED").alias("state")), within
    )
    approved.merge(rejected).to("order-states", value=wm.json())
    return builder.build()


INPUTS = [
    ("orders", "o1", {"customer": "ann"}, 0),
    ("orders", "o2", {"customer": "bob"}, 1),
    ("validations", "o1", {"check": "fraud", "result": "PASS"}, 2),
    ("validations", "o2", {"check": "fraud", "result": "FAIL"}, 3),
    ("validations", "o1", {"check": "stock", "result": "PASS"}, 4),
    ("validations", "o2", {"check": "stock", "result": "FAIL"}, 5),
    ("validations", "o1", {"check": "details", "result": "PASS"}, 6),
]
EXPECTED = {
    "order-states": [
        ("o2", {"customer": "bob", "state": "REJECTED"}, 3),
        ("o1", {"customer": "ann", "state": "APPROVED"}, 6),
    ]
}
DROPPED = {("once", "duplicate"): 1}
