"""Tell which orders have been shipped more than three days late, and which not within a week at all.

Confluent's tutorials on matching orders with shipments (a windowed left join, there in ksqlDB).
"""

from datetime import UTC, datetime

from pyspark.sql import functions as F

import watersmeet as wm

DAY = 86_400_000


def topology() -> wm.Topology:
    """Orders wait for their shipment."""
    builder = wm.StreamsBuilder("late-shipments")
    orders = builder.stream("orders", key="int", value=wm.json("at timestamp"))
    shipments = builder.stream("shipments", key="int", value=wm.json("at timestamp"))
    windows = wm.JoinWindows.of_time_difference_with_no_grace("0 days").after("7 days")
    days = orders.left_join(shipments, lambda ordered, shipped: F.datediff(shipped["at"], ordered["at"]), windows)
    late = days.filter(lambda n: n.isNull() | (n > 3))
    late.map_values(lambda n: F.when(n.isNull(), "lost").otherwise(F.concat(n, F.lit(" days"))), nulls=True).to("late")
    return builder.build()


def _day(number: int) -> dict[str, object]:
    return {"at": datetime(1970, 1, number, 12, tzinfo=UTC)}


INPUTS = [
    ("orders", 1, _day(1), 0),
    ("orders", 2, _day(2), 1 * DAY),
    ("shipments", 1, _day(3), 2 * DAY),
    ("orders", 3, _day(3), 2 * DAY),
    ("shipments", 2, _day(7), 6 * DAY),
    ("orders", 4, _day(13), 12 * DAY),
]
EXPECTED = {"late": [(2, "5 days", 6 * DAY), (3, "lost", 2 * DAY)]}
