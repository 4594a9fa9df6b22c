"""Count the clicks of users by country: a stream joined with a table, then grouped by what the join has brought.

Confluent's StreamToTableJoin with clicks and regions; Kafka's developer guide.
"""

from pyspark.sql import functions as F

import watersmeet as wm


def topology() -> wm.Topology:
    """A user without a country yet counts for "unknown"."""
    builder = wm.StreamsBuilder("clicks-by-country")
    clicks = builder.stream("user-clicks", key="string", value="long")
    countries = builder.table("user-countries", key="string", value="string")
    with_country = clicks.left_join(
        countries,
        lambda n, country: F.struct(F.coalesce(country, F.lit("unknown")).alias("country"), n.alias("clicks")),
    )
    by_country = with_country.map(lambda user, row: (row["country"], row["clicks"])).group_by_key()
    by_country.reduce(lambda total, n: total + n, store="clicks-by-country").to("clicks-by-country")
    return builder.build()


INPUTS = [
    ("user-clicks", "ann", 13, 0),
    ("user-countries", "ann", "asia", 1),
    ("user-clicks", "ann", 4, 2),
    ("user-countries", "bob", "asia", 3),
    ("user-clicks", "bob", 19, 4),
    ("user-countries", "ann", "europe", 5),
    ("user-clicks", "ann", 25, 6),
]
EXPECTED = {"clicks-by-country": [("unknown", 13, 0), ("asia", 4, 2), ("asia", 23, 4), ("europe", 25, 6)]}
STORES = {"clicks-by-country": [("asia", 23), ("europe", 25), ("unknown", 13)]}
