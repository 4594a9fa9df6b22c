"""Skip, count, or set aside orders for which a function raises: a division by zero, a text that is no number.

Confluent's tutorial "How to handle uncaught exceptions"; Kafka's KIP-1033 (ProcessingExceptionHandler).
"""

import watersmeet as wm


def topology() -> wm.Topology:
    """`on_error` decides about records; the query goes on."""
    builder = wm.StreamsBuilder("orders-that-fail", on_error=wm.DeadLetter("orders-failed"))
    orders = builder.stream("orders", key="long", value=wm.json("amount string, parts int"))
    orders.map_values(lambda order: order["amount"].cast("long") / order["parts"]).to("amount-by-part")
    return builder.build()


INPUTS = [
    ("orders", 1, {"amount": "100", "parts": 4}, 0),
    ("orders", 2, {"amount": "100", "parts": 0}, 1),
    ("orders", 3, {"amount": "much", "parts": 1}, 2),
    ("orders", 4, {"amount": None, "parts": 1}, 3),
]
EXPECTED = {"amount-by-part": [(1, 25.0, 0), (4, None, 3)]}
DROPPED = {("orders", "dead_letter"): 2}
