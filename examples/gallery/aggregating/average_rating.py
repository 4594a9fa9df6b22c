"""Compute the average rating of each film, with an aggregate of one's own: a count and a sum.

Confluent's tutorial "How to compute the average of a stream of events".
"""

from pyspark.sql import functions as F

import watersmeet as wm


def topology() -> wm.Topology:
    """The state is a struct; `map_values` makes the average of it. `wm.avg` does both."""
    builder = wm.StreamsBuilder("average-rating")
    ratings = builder.stream("ratings", key="long", value=wm.json("rating double"))
    sums = ratings.group_by_key().aggregate(
        lambda: F.struct(F.lit(0).cast("long").alias("n"), F.lit(0.0).alias("total")),
        lambda rating, state: F.struct((state["n"] + 1).alias("n"), (state["total"] + rating["rating"]).alias("total")),
    )
    sums.map_values(lambda state: state["total"] / state["n"], store="averages").to("average-ratings")
    return builder.build()


INPUTS = [
    ("ratings", 362, {"rating": 10.0}, 0),
    ("ratings", 362, {"rating": 8.0}, 1),
    ("ratings", 363, {"rating": 3.5}, 2),
    ("ratings", 362, {"rating": 6.0}, 3),
]
EXPECTED = {"average-ratings": [(362, 10.0, 0), (362, 9.0, 1), (363, 3.5, 2), (362, 8.0, 3)]}
STORES = {"averages": [(362, 8.0), (363, 3.5)]}
