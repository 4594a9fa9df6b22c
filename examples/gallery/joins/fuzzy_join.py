"""Join events by key, the one or the other first; an event without a partner goes alone after an hour.

Confluent's FuzzyJoinLambdaIntegrationTest and CustomStreamTableJoinIntegrationTest, without a store of one's own.
"""

from pyspark.sql import functions as F

import watersmeet as wm

MINUTE = 60_000


def topology() -> wm.Topology:
    """An outer join with a window of an hour in both directions."""
    builder = wm.StreamsBuilder("fuzzy-join")
    shown = builder.stream("impressions", key="string", value="string")
    billed = builder.stream("bills", key="string", value="double")
    windows = wm.JoinWindows.of_time_difference_with_no_grace("1 hour")
    both = shown.outer_join(
        billed,
        lambda page, price: F.concat_ws(" ", F.coalesce(page, F.lit("nothing shown")), price.cast("string")),
        windows,
    )
    both.to("joined")
    return builder.build()


INPUTS = [
    ("bills", "a", 1.5, 0),
    ("impressions", "a", "page 1", 10 * MINUTE),
    ("impressions", "b", "page 2", 20 * MINUTE),
    ("bills", "c", 2.5, 30 * MINUTE),
    ("impressions", "d", "page 4", 100 * MINUTE),
]
EXPECTED = {
    "joined": [
        ("a", "page 1 1.5", 10 * MINUTE),
        ("b", "page 2", 20 * MINUTE),
        ("c", "nothing shown 2.5", 30 * MINUTE),
    ]
}
