"""Confirm an order if payment and stock accept it within ten seconds, roll it back if one of them does not.

The saga of the "distributed transactions with Kafka Streams" example: two services answer, a third one decides.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

import watersmeet as wm

SECOND = 1_000
ORDER = wm.json("id long, status string, source string")


def topology() -> wm.Topology:
    """Answers of both services, joined by the order's number."""
    builder = wm.StreamsBuilder("order-saga")
    payments = builder.stream("payment-orders", key="long", value=ORDER)
    stock = builder.stream("stock-orders", key="long", value=ORDER)

    def decide(payment: Column, stock: Column) -> Column:
        accepted = [answer["status"] == "ACCEPT" for answer in (payment, stock)]
        status = (
            F.when(accepted[0] & accepted[1], "CONFIRMED")
            .when(accepted[0] | accepted[1], "ROLLBACK")
            .otherwise("REJECTED")
        )
        source = F.when(accepted[0] & ~accepted[1], "STOCK").when(accepted[1] & ~accepted[0], "PAYMENT")
        return payment.withField("status", status).withField("source", source)

    windows = wm.JoinWindows.of_time_difference_with_no_grace("10 seconds")
    payments.join(stock, decide, windows).to("orders", key="long", value=ORDER)
    return builder.build()


def _order(number: int, status: str) -> dict[str, object]:
    return {"id": number, "status": status, "source": None}


INPUTS = [
    ("payment-orders", 1, _order(1, "ACCEPT"), 0),
    ("stock-orders", 1, _order(1, "ACCEPT"), 2 * SECOND),
    ("stock-orders", 2, _order(2, "REJECT"), 3 * SECOND),
    ("payment-orders", 2, _order(2, "ACCEPT"), 4 * SECOND),
    ("payment-orders", 3, _order(3, "REJECT"), 5 * SECOND),
    ("stock-orders", 3, _order(3, "REJECT"), 6 * SECOND),
]
EXPECTED = {
    "orders": [
        (1, {"id": 1, "status": "CONFIRMED", "source": None}, 2 * SECOND),
        (2, {"id": 2, "status": "ROLLBACK", "source": "STOCK"}, 4 * SECOND),
        (3, {"id": 3, "status": "REJECTED", "source": None}, 6 * SECOND),
    ]
}
