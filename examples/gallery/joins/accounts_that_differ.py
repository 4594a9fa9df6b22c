"""Compare the bookings of two systems, and tell an hour later which ones the other system lacks or has otherwise.

A question that many ask of Kafka Streams: to reconcile two topics (an outer join, of which only differences are kept).
"""

from decimal import Decimal

from pyspark.sql import Column
from pyspark.sql import functions as F

import watersmeet as wm

MINUTE = 60_000


def topology() -> wm.Topology:
    """Bookings of both systems, differences out."""
    builder = wm.StreamsBuilder("accounts-that-differ")
    ours, theirs = (builder.stream(name, key="string", value=wm.decimal(12, 2)) for name in ("ours", "theirs"))

    def difference(left: Column, right: Column) -> Column:
        return (
            F.when(left.isNull(), F.concat(F.lit("only theirs: "), right.cast("string")))
            .when(right.isNull(), F.concat(F.lit("only ours: "), left.cast("string")))
            .when(left != right, F.concat(left.cast("string"), F.lit(" is "), right.cast("string"), F.lit(" there")))
        )

    windows = wm.JoinWindows.of_time_difference_and_grace("1 hour", "5 minutes")
    ours.outer_join(theirs, difference, windows).filter(lambda text: text.isNotNull()).to("differences")
    return builder.build()


INPUTS = [
    ("ours", "b1", Decimal("10.00"), 0),
    ("theirs", "b1", Decimal("10.00"), 1 * MINUTE),
    ("ours", "b2", Decimal("20.00"), 2 * MINUTE),
    ("theirs", "b2", Decimal("20.50"), 3 * MINUTE),
    ("theirs", "b3", Decimal("30.00"), 4 * MINUTE),
    ("ours", "b4", Decimal("40.00"), 80 * MINUTE),
]
EXPECTED = {"differences": [("b2", "20.00 is 20.50 there", 3 * MINUTE), ("b3", "only theirs: 30.00", 4 * MINUTE)]}
